//! Advisory locks and those of tables: one table of them for the whole database.
//!
//! ```text
//! a statement ─► uses.rs   noted in the session, as long as there is no mark on the table (marks.rs)
//! pg_advisory_lock, LOCK TABLE, DDL ─► session.rs  how it asks, waits, gives back; own.rs has what it has
//!                        └─► home.rs  the table, on the home: a machine that is alone, or the configuration manager
//!                              └─► table.rs  who has what, who waits, circles        wire.rs  the same as bytes
//!        └─► circles.rs  circles through rows, of all machines
//! ```
//! A session asks the home only for what it does not have yet, and tells it only of what it has not any more. Where the
//! home is another machine than before, it first asks all members what their sessions have; it answers nobody until it
//! knows. A machine that is no member any more has no locks, and
//! those who ask there get 57P03.
//!
//! # Invariants
//! * ADV-1…3 of the table, ADV-5 of the marks.
//! * ADV-4: what a home grants counts only for a session whose machine has not told another home meanwhile what it has.
//!   So no lock is lost with a home, and none is had twice.
//!
//! # Failure
//! Whoever waits while the home is lost asks the next one. A session that ends, or whose machine does, has no locks.

mod circles;
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
use fencepost_sql::stop::Halt;
use fencepost_txn::{Machine, Stop};
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::alarm::Alarm;
use crate::sessions::Register;
use crate::ship::Ship;
use home::Home;
use marks::{Marks, Others};
pub(crate) use session::{Handle, LockMark, SessionLocks};
use table::Owner;
use wire::Ask;

/// How long a machine waits before it asks again where the home is.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// What a machine has of the advisory locks.
pub(crate) struct Advisory {
    machine: Weak<Machine>,
    /// Where there are other machines: who runs what is not a session's.
    ship: Option<Arc<Ship>>,
    alarm: Arc<Alarm>,
    register: Arc<Register>,
    /// The table, where this machine is the home.
    home: Mutex<Home>,
    here: Mutex<Here>,
    marks: Marks,
    /// Locks of sessions that have served one of another machine, for the next one.
    idle: Mutex<Vec<Arc<SessionLocks>>>,
}

/// The sessions of this machine that have asked for locks.
#[derive(Default)]
struct Here {
    /// The machine that knows what they have.
    known_to: u32,
    sessions: HashMap<Owner, Weak<SessionLocks>>,
}

impl Advisory {
    /// Nobody has any lock.
    pub fn new(
        machine: &Arc<Machine>,
        ship: Option<&Arc<Ship>>,
        register: &Arc<Register>,
        alarm: &Arc<Alarm>,
    ) -> Arc<Self> {
        let others = match machine.number() {
            0 => Others::None,
            _ => Others::Some,
        };
        Arc::new(Advisory {
            marks: Marks::new(others),
            machine: Arc::downgrade(machine),
            ship: ship.map(Arc::clone),
            alarm: Arc::clone(alarm),
            register: Arc::clone(register),
            home: Mutex::default(),
            here: Mutex::default(),
            idle: Mutex::default(),
        })
    }

    /// Returns the locks of a session that has ended; it has none, and its number is free.
    pub fn idle_locks(&self) -> Option<Arc<SessionLocks>> {
        self.idle.lock().pop()
    }

    /// Keeps `locks`, of which there are none left, for a session that begins.
    pub fn keep_idle(&self, locks: &Arc<SessionLocks>) {
        self.idle.lock().push(Arc::clone(locks));
    }

    /// Waits a little before the home is asked again.
    ///
    /// # Errors
    /// 57P03 on a machine that is no member any more, or that stops.
    async fn pause(&self) -> Result<(), SqlError> {
        self.alarm.sleep(Instant::now() + ASK_AGAIN).await;
        let machine = self.machine.upgrade();
        match machine.is_some_and(|machine| !machine.is_evicted()) {
            true => Ok(()),
            false => Err(Halt::from(Stop::NotMember).into_error()),
        }
    }

    /// Takes what the home has granted, unless sessions of this machine count on another one by now; whether it was
    /// taken.
    fn keep(&self, home: u32, keep: impl FnOnce()) -> bool {
        let mut here = self.here.lock();
        if here.known_to == 0 {
            here.known_to = home;
        }
        let known = here.known_to == home;
        if known {
            keep();
        }
        known
    }

    /// Changes what a session has, and tells the home that counts what to make of it.
    fn tell_after<T>(self: &Arc<Self>, change: impl FnOnce() -> (T, Option<Ask>)) -> T {
        let here = self.here.lock();
        let (result, ask) = change();
        if let Some(ask) = ask {
            self.tell(here.known_to, ask);
        }
        result
    }
}
