//! Advisory locks and table locks: one lock table for the whole database.
//!
//! ```text
//! a statement ─► uses.rs   noted in the session, while there is no mark on the table (marks.rs)
//! pg_advisory_lock, LOCK TABLE, DDL ─► session.rs  requests, waits, releases
//!        │                               own.rs      the locks of one session
//!        ├─► home.rs  the lock manager: the only machine, or the configuration manager
//!        │     └─► table.rs  holders, queues, deadlocks       wire.rs  the message format
//!        └─► deadlocks.rs  deadlocks that contain waits for rows, over all machines
//! ```
//! One machine is the lock manager ("home" in the code). A session asks the lock manager only for
//! locks that it does not hold yet. It notifies the lock manager only of locks that it no longer
//! holds. A new lock manager first asks all members for the locks of their sessions. It answers no
//! request before all have replied. A machine that is no longer a member holds no locks; requests
//! there fail with 57P03.
//!
//! # Invariants
//! * ADV-1…3 of the table, ADV-5 of the marks.
//! * ADV-4: a grant is valid only if the session's machine has not meanwhile reported its locks to
//!   another lock manager. So no lock is lost with a lock manager, and no lock is granted twice.
//!
//! # Failure
//! If the lock manager is lost, waiting sessions ask the next one. The locks of a session end with
//! the session or with its machine.

mod deadlocks;
mod home;
mod marks;
mod own;
mod session;
mod table;
mod uses;
mod wire;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Machine, Stop};
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::alarm::Alarm;
use crate::sessions::Register;
use crate::ship::Ship;
use home::LockManager;
use marks::{Marks, OtherMachines};
pub(crate) use session::{Handle, LockMark, SessionLocks};
use table::Owner;
use wire::LockRequest;

/// The delay before a machine repeats a request to the lock manager.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The lock state of one machine: its sessions, the marks, and the table if it is the lock manager.
pub(crate) struct Advisory {
    machine: Weak<Machine>,
    /// Runs tasks that belong to no session. `None` if the database has one machine.
    ship: Option<Arc<Ship>>,
    alarm: Arc<Alarm>,
    register: Arc<Register>,
    /// The lock table, in use only if this machine is the lock manager.
    home: Mutex<LockManager>,
    local: Mutex<LocalSessions>,
    marks: Marks,
    /// Lock owners of ended sessions that ran statements for another machine, kept for reuse.
    idle: Mutex<Vec<Arc<SessionLocks>>>,
}

/// The sessions of this machine that have requested locks.
#[derive(Default)]
struct LocalSessions {
    /// The number of the lock manager that knows the locks of these sessions; 0 before the first
    /// grant.
    known_to: u32,
    sessions: HashMap<Owner, Weak<SessionLocks>>,
}

impl Advisory {
    /// Returns the state of a machine whose sessions hold no locks.
    pub fn new(
        machine: &Arc<Machine>,
        ship: Option<&Arc<Ship>>,
        register: &Arc<Register>,
        alarm: &Arc<Alarm>,
    ) -> Arc<Self> {
        let others = match machine.number() {
            0 => OtherMachines::None,
            _ => OtherMachines::Some,
        };
        Arc::new(Advisory {
            marks: Marks::new(others),
            machine: Arc::downgrade(machine),
            ship: ship.map(Arc::clone),
            alarm: Arc::clone(alarm),
            register: Arc::clone(register),
            home: Mutex::default(),
            local: Mutex::default(),
            idle: Mutex::default(),
        })
    }

    /// Returns the lock owner of an ended session for reuse; it holds no locks and its number is
    /// free.
    pub fn idle_locks(&self) -> Option<Arc<SessionLocks>> {
        self.idle.lock().pop()
    }

    /// Keeps `locks`, which holds no lock any more, for the next session.
    pub fn keep_idle(&self, locks: &Arc<SessionLocks>) {
        self.idle.lock().push(Arc::clone(locks));
    }

    /// Waits [`ASK_AGAIN`] before the next request to the lock manager.
    ///
    /// # Errors
    /// 57P03 if this machine is no longer a member, or stops.
    async fn pause(&self) -> Result<(), SqlError> {
        self.alarm.sleep(Instant::now() + ASK_AGAIN).await;
        let machine = self.machine.upgrade();
        match machine.is_some_and(|machine| !machine.is_evicted()) {
            true => Ok(()),
            false => Err(StatementStop::from(Stop::NotMember).into_error()),
        }
    }

    /// Calls `keep` to record a grant of the lock manager `home`. Returns false, without the call,
    /// if the locks of this machine are reported to another lock manager by now (ADV-4).
    fn keep(&self, home: u32, keep: impl FnOnce()) -> bool {
        let mut local = self.local.lock();
        if local.known_to == 0 {
            local.known_to = home;
        }
        let known = local.known_to == home;
        if known {
            keep();
        }
        known
    }

    /// Changes the locks of a session and sends the resulting message to the current lock manager.
    fn tell_after<T>(self: &Arc<Self>, change: impl FnOnce() -> (T, Option<LockRequest>)) -> T {
        let local = self.local.lock();
        let (result, ask) = change();
        if let Some(ask) = ask {
            self.tell(local.known_to, ask);
        }
        result
    }
}
