//! The home machine's side: runs the statements of peers, each request in a session of its own.
//!
//! ```text
//! STATEMENT ─► entered in `running` ─► a task: session ─► run_last ─► reply
//! END       ─► its cancel flag is raised, its task woken
//! ```
//! Short statements whose plans are cached run on the inline executor, where the request has
//! arrived. All others run on an executor thread, because planning may wait for the catalog, and
//! long work would delay messages.
//!
//! # Failure
//! A machine that closes lets statements run for a short time, then ends them. The sender runs the
//! statements that are not run or that end this way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use fencepost_fabric::MachineId;
use fencepost_planner::{CancelFlag, RowSink};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_txn::network::call::Answer;
use foldhash::HashMap;
use parking_lot::Mutex;

use super::bytes::put_words;
use super::reply::{Reply, StatementResult};
use super::request::{
    EndReason, Request, Statement, decode_end, decode_settings, number_of, shape,
};
use super::{RESULT_BYTES_MAX, Ship};
use crate::database::Shared;
use crate::prepared::{Body, PreparedStatement};
use crate::services;
use crate::session::{ATTEMPTS_MAX, Completion, Session, back_off};

/// The number of peer sessions' settings that are kept decoded.
const SETTINGS_MAX: usize = 256;
/// The time that running statements get when the machine closes, and the time they then get to end.
const GRACE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The largest number of statements in a request that counts as short.
const SHORT_STATEMENTS_MAX: usize = 16;

/// Decoded settings, by their encoded form.
pub(super) type SettingsCache = HashMap<Box<[u8]>, Arc<Settings>>;

/// A request of a peer that runs here.
#[derive(Default)]
pub(super) struct PeerRequest {
    cancel: CancelFlag,
    /// The reason to end it ([`EndReason`]); 0 if there is none.
    asked: AtomicU8,
    task: Mutex<Option<Waker>>,
}

impl PeerRequest {
    fn end(&self, why: EndReason) {
        self.asked.store(why as u8, Ordering::Release);
        self.raise();
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }

    fn raise(&self) {
        match EndReason::of(self.asked.load(Ordering::Acquire)) {
            Some(EndReason::Cancelled) => self.cancel.cancel(),
            Some(EndReason::TimedOut) => self.cancel.time_out(),
            None => {}
        }
    }

    /// Runs `work`. Its start clears the cancel flag, so this raises the flag again for a request
    /// to end that came before.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut raised = false;
        poll_fn(|cx| {
            if self.task.lock().is_none() {
                *self.task.lock() = Some(cx.waker().clone());
            }
            let done = work.as_mut().poll(cx);
            if done.is_pending() && !raised && self.asked.load(Ordering::Acquire) != 0 {
                raised = true;
                self.raise();
                return work.as_mut().poll(cx);
            }
            done
        })
        .await
    }
}

/// A request that runs, and the reply channel of its sender.
pub(super) struct Entry {
    pub ship: Arc<Ship>,
    key: (MachineId, u64),
    pub running: Arc<PeerRequest>,
    answer: Option<Answer>,
    /// True once the request may have had an effect.
    begun: bool,
}

impl Entry {
    fn answer(&mut self, reply: &[u8]) {
        if let Some(answer) = self.answer.take() {
            answer.send(reply);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.begun {
            self.answer(&Reply::RunItYourself.encode());
        }
        self.ship.running.lock().remove(&self.key);
    }
}

impl Ship {
    /// Starts to run statements of peers.
    pub fn start(self: &Arc<Self>, shared: &Arc<Shared>) -> std::io::Result<()> {
        let machine = Arc::downgrade(&shared.machine);
        self.executors.start(move || {
            if let Some(machine) = machine.upgrade() {
                machine.call_attendant();
            }
        })?;
        let ship = Arc::clone(self);
        shared
            .machine
            .attend_to(Arc::new(move || ship.executors.attend()));
        let (ship, db) = (Arc::clone(self), Arc::downgrade(shared));
        let statement = move |peer, request: Vec<u8>, answer| {
            ship.arrived(&db, peer, request, answer);
        };
        let ship = Arc::clone(self);
        let end = move |peer, request: Vec<u8>, answer: Answer| {
            if let Some((number, why)) = decode_end(&request) {
                let running = ship.running.lock().get(&(peer, number)).map(Arc::clone);
                if let Some(running) = running {
                    running.end(why);
                }
            }
            answer.send(&[]);
        };
        shared
            .machine
            .serve(services::STATEMENT, Arc::new(statement));
        shared.machine.serve(services::END_STATEMENT, Arc::new(end));
        Ok(())
    }

