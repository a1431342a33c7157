//! The sessions of a machine: their activity for `pg_stat_activity`, and signals to them.
//!
//! ```text
//! Session ─► its entry: state, statement, times
//! pg_cancel_backend ─► the session's machine ─► the cancel flag in its entry
//! pg_stat_activity ─► the entries here, and those of every other machine that answers
//! ```
//! A session writes its entry at the start of each statement, without a lock; a concurrent reader
//! reads again. The statement itself is behind a lock, and is written only if it differs from the
//! previous one.
//!
//! # Failure
//! The sessions of a machine that does not answer are not shown, and cannot be signalled.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fencepost_fabric::MachineId;
use fencepost_planner::CancelFlag;
use fencepost_sql::advisory::LockFuture;
use fencepost_sql::sessions::{
    Activity, RowQueueEntry, SessionState, Sessions, Signal, SignalOutcome,
};
use fencepost_txn::Machine;
use fencepost_txn::intent::QueueEntry;
use fencepost_txn::network::call::Answer;
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::alarm::Alarm;
use crate::cancels::machine_of;
use crate::prepared::PreparedStatement;
use crate::services;

mod wire;

use wire::{Request, RowQueueSlot, RowQueues};

/// The delay between two checks whether a session has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The register of a machine's sessions.
pub(crate) struct Register {
    machine: Weak<Machine>,
    alarm: Arc<Alarm>,
    entries: Mutex<HashMap<i32, Arc<Entry>>>,
    /// The start time of the machine.
    began: i64,
}

/// The state of a session that other sessions can see.
pub(crate) struct Entry {
    session: i32,
    user: String,
    superuser: bool,
    database: String,
    client: Option<SocketAddr>,
    opened: i64,
    cancel: CancelFlag,
    now: ActivityCells,
    /// The coordinator number of its last transaction, which row-lock queues contain.
    coordinator: AtomicU32,
    application: Mutex<String>,
    /// The latest statement.
    prepared: Mutex<Option<Arc<PreparedStatement>>>,
}

/// The values that change with every statement. Only the session writes them; a reader repeats the
/// read if they change meanwhile (a sequence lock).
struct ActivityCells {
    /// Odd during a change.
    version: AtomicU64,
    /// The values, indexed by [`ActivityField`].
    parts: [AtomicI64; 4],
}

/// The index of a value in [`ActivityCells`].
#[derive(Clone, Copy)]
enum ActivityField {
    Activity = 0,
    Transaction = 1,
    Statement = 2,
    Since = 3,
}

/// Stands for a missing time.
const NEVER: i64 = i64::MIN;

impl ActivityCells {
    fn new(opened: i64) -> ActivityCells {
        ActivityCells {
            version: AtomicU64::new(0),
            parts: [Activity::Idle as i64, NEVER, NEVER, opened].map(AtomicI64::new),
        }
    }

    /// Writes values. Only the session may call this.
    fn change(&self, parts: &[(ActivityField, i64)]) {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        fence(Release);
        for (part, value) in parts {
            self.parts[*part as usize].store(*value, Relaxed);
        }
        self.version.store(version + 2, Release);
    }

    /// Reads a value. Only the session may call this.
    fn get(&self, part: ActivityField) -> i64 {
        self.parts[part as usize].load(Relaxed)
    }

    /// Reads all values consistently.
    fn look(&self) -> [i64; 4] {
        loop {
            let version = self.version.load(Acquire);
            let parts = std::array::from_fn(|part| self.parts[part].load(Relaxed));
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return parts;
            }
            std::hint::spin_loop();
        }
    }
}

/// The registration of a session. Dropping it removes the entry.
pub(crate) struct Registration {
    register: Arc<Register>,
    entry: Arc<Entry>,
    /// The address of the statement in the entry, to detect a change. The entry keeps the statement
    /// alive.
    statement: AtomicUsize,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.register.entries.lock().remove(&self.entry.session);
    }
}

