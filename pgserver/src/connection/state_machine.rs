//! The connection state machine: handles the messages of a session, by state and message type.
//!
//! ```text
//!   Ready ──error in an extended query──> SkipToSync ──Sync──> Ready
//!   Ready ──COPY … FROM STDIN──> CopyIn ──CopyDone | CopyFail | error──> Ready | SkipToSync
//! ```

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use pgwire::error::{SEVERITY_ERROR, SEVERITY_FATAL};
use pgwire::messages::response::TransactionStatus;

use super::copy::CopyInProgress;
use super::drive::Handoff;
use super::encoding;
use super::extended::{OpenPortal, describe_rows};
use super::opening::{SessionSlot, StartedSession};
use super::sink::ResultFormats;
use super::yielding::Burst;
use super::{CloseReason, IdleSession, broken, logging, report};
use crate::cancel::CancelKey;
use crate::engine::{
    self, Encoding, PreparedStatement, ReceivedNotification, Session, SqlError, SqlState,
    StatementKind, Style, Value,
};
use crate::io::{Input, Io, SEND_BYTES};
use crate::lanes::ArrivalProcessor;
use crate::log;
use crate::proto::ProtoError;
use crate::proto::backend::{self, append};
use crate::proto::client_message::{self, ClientMessage};
use crate::proto::encode;
use crate::proto::frame::{self, Frame};
use crate::worker::{Stage, TaskEntry};

/// The messages that a session expects.
pub(super) enum Mode {
    /// Any message.
    Ready,
    /// Only Sync: an extended query has failed.
    SkipToSync,
    /// COPY data.
    CopyIn(Box<CopyInProgress>),
}

/// A session and its client.
pub(super) struct ClientSession<'p> {
    pub(super) session: Session,
    /// The unnamed statement; the session has the named ones.
    pub(super) unnamed: Option<Arc<PreparedStatement>>,
    /// The unnamed portal; the session has the named ones.
    pub(super) portal: Option<OpenPortal>,
    /// The parameters of the current Bind that are parsed already, by position.
    pub(super) read: Vec<Option<Value>>,
    pub(super) mode: Mode,
    /// The output format of values, according to the session's settings.
    pub(super) style: Style,
    pub(super) place: &'p TaskEntry,
    pub(super) handoff: Handoff,
    pub(super) key: CancelKey,
    slot: SessionSlot,
    home: ArrivalProcessor,
    pub(super) burst: Burst,
}

/// Runs `$work`, which borrows the session, while the connection keeps watching the client.
macro_rules! watched {
    ($self:ident, $io:expr, $work:expr) => {{
        if $self.burst.is_over() {
            ::tokio::task::yield_now().await;
        }
        let timeout = $self.style.statement_timeout;
        let watch = $crate::connection::drive::Watch {
            handoff: &$self.handoff,
            key: &$self.key,
            place: $self.place,
            timeout,
            lock_waits: $self.style.log.lock_waits,
        };
        let work = ::std::pin::pin!($work);
        $crate::connection::drive::drive($io, watch, work).await
    }};
}
pub(super) use watched;

impl<'p> ClientSession<'p> {
    pub(super) fn new(rest: IdleSession, place: &'p TaskEntry) -> Self {
        let StartedSession { session, key, slot } = rest.opened;
        ClientSession {
            style: Style::of(&session),
            session,
            unnamed: rest.unnamed,
            portal: None,
            read: Vec::new(),
            mode: Mode::Ready,
            place,
            handoff: Handoff::default(),
            key,
            slot,
            home: ArrivalProcessor::after(rest.moves),
            burst: Burst::default(),
        }
    }

    /// Returns the worker to which the connection should move, if it is idle and its packets arrive
    /// at another processor.
    #[inline]
    fn better_worker(&mut self, io: &Io) -> Option<usize> {
        let processor = self.home.count(|| io.socket.comes_in_at())?;
        let rests = self.portal.is_none()
            && matches!(self.mode, Mode::Ready)
            && engine::ready(&self.session) == TransactionStatus::Idle
            && io.rests();
        match rests {
            true => self.place.worker.better(processor),
            false => None,
        }
    }

    /// Returns the state that another worker needs to continue.
    fn into_rest(self) -> Box<IdleSession> {
        Box::new(IdleSession {
            opened: StartedSession {
                session: self.session,
                key: self.key,
                slot: self.slot,
            },
            unnamed: self.unnamed,
            moves: self.home.moves(),
        })
    }