    /// Registers a request and queues its work. Runs on the polling thread, so it must be short.
    fn arrived(
        self: &Arc<Self>,
        db: &Weak<Shared>,
        peer: MachineId,
        request: Vec<u8>,
        answer: Answer,
    ) {
        let Some(number) = number_of(&request).filter(|_| !self.closing.load(Ordering::Acquire))
        else {
            answer.send(&Reply::RunItYourself.encode());
            return;
        };
        let running = Arc::new(PeerRequest::default());
        let key = (peer, number);
        self.running.lock().insert(key, Arc::clone(&running));
        let entry = Entry {
            ship: Arc::clone(self),
            key,
            running,
            answer: Some(answer),
            begun: false,
        };
        let db = Weak::clone(db);
        // If no executor runs, the task is dropped; then the sender runs the statements.
        drop(
            self.executors
                .run_inline(Box::pin(entry.run_or_move(db, request))),
        );
    }

    /// Returns the settings of a peer's session.
    fn settings_of(&self, sent: &[u8]) -> Option<Arc<Settings>> {
        if let Some(known) = self.settings.read().get(sent) {
            return Some(Arc::clone(known));
        }
        let settings = Arc::new(decode_settings(sent)?);
        let mut known = self.settings.write();
        if known.len() >= SETTINGS_MAX {
            known.clear();
        }
        known.insert(sent.into(), Arc::clone(&settings));
        Some(settings)
    }

    /// Stops to run statements of peers, and ends the running ones.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // The last handle on the database may be held by such a statement itself.
        let ended = !self.executors.is_inside() && {
            self.have_ended() || {
                let left: Vec<_> = self.running.lock().values().map(Arc::clone).collect();
                left.iter()
                    .for_each(|running| running.end(EndReason::Cancelled));
                self.have_ended()
            }
        };
        // A statement that does not end, such as a commit that waits for a lost machine, must not
        // block close.
        self.executors
            .close(if ended { GRACE } else { Duration::ZERO });
    }