/// The properties of a new session.
pub(crate) struct SessionProperties<'a> {
    pub session: i32,
    pub user: &'a str,
    pub superuser: bool,
    pub database: &'a str,
    pub client: Option<SocketAddr>,
    pub at: i64,
}

impl Register {
    /// Returns an empty register.
    pub fn new(machine: &Arc<Machine>, alarm: &Arc<Alarm>) -> Arc<Register> {
        Arc::new(Register {
            machine: Arc::downgrade(machine),
            alarm: Arc::clone(alarm),
            entries: Mutex::default(),
            began: crate::session::now(),
        })
    }

    /// Registers a session.
    pub fn enter(
        self: &Arc<Self>,
        opened: &SessionProperties<'_>,
        cancel: &CancelFlag,
    ) -> Registration {
        let entry = Arc::new(Entry {
            session: opened.session,
            user: opened.user.to_owned(),
            superuser: opened.superuser,
            database: opened.database.to_owned(),
            client: opened.client,
            opened: opened.at,
            cancel: cancel.clone(),
            now: ActivityCells::new(opened.at),
            coordinator: AtomicU32::new(0),
            application: Mutex::default(),
            prepared: Mutex::default(),
        });
        let mut entries = self.entries.lock();
        entries.insert(opened.session, Arc::clone(&entry));
        Registration {
            register: Arc::clone(self),
            entry,
            statement: AtomicUsize::new(0),
        }
    }

    /// Returns the number of this machine's sessions that a role has opened.
    pub fn count_of(&self, user: &str) -> usize {
        let entries = self.entries.lock();
        entries.values().filter(|entry| entry.user == user).count()
    }

    /// Returns the activity of each session of this machine.
    pub fn activities(&self) -> Vec<Activity> {
        let entries = self.entries.lock();
        let activity = |entry: &Arc<Entry>| {
            let [activity, ..] = entry.now.look();
            Activity::ALL[activity as usize % Activity::ALL.len()]
        };
        entries.values().map(activity).collect()
    }

    /// Returns the number of this machine's sessions in a database.
    pub fn count_in(&self, database: &str) -> usize {
        let entries = self.entries.lock();
        let of = |entry: &&Arc<Entry>| entry.database == database;
        entries.values().filter(of).count()
    }

    /// Registers the handler for requests from other machines.
    pub fn serve(self: &Arc<Self>, machine: &Machine) {
        let register = Arc::clone(self);
        let handler = move |_, request: Vec<u8>, answer: Answer| match Request::decode(&request) {
            None => {}
            Some(Request::All) => answer.send(&wire::encode_states(&register.local_states())),
            Some(Request::RowQueues) => {
                answer.send(&wire::encode_row_queues(&register.local_row_queues()))
            }
            Some(Request::IsThere(session)) => {
                answer.send(&[u8::from(register.find(session).is_some())]);
            }
            Some(Request::Signal(session, signal, user, superuser)) => {
                let came = register.signal_local(session, signal, (&user, superuser));
                answer.send(&[wire::code(came)]);
            }
        };
        machine.serve(services::SESSIONS, Arc::new(handler));
    }

    /// Returns whether this machine has such a session.
    pub fn is_here(&self, session: i32) -> bool {
        self.find(session).is_some()
    }

    fn find(&self, session: i32) -> Option<Arc<Entry>> {
        self.entries.lock().get(&session).map(Arc::clone)
    }

    fn local_states(&self) -> Vec<SessionState> {
        let entries: Vec<_> = self.entries.lock().values().map(Arc::clone).collect();
        entries.iter().map(|entry| entry.state()).collect()
    }

    /// Returns the row-lock queues of this machine's rows.
    fn local_row_queues(&self) -> RowQueues {
        let Some(machine) = self.machine.upgrade() else {
            return Vec::new();
        };
        // The upper half of a holder is its machine, or 0 for this machine.
        let of = |holder: u64| match (holder >> 32) as u32 {
            0 => (machine.number(), holder as u32),
            other => (other, holder as u32),
        };
        let queue_place = |place: QueueEntry| RowQueueSlot {
            of: of(place.holder),
            strength: place.strength,
            granted: place.granted,
        };
        let queues = machine.row_lock_queues().into_iter();
        queues
            .map(|(row, queue)| (row.raw(), queue.into_iter().map(queue_place).collect()))
            .collect()
    }

