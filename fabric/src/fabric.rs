//! The trait that moves bytes between machines: one-sided operations on registered memory, bells,
//! and membership.
//!
//! # Picture
//! ```text
//! machine a                                   machine b
//! read / write / cas (Place { b, segment, word }) ───► segment of b, without b's threads where the
//! ring_bell(b) ──────────────────────────────────────► medium allows it; wakes b's parked poller
//! ring_lease_bell(b) ────────────────────────────────► wakes b's lease thread
//! ```
//! Rings ([`crate::ring`]) use these operations only.
//!
//! # Invariants of every kind of fabric
//! * FAB-1: each 64-bit word is read, written and swapped as a whole.
//! * FAB-2: the first word of a write becomes visible last. A reader that sees it sees all the
//!   other words.
//! * FAB-3: operations that one thread posts to one machine take effect in the order in which they
//!   were posted. Operations for leases ([`SegmentId::LEASE_LANE`]) have their own order.
//! * FAB-4: an operation that answered Ok has taken effect. An operation that answered
//!   [`FabricError::Lost`] may have taken effect, or may still do so until its machine is evicted.
//! * FAB-5: a machine receives nothing from a machine outside its configuration, except that an
//!   evicted machine may still write the rings that it had. A machine that removes a member drops
//!   the rings from that member.
//! * FAB-6: only the owner of a segment and the one peer that it names write the segment.
//! * FAB-7: the words that a read returns existed together at one time. The condition is that every
//!   writer of these words changes the first of them before and after the others.
//!
//! # Concurrency
//! Any thread may call any function, and none waits for another machine: an operation is posted,
//! and its [`Completion`] is polled or awaited. Arrived data is found by polling memory; a bell
//! only ends the sleep of a thread that does so.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::segment::{Place, SegmentId, Writer};

/// The reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The peer is not a member: post no more operations to it.
    #[error("{0} is not a member of the configuration")]
    NotMember(MachineId),
    /// The peer cannot be reached; whether the operation took effect is not known.
    #[error("the connection was lost")]
    Lost,
    /// The place does not exist or does not permit the operation: a fault of the caller.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// The words change faster than they can be read consistently (FAB-7): read them again.
    #[error("the words change while they are read")]
    Unsteady,
    /// The operating system returned an error.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for FabricError {
    fn from(error: std::io::Error) -> Self {
        FabricError::Io(error.to_string())
    }
}

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Operations to the machine work, for the first time or again.
    Connected(MachineId),
    /// Operations to the machine fail for now.
    Lost(MachineId),
}

/// A handler of arrived data: see [`Fabric::set_attendant`].
pub trait ArrivalHandler: Send + Sync {
    /// Handles arrived data without blocking. Returns whether it must be called again although
    /// nothing more arrives.
    fn attend(&self) -> bool;
}

/// The access of one machine to the others: the one-sided operations of NSDI'14 §3.1 on registered
/// memory, and the check that both ends are members (SOSP'15 §5.2, precise membership).
pub trait Fabric: Send + Sync {
    /// Returns the machine whose fabric this is.
    fn me(&self) -> MachineId;

    /// Returns the bell with which peers wake this machine's poller.
    fn bell(&self) -> &Bell;

    /// Returns the bell with which peers wake this machine's lease thread.
    fn lease_bell(&self) -> &Bell;

    /// Returns the counters of operations posted by this machine.
    fn counters(&self) -> &FabricCounters;

    /// Discards mappings of a segment of all peers: from now on the same name may stand for other
    /// memory.
    fn forget(&self, _segment: SegmentId) {}

    /// Returns whether the memory that this machine provides outlives its process.
    fn keeps(&self) -> bool {
        false
    }

    /// Returns the free bytes for memory that this machine provides, which other processes may
    /// take, too. `None` if the memory belongs to the process and only the system limits it.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Makes zeroed memory of `words` words that members may read and `writer` may write. The first
    /// call after a restart returns a region's retained memory.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the segment exists, or if the retained memory has another size;
    /// [`FabricError::Io`] if there is no memory.
    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError>;

