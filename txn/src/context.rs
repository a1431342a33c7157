//! The context of a coordinator: the state of its transaction, and buffers that stay for the next
//! one.

use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use fencepost_storage::header::OldVersionPtr;
use fencepost_storage::log::LogReservation;
use fencepost_storage::{Addr, Timestamp};

use crate::intent::Strength;
use crate::isolation::Isolation;
use crate::lock::LockFailure;
use crate::machine::Machine;
use crate::network::RemoteParticipants;
use crate::read_set::ReadSet;
use crate::readers::ReaderSlot;
use crate::remote_read_cache::RemoteReadCache;
use crate::savepoint::Undos;
use crate::stop::{AbortReason, Stop};
use crate::write_set::WriteSet;

/// The operations that a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read and write; reads are validated at commit if anything was written.
    ReadWrite,
    /// Read one snapshot; never aborts because of writers.
    ReadOnly,
}

/// Operations that a transaction posts to other machines as it runs. Reads of mapped memory do not
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarCounts {
    /// One-sided reads of objects. An object that was read at an old version counts two more,
    /// whatever the version's age.
    pub reads: u32,
    /// Messages: intents, and requests of its statements to other machines.
    pub messages: u32,
}

/// Words of buffers that a coordinator keeps between transactions.
const RETAINED_WORDS: usize = 64 * 1024;

/// The place of a coordinator's context while no transaction uses it.
pub(crate) type ContextSlot = AtomicCell<Option<Box<Context>>>;

/// The state of a transaction. It stays with the coordinator from one transaction to the next.
pub(crate) struct Context {
    pub machine: Arc<Machine>,
    pub slot: Arc<ReaderSlot>,
    /// The place to which the context returns when its transaction ends.
    pub home: Weak<ContextSlot>,
    pub lane: usize,
    /// Number of the coordinator: the `thread` of its transaction ids.
    pub number: u32,
    /// Local counter of the transaction ids.
    pub local: u64,
    pub mode: Mode,
    pub isolation: Isolation,
    /// Whether a scan is reading ([`crate::isolation`]).
    pub scans: bool,
    /// Whether reads return the newest versions now.
    pub reads_newest: bool,
    pub r: Timestamp,
    /// The oldest R of the running statement, if its snapshot has moved; otherwise the greatest
    /// timestamp.
    pub oldest_r: Timestamp,
    /// The object that is changed next, and the newest version that may decide about it
    /// ([`crate::Transaction::decide_by`]).
    pub decided: (Addr, Timestamp),
    /// Whether R is in force, so that the transaction may read ([`crate::in_force`]).
    pub in_force: bool,
    /// Newest version that was read: it must be durable before the end of the transaction is
    /// reported.
    pub newest: Timestamp,
    pub reads: ReadSet,
    /// Copies of objects of other machines that were read at R.
    pub fetched: RemoteReadCache,
    pub far: FarCounts,
    pub writes: WriteSet,
    pub undos: Undos,
    pub intents: Vec<(Addr, Strength)>,
    pub refreshes: u32,
    /// Number of reads that were answered by an old version.
    pub old_reads: u64,
    /// Whether the commit is reported only once it is durable.
    pub synchronous: bool,
    /// Whether the transaction yields to others' intents.
    pub yields: bool,
    /// Whether the coordinator's next transaction takes over the intents.
    pub keeps_intents: bool,
    /// Log space reserved for the records that the commit appends under its locks.
    pub log_space: LogReservation,
    /// Bytes of the write set that were charged to the account.
    pub charged: usize,
    /// Bytes that a statement holds outside the write set.
    pub held: usize,
    /// LOCK records under construction.
    pub record: Vec<u64>,
    /// An image that is being copied between a slot and the write set.
    pub scratch: Vec<u64>,
    /// Indexes of the entries to lock, in the order of locking.
    pub order: Vec<u32>,
    /// Number of entries in `order` that are locked now.
    pub locked: usize,
    /// State of the commit on other machines.
    pub remote: RemoteParticipants,
    /// Indexes of the entries to log.
    pub logged: Vec<u32>,
    /// Places of the old versions of those entries.
    pub places: Vec<OldVersionPtr>,
    /// Whether LOCK records of this transaction are in the log without a COMMIT-PRIMARY.
    pub prewritten: bool,
    /// Entries below this index existed when the settled entries were logged ahead of LOCK.
    pub prewritten_upto: usize,
    /// Whether a logged entry may have changed or been rolled back since then.
    pub prewritten_touched: bool,
    /// Words of all allocated objects.
    pub new_words: usize,
    /// Time since which it has reserved slots of other machines for new objects; 0 where it has
    /// none.
    pub reserved_since: u64,

