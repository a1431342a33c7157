//! The thread that frees the memory of dropped tables and indexes.
//!
//! ```text
//! a transaction with DDL has committed ──────────┐
//! this machine starts, and the list is not empty ┼─▶ ask ─▶ thread: one transaction after the
//! the cluster has another configuration ─────────┘          other until the list is empty
//! ```
//! [`fencepost_planner::Reclaimer`] does the work. The list is in the catalog, so any machine can
//! continue the work of another one.
//!
//! # Concurrency
//! Usually the machine that has run the DDL frees the memory. After a failure all machines may try
//! to; their transactions conflict, and each object is freed once. Random waits after conflicts let
//! one of them proceed.
//!
//! # Failure
//! A step that fails is repeated: soon after a conflict, and after [`RETRY_DELAY`] if memory or
//! disk space is lacking. When the process ends between two steps, the next process continues.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fencepost_fabric::Random;
use fencepost_fabric::processors::anywhere;
use fencepost_planner::{ReclaimStep, Reclaimer};
use fencepost_sql::catalog::ReclaimList;
use fencepost_txn::{Machine, Mode};
use parking_lot::{Condvar, Mutex, MutexGuard};
use pollster::FutureExt;

use crate::alarm::Alarm;

/// The delay after a failed step, and between two looks at the configuration of the cluster.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The delay between two looks at the readers of dropped tables.
const READERS_DELAY: Duration = Duration::from_millis(10);
/// How long the thread counts as busy while there are readers. Most of them end soon, and other
/// machines report the end of the last one a little later.
const READERS_PATIENCE: Duration = Duration::from_millis(200);
/// The longest wait for the end of the thread.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// The delay between two looks at the thread, of a session or of the end of the process.
const BUSY_DELAY: Duration = Duration::from_millis(1);
/// The longest delay after a conflict, in microseconds.
const CONFLICT_DELAY_MAX_US: u64 = 20_000;

/// A handle to the thread.
pub(crate) struct ReclaimThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    alarm: Arc<Alarm>,
}

struct Shared {
    machine: Arc<Machine>,
    list: ReclaimList,
    state: Mutex<State>,
    changed: Condvar,
    /// Held during each step.
    step: Mutex<()>,
}

#[derive(Default)]
struct State {
    asked: bool,
    runs: bool,
    closed: bool,
    /// Whether the thread has work that it can do now.
    busy: bool,
}

impl ReclaimThread {
    /// Returns a handle; the thread starts when there is work, and at once in a cluster.
    pub fn new(machine: &Arc<Machine>, list: ReclaimList, alarm: &Arc<Alarm>) -> ReclaimThread {
        let handle = ReclaimThread {
            shared: Arc::new(Shared {
                machine: Arc::clone(machine),
                list,
                state: Mutex::default(),
                changed: Condvar::new(),
                step: Mutex::new(()),
            }),
            thread: Mutex::new(None),
            alarm: Arc::clone(alarm),
        };
        let mut tx = machine.coordinator().begin(Mode::ReadOnly);
        let mut is_empty = || {
            let first = list.first(&mut tx, 1).block_on();
            first.is_ok_and(|first| first.is_empty())
        };
        if machine.number() != 0 || !is_empty() {
            handle.ask();
        }
        handle
    }

    /// Makes the thread look at the list.
    pub fn ask(&self) {
        let mut state = self.shared.state.lock();
        if state.closed {
            return;
        }
        state.asked = true;
        state.busy = true;
        if !state.runs {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("fencepost-reclaim".to_owned());
            // Without a thread the entries stay in the list for the next attempt.
            let started = anywhere(|| thread.spawn(move || shared.run()));
            state.runs = started.is_ok();
            state.busy = state.runs;
            *self.thread.lock() = started.ok();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns whether the thread has work that it can do now, or soon. It has none while readers
    /// use all dropped structures for more than [`READERS_PATIENCE`], or after an error.
    pub fn is_busy(&self) -> bool {
        self.shared.state.lock().busy
    }

    /// Waits until the thread has no work that it can do now.
    pub async fn wait_until_idle(&self) {
        while self.is_busy() {
            self.alarm.sleep(Instant::now() + BUSY_DELAY).await;
        }
    }

    /// Keeps the thread from freeing objects until the guard is dropped. Blocks until the current
    /// step ends.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        self.shared.step.lock()
    }

    /// Ends the thread. Blocks until its current step ends, but for at most [`CLOSE_LIMIT`]. A step
    /// that waits for a lost machine may never end; its thread is left behind.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        let deadline = Instant::now() + CLOSE_LIMIT;
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(BUSY_DELAY);
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut reclaimer = Reclaimer::new(&self.machine, self.list);
        let mut random = Random::new(u64::from(self.machine.number()));
        let mut configuration = self.machine.members().configuration;
        let mut has_freed = false;
        let mut readers_since = None;
        while self.begin_step() {
            let step = {
                let _step = self.step.lock();
                reclaimer.step().block_on()
            };
            if !matches!(step, Ok(ReclaimStep::ReadersRemain)) {
                readers_since = None;
            }
            match step {
                Ok(ReclaimStep::Freed) => has_freed = true,
                Ok(ReclaimStep::Idle) => {
                    if std::mem::take(&mut has_freed) {
                        self.machine.tidy();
                    }
                    self.await_work(&mut configuration);
                }
                Ok(ReclaimStep::ReadersRemain) => {
                    let since = readers_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < READERS_PATIENCE {
                        thread::sleep(READERS_DELAY);
                    } else {
                        self.rest(READERS_DELAY);
                    }
                }
                Err(halt) if halt.is_retryable() => {
                    let delay_us = random.below(CONFLICT_DELAY_MAX_US);
                    thread::sleep(Duration::from_micros(delay_us));
                }
                Err(_) => {
                    self.rest(RETRY_DELAY);
                }
            }
        }
    }

    /// Begins a step. Returns false if the thread must end.
    fn begin_step(&self) -> bool {
        let mut state = self.state.lock();
        state.asked = false;
        state.busy = true;
        !state.closed
    }

    /// Waits until the thread is asked, or the configuration of the cluster differs from
    /// `configuration`.
    fn await_work(&self, configuration: &mut u64) {
        if self.machine.number() == 0 {
            let mut state = self.state.lock();
            while !state.asked && !state.closed {
                state.busy = false;
                self.changed.wait(&mut state);
            }
            return;
        }
        let before = *configuration;
        while *configuration == before && self.rest(RETRY_DELAY) {
            *configuration = self.machine.members().configuration;
        }
    }

    /// Waits for `delay`. Returns false at once if the thread is asked, or must end.
    fn rest(&self, delay: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.asked && !state.closed {
            state.busy = false;
            self.changed.wait_for(&mut state, delay);
        }
        !state.asked && !state.closed
    }
}
