//! Drops the temporary objects of ended sessions.
//!
//! ```text
//! a session ends: its own objects ──────────────────────────────────┐
//! a machine starts: objects of ended sessions ──────────────────────┼─▶ queue ─▶ a thread
//! a session's first temporary table: objects of ended sessions ─────┘
//! ```
//! The name of a schema contains its session's number, and the number contains the machine. The oid
//! of the schema distinguishes it from the schema of a later session with the same number.
//!
//! # Failure
//! A schema that cannot be dropped stays, visible only in the catalog, until one of these events
//! happens again.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fencepost_fabric::processors::anywhere;
use fencepost_planner::CancelFlag;
use fencepost_sql::catalog::Snapshot;
use fencepost_sql::catalog::temporary::{Temporary, session_of};
use parking_lot::{Condvar, Mutex};
use pollster::FutureExt;

use crate::cancels::machine_of;
use crate::database::Shared;
use crate::databases::DatabaseState;
use crate::session::{Session, SessionOptions};

/// The longest wait for the queue when a database is closed.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The largest number of attempts at one schema, while other transactions change the catalog.
const ATTEMPTS_MAX: u32 = 8;

/// The queue of schemas to drop.
#[derive(Default)]
pub(crate) struct SchemaSweeper {
    state: Mutex<State>,
    rests: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<(Arc<DatabaseState>, Temporary)>,
    runs: bool,
}

impl SchemaSweeper {
    /// Waits until the queue is empty, but at most [`TIME_LIMIT`].
    pub fn wait_until_empty(&self) {
        let mut state = self.state.lock();
        if state.runs {
            self.rests.wait_for(&mut state, TIME_LIMIT);
        }
    }

    fn next(&self) -> Option<(Arc<DatabaseState>, Temporary)> {
        let mut state = self.state.lock();
        let next = state.queue.pop();
        if next.is_none() {
            state.runs = false;
            self.rests.notify_all();
        }
        next
    }
}

/// Puts the schema in the queue.
pub(crate) fn sweep(db: &Arc<Shared>, served: &Arc<DatabaseState>, of: Temporary) {
    let mut state = db.sweeper.state.lock();
    state.queue.push((Arc::clone(served), of));
    if state.runs {
        return;
    }
    let shared = Arc::clone(db);
    let thread = thread::Builder::new().name("fencepost-sweep".to_owned());
    // Without a thread the schema stays in the queue for the next attempt.
    state.runs = anywhere(|| thread.spawn(move || run(&shared))).is_ok();
}

fn run(db: &Arc<Shared>) {
    while let Some((served, of)) = db.sweeper.next() {
        let options = SessionOptions::default();
        let mut session = Session::unseen(db, served, options, CancelFlag::default());
        for _ in 0..ATTEMPTS_MAX {
            match session.sweep(of.clone()).block_on() {
                Err(halt) if halt.is_retryable() => {}
                _ => break,
            }
        }
    }
}

/// Queues the schemas of this machine's ended sessions, and of machines that are no longer members.
pub(crate) fn sweep_lost(db: &Arc<Shared>, served: &Arc<DatabaseState>, catalog: &Snapshot) {
    let own = db.machine.number();
    let members = db.machine.members().machines;
    for (schema, id) in catalog.schemas() {
        let Some(session) = session_of(&schema) else {
            continue;
        };
        let machine = machine_of(session);
        let lost = match own == 0 || machine == own {
            true => !db.register.is_here(session),
            false => members.iter().all(|member| member.id != machine),
        };
        if lost {
            sweep(db, served, Temporary { schema, id });
        }
    }
}