    /// Handles messages until one side ends the connection.
    pub(super) async fn run(mut self, io: &mut Io) -> CloseReason {
        loop {
            if self.place.worker.outbox.is_late() {
                self.place.worker.flush();
            }
            let mut input = io.take_input();
            let handled = self.handle_all(io, &mut input).await;
            let has_arrived = io.put_back(input);
            if let Err(ending) = handled {
                return ending;
            }
            if io.post().await.is_err() {
                return CloseReason::ClientLost;
            }
            // IO-4. A worker that drains ends the session in `fill` instead.
            if has_arrived && self.place.worker.stage() == Stage::Running {
                continue;
            }
            if let Some(worker) = self.better_worker(io) {
                if io.send().await.is_err() {
                    return CloseReason::ClientLost;
                }
                return CloseReason::Moves(worker, self.into_rest());
            }
            if let Err(ending) = self.fill(io).await {
                return ending;
            }
            self.burst = Burst::default();
            engine::follow_server(&mut self.session);
            self.style.refresh(&self.session);
        }
    }

    /// Handles every complete message of `input`.
    async fn handle_all(&mut self, io: &mut Io, input: &mut Input) -> Result<(), CloseReason> {
        let bytes_max = self.place.worker.shared.options.message_bytes_max;
        io.prepare_out();
        let mut may_leave = false;
        loop {
            let frame = match frame::split(input.bytes(), bytes_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) => return Err(broken(io, &error)),
            };
            if may_leave && !io.out.is_empty() {
                io.finish_replies();
            }
            // ReadyForQuery ends the replies to a request, and Flush requests the available
            // replies.
            may_leave = matches!(frame.tag, b'Q' | b'S' | b'H' | b'F');
            let size = frame.size();
            if frame.tag == b'B'
                && matches!(self.mode, Mode::Ready)
                && self.style.encoding.is_none()
                && self.session.may_ship_batch()
            {
                let answered = self.ship_batch(io, input.bytes()).await?;
                if answered > 0 {
                    input.consume(answered);
                    continue;
                }
            }
            let last = input.bytes().get(size) == Some(&b'S');
            self.handle(io, frame, last).await?;
            input.consume(size);
            if io.reply_bytes() > SEND_BYTES {
                io.send().await?;
            }
        }
    }

    /// Handles one message; `last` says that Sync is known to follow.
    #[inline]
    async fn handle(
        &mut self,
        io: &mut Io,
        frame: Frame<'_>,
        last: bool,
    ) -> Result<(), CloseReason> {
        match self.mode {
            Mode::Ready => {}
            Mode::SkipToSync if frame.tag == b'S' => self.mode = Mode::Ready,
            Mode::SkipToSync if frame.tag != b'X' => return Ok(()),
            Mode::SkipToSync => {}
            Mode::CopyIn(_) => return self.copy_message(io, frame).await,
        }
        match self.style.encoding {
            None => self.answer(io, frame, last).await,
            Some(of) => Box::pin(self.answer_encoded(io, of, frame, last)).await,
        }
    }

    /// Does the same as [`Self::answer`], for a message in an encoding other than UTF-8.
    #[cold]
    async fn answer_encoded(
        &mut self,
        io: &mut Io,
        of: Encoding,
        frame: Frame<'_>,
        last: bool,
    ) -> Result<(), CloseReason> {
        match encoding::decode_frame(of, &frame) {
            Ok(None) => self.answer(io, frame, last).await,
            Ok(Some(body)) => {
                let body = &body;
                self.answer(io, Frame { body, ..frame }, last).await
            }
            Err(error) => self.refuse(io, frame.tag, &error).await,
        }
    }

    /// Answers one message in UTF-8; `last` says that Sync is known to follow.
    #[inline]
    async fn answer(
        &mut self,
        io: &mut Io,
        frame: Frame<'_>,
        last: bool,
    ) -> Result<(), CloseReason> {
        if frame.body.len() >= engine::LONG_BYTES
            && let Ok(ClientMessage::Bind(_)) = client_message::decode(&frame)
        {
            return Box::pin(self.answer_long(io, frame)).await;
        }
        let message = match client_message::decode(&frame) {
            Ok(message) => message,
            Err(error) if error.is_fatal() => return Err(broken(io, &error)),
            // A CopyFail after the end of its COPY is ignored, even if it is malformed.
            Err(_) if frame.tag == b'f' => return Ok(()),
            Err(error) => return self.refuse(io, frame.tag, &malformed(&error)).await,
        };
        match message {
            ClientMessage::Bind(bind) => self.bind(io, &bind),
            ClientMessage::Execute { portal, rows_max } => {
                self.execute(io, portal, rows_max, last).await
            }
            ClientMessage::Sync => self.sync(io).await,
            ClientMessage::Parse { name, sql, types } => self.parse(io, name, sql, types),
            ClientMessage::Describe(target, name) => self.describe(io, target, name),
            ClientMessage::Query(sql) => self.query(io, sql).await,
            ClientMessage::Close(target, name) => {
                self.close(io, target, name);
                Ok(())
            }
            ClientMessage::Flush
            | ClientMessage::CopyData(_)
            | ClientMessage::CopyDone
            | ClientMessage::CopyFail(_) => Ok(()),
            ClientMessage::FunctionCall => {
                let error = SqlError::unsupported("the function call protocol message");
                self.fail_query(io, &error, None).await
            }
            ClientMessage::Password(_) => {
                report::fatal(io, "08P01", "invalid frontend message type 112");
                Err(CloseReason::FinalError)
            }
            ClientMessage::Terminate => {
                io.send().await?;
                Err(CloseReason::ClientLost)
            }
        }
    }

    /// Answers a Bind with long parameters.
    #[cold]
    async fn answer_long(&mut self, io: &mut Io, frame: Frame<'_>) -> Result<(), CloseReason> {
        match client_message::decode(&frame) {
            Ok(ClientMessage::Bind(bind)) => self.bind_long(io, &bind).await,
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Reports a message of type `tag` whose body is malformed. A message of the extended protocol
    /// fails the others up to Sync; any other is answered with ReadyForQuery at once.
    #[cold]
    async fn refuse(&mut self, io: &mut Io, tag: u8, error: &SqlError) -> Result<(), CloseReason> {
        match tag {
            b'Q' | b'S' | b'F' => self.fail_query(io, error, None).await,
            _ => self.fail(io, error, None),
        }
    }

    /// Waits for more input. An idle session ends here when the server shuts down.
    async fn fill(&mut self, io: &mut Io) -> Result<(), CloseReason> {
        let (place, session, token) = (self.place, &mut self.session, self.key.token());
        let is_idle = engine::ready(session) == TransactionStatus::Idle;
        let limit = match is_idle {
            true => self.style.idle_timeout,
            false => self.style.idle_in_transaction_timeout,
        };
        let mut limit = limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
        let mut rests = false;
        let read = poll_fn(|cx| {
            if place.worker.stage() != Stage::Running {
                return Poll::Ready(Err(Wait::Shutdown));
            }
            let is_sent = io.poll_left(cx).map_err(|_| Wait::ClientLost)?.is_ready();
            if is_sent && let Poll::Ready(read) = io.poll_fill(cx) {
                return Poll::Ready(read.map_err(|_| Wait::ClientLost));
            }
            if !std::mem::replace(&mut rests, true) {
                session.rest();
            }
            place.watch(cx.waker());
            token.watch(cx.waker());
            if token.is_shut_down() {
                return Poll::Ready(Err(Wait::Shutdown));
            }
            if is_idle && session.poll_notified(cx).is_ready() {
                return Poll::Ready(Err(Wait::Notified));
            }
            match limit.as_mut().map(|limit| limit.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(Wait::IdleTooLong)),
                _ => Poll::Pending,
            }
        })
        .await;
        let (sqlstate, message) = match read {
            Ok(0) | Err(Wait::ClientLost) => return Err(CloseReason::ClientLost),
            Ok(_) => return Ok(()),
            Err(Wait::Notified) => {
                io.prepare_out();
                self.report_notifications(io);
                return Ok(());
            }
            Err(Wait::Shutdown) => (
                "57P01",
                "terminating connection due to administrator command",
            ),
            Err(Wait::IdleTooLong) if is_idle => (
                "57P05",
                "terminating connection due to idle-session timeout",
            ),
            Err(Wait::IdleTooLong) => (
                "25P03",
                "terminating connection due to idle-in-transaction timeout",
            ),
        };
        report::fatal(io, sqlstate, message);
        Err(CloseReason::FinalError)
    }

    /// Ends the implicit transaction and sends ReadyForQuery.
    #[inline]
    pub(super) async fn sync(&mut self, io: &mut Io) -> Result<(), CloseReason> {
        if let Err(error) = watched!(self, io, self.session.sync())? {
            self.report_error(io, &error, None)?;
        }
        self.ready(io);
        Ok(())
    }

    /// Counts a statement that has succeeded.
    #[inline]
    pub(super) fn count(&self, kind: StatementKind) {
        let took = self.session.last_duration();
        self.place.worker.counts.statement(kind, took);
    }

    /// Sends changed settings and notifications, and then ReadyForQuery.
    #[inline]
    pub(super) fn ready(&mut self, io: &mut Io) {
        self.report_changes(io);
        let ready = engine::ready(&self.session);
        if ready == TransactionStatus::Idle {
            self.portal = None;
            self.report_notifications(io);
        }
        encode::ready_for_query(&mut io.out, ready);
    }

    /// Follows changed settings, and reports the ones that the client has to know.
    #[inline]
    pub(super) fn report_changes(&mut self, io: &mut Io) {
        self.style.refresh(&self.session);
        for (name, value) in self.session.take_parameter_changes() {
            if name == "application_name" {
                io.client.application.clone_from(&value);
            }
            let start = io.out.len();
            append(&mut io.out, &backend::parameter_status(&name, &value));
            self.encode_strings(io, start, 0);
        }
    }

    /// Sends the notifications that the session has received.
    #[inline]
    fn report_notifications(&mut self, io: &mut Io) {
        for ReceivedNotification {
            session,
            notification,
        } in self.session.take_notifications()
        {
            let (channel, payload) = (&notification.channel, &notification.payload);
            let start = io.out.len();
            append(
                &mut io.out,
                &backend::notification(session, channel, payload),
            );
            // The strings follow the number of the session.
            self.encode_strings(io, start, 4);
        }
    }

    /// Sends notices.
    #[inline]
    pub(super) fn report_notices(&mut self, io: &mut Io) {
        for notice in self.session.take_notices() {
            let severity = log::Severity::Notice(notice.severity);
            let style = &self.style.log;
            logging::error(&io.client, style, severity, &notice.report, None);
            let start = io.out.len();
            report::notice(&mut io.out, &notice);
            self.encode_strings(io, start, 0);
        }
    }

    /// Converts the strings of the message that begins at `start` to the client's encoding. They
    /// follow `fixed` bytes of its body.
    #[inline]
    fn encode_strings(&self, io: &mut Io, start: usize, fixed: usize) {
        if let Some(of) = self.style.encoding {
            encoding::encode_strings(of, &mut io.out, start, fixed);
        }
    }

    /// Appends the RowDescription of a statement, or NoData.
    ///
    /// # Errors
    /// 22P05 for a name that the client's encoding does not have.
    pub(super) fn describe_rows(
        &self,
        io: &mut Io,
        prepared: &PreparedStatement,
        formats: &ResultFormats,
    ) -> Result<(), SqlError> {
        let start = io.out.len();
        describe_rows(&mut io.out, prepared, formats);
        match self.style.encoding {
            Some(of) if io.out.get(start) == Some(&b'T') => {
                let encoded = encoding::encode_names(of, &mut io.out, start);
                if encoded.is_err() {
                    io.out.truncate(start);
                }
                encoded
            }
            _ => Ok(()),
        }
    }

    /// Reports an error of an extended query, and ignores messages until Sync.
    #[cold]
    pub(super) fn fail(
        &mut self,
        io: &mut Io,
        error: &SqlError,
        statement: Option<&str>,
    ) -> Result<(), CloseReason> {
        self.mode = Mode::SkipToSync;
        self.report_error(io, error, statement)
    }

    /// Reports an error of a statement, logs it, and fails the transaction.
    #[cold]
    pub(super) fn report_error(
        &mut self,
        io: &mut Io,
        error: &SqlError,
        statement: Option<&str>,
    ) -> Result<(), CloseReason> {
        self.report_notices(io);
        self.session.fail();
        self.portal = None;
        let severity = match error.sqlstate() {
            SqlState::ADMIN_SHUTDOWN => log::Severity::Fatal,
            _ => log::Severity::Error,
        };
        logging::error(&io.client, &self.style.log, severity, error, statement);
        self.place.worker.counts.error(error.sqlstate());
        let (severity, answer) = match error.sqlstate() {
            SqlState::ADMIN_SHUTDOWN => (SEVERITY_FATAL, Err(CloseReason::FinalError)),
            _ => (SEVERITY_ERROR, Ok(())),
        };
        let start = io.out.len();
        report::error(&mut io.out, severity, error);
        self.encode_strings(io, start, 0);
        answer
    }
}

/// Returns the error for a message whose body is malformed. The session continues after it.
#[cold]
pub(super) fn malformed(error: &ProtoError) -> SqlError {
    let state = match error {
        ProtoError::Encoding(_) => SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        _ => SqlState::PROTOCOL_VIOLATION,
    };
    SqlError::new(state, error.to_string())
}

/// The reason why a wait for input ended without input.
enum Wait {
    ClientLost,
    Shutdown,
    IdleTooLong,
    Notified,
}