    /// Makes a segment of this machine unreachable; holders of its memory keep it.
    fn withdraw(&self, segment: SegmentId);

    /// Sets the members, which include this machine. Connects to new members, and ends all traffic
    /// with removed ones (FAB-5).
    ///
    /// # Errors
    /// [`FabricError::Refused`] if this machine is not among them, or if the medium permits fewer
    /// members; nothing has changed then. [`FabricError::Io`] if the system refuses a thread for a
    /// connection; some of the members are not connected then.
    fn set_members(&self, members: &[Member]) -> Result<(), FabricError>;

    /// Removes the memory of ended machines that are not in `members`, if memory outlives them.
    ///
    /// # Errors
    /// The errors of the medium.
    fn clear_away(&self, members: &[Member]) -> Result<(), FabricError> {
        let _ = members;
        Ok(())
    }

    /// Returns whether [`Self::map`] gives peers' segments; otherwise use [`Self::read`].
    fn maps_peers(&self) -> bool;

    /// Returns a peer's segment as memory, if the medium can map it. Only the writers of FAB-6 may
    /// write it.
    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>>;

    /// Returns a counter of lost connections from this machine to a peer. Suppose that it has not
    /// changed since an operation was posted. Then a later operation that answered Ok came after
    /// the first one (FAB-3). The counter stays 0 if only the loss of the peer loses operations.
    fn losses(&self, _peer: MachineId) -> Arc<AtomicU64> {
        Arc::default()
    }

    /// Reads `words` words from `at` on (FAB-7).
    ///
    /// The answer is [`FabricError::NotMember`] or [`FabricError::Lost`] if the peer does not
    /// answer this machine; [`FabricError::Refused`] for a place that does not exist, or for more
    /// words than the medium moves at once; [`FabricError::Unsteady`] if the words change all the
    /// time; [`FabricError::Io`] if the peer's memory cannot be opened.
    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>>;

    /// Writes `words` from `at` on, the first of them last (FAB-2). An answer Ok is what the papers
    /// call a hardware acknowledgement: the words are in the peer's memory, and no thread of the
    /// peer needs to have seen them.
    ///
    /// The errors are those of [`Self::read`] without [`FabricError::Unsteady`];
    /// [`FabricError::Refused`] also if this machine may not write the segment (FAB-6).
    fn write(&self, at: Place, words: &[u64]) -> Completion<()>;

    /// Writes as [`Self::write`], then rings the bell of the segment's lane:
    /// [`Self::ring_lease_bell`] for leases, [`Self::ring_bell`] for others. A medium with packets
    /// sends both in one.
    fn write_and_ring(&self, at: Place, words: &[u64]) -> Completion<()> {
        let done = self.write(at, words);
        match at.segment.lane() {
            SegmentId::LEASE_LANE => self.ring_lease_bell(at.machine),
            _ => self.ring_bell(at.machine),
        }
        done
    }

    /// Replaces a word if it is `expected`; answers the word's previous value, which tells whether
    /// it was replaced. After [`FabricError::Lost`] the caller must read the word to know (FAB-4).
    /// The errors are those of [`Self::write`].
    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64>;

    /// Wakes the poller of a machine after the operations posted to it before, except those of
    /// leases. The machine may be this one.
    fn ring_bell(&self, machine: MachineId);

    /// Wakes the lease thread of a machine after the operations posted before on the lane of
    /// leases. The machine may be this one.
    fn ring_lease_bell(&self, machine: MachineId);

    /// Lets the fabric call `attendant` on the thread through which all data arrives, instead of
    /// ringing the bell, so that no thread must be woken. The bell still rings while another thread
    /// waits for the poller. Returns `false` if there is no such thread, or if an attendant is set
    /// already.
    fn set_attendant(&self, attendant: Box<dyn ArrivalHandler>) -> bool {
        drop(attendant);
        false
    }

    /// Returns the changes of connections since the last call, by any thread. One thread should
    /// take them: each event is returned once.
    fn take_events(&self) -> Vec<Event>;
}
