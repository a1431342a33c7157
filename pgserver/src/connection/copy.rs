//! COPY FROM STDIN: the session takes data until CopyDone, CopyFail or an error.
//!
//! After an error the client may continue to send. In a simple query its data messages are ignored;
//! in an extended query all messages up to Sync are.

use std::vec::IntoIter;

use super::CloseReason;
use super::encoding::CopyText;
use super::logging::Script;
use super::state_machine::{ClientSession, Mode, malformed, watched};
use crate::engine::{
    self, CopyIn, Encoding, SqlError, SqlState, StatementKind, StatementSyntax, Style,
};
use crate::io::Io;
use crate::log::StatementTimer;
use crate::proto::client_message::{self, ClientMessage};
use crate::proto::encode;
use crate::proto::frame::Frame;

/// A COPY that receives data from the client.
pub(super) struct CopyInProgress {
    pub(super) copy: CopyIn,
    /// The remaining statements of the text; `None` in an extended query.
    pub(super) rest: Option<SuspendedQuery>,
    /// The decoder for text data in an encoding other than UTF-8.
    text: CopyText,
}

impl CopyInProgress {
    /// Returns a COPY without statements after it.
    pub(super) fn new(copy: CopyIn) -> CopyInProgress {
        CopyInProgress {
            copy,
            rest: None,
            text: CopyText::default(),
        }
    }

    /// Returns the encoding of the data, or `None` if it need not be converted.
    fn encoding(&self, style: &Style) -> Option<Encoding> {
        style.encoding.filter(|_| !self.copy.is_binary())
    }
}

/// A simple query that waits for the data of a COPY.
pub(super) struct SuspendedQuery {
    pub(super) sql: Box<str>,
    pub(super) timed: Option<StatementTimer>,
    /// The statements after the COPY.
    pub(super) statements: IntoIter<StatementSyntax>,
}

impl ClientSession<'_> {
    /// Handles a message while COPY data is expected.
    pub(super) async fn copy_message(
        &mut self,
        io: &mut Io,
        frame: Frame<'_>,
    ) -> Result<(), CloseReason> {
        let Mode::CopyIn(copying) = &mut self.mode else {
            return Ok(());
        };
        let error = match (frame.tag, client_message::decode(&frame)) {
            (b'S' | b'H', _) => return Ok(()),
            (_, Ok(ClientMessage::CopyData(data))) => {
                let decoded = match copying.encoding(&self.style) {
                    None => Ok(None),
                    Some(of) => copying.text.lines(of, data).map(Some),
                };
                let decoded = match decoded {
                    Ok(decoded) => decoded,
                    Err(error) => return self.fail_copy(io, &error).await,
                };
                let data = decoded.as_deref().map_or(data, str::as_bytes);
                match watched!(
                    self,
                    io,
                    engine::copy_feed(&mut copying.copy, &mut self.session, data)
                )? {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            (_, Ok(ClientMessage::CopyDone)) => return self.finish_copy(io).await,
            (_, Ok(ClientMessage::CopyFail(message))) => {
                let message = format!("COPY from stdin failed: {message}");
                SqlError::new(SqlState::QUERY_CANCELED, message)
            }
            (_, Ok(ClientMessage::Terminate)) => return Err(CloseReason::ClientLost),
            (b'f', Err(error)) => malformed(&error),
            (tag, _) => {
                let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
            }
        };
        self.fail_copy(io, &error).await
    }

    async fn finish_copy(&mut self, io: &mut Io) -> Result<(), CloseReason> {
        let Mode::CopyIn(copying) = std::mem::replace(&mut self.mode, Mode::Ready) else {
            return Ok(());
        };
        let encoding = copying.encoding(&self.style);
        let CopyInProgress {
            mut copy,
            rest,
            mut text,
        } = *copying;
        let last = encoding.map_or(Ok(String::new()), |of| text.last(of));
        let last = match last {
            Ok(last) => {
                let data = last.as_bytes();
                watched!(
                    self,
                    io,
                    engine::copy_feed(&mut copy, &mut self.session, data)
                )?
            }
            Err(error) => Err(error),
        };
        let mut outcome = match last {
            Ok(()) => watched!(self, io, engine::copy_finish(copy, &mut self.session))?,
            Err(error) => {
                engine::copy_fail(copy, &mut self.session);
                Err(error)
            }
        };
        if outcome.is_ok() && rest.as_ref().is_some_and(|rest| rest.statements.len() == 0) {
            // The last tag promises that the transaction has committed.
            if let Err(error) = watched!(self, io, self.session.sync())? {
                outcome = Err(error);
            }
        }
        self.report_notices(io);
        match (outcome, rest) {
            (Ok(tag), Some(rest)) => {
                self.count(StatementKind::CopyFrom);
                encode::command_complete(&mut io.out, |out| tag.write(out));
                let script = Script {
                    sql: &rest.sql,
                    timed: rest.timed,
                };
                Box::pin(self.run_statements(io, script, rest.statements)).await
            }
            (Ok(tag), None) => {
                self.count(StatementKind::CopyFrom);
                encode::command_complete(&mut io.out, |out| tag.write(out));
                Ok(())
            }
            (Err(error), Some(rest)) => self.fail_query(io, &error, Some(&rest.sql)).await,
            (Err(error), None) => self.fail(io, &error, None),
        }
    }

    #[cold]
    async fn fail_copy(&mut self, io: &mut Io, error: &SqlError) -> Result<(), CloseReason> {
        let Mode::CopyIn(copying) = std::mem::replace(&mut self.mode, Mode::Ready) else {
            return Ok(());
        };
        let CopyInProgress { copy, rest, .. } = *copying;
        engine::copy_fail(copy, &mut self.session);
        match rest {
            Some(rest) => self.fail_query(io, error, Some(&rest.sql)).await,
            None => self.fail(io, error, None),
        }
    }
}