    /// Sends a request to all other machines. Returns the replies; machines that do not answer are
    /// skipped.
    async fn ask(&self, request: &Request) -> Vec<Vec<u8>> {
        let Some(machine) = self.machine.upgrade().filter(|m| m.number() != 0) else {
            return Vec::new();
        };
        let members = machine.members().machines.into_iter();
        let others = members.filter(|member| member.id != machine.number());
        let request = request.encode();
        let ask = |id| machine.call(MachineId(id), services::SESSIONS, &request);
        let calls: Vec<_> = others.map(|member| ask(member.id)).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.extend(call.await);
        }
        answers
    }

    fn signal_local(
        &self,
        session: i32,
        signal: Signal,
        (user, superuser): (&str, bool),
    ) -> SignalOutcome {
        let Some(entry) = self.find(session) else {
            return SignalOutcome::NoSession;
        };
        if entry.superuser && !superuser {
            return SignalOutcome::OfSuperuser;
        }
        if entry.user != user && !superuser {
            return SignalOutcome::OfOthers;
        }
        match signal {
            Signal::Cancel => entry.cancel.cancel(),
            Signal::Terminate => entry.cancel.shut_down(),
        }
        SignalOutcome::Sent
    }

    /// Returns the machine of a session, if it is another one.
    fn elsewhere(&self, session: i32) -> Option<(Arc<Machine>, MachineId)> {
        let machine = self.machine.upgrade()?;
        let of = machine_of(session);
        let is_elsewhere = machine.number() != 0 && of != machine.number();
        is_elsewhere.then_some((machine, MachineId(of)))
    }

    async fn is_there(&self, session: i32) -> bool {
        let Some((machine, peer)) = self.elsewhere(session) else {
            return self.find(session).is_some();
        };
        let request = Request::IsThere(session).encode();
        let answer = machine.call(peer, services::SESSIONS, &request).await;
        matches!(answer.as_deref(), Ok([1]))
    }
}

impl Entry {
    fn state(&self) -> SessionState {
        let [activity, transaction, statement, since] = self.now.look();
        let prepared = self.prepared.lock().clone();
        let time = |time: i64| (time != NEVER).then_some(time);
        SessionState {
            session: self.session,
            user: self.user.clone(),
            database: self.database.clone(),
            application: self.application.lock().clone(),
            client: self.client,
            opened: self.opened,
            transaction: time(transaction),
            statement: time(statement),
            since,
            activity: Activity::ALL[activity as usize % Activity::ALL.len()],
            tables: prepared.as_ref().map_or_else(Vec::new, |p| p.tables()),
            coordinator: self.coordinator.load(Relaxed),
            text: prepared.map_or_else(String::new, |prepared| prepared.text()),
        }
    }
}

impl Registration {
    /// Returns the time at which the session was opened.
    pub fn opened(&self) -> i64 {
        self.entry.opened
    }

    /// Records the start of a statement.
    pub fn begin(&self, prepared: &Arc<PreparedStatement>, at: i64, transaction: i64) {
        let place = Arc::as_ptr(prepared).addr();
        if self.statement.load(Relaxed) != place {
            self.statement.store(place, Relaxed);
            let before = self.entry.prepared.lock().replace(Arc::clone(prepared));
            drop(before);
        }
        self.entry.now.change(&[
            (ActivityField::Activity, Activity::Active as i64),
            (ActivityField::Transaction, transaction),
            (ActivityField::Statement, at),
            (ActivityField::Since, at),
        ]);
    }

    /// Sets the coordinator number of the session's transaction.
    pub fn set_coordinator(&self, number: u32) {
        self.entry.coordinator.store(number, Relaxed);
    }

