//! Transactions and the coordinators that run them.
//!
//! # Picture
//! ```text
//! Coordinator ──begin──► Transaction { context } ──commit / abort / drop──► context returned
//!      reader slot, lane, buffers stay with the coordinator from one transaction to the next
//! ```
//! # Invariants
//! * TXN-1: every read returns the newest version at or below the read timestamp R, or a version
//!   with the same keys. So a transaction sees one snapshot, even if it will abort.
//! * TXN-2: a transaction that has written acts on current versions only. Where it meets a newer
//!   version it moves R forward (refresh) or stops.
//! * TXN-3: dropping a transaction aborts it, also while it unwinds from a panic in a
//!   [`crate::NodeKind`] or a closure. No lock, no queue entry and no allocation remains.
//! * TXN-4: after a method's future was dropped half-way, or a method returned [`Stop`], two things
//!   are allowed: abort, or rollback to a savepoint from before the call. If the transaction has
//!   lost patches, it cannot commit (see [`crate::WithdrawnPatches`]).

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fencepost_storage::{Addr, Timestamp};

use crate::context::{Context, ContextSlot};
pub use crate::context::{FarCounts, Mode};
use crate::fault::{self, Fault};
use crate::isolation::Isolation;
use crate::machine::Machine;
use crate::read_set::{ReadEntry, StoredRead};
use crate::stop::{AbortReason, Stop};

/// A coordinator: runs transactions, one after the other. A session owns one.
pub struct Coordinator {
    machine: Arc<Machine>,
    home: Arc<ContextSlot>,
}

/// A running transaction.
pub struct Transaction {
    context: Option<Box<Context>>,
}

impl Coordinator {
    pub(crate) fn new(machine: &Arc<Machine>) -> Self {
        Self {
            machine: Arc::clone(machine),
            home: Arc::new(AtomicCell::new(None)),
        }
    }

    /// Begins a transaction on a snapshot of now.
    pub fn begin(&mut self, mode: Mode) -> Transaction {
        self.begin_with(mode, None)
    }

    /// Begins a transaction. If `snapshot` is given, it must be in force
    /// ([`crate::shared_snapshot`]).
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

    /// Returns the machine of the coordinator.
    #[inline]
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Calls `f` with the context of the last transaction. Returns `None` before the first, or
    /// while one runs.
    pub(crate) fn last<T>(&self, f: impl FnOnce(&Context) -> T) -> Option<T> {
        let context = self.home.take()?;
        let value = f(&context);
        self.home.store(Some(context));
        Some(value)
    }

    /// Returns the object over which the last transaction aborted, if that is known and the
    /// transaction has ended.
    pub fn conflict(&self) -> Option<Addr> {
        self.last(|context| context.conflict)
            .filter(|conflict| !conflict.is_null())
    }
}

/// A position in a transaction's read set.
#[derive(Clone, Copy, Debug)]
pub struct ReadsMark(usize);

impl Transaction {
    /// Returns the number of its coordinator on this machine; intents use it.
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

    /// Ends the transaction and returns the context to the coordinator.
    pub(crate) fn finish(&mut self) {
        if let Some(mut context) = self.context.take() {
            context.end();
            if let Some(home) = context.home.upgrade() {
                home.store(Some(context));
            }
        }
    }

    /// Returns the read timestamp. Until the transaction has read something, the timestamp may
    /// still move.
    #[inline]
    pub fn read_timestamp(&self) -> Timestamp {
        self.context().r
    }

    /// Returns the oldest snapshot in which the running statement may have found rows
    /// ([`Self::renew`]).
    #[inline]
    pub fn statement_timestamp(&self) -> Timestamp {
        let context = self.context();
        if fault::injected(Fault::ForgetOldestSnapshot) {
            return context.r;
        }
        context.oldest_r.min(context.r)
    }

    /// Notes that a version of the object at `addr`, committed at or before `latest`, decides about
    /// the object's next change. A newer version is then a conflict, also if the snapshot has moved
    /// since (LEVEL-4).
    #[inline]
    pub fn decide_by(&mut self, addr: Addr, latest: Timestamp) {
        if !fault::injected(Fault::TrustRowLock) {
            self.context_mut().decided = (addr, latest);
        }
    }

    /// Returns how many reads of its coordinator were answered by an old version.
    #[inline]
    pub fn old_reads(&self) -> u64 {
        self.context().old_reads
    }

