//! Transactions and the coordinators that run them.
//!
//! # Picture
//! ```text
//! Coordinator ──begin──► Transaction { context } ──commit / abort / drop──► context goes home
//!      reader slot, lane, buffers stay with the coordinator from one transaction to the next
//! ```
//! # Invariants
//! * TXN-1: everything a transaction reads is the newest version at or below its read timestamp R, or
//!   a version that holds the same keys; so all it sees is one snapshot, even if it will abort.
//! * TXN-2: a transaction that has written acts on current versions only: where it meets a newer one
//!   it moves R forward (refresh) or stops.
//! * TXN-3: dropping a transaction aborts it, also while it unwinds from a panic in a
//!   [`crate::NodeKind`] or a closure; nothing stays locked, queued or allocated.
//! * TXN-4: after a method's future was dropped half-way, or a method answered [`Stop`], the
//!   transaction is good for abort, or for going back to a savepoint from before the call. Where that
//!   has cost it patches it cannot commit (see [`crate::Taken`]).

use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use fencepost_storage::header::OldPlace;
use fencepost_storage::log::Room;
use fencepost_storage::{Addr, Timestamp};

use crate::fetched::Fetched;
use crate::intent::Strength;
use crate::isolation::Isolation;
use crate::lock::LockFailure;
use crate::machine::Machine;
use crate::network::Spread;
use crate::planted::{self, Planted};
use crate::read_set::{ReadSet, Seen};
use crate::readers::ReaderSlot;
use crate::savepoint::Undos;
use crate::stop::{AbortReason, Stop};
use crate::write_set::WriteSet;

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read and write; reads are validated at commit if anything was written.
    ReadWrite,
    /// Read one snapshot; never aborts on account of writers.
    ReadOnly,
}

/// What a transaction posts to other machines as it runs: reads of memory that is mapped are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarCounts {
    /// One-sided reads of objects, and two for each that was read at an old version, however old.
    pub reads: u32,
    /// Messages: intents, and what its statements ask of other machines.
    pub messages: u32,
}

/// Words of buffers that a coordinator keeps between transactions.
const KEPT_WORDS: usize = 64 * 1024;

/// Where a coordinator's context is while no transaction has it.
type Home = AtomicCell<Option<Box<Context>>>;

pub(crate) struct Context {
    pub machine: Arc<Machine>,
    pub slot: Arc<ReaderSlot>,
    /// Where the context goes when its transaction ends.
    home: Weak<Home>,
    pub lane: usize,
    /// Number of the coordinator: the thread of its transaction ids.
    pub number: u32,
    /// Local counter of the transaction ids.
    pub local: u64,
    pub mode: Mode,
    pub isolation: Isolation,
    /// Whether a scan reads now ([`crate::isolation`]).
    pub scans: bool,
    /// Whether reads answer from newest versions now.
    pub reads_newest: bool,
    pub r: Timestamp,
    /// The oldest R that the statement has read before its snapshot moved; the greatest timestamp if it has not.
    pub oldest_r: Timestamp,
    /// The object that is changed next, and the newest version that decides about it ([`Transaction::decide_by`]).
    pub decided: (Addr, Timestamp),
    /// Whether R is in force, so that something may be read ([`crate::in_force`]).
    pub in_force: bool,
    /// Newest version that was read: what must be durable before the end is reported.
    pub newest: Timestamp,
    pub reads: ReadSet,
    /// Copies of what was read of other machines at R.
    pub fetched: Fetched,
    pub far: FarCounts,
    pub writes: WriteSet,
    pub undos: Undos,
    pub intents: Vec<(Addr, Strength)>,
    pub refreshes: u32,
    /// Reads that an old version has answered.
    pub old_reads: u64,
    /// Whether the commit is reported only once it is durable.
    pub synchronous: bool,
    /// Whether it gives way to others' intents.
    pub yields: bool,
    /// Whether the next transaction goes on with the intents.
    pub keeps_intents: bool,
    /// Room in the log for what the commit appends under its locks.
    pub room: Room,
    /// Bytes of the write set that were charged to the account.
    pub charged: usize,
    /// Bytes that a statement holds outside the write set.
    pub held: usize,
    /// LOCK records in the making.
    pub record: Vec<u64>,
    /// An image on its way between a slot and the write set.
    pub scratch: Vec<u64>,
    /// Entries to be locked, in the order in which they are.
    pub order: Vec<u32>,
    /// How many of them are locked now.
    pub locked: usize,
    /// What other machines have to do with the commit.
    pub spread: Spread,
    /// Entries on their way to the log.
    pub logged: Vec<u32>,
    /// Where their old versions were kept.
    pub places: Vec<OldPlace>,
    /// Whether LOCK records of this transaction are in the log without a COMMIT-PRIMARY.
    pub prewritten: bool,
    /// Entries below this were there when those that are settled were logged ahead of LOCK.
    pub prewritten_upto: usize,
    /// Whether what was logged may have changed or been taken back since then.
    pub prewritten_touched: bool,
    /// Words of all objects that were allocated.
    pub new_words: usize,
    /// Since when it has slots of other machines for new objects; 0 where it has none.
    pub reserved_since: u64,