    /// Records that the session waits for its client.
    pub fn rest(&self, activity: Activity, at: i64) {
        let now = &self.entry.now;
        if now.get(ActivityField::Activity) != activity as i64 {
            now.change(&[
                (ActivityField::Activity, activity as i64),
                (ActivityField::Since, at),
            ]);
        }
        if activity == Activity::Idle && now.get(ActivityField::Transaction) != NEVER {
            now.change(&[(ActivityField::Transaction, NEVER)]);
        }
    }

    /// Returns the statement that started last.
    pub fn running(&self) -> Option<Arc<PreparedStatement>> {
        self.entry.prepared.lock().clone()
    }

    /// Sets the application name that the client has chosen.
    pub fn set_application(&self, name: String) {
        *self.entry.application.lock() = name;
    }
}

/// The register, as functions and views use it.
pub(crate) struct Handle(pub(crate) Arc<Register>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions", self.0.entries.lock().len())
    }
}

impl Sessions for Handle {
    fn began(&self) -> i64 {
        self.0.began
    }

    fn signal<'a>(
        &'a self,
        session: i32,
        signal: Signal,
        (user, superuser): (&'a str, bool),
    ) -> LockFuture<'a, SignalOutcome> {
        Box::pin(async move {
            let Some((machine, peer)) = self.0.elsewhere(session) else {
                return Ok(self.0.signal_local(session, signal, (user, superuser)));
            };
            let request = Request::Signal(session, signal, user.to_owned(), superuser).encode();
            let answer = machine.call(peer, services::SESSIONS, &request).await;
            let came = answer.ok().and_then(|answer| wire::came_of(&answer));
            Ok(came.unwrap_or(SignalOutcome::NoSession))
        })
    }

    fn has_ended(&self, session: i32, within_ms: u64) -> LockFuture<'_, bool> {
        Box::pin(async move {
            let until = Instant::now().checked_add(Duration::from_millis(within_ms));
            while self.0.is_there(session).await {
                let now = Instant::now();
                if until.is_some_and(|until| now >= until) {
                    return Ok(false);
                }
                self.0.alarm.sleep(now + LOOK).await;
            }
            Ok(true)
        })
    }

    fn sleep(&self, us: u64) -> LockFuture<'_, ()> {
        Box::pin(async move {
            match Instant::now().checked_add(Duration::from_micros(us)) {
                Some(until) => self.0.alarm.sleep(until).await,
                // A time beyond the range of the clock never comes.
                None => std::future::pending().await,
            }
            Ok(())
        })
    }

    fn row_queue_entries(&self) -> LockFuture<'_, Vec<RowQueueEntry>> {
        Box::pin(async move {
            let mut queues = self.0.local_row_queues();
            for answer in self.0.ask(&Request::RowQueues).await {
                queues.extend(wire::decode_row_queues(&answer).unwrap_or_default());
            }
            if queues.is_empty() {
                return Ok(Vec::new());
            }
            let sessions = self.all().await?.into_iter();
            let known: HashMap<(u32, u32), i32> = sessions
                .map(|state| {
                    let of = (machine_of(state.session), state.coordinator);
                    (of, state.session)
                })
                .collect();
            let entries = queues.into_iter().flat_map(|(row, queue)| {
                let entry = |place: RowQueueSlot| RowQueueEntry {
                    row,
                    session: known.get(&place.of).copied(),
                    strength: place.strength,
                    granted: place.granted,
                };
                queue.into_iter().map(entry).collect::<Vec<RowQueueEntry>>()
            });
            Ok(entries.collect())
        })
    }

    fn all(&self) -> LockFuture<'_, Vec<SessionState>> {
        Box::pin(async move {
            let mut all = self.0.local_states();
            for answer in self.0.ask(&Request::All).await {
                all.extend(wire::decode_states(&answer).unwrap_or_default());
            }
            Ok(all)
        })
    }
}
