//! The checkpointer: a thread that takes a checkpoint whenever the log has grown enough, or on
//! request.
//!
//! # Invariants
//! * CKPT-1 (see [`fencepost_storage::checkpoint`]): when the scan begins, every transaction with a
//!   record below `begin` has installed its writes. The position is read first; then the
//!   checkpointer waits for the commits that were under way. Large transactions still in flight
//!   move `begin` back to their first records.
//!
//! # Failure
//! If a checkpoint fails, the previous one stays valid and the log stays complete. The checkpointer
//! tries again when the log has grown by the same amount.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fencepost_fabric::Disk;
use fencepost_storage::checkpoint::{self, CheckpointError, Plan};
use fencepost_storage::log::{Log, Lsn};
use parking_lot::{Condvar, Mutex};

use crate::checkpoint_wait::{CheckpointRequest, CheckpointWait};
use crate::machine::Machine;

/// Interval at which the log's growth is checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The requests to the thread.
#[derive(Default)]
struct CheckpointRequests {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// Set to give up the checkpoint that is being taken.
    stop: AtomicBool,
}

#[derive(Default)]
struct Pending {
    ended: bool,
    /// Requests for a checkpoint that begins after the request.
    askers: Vec<CheckpointRequest>,
}

/// Counters of the checkpoints of a machine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounters {
    /// Successful checkpoints.
    pub taken: u64,
    /// Failed checkpoints.
    pub failed: u64,
    /// Bytes of all successful checkpoints.
    pub bytes: u64,
}

/// The checkpointer of one machine.
pub(crate) struct Checkpointer {
    disk: Arc<dyn Disk>,
    /// Log position from which the next growth is counted.
    since: AtomicU64,
    every_bytes: u64,
    /// Held while a checkpoint is taken: one at a time.
    taking: Mutex<()>,
    is_taking: AtomicBool,
    taken: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    orders: Arc<CheckpointRequests>,
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

    /// Starts the thread, which holds only a weak reference to the machine.
    pub fn start(&self, machine: &Arc<Machine>) -> std::io::Result<()> {
        let (machine, orders) = (Arc::downgrade(machine), Arc::clone(&self.orders));
        let thread = thread::Builder::new().name("checkpointer".to_owned());
        *self.thread.lock() = Some(thread.spawn(move || run(&machine, &orders))?);
        Ok(())
    }

    /// Requests a checkpoint that begins after this call.
    pub fn ask(&self) -> CheckpointWait {
        let asker = CheckpointRequest::default();
        let mut pending = self.orders.pending.lock();
        if pending.ended {
            asker.answer(Err(Arc::new(CheckpointError::Stopped)));
        } else {
            pending.askers.push(asker.clone());
            self.orders.wake.notify_all();
        }
        CheckpointWait(asker)
    }

    /// Ends the thread, and gives up the checkpoint that is being taken.
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

    /// Takes a checkpoint on the calling thread.
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

    /// Returns how many checkpoints succeeded and failed, and their bytes.
    pub fn counters(&self) -> CheckpointCounters {
        CheckpointCounters {
            taken: self.taken.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Returns whether a checkpoint is being taken.
    pub fn is_taking(&self) -> bool {
        self.is_taking.load(Ordering::SeqCst)
    }

    fn take_alone(&self, machine: &Machine, log: &Log) -> Result<(), CheckpointError> {
        let begin = match machine.network().and_then(|network| network.disk()) {
            Some(disk) => {
                let begin = disk.begin_of_replay();
                disk.write_retained_records()?;
                begin
            }
            None => begin_of_replay(machine, log),
        };
        // Set also if the checkpoint fails, so that a full disk is not tried again at once.
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

/// Returns where replay has to begin for a scan that starts now (CKPT-1).
fn begin_of_replay(machine: &Machine, log: &Log) -> Lsn {
    let position = log.position();
    let first = machine.readers().first_lsn().map(Lsn::from_raw);
    let now = machine.now();
    while machine.readers().settled(machine.clock()) < now {
        thread::yield_now();
    }
    first.map_or(position, |first| first.min(position))
}

fn run(machine: &Weak<Machine>, orders: &CheckpointRequests) {
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
    // No request can come any more: `ended` is set, or the machine is gone.
    for asker in pending.askers.drain(..) {
        asker.answer(Err(Arc::new(CheckpointError::Stopped)));
    }
}
