//! Function shipping: a transaction whose data are another machine's runs there, whole.
//!
//! ```text
//! session here                                 home: the machine that has the data
//! home.rs   where does it belong? ─ here: nothing of this
//! send.rs   user, settings, text, parameters ═► serve.rs  a session, run with its plan cache, retried,
//!                                                         committed
//!                                               room.rs   where it has arrived, or on a few threads
//! rows, tag or error ◄═════════════════════════ the reply
//! a cancel ═══════════════════════════════════► ends it there
//! ```
//! A SELECT over the partitions of several machines is *split*: each runs the part that is about its own partitions,
//! on the snapshot of the session's transaction, and what those come to is put together here.
//!
//! ```text
//! gather.rs  the request with R and partitions ═► part.rs    the same text planned, its scan of those partitions
//!            the same to other machines ═══════►  at the same time
//! rows or partial aggregates, merged ◄═══════════ the replies; what is not done elsewhere is done here
//! ```
//! Only statements that are all their transaction does are shipped: one, or a batch of bound ones that a sync
//! follows. Where they arrive they run: they are not shipped on. What is split may be of any transaction that only
//! reads, as nothing that it has read is ever validated.
//!
//! # Invariants
//! * SHIP-1: when the reply is there the transaction has committed there, or nothing of it has. A session sees
//!   what it has shipped: its next snapshot is of a later time.
//! * SHIP-2: the home runs statements only if their results look as the client was told, and otherwise says
//!   "run it yourself" before anything is committed; so it does with results over [`RESULT_BYTES_MAX`].
//! * SHIP-3: a part is used only if the other machine has run the same plan on tables of the same versions, at the
//!   snapshot of a transaction that is still open here (SHARE-1); otherwise it is run here.
//!
//! # Failure
//! What cannot be sent is run here. Where the connection is lost while something is under way, reads are run
//! here; what became of a write is not known: 08007.

mod bytes;
mod gather;
mod home;
mod part;
mod reply;
mod request;
mod room;
mod send;
mod serve;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_fabric::MachineId;
use foldhash::{HashMap, HashMapExt};
use parking_lot::{Mutex, RwLock};

pub(crate) use gather::Gathering;
pub(crate) use home::{Spread, home_of, spread};
pub(crate) use part::PartSink;
pub(crate) use request::Part;
use room::Rooms;
pub use send::ShippedResults;
use serve::{Running, SettingsCache};

/// Bytes of the rows of the longest result that goes between machines.
pub(crate) const RESULT_BYTES_MAX: usize = 1 << 20;

/// What a machine of a cluster has of function shipping.
pub(crate) struct Ship {
    rooms: Rooms,
    /// Statements of peers that run here, by their machine and its number for them.
    running: Mutex<HashMap<(MachineId, u64), Arc<Running>>>,
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

/// How many statements went between machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    /// Sent to other machines.
    pub sent: u64,
    /// Run for other machines.
    pub served: u64,
    /// Sent, and run here after all.
    pub returned: u64,
    /// Parts of statements that other machines were asked for.
    pub parts_sent: u64,
    /// Parts run for other machines.
    pub parts_served: u64,
    /// Parts that others were asked for, and that ran here after all.
    pub parts_returned: u64,
}

impl Ship {
    /// Nothing is sent or served yet.
    pub fn new() -> Arc<Ship> {
        Arc::new(Ship {
            rooms: Rooms::default(),
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

    /// Runs a task that is nobody's statement; one that cannot be run is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.rooms.spawn(Box::pin(task)));
    }

    /// How many statements went between machines.
    pub fn counts(&self) -> Shipped {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Shipped {
            sent: load(&self.sent),
            served: load(&self.served),
            returned: load(&self.returned),
            parts_sent: load(&self.parts_sent),
            parts_served: load(&self.parts_served),
            parts_returned: load(&self.parts_returned),
        }
    }
}