    /// Returns the mode of the transaction.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.context().mode
    }

    /// Returns the object of the last conflict, where that is known.
    pub fn conflict(&self) -> Option<Addr> {
        let conflict = self.context().conflict;
        (!conflict.is_null()).then_some(conflict)
    }

    /// Returns the machine that the transaction runs on.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.context().machine
    }

    /// Returns whether the transaction has written the object, and not rolled that back.
    pub fn has_written(&self, addr: Addr) -> bool {
        self.context().writes.find(addr).is_some()
    }

    /// Returns whether the transaction has written anything.
    #[inline]
    pub fn has_writes(&self) -> bool {
        !self.context().writes.is_empty()
    }

    /// Sets whether the commit is reported only once it is durable (the default). A commit that is
    /// reported earlier is still atomic, and later durable commits imply it.
    pub fn set_synchronous(&mut self, synchronous: bool) {
        self.context_mut().synchronous = synchronous;
    }

    /// Begins an independent transaction on the same machine, for structural changes that stay even
    /// if this one aborts.
    pub fn system(&self) -> Transaction {
        self.machine().system_transaction()
    }

    /// Returns whether reads of a read-write transaction join its read set.
    pub fn guards_reads(&self) -> bool {
        !self.context().is_unchecked_read()
    }

    /// Adds the version that was seen to the read set.
    #[inline]
    pub fn guard(&mut self, seen: ReadEntry) {
        let context = self.context_mut();
        if context.mode == Mode::ReadWrite && !seen.addr.is_null() && !context.is_unchecked_read() {
            let plain = context.is_plain_read();
            context.reads.push(seen, plain);
        }
    }

    /// Adds a node to the read set. If the node has moved by validation, `kind` compares it with
    /// `note`.
    pub fn guard_keys(
        &mut self,
        seen: ReadEntry,
        kind: &'static dyn crate::node::NodeKind,
        note: &[u64],
    ) {
        let context = self.context_mut();
        if fault::injected(Fault::SkipKeyNotes) && context.isolation == Isolation::Serializable {
            return;
        }
        if context.mode == Mode::ReadWrite && !seen.addr.is_null() && !context.is_unchecked_read() {
            let plain = context.is_plain_read();
            context.reads.push_keys(seen, plain, (kind, note));
        }
    }

    /// Returns the current end of the read set.
    pub fn reads_mark(&self) -> ReadsMark {
        ReadsMark(self.context().reads.len())
    }

    /// Removes the reads since `mark` from the read set: the transaction does not depend on them.
    /// That holds for objects that are read again at once, and for reads that only produce hints.
    pub fn forget_reads(&mut self, mark: ReadsMark) {
        self.context_mut().reads.truncate(mark.0);
    }

    /// Counts `bytes` that a statement collects against the memory limit, until
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

    /// Releases bytes that [`Self::hold_memory`] has counted.
    pub fn release_memory(&mut self, bytes: usize) {
        let context = self.context_mut();
        let bytes = bytes.min(context.held);
        context.machine.account().release(bytes as u64);
        context.held -= bytes;
    }

    /// Returns whether the read set has an object with an address in `from..to`.
    pub fn guards_between(&self, from: Addr, to: Addr) -> bool {
        let reads = &self.context().reads;
        let between = |read: &StoredRead| (from..to).contains(&read.addr);
        reads.position(between).is_some()
    }

    /// Returns the operations that it has posted to other machines so far, before its commit.
    pub fn far_counts(&self) -> FarCounts {
        self.context().far
    }

    /// Aborts the transaction. Before the caller reports the abort, it must await
    /// [`Coordinator::wait_until_durable`]; see also [`Self::rollback`].
    pub fn abort(mut self) {
        self.give_up(AbortReason::Requested);
    }

    /// Aborts as [`Self::abort`] does, but passes the intents to the coordinator's next
    /// transaction, which is to begin at once. So a transaction that runs again does not go back to
    /// the end of the queue.
    pub fn abort_to_run_again(mut self) {
        self.context_mut().keeps_intents = true;
        self.give_up(AbortReason::Requested);
    }

    pub(crate) fn give_up(&mut self, reason: AbortReason) {
        if let Some(context) = self.context.as_mut() {
            if let Some(reason) = context.counted_reason(reason) {
                context.machine.counters().count_abort(context.lane, reason);
            }
            // Locks are held only where a node kind has panicked under them, or the commit was
            // dropped.
            if !context.unlock() {
                return self.leave_undecided();
            }
            context.log_abort();
            context.give_new_back();
        }
        self.finish();
    }

    /// Ends the transaction with its locks held and its commit in doubt: its outcome is not known,
    /// and this machine ends.
    pub(crate) fn leave_in_doubt(mut self) {
        self.context_mut().keep_locks();
        self.finish();
    }

    /// Hands a transaction whose future was dropped to the network, which finishes its commit
    /// later.
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
