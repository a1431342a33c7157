//! Drops the temporary objects of sessions that are gone.
//!
//! ```text
//! a session ends ───────────────────────────────────────┐
//! a machine begins ─────────────── of sessions that ────┼─▶ queue ─▶ a thread, as long as there is something in it
//! a session's first temporary table ─ are gone ─────────┘
//! ```
//! A schema is named after its session, whose number has its machine, and its oid tells it from one that a later
//! session of the same number has made.
//!
//! # Failure
//! What cannot be dropped stays, and nobody sees it but in the catalog, until one of the above happens again.

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
use crate::databases::Served;
use crate::session::{Session, SessionOptions};

/// How long the end of a database waits for what is in the queue.
const PATIENCE: Duration = Duration::from_secs(10);

/// Attempts at one schema, while others change the catalog.
const ATTEMPTS_MAX: u32 = 8;

/// What is to be dropped.
#[derive(Default)]
pub(crate) struct Sweeper {
    state: Mutex<State>,
    rests: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<(Arc<Served>, Temporary)>,
    runs: bool,
}

impl Sweeper {
    /// Waits until everything is dropped, for a while.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        if state.runs {
            self.rests.wait_for(&mut state, PATIENCE);
        }
    }

    fn next(&self) -> Option<(Arc<Served>, Temporary)> {
        let mut state = self.state.lock();
        let next = state.queue.pop();
        if next.is_none() {
            state.runs = false;
            self.rests.notify_all();
        }
        next
    }
}

/// Has the schema dropped.
pub(crate) fn sweep(db: &Arc<Shared>, served: &Arc<Served>, of: Temporary) {
    let mut state = db.sweeper.state.lock();
    state.queue.push((Arc::clone(served), of));
    if state.runs {
        return;
    }
    let shared = Arc::clone(db);
    let thread = thread::Builder::new().name("fencepost-sweep".to_owned());
    // Without a thread it stays in the queue for the next.
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

/// Has dropped what sessions of this machine have left that are there no more, and those of machines that are no
/// members any more.
pub(crate) fn sweep_lost(db: &Arc<Shared>, served: &Arc<Served>, catalog: &Snapshot) {
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
