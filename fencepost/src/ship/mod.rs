//! Function shipping: a transaction whose data is on another machine runs there as a whole.
//!
//! ```text
//! session here                                 home machine: has the data
//! home.rs   where is the data? ─ here: no shipping
//! send.rs   user, settings, text, parameters ═► serve.rs  a session, run with its plan cache,
//!                                                         retried, committed
//!                                               executor.rs  the executors: inline, or threads
//! rows, tag or error ◄═════════════════════════ the reply
//! a cancel ═══════════════════════════════════► ends it there
//! ```
//! A SELECT over partitions of several machines is *split*: each machine runs the part for its own
//! partitions, on the snapshot of the session's transaction. The session merges the results.
//!
//! ```text
//! gather.rs  the request with R and partitions ═► part.rs    plans the text, scans its partitions
//!            the same to other machines ═══════►  at the same time
//! rows or partial aggregates, merged ◄═══════════ the replies; missing parts run here
//! ```
//! Only statements that form a whole transaction are shipped: one statement, or a batch of bound
//! ones that a Sync follows. The home machine runs them itself and does not ship them further. Any
//! read-only transaction may split a statement, because its reads are never validated.
//!
//! # Invariants
//! * SHIP-1: when the reply arrives, the transaction has committed there completely, or it has no
//!   effect. A session sees the effects of its shipped statements: its next snapshot is later.
//! * SHIP-2: the home machine runs statements only if their results have the columns that the
//!   client was told. Otherwise it replies "run it yourself" before anything is committed. It does
//!   the same for results over [`RESULT_BYTES_MAX`].
//! * SHIP-3: a part is used only if the other machine has run the same plan on the same versions of
//!   the tables. Its snapshot must be of a transaction that is still open here (SHARE-1). Otherwise
//!   the part runs here.
//!
//! # Failure
//! A statement that cannot be sent runs here. If the connection is lost during execution, reads run
//! here; the outcome of a write is unknown: 08007.

mod bytes;
mod executor;
mod gather;
mod home;
mod part;
mod reply;
mod request;
mod send;
mod serve;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_fabric::MachineId;
use foldhash::{HashMap, HashMapExt};
use parking_lot::{Mutex, RwLock};

use executor::Executors;
pub(crate) use gather::ShippedParts;
pub(crate) use home::{PartitionsByMachine, home_of, spread};
pub(crate) use part::PartSink;
pub(crate) use request::Part;
pub use send::ShippedResults;
use serve::{PeerRequest, SettingsCache};

/// The size limit, in bytes, of a result that is sent between machines.
pub(crate) const RESULT_BYTES_MAX: usize = 1 << 20;

/// The function shipping state of a machine in a cluster.
pub(crate) struct Ship {
    executors: Executors,
    /// Statements of peers that run here, by their machine and its number for them.
    running: Mutex<HashMap<(MachineId, u64), Arc<PeerRequest>>>,
    settings: RwLock<SettingsCache>,
    closing: AtomicBool,
    last_number: AtomicU64,
    sent: AtomicU64,
    served: AtomicU64,
    returned: AtomicU64,
    parts_sent: AtomicU64,
    parts_served: AtomicU64,
    parts_returned: AtomicU64,
}

/// Counts of statements that were shipped between machines, since the start of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShipCounts {
    /// Statements sent to other machines.
    pub sent: u64,
    /// Statements run for other machines.
    pub served: u64,
    /// Statements that were sent, but ran here in the end.
    pub returned: u64,
    /// Parts of statements that were sent to other machines.
    pub parts_sent: u64,
    /// Parts run for other machines.
    pub parts_served: u64,
    /// Parts that were sent, but ran here in the end.
    pub parts_returned: u64,
}

impl Ship {
    /// Returns the state of a machine that has shipped nothing yet.
    pub fn new() -> Arc<Ship> {
        Arc::new(Ship {
            executors: Executors::default(),
            running: Mutex::new(HashMap::new()),
            settings: RwLock::default(),
            closing: AtomicBool::new(false),
            last_number: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            served: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            parts_sent: AtomicU64::new(0),
            parts_served: AtomicU64::new(0),
            parts_returned: AtomicU64::new(0),
        })
    }

    /// Runs a task that belongs to no statement. Drops the task if no executor runs.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.executors.spawn(Box::pin(task)));
    }

    /// Returns the counts of shipped statements.
    pub fn counts(&self) -> ShipCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShipCounts {
            sent: load(&self.sent),
            served: load(&self.served),
            returned: load(&self.returned),
            parts_sent: load(&self.parts_sent),
            parts_served: load(&self.parts_served),
            parts_returned: load(&self.parts_returned),
        }
    }
}
