//! COPY FROM STDIN: the session takes data until CopyDone, CopyFail or an error.
//!
//! After an error the client may go on sending: in a simple query its data messages are ignored,
//! in an extended one everything is, up to Sync.

use std::vec::IntoIter;

use super::Ending;
use super::dialogue::{Dialogue, Mode, malformed, watched};
use crate::engine::{self, CopyIn, Parsed, SqlError, SqlState};
use crate::io::Io;
use crate::proto::encode;
use crate::proto::frame::Frame;
use crate::proto::front::{self, Front};

/// A COPY that is fed by the client.
pub(super) struct Copying {
    pub(super) copy: CopyIn,
    /// The statements of the text behind it; `None` in an extended query.
    pub(super) rest: Option<IntoIter<Parsed>>,
}

impl Dialogue<'_> {
    /// Handles a message while COPY data is expected.
    pub(super) async fn copy_message(
        &mut self,
        io: &mut Io,
        frame: Frame<'_>,
    ) -> Result<(), Ending> {
        let Mode::CopyIn(copying) = &mut self.mode else {
            return Ok(());
        };
        let error = match (frame.tag, front::decode(&frame)) {
            (b'S' | b'H', _) => return Ok(()),
            (_, Ok(Front::CopyData(data))) => {
                match watched!(
                    self,
                    io,
                    engine::copy_feed(&mut copying.copy, &mut self.session, data)
                )? {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            (_, Ok(Front::CopyDone)) => return self.finish_copy(io).await,
            (_, Ok(Front::CopyFail(message))) => {
                let message = format!("COPY from stdin failed: {message}");
                SqlError::new(SqlState::QUERY_CANCELED, message)
            }
            (_, Ok(Front::Terminate)) => return Err(Ending::Gone),
            (b'f', Err(error)) => malformed(&error),
            (tag, _) => {
                let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
            }
        };
        self.fail_copy(io, &error).await
    }

    async fn finish_copy(&mut self, io: &mut Io) -> Result<(), Ending> {
        let Mode::CopyIn(copying) = std::mem::replace(&mut self.mode, Mode::Ready) else {
            return Ok(());
        };
        let Copying { copy, rest } = *copying;
        let mut outcome = watched!(self, io, engine::copy_finish(copy, &mut self.session))?;
        if outcome.is_ok() && rest.as_ref().is_some_and(|rest| rest.len() == 0) {
            // The last tag is a promise that the transaction has committed.
            if let Err(error) = watched!(self, io, self.session.sync())? {
                outcome = Err(error);
            }
        }
        self.report_notices(io);
        match (outcome, rest) {
            (Ok(tag), Some(rest)) => {
                encode::command_complete(&mut io.out, |out| tag.write(out));
                Box::pin(self.run_statements(io, rest)).await
            }
            (Ok(tag), None) => {
                encode::command_complete(&mut io.out, |out| tag.write(out));
                Ok(())
            }
            (Err(error), Some(_)) => self.fail_query(io, &error).await,
            (Err(error), None) => self.fail(io, &error),
        }
    }

    #[cold]
    async fn fail_copy(&mut self, io: &mut Io, error: &SqlError) -> Result<(), Ending> {
        let Mode::CopyIn(copying) = std::mem::replace(&mut self.mode, Mode::Ready) else {
            return Ok(());
        };
        let simple = copying.rest.is_some();
        engine::copy_fail(copying.copy, &mut self.session);
        match simple {
            true => self.fail_query(io, error).await,
            false => self.fail(io, error),
        }
    }
}