    /// Times that patches were taken out of it, or were to be, that are not back.
    pub adrift: u32,
    /// Whether images of patched nodes are older than the snapshot.
    pub behind: bool,
    /// The object that the last conflict was about; null where there was none.
    pub conflict: Addr,
    /// The reason of the last conflict of the transaction, where it met one before its commit.
    pub reason: Option<AbortReason>,
    /// Structural changes of indexes up to which all patches are known to be where they belong.
    pub settled: u64,
}

/// Runs transactions, one after the other. A session owns one.
pub struct Coordinator {
    machine: Arc<Machine>,
    home: Arc<Home>,
}

/// A running transaction.
pub struct Transaction {
    context: Option<Box<Context>>,
}

impl Context {
    fn new(machine: &Arc<Machine>, home: &Arc<Home>) -> Box<Context> {
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
            fetched: Fetched::default(),
            far: FarCounts::default(),
            writes: WriteSet::default(),
            undos: Undos::default(),
            intents: Vec::new(),
            refreshes: 0,
            old_reads: 0,
            synchronous: true,
            yields: false,
            keeps_intents: false,
            room: Room::default(),
            charged: 0,
            held: 0,
            record: Vec::new(),
            scratch: Vec::new(),
            order: Vec::new(),
            locked: 0,
            spread: Spread::default(),
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

    /// The conflict `reason` over the object at `addr`.
    #[cold]
    pub fn conflict_at(&mut self, addr: Addr, reason: AbortReason) -> Stop {
        self.conflict = addr;
        self.reason = Some(reason);
        Stop::Retry(reason)
    }

    /// As [`Self::conflict_at`], in LOCK.
    #[cold]
    pub fn abort_at(&mut self, addr: Addr, reason: AbortReason) -> LockFailure {
        self.conflict = addr;
        LockFailure::Abort(reason)
    }

    /// Returns the reason that the transaction counts as aborted for, which is given up for `reason`: a conflict that it was
    /// told of before comes first. One that only reads has nothing to give up.
    fn counted_reason(&self, reason: AbortReason) -> Option<AbortReason> {
        match (reason, self.mode) {
            (AbortReason::Requested, Mode::ReadOnly) => self.reason,
            (AbortReason::Requested, Mode::ReadWrite) => Some(self.reason.unwrap_or(reason)),
            (reason, Mode::ReadOnly | Mode::ReadWrite) => Some(reason),
        }
    }

    /// Leaves nothing of the transaction behind but reusable buffers.
    pub fn end(&mut self) {
        self.slot.end();
        self.give_room_back();
        if !self.keeps_intents {
            self.release_intents();
        }
        let large = self.writes.bytes() > KEPT_WORDS * 8 || self.reads.len() > KEPT_WORDS;
        self.reads.clear();
        self.writes.clear();
        self.undos.clear();
        self.adrift = 0;
        self.behind = false;
        self.new_words = 0;
        self.reserved_since = 0;
        if large {
            self.reads.shrink(KEPT_WORDS);
            self.writes.shrink(KEPT_WORDS);
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

impl Coordinator {
    pub(crate) fn new(machine: &Arc<Machine>) -> Self {
        Self {
            machine: Arc::clone(machine),
            home: Arc::new(AtomicCell::new(None)),
        }
    }

    /// Begins a transaction; its snapshot is of now.
    pub fn begin(&mut self, mode: Mode) -> Transaction {
        self.begin_with(mode, None)
    }

    /// Begins a transaction, on a snapshot that is in force if one is given ([`crate::shared_snapshot`]).
    #[inline]
    pub(crate) fn begin_with(&mut self, mode: Mode, snapshot: Option<Timestamp>) -> Transaction {
        let mut context = self
            .home
            .take()
            .unwrap_or_else(|| Context::new(&self.machine, &self.home));
        context.mode = mode;
        context.isolation = Isolation::default();
        context.scans = false;
        context.reads_newest = false;
        context.oldest_r = Timestamp::MAX;
        context.decided = (Addr::NULL, Timestamp::MAX);
        context.local += 1;
        let clock = self.machine.clock();
        (context.r, context.in_force) = match snapshot {
            None => self.machine.readers().begin(&context.slot, clock),
            Some(r) => {
                context.slot.move_to(r);
                (r, true)
            }
        };
        context.fetched.clear();
        context.far = FarCounts::default();
        context.newest = Timestamp::ZERO;
        context.refreshes = 0;
        context.synchronous = true;
        context.yields = false;
        context.keeps_intents = false;
        context.conflict = Addr::NULL;
        context.reason = None;
        context.settled = 0;
        Transaction {
            context: Some(context),
        }
    }

    /// The machine.
    #[inline]
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Shows `f` what is left of the last transaction; `None` before the first, or while one runs.
    pub(crate) fn last<T>(&self, f: impl FnOnce(&Context) -> T) -> Option<T> {
        let context = self.home.take()?;
        let value = f(&context);
        self.home.store(Some(context));
        Some(value)
    }

    /// The object that made the last transaction abort, where that is known and it has ended.
    pub fn conflict(&self) -> Option<Addr> {
        self.last(|context| context.conflict)
            .filter(|conflict| !conflict.is_null())
    }
}

/// A place in a transaction's read set.
#[derive(Clone, Copy, Debug)]
pub struct ReadsMark(usize);

impl Transaction {
    /// The number of its coordinator on this machine, by which intents know it.
    pub fn number(&self) -> u32 {
        self.context().number
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        self.context
            .as_ref()
            .expect("a transaction has its context until it ends")
    }

    #[inline]
    pub(crate) fn context_mut(&mut self) -> &mut Context {
        self.context
            .as_mut()
            .expect("a transaction has its context until it ends")
    }

    /// Ends the transaction and sends the context home.
    pub(crate) fn finish(&mut self) {
        if let Some(mut context) = self.context.take() {
            context.end();
            if let Some(home) = context.home.upgrade() {
                home.store(Some(context));
            }
        }
    }

    /// The snapshot that the transaction reads. Until it has read something it may still move.
    #[inline]
    pub fn read_timestamp(&self) -> Timestamp {
        self.context().r
    }

    /// The oldest snapshot that the running statement may have found rows in ([`Self::renew`]).
    #[inline]
    pub fn statement_timestamp(&self) -> Timestamp {
        let context = self.context();
        if planted::is(Planted::ForgetOldestSnapshot) {
            return context.r;
        }
        context.oldest_r.min(context.r)
    }

    /// Notes that a version of the object at `addr` that was committed at `latest`, or before, decides about the next change of
    /// it. A newer one is a conflict then, also where the snapshot has moved since (LEVEL-4).
    #[inline]
    pub fn decide_by(&mut self, addr: Addr, latest: Timestamp) {
        if !planted::is(Planted::TrustRowLock) {
            self.context_mut().decided = (addr, latest);
        }
    }

    /// Returns how many reads of its coordinator an old version has answered.
    #[inline]
    pub fn old_reads(&self) -> u64 {
        self.context().old_reads
    }

    /// What the transaction may do.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.context().mode
    }

    /// The object that the last conflict was about, where that is known.
    pub fn conflict(&self) -> Option<Addr> {
        let conflict = self.context().conflict;
        (!conflict.is_null()).then_some(conflict)
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.context().machine
    }

    /// Returns whether the transaction has written the object, and not rolled that back.
    pub fn has_written(&self, addr: Addr) -> bool {
        self.context().writes.find(addr).is_some()
    }

    /// Whether anything was written.
    #[inline]
    pub fn has_writes(&self) -> bool {
        !self.context().writes.is_empty()
    }

    /// Whether the commit is reported only once it is durable (the default). A transaction that is
    /// not reported durable is still atomic, and later ones that are imply it.
    pub fn set_synchronous(&mut self, synchronous: bool) {
        self.context_mut().synchronous = synchronous;
    }

    /// An independent transaction on the same machine, for structural changes that stay even if this
    /// one aborts.
    pub fn system(&self) -> Transaction {
        self.machine().system_transaction()
    }

    /// Puts the version that was seen into the read set.
    #[inline]
    pub fn guard(&mut self, seen: Seen) {
        let context = self.context_mut();
        if context.mode == Mode::ReadWrite && !seen.addr.is_null() && !context.is_unchecked_read() {
            let plain = context.is_plain_read();
            context.reads.push(seen, plain);
        }
    }

    /// Puts a node into the read set that `kind` judges by `note` should it have moved.
    pub fn guard_keys(
        &mut self,
        seen: Seen,
        kind: &'static dyn crate::node::NodeKind,
        note: &[u64],
    ) {
        let context = self.context_mut();
        if planted::is(Planted::SkipKeyNotes) && context.isolation == Isolation::Serializable {
            return;
        }
        if context.mode == Mode::ReadWrite && !seen.addr.is_null() && !context.is_unchecked_read() {
            let plain = context.is_plain_read();
            context.reads.push_keys(seen, plain, (kind, note));
        }
    }

    /// Where the read set ends now.
    pub fn reads_mark(&self) -> ReadsMark {
        ReadsMark(self.context().reads.len())
    }

    /// Takes what was read since `mark` out of the read set: the transaction does not depend on it. That is so of what is
    /// read again at once, and where it was asked for nothing but hints.
    pub fn forget_reads(&mut self, mark: ReadsMark) {
        self.context_mut().reads.truncate(mark.0);
    }

    /// Counts `bytes` that a statement gathers against the memory limit, until
    /// [`Self::release_memory`] or the end.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`] at the limit; nothing is counted then.
    pub fn hold_memory(&mut self, bytes: usize) -> Result<(), Stop> {
        let context = self.context_mut();
        context.machine.account().charge(bytes as u64)?;
        context.held += bytes;
        Ok(())
    }

    /// What was held is so no more.
    pub fn release_memory(&mut self, bytes: usize) {
        let context = self.context_mut();
        let bytes = bytes.min(context.held);
        context.machine.account().release(bytes as u64);
        context.held -= bytes;
    }

    /// Whether an object whose address lies in `from..to` is in the read set.
    pub fn guards_between(&self, from: Addr, to: Addr) -> bool {
        self.context()
            .reads
            .iter()
            .any(|read| (from..to).contains(&read.seen.addr))
    }

    /// What it has posted to other machines so far, before its commit.
    pub fn far_counts(&self) -> FarCounts {
        self.context().far
    }

    /// Gives the transaction up. Before anybody is told of it, [`Coordinator::settle`] is to be
    /// awaited; or see [`Self::rollback`].
    pub fn abort(mut self) {
        self.give_up(AbortReason::Requested);
    }

    /// As [`Self::abort`], but the coordinator's next transaction, which is to begin at once, has the
    /// intents of this one: so who runs a transaction again does not go back to the end of the line.
    pub fn abort_to_run_again(mut self) {
        self.context_mut().keeps_intents = true;
        self.give_up(AbortReason::Requested);
    }

    pub(crate) fn give_up(&mut self, reason: AbortReason) {
        if let Some(context) = self.context.as_mut() {
            if let Some(reason) = context.counted_reason(reason) {
                context.machine.counters().count_abort(context.lane, reason);
            }
            // Held only where a node kind panicked under the locks, or the commit was dropped.
            if !context.unlock() {
                return self.leave_undecided();
            }
            context.log_abort();
            context.give_new_back();
        }
        self.finish();
    }

    /// Nothing of its commit is done here, nor undone: it is not known yet what becomes of it, and this machine ends.
    pub(crate) fn leave_in_doubt(mut self) {
        self.context_mut().keep_locks();
        self.finish();
    }

    /// Nobody waits for the end of its commit any more, which is decided later.
    fn leave_undecided(&mut self) {
        let Some(context) = self.context.take() else {
            return;
        };
        if let Some(network) = context.machine.network().map(Arc::clone) {
            network.adopt(Transaction {
                context: Some(context),
            });
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.context.is_some() {
            self.give_up(AbortReason::Requested);
        }
    }
}
