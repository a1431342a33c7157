//! The checkpointer: a thread that takes a checkpoint whenever the log has grown enough.
//!
//! # Invariants
//! * CKPT-1 (see [`fencepost_storage::checkpoint`]): when the scan begins, every transaction with a
//!   record below `begin` has installed what it wrote. The position is read first; then commits that
//!   were under way are waited for, and the records of large transactions still in flight move
//!   `begin` back to their first.
//!
//! # Failure
//! A checkpoint that fails leaves the one before in force and the log whole; it is tried again when
//! the log has grown as much once more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fencepost_fabric::Disk;
use fencepost_storage::checkpoint::{self, CheckpointError, Plan};
use fencepost_storage::log::{Log, Lsn};
use parking_lot::{Condvar, Mutex};

use crate::machine::Machine;

/// How often the log's growth is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Ending {
    ended: Mutex<bool>,
    wake: Condvar,
    stop: AtomicBool,
}

/// Takes checkpoints of one machine.
pub(crate) struct Checkpointer {
    disk: Arc<dyn Disk>,
    /// Log position from which the next growth is counted.
    since: AtomicU64,
    every_bytes: u64,
    /// One checkpoint at a time.
    taking: Mutex<()>,
    is_taking: AtomicBool,
    ending: Arc<Ending>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    pub fn new(disk: Arc<dyn Disk>, since: Lsn, every_bytes: u64) -> Self {
        Self {
            disk,
            since: AtomicU64::new(since.raw()),
            every_bytes,
            taking: Mutex::new(()),
            is_taking: AtomicBool::new(false),
            ending: Arc::default(),
            thread: Mutex::new(None),
        }
    }

    /// Starts the thread; it does not keep the machine alive.
    pub fn start(&self, machine: &Arc<Machine>) -> std::io::Result<()> {
        let (machine, ending) = (Arc::downgrade(machine), Arc::clone(&self.ending));
        let thread = thread::Builder::new().name("checkpointer".to_owned());
        *self.thread.lock() = Some(thread.spawn(move || run(&machine, &ending))?);
        Ok(())
    }

    /// Ends the thread, giving up a checkpoint that is being taken.
    pub fn end(&self) {
        self.ending.stop.store(true, Ordering::Relaxed);
        *self.ending.ended.lock() = true;
        self.ending.wake.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been reported by its own message.
            let _ = thread.join();
        }
    }

    fn is_due(&self, log: &Log) -> bool {
        log.position()
            .raw()
            .saturating_sub(self.since.load(Ordering::Relaxed))
            >= self.every_bytes
    }

    /// Takes a checkpoint.
    pub fn take(&self, machine: &Machine, log: &Log) -> Result<(), CheckpointError> {
        let _one = self.taking.lock();
        self.is_taking.store(true, Ordering::SeqCst);
        let taken = self.take_alone(machine, log);
        self.is_taking.store(false, Ordering::SeqCst);
        machine.tidy();
        taken
    }

    /// Whether a checkpoint is being taken.
    pub fn is_taking(&self) -> bool {
        self.is_taking.load(Ordering::SeqCst)
    }

    fn take_alone(&self, machine: &Machine, log: &Log) -> Result<(), CheckpointError> {
        let begin = begin_of_replay(machine, log);
        // Counted from here even if it fails: a full disk is not asked again at once.
        self.since.store(log.position().raw(), Ordering::Relaxed);
        let plan = Plan {
            begin,
            clock: &|| machine.now(),
            threads: 1,
            bytes_per_second: None,
            stop: &|| self.ending.stop.load(Ordering::Relaxed),
        };
        checkpoint::write(&*self.disk, machine.regions(), log, &plan).map(drop)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where replay has to begin for a scan that starts now (CKPT-1).
fn begin_of_replay(machine: &Machine, log: &Log) -> Lsn {
    let position = log.position();
    let first = machine.readers().first_lsn().map(Lsn::from_raw);
    let now = machine.now();
    while machine.readers().settled(machine.clock()) < now {
        thread::yield_now();
    }
    first.map_or(position, |first| first.min(position))
}

fn run(machine: &Weak<Machine>, ending: &Ending) {
    let mut ended = ending.ended.lock();
    while !*ended {
        ending.wake.wait_for(&mut ended, LOOK_EVERY);
        if *ended {
            break;
        }
        let Some(machine) = machine.upgrade() else {
            break;
        };
        drop(ended);
        if let (Some(checkpointer), Some(log)) = (machine.checkpointer(), machine.log())
            && checkpointer.is_due(log)
            && let Err(error) = checkpointer.take(&machine, log)
        {
            eprintln!("checkpoint failed, the one before still counts: {error}");
        }
        drop(machine);
        ended = ending.ended.lock();
    }
}