    /// Number of times that patches were taken, or were about to be taken, and have not been made
    /// again.
    pub adrift: u32,
    /// Whether images of patched nodes are older than the snapshot.
    pub behind: bool,
    /// The object of the last conflict; null if there was none.
    pub conflict: Addr,
    /// The reason of the last conflict that the transaction met before its commit, if any.
    pub reason: Option<AbortReason>,
    /// Number of structural changes of indexes up to which all patches are known to be in the right
    /// nodes.
    pub settled: u64,
}

impl Context {
    pub fn new(machine: &Arc<Machine>, home: &Arc<ContextSlot>) -> Box<Context> {
        let number = machine.next_coordinator();
        Box::new(Context {
            machine: Arc::clone(machine),
            slot: machine.readers().join(),
            home: Arc::downgrade(home),
            lane: number as usize,
            number,
            local: 0,
            mode: Mode::ReadOnly,
            isolation: Isolation::default(),
            scans: false,
            reads_newest: false,
            r: Timestamp::ZERO,
            oldest_r: Timestamp::MAX,
            decided: (Addr::NULL, Timestamp::MAX),
            in_force: false,
            newest: Timestamp::ZERO,
            reads: ReadSet::default(),
            fetched: RemoteReadCache::default(),
            far: FarCounts::default(),
            writes: WriteSet::default(),
            undos: Undos::default(),
            intents: Vec::new(),
            refreshes: 0,
            old_reads: 0,
            synchronous: true,
            yields: false,
            keeps_intents: false,
            log_space: LogReservation::default(),
            charged: 0,
            held: 0,
            record: Vec::new(),
            scratch: Vec::new(),
            order: Vec::new(),
            locked: 0,
            remote: RemoteParticipants::default(),
            logged: Vec::new(),
            places: Vec::new(),
            prewritten: false,
            prewritten_upto: 0,
            prewritten_touched: false,
            new_words: 0,
            reserved_since: 0,

            adrift: 0,
            behind: false,
            conflict: Addr::NULL,
            reason: None,
            settled: 0,
        })
    }

    #[cold]
    pub(crate) fn deadlock_at(&mut self, addr: Addr) -> Stop {
        self.conflict = addr;
        Stop::Deadlock
    }

    /// Returns the conflict `reason` over the object at `addr`, and remembers it.
    #[cold]
    pub fn conflict_at(&mut self, addr: Addr, reason: AbortReason) -> Stop {
        self.conflict = addr;
        self.reason = Some(reason);
        Stop::Retry(reason)
    }

    /// Returns the conflict of [`Self::conflict_at`] as a failure of LOCK.
    #[cold]
    pub fn abort_at(&mut self, addr: Addr, reason: AbortReason) -> LockFailure {
        self.conflict = addr;
        LockFailure::Abort(reason)
    }

    /// Returns the reason that counts for a transaction that is given up for `reason`: a conflict
    /// reported to it before comes first. A read-only transaction that is given up on request has
    /// no abort to count.
    pub fn counted_reason(&self, reason: AbortReason) -> Option<AbortReason> {
        match (reason, self.mode) {
            (AbortReason::Requested, Mode::ReadOnly) => self.reason,
            (AbortReason::Requested, Mode::ReadWrite) => Some(self.reason.unwrap_or(reason)),
            (reason, Mode::ReadOnly | Mode::ReadWrite) => Some(reason),
        }
    }

    /// Releases everything that the transaction holds but reusable buffers.
    pub fn end(&mut self) {
        self.slot.end();
        self.release_log_space();
        if !self.keeps_intents {
            self.release_intents();
        }
        let large = self.writes.bytes() > RETAINED_WORDS * 8 || self.reads.len() > RETAINED_WORDS;
        self.reads.clear();
        self.writes.clear();
        self.undos.clear();
        self.adrift = 0;
        self.behind = false;
        self.new_words = 0;
        self.reserved_since = 0;
        if large {
            self.reads.shrink(RETAINED_WORDS);
            self.writes.shrink(RETAINED_WORDS);
            self.record = Vec::new();
            self.order = Vec::new();
            self.logged = Vec::new();
            self.places = Vec::new();
        }
        if large {
            self.machine.tidy();
        }
        if self.charged + self.held > 0 {
            self.machine
                .account()
                .release((self.charged + self.held) as u64);
            self.charged = 0;
            self.held = 0;
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.release_intents();
        self.machine.readers().leave(&self.slot);
    }
}
