//! The checkpointer: a thread that takes a checkpoint whenever the log has grown enough, or somebody
//! asks for one.
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

use crate::checkpoint_wait::{Asker, WaitCheckpoint};
use crate::machine::Machine;

/// How often the log's growth is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What the thread is told.
#[derive(Default)]
struct Orders {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// A checkpoint that is being taken is given up.
    stop: AtomicBool,
}

#[derive(Default)]
struct Pending {
    ended: bool,
    /// Those who wait for a checkpoint that begins after they asked.
    askers: Vec<Asker>,
}

/// How the checkpoints of a machine have ended since it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounters {
    /// Checkpoints that count.
    pub taken: u64,
    /// Those that could not be taken.
    pub failed: u64,
    /// Bytes of all that count.
    pub bytes: u64,
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
    taken: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    orders: Arc<Orders>,
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
            taken: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            orders: Arc::default(),
            thread: Mutex::new(None),
        }
    }

    /// Starts the thread; it does not keep the machine alive.
    pub fn start(&self, machine: &Arc<Machine>) -> std::io::Result<()> {
        let (machine, orders) = (Arc::downgrade(machine), Arc::clone(&self.orders));
        let thread = thread::Builder::new().name("checkpointer".to_owned());
        *self.thread.lock() = Some(thread.spawn(move || run(&machine, &orders))?);
        Ok(())
    }

    /// Asks the thread for a checkpoint that begins after this call.
    pub fn ask(&self) -> WaitCheckpoint {
        let asker = Asker::default();
        let mut pending = self.orders.pending.lock();
        if pending.ended {
            asker.answer(Err(Arc::new(CheckpointError::Stopped)));
        } else {
            pending.askers.push(asker.clone());
            self.orders.wake.notify_all();
        }
        WaitCheckpoint(asker)
    }

    /// Ends the thread, giving up a checkpoint that is being taken.
    pub fn end(&self) {
        self.orders.stop.store(true, Ordering::Relaxed);
        self.orders.pending.lock().ended = true;
        self.orders.wake.notify_all();
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
        let count = match &taken {
            Ok(()) => &self.taken,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        machine.tidy();
        taken
    }

    /// How checkpoints have ended.
    pub fn counters(&self) -> CheckpointCounters {
        CheckpointCounters {
            taken: self.taken.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether a checkpoint is being taken.
    pub fn is_taking(&self) -> bool {
        self.is_taking.load(Ordering::SeqCst)
    }

    fn take_alone(&self, machine: &Machine, log: &Log) -> Result<(), CheckpointError> {
        let begin = match machine.network().and_then(|network| network.disk()) {
            Some(disk) => {
                let begin = disk.begin_of_replay();
                disk.write_kept()?;
                begin
            }
            None => begin_of_replay(machine, log),
        };
        // Counted from here even if it fails: a full disk is not asked again at once.
        self.since.store(log.position().raw(), Ordering::Relaxed);
        let plan = Plan {
            begin,
            clock: &|| machine.now(),
            threads: 1,
            bytes_per_second: None,
            stop: &|| self.orders.stop.load(Ordering::Relaxed),
        };
        let manifest = checkpoint::write(&*self.disk, machine.regions(), log, &plan)?;
        self.bytes.fetch_add(manifest.bytes, Ordering::Relaxed);
        tracing::info!(
            target: "fencepost::checkpoint",
            bytes = manifest.bytes,
            objects = manifest.objects,
            "checkpoint complete: number {}, {} objects, {} bytes; the log is needed from {}",
            manifest.sequence,
            manifest.objects,
            manifest.bytes,
            begin.raw()
        );
        Ok(())
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

fn run(machine: &Weak<Machine>, orders: &Orders) {
    let mut pending = orders.pending.lock();
    while !pending.ended {
        if pending.askers.is_empty() {
            orders.wake.wait_for(&mut pending, LOOK_EVERY);
        }
        if pending.ended {
            break;
        }
        let Some(machine) = machine.upgrade() else {
            break;
        };
        let askers = std::mem::take(&mut pending.askers);
        drop(pending);
        if let (Some(checkpointer), Some(log)) = (machine.checkpointer(), machine.redo())
            && (!askers.is_empty() || checkpointer.is_due(log))
        {
            let taken = checkpointer.take(&machine, log).map_err(Arc::new);
            if let Err(error) = &taken {
                tracing::error!("checkpoint failed, the one before still counts: {error}");
            }
            for asker in &askers {
                asker.answer(taken.clone());
            }
        }
        drop(machine);
        pending = orders.pending.lock();
    }
    // Nobody asks any more: `ended` is set, or the machine is gone.
    for asker in pending.askers.drain(..) {
        asker.answer(Err(Arc::new(CheckpointError::Stopped)));
    }
}