    /// Waits up to [`GRACE`] until all requests have ended. Returns whether they have.
    fn have_ended(&self) -> bool {
        let deadline = Instant::now() + GRACE;
        loop {
            let ended = self.running.lock().is_empty();
            if ended || Instant::now() > deadline {
                return ended;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Entry {
    /// Runs a request on the inline executor, or moves it to an executor thread.
    async fn run_or_move(mut self, db: Weak<Shared>, request: Vec<u8>) {
        if let Some(reply) = self.serve(&db, &request, true).await {
            return self.answer(&reply);
        }
        let ship = Arc::clone(&self.ship);
        let task = async move {
            if let Some(reply) = self.serve(&db, &request, false).await {
                self.answer(&reply);
            }
        };
        drop(ship.executors.spawn(Box::pin(task)));
    }

    /// Runs the statements of a request. Returns the reply, or `None` if `short` is set and they
    /// are not short.
    async fn serve(&mut self, db: &Weak<Shared>, request: &[u8], short: bool) -> Option<Vec<u8>> {
        let returned = || Some(Reply::RunItYourself.encode());
        let (Some(request), Some(db)) = (Request::decode(request), db.upgrade()) else {
            return returned();
        };
        if short && request.part.is_some() {
            return None;
        }
        let Some(settings) = self.ship.settings_of(request.settings) else {
            return returned();
        };
        let cancel = self.running.cancel.clone();
        let who = (request.user.to_owned(), request.database);
        let session = Session::of_peer(&db, who, request.pid, settings, cancel);
        drop(db);
        let Some(mut session) = session else {
            return returned();
        };
        if let Some(part) = &request.part {
            let reply = self.serve_part(&mut session, request.statements, part);
            return Some(reply.await.encode());
        }
        let work = match prepare(&mut session, request.statements, short) {
            Work::Local(work) => work,
            Work::OnExecutor => return None,
            Work::AtSender => return returned(),
        };
        let count = work.len() as u64;
        self.ship.served.fetch_add(count, Ordering::Relaxed);
        self.begun = true;
        let mut attempt = 0;
        loop {
            let (done, ended) = self.run_all(&mut session, &work).await;
            let error = match ended {
                Ok(()) => return Some(Reply::Ran(done, None).encode()),
                Err(ServeError::NotForHere) => return returned(),
                Err(ServeError::Failed(error)) => error,
            };
            // A single statement has been retried already.
            let met_others = [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED];
            let again = work.len() > 1 && met_others.contains(&error.sqlstate());
            if again && attempt < ATTEMPTS_MAX && session.sync().await.is_ok() {
                back_off(attempt).await;
                attempt += 1;
                continue;
            }
            return match self.is_ended_by_closing(&error) {
                true => returned(),
                false => Some(Reply::Ran(done, Some(error)).encode()),
            };
        }
    }

    /// Runs all statements in one transaction. Returns the results of the successful ones.
    async fn run_all(
        &self,
        session: &mut Session,
        work: &[(Arc<PreparedStatement>, Vec<Value>)],
    ) -> (Vec<StatementResult>, Result<(), ServeError>) {
        let mut done = Vec::with_capacity(work.len());
        let mut bytes_left = RESULT_BYTES_MAX;
        for (at, (prepared, params)) in work.iter().enumerate() {
            let mut portal = match session.bind(prepared, params.clone()) {
                Ok(portal) => portal,
                Err(error) => return (done, Err(ServeError::Failed(error))),
            };
            let mut sink = RowsUpToLimit::of(prepared, bytes_left);
            let ran = match at + 1 == work.len() {
                true => {
                    self.running
                        .run(session.run_last(&mut portal, 0, &mut sink))
                        .await
                }
                false => {
                    self.running
                        .run(session.run(&mut portal, 0, &mut sink))
                        .await
                }
            };
            match ran {
                Ok(Completion::Complete(tag)) => {
                    bytes_left -= sink.rows.len();
                    done.push(StatementResult {
                        count: tag.rows(),
                        rows: sink.rows,
                    });
                }
                Ok(_) => return (done, Err(ServeError::NotForHere)),
                Err(_) if sink.overflowed => return (done, Err(ServeError::NotForHere)),
                Err(error) => return (done, Err(ServeError::Failed(error))),
            }
        }
        (done, Ok(()))
    }

    /// Returns whether the statement was ended only because this machine closes.
    pub fn is_ended_by_closing(&self, error: &SqlError) -> bool {
        error.sqlstate() == SqlState::QUERY_CANCELED && self.ship.closing.load(Ordering::Acquire)
    }
}

/// The reason why statements did not complete.
enum ServeError {
    /// The sender has to run them.
    NotForHere,
    Failed(SqlError),
}

/// The decision where statements run.
enum Work {
    /// On this executor: the statements with their parameters.
    Local(Vec<(Arc<PreparedStatement>, Vec<Value>)>),
    /// On an executor thread: the work is not short, or its plan is not known yet.
    OnExecutor,
    AtSender,
}

/// Finds or creates the plans of statements. For `short` work, only uses plans that exist.
fn prepare(session: &mut Session, statements: Vec<Statement<'_>>, short: bool) -> Work {
    if short && statements.len() > SHORT_STATEMENTS_MAX {
        return Work::OnExecutor;
    }
    let mut work = Vec::with_capacity(statements.len());
    for statement in statements {
        let (text, types) = (statement.text, &statement.types);
        let prepared = match short {
            true => match session.known(text, types) {
                Some(known) => known,
                None => return Work::OnExecutor,
            },
            // The sender reports planning errors, because it has the text as the client wrote it.
            false => match session.parse_declared(text, types) {
                Ok(prepared) => prepared,
                Err(_) => return Work::AtSender,
            },
        };
        match &prepared.planned.body {
            Body::Plan(plan, _) if short && !plan.is_short() => return Work::OnExecutor,
            Body::Plan(..) if shape(prepared.columns()) == statement.shape => {}
            _ => return Work::AtSender,
        }
        work.push((prepared, statement.params));
    }
    Work::Local(work)
}

/// The rows of a result, up to a size limit.
pub(super) struct RowsUpToLimit {
    layout: RowLayout,
    pub rows: Vec<u8>,
    words: Vec<u64>,
    /// The limit of the bytes of all rows.
    bytes_max: usize,
    pub overflowed: bool,
}

impl RowsUpToLimit {
    fn of(prepared: &PreparedStatement, bytes_max: usize) -> RowsUpToLimit {
        let columns = prepared.columns().unwrap_or_default().iter();
        RowsUpToLimit::of_types(columns.map(|column| column.ty.kind), bytes_max)
    }

    pub fn of_types(kinds: impl IntoIterator<Item = TypeKind>, bytes_max: usize) -> RowsUpToLimit {
        RowsUpToLimit {
            layout: RowLayout::of_types(kinds),
            rows: Vec::new(),
            words: Vec::new(),
            bytes_max,
            overflowed: false,
        }
    }

    /// Returns the error that ends the statement, because its result is too large to be shipped.
    fn overflow(&mut self) -> SqlError {
        self.overflowed = true;
        SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "the result is too long to be shipped",
        )
    }
}

impl RowSink for RowsUpToLimit {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        if !self.layout.takes(row) {
            return Err(self.overflow());
        }
        let encoded = self.layout.encode(row, &mut self.words);
        if encoded.is_err() || self.rows.len() + self.words.len() * 8 > self.bytes_max {
            return Err(self.overflow());
        }
        put_words(&mut self.rows, &self.words);
        Ok(())
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(self.overflow())
    }

    fn rewind(&mut self) -> bool {
        self.rows.clear();
        true
    }
}
