//! The trait that moves bytes between machines: one-sided operations on registered memory, bells,
//! and who is a member.
//!
//! # Picture
//! ```text
//! machine a                                   machine b
//! read / write / cas (Place { b, segment, word }) ───► segment of b, without b's threads where the
//! ring_bell(b) ──────────────────────────────────────► medium allows it; wakes b's parked poller
//! ring_lease_bell(b) ────────────────────────────────► wakes what looks after b's leases
//! ```
//! Rings ([`crate::ring`]) are built on these alone.
//!
//! # What every kind promises
//! * FAB-1: each 64-bit word is read, written and swapped whole.
//! * FAB-2: the first word of a write becomes visible last. Who sees it sees all the others.
//! * FAB-3: operations that one thread posts to one machine take effect in the order in which they
//!   were posted; leases ([`SegmentId::LEASE_LANE`]) keep an order of their own.
//! * FAB-4: an operation that answered Ok has taken effect; one that answered [`FabricError::Lost`]
//!   may have, or may yet, until the machine that posted it is no member any more.
//! * FAB-5: nothing is delivered to a machine from one that is no member of its configuration, except
//!   that it may still write the rings that it had; whoever removes a member forgets its rings.
//! * FAB-6: nobody writes a segment but its machine and the one peer that it named.
//! * FAB-7: what a read answers was there at one moment, if whoever changes those words changes the first
//!   of them before and after the others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::segment::{Place, SegmentId, Writer};

/// Why an operation did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The peer is no member: post nothing more to it.
    #[error("{0} is not a member of the configuration")]
    NotMember(MachineId),
    /// The peer cannot be reached; whether the operation took effect is not known.
    #[error("the connection was lost")]
    Lost,
    /// The place does not exist or may not be used so: a fault of whoever posted it.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// The words change faster than they can be read whole (FAB-7): read them again.
    #[error("the words change while they are read")]
    Unsteady,
    /// The operating system said no.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for FabricError {
    fn from(error: std::io::Error) -> Self {
        FabricError::Io(error.to_string())
    }
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Operations to the machine work, maybe again.
    Connected(MachineId),
    /// They do not, for now.
    Lost(MachineId),
}

/// Works on what has arrived at a machine: see [`Fabric::set_attendant`].
pub trait Attendant: Send + Sync {
    /// Looks at what has arrived, and waits for nothing. Whether it is to be called again although nothing
    /// more arrives.
    fn attend(&self) -> bool;
}

/// One machine's access to the others.
pub trait Fabric: Send + Sync {
    /// The machine whose fabric this is.
    fn me(&self) -> MachineId;

    /// Where peers make this machine's poller look.
    fn bell(&self) -> &Bell;

    /// Where they make what looks after its leases look.
    fn lease_bell(&self) -> &Bell;

    /// What went over the fabric from here.
    fn counters(&self) -> &FabricCounters;

    /// Whatever peers have provided as a segment so far is not used any more: what they provide from now on may be another
    /// memory by the same name.
    fn forget(&self, _segment: SegmentId) {}

    /// Whether what this machine provides outlives it, and its process.
    fn keeps(&self) -> bool {
        false
    }

    /// Bytes that are left where the memory is that this machine provides, and where others may take them, too; nothing
    /// where it is the process's own, as far as the system gives it.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Makes zeroed memory of `words` words that members may read, and `writer` may write; the first time after a
    /// restart that of a region which was kept for it.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the segment is there already, [`FabricError::Io`] where there is no
    /// memory.
    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError>;

    /// Takes a segment of this machine out of everybody's reach; its memory stays with who has it.
    fn withdraw(&self, segment: SegmentId);

    /// From now on these machines are the members, this one among them. Connects to new ones, and
    /// ends all traffic with those that are gone (FAB-5).
    ///
    /// # Errors
    /// [`FabricError::Refused`] if this machine is not among them.
    fn set_members(&self, members: &[Member]) -> Result<(), FabricError>;

    /// Clears away what machines have left that have ended and are none of `members`, where memory outlives them.
    ///
    /// # Errors
    /// Those of the medium.
    fn clear_away(&self, members: &[Member]) -> Result<(), FabricError> {
        let _ = members;
        Ok(())
    }

    /// Whether [`Self::map`] gives what peers have; otherwise it is to be read.
    fn maps_peers(&self) -> bool;

    /// A peer's segment as memory, where the medium gives that; written only as FAB-6 says.
    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>>;

    /// Counts the connections over which this machine posted to a peer and that were lost: an operation that answered Ok
    /// while the count is still what it was before another one was posted came after that (FAB-3). One that never counts
    /// where nothing is lost but with the peer.
    fn losses(&self, _peer: MachineId) -> Arc<AtomicU64> {
        Arc::default()
    }

    /// Reads `words` words from `at` on.
    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>>;

    /// Writes `words`, the first of them last (FAB-2).
    fn write(&self, at: Place, words: &[u64]) -> Completion<()>;

    /// As [`Self::write`], and the bell of its lane after it: [`Self::ring_lease_bell`] for that of leases,
    /// [`Self::ring_bell`] for others. They leave together where the medium has packets.
    fn write_and_ring(&self, at: Place, words: &[u64]) -> Completion<()> {
        let done = self.write(at, words);
        match at.segment.lane() {
            SegmentId::LEASE_LANE => self.ring_lease_bell(at.machine),
            _ => self.ring_bell(at.machine),
        }
        done
    }

    /// Replaces a word that is `expected`; answers what was there.
    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64>;

    /// Makes the poller of a machine look, after what was posted to it before, leases apart; also that of this
    /// one.
    fn ring_bell(&self, machine: MachineId);

    /// Makes what looks after the leases of a machine look, after what was posted on their lane before; also that
    /// of this one.
    fn ring_lease_bell(&self, machine: MachineId);

    /// Where the fabric has a thread that everything arrives through, it calls `attendant` there instead of
    /// ringing the bell: nobody has to be woken. It still rings while somebody waits for that thread. `false`
    /// where there is no such thread, or an attendant already.
    fn set_attendant(&self, attendant: Box<dyn Attendant>) -> bool {
        drop(attendant);
        false
    }

    /// What has happened to connections since the last call.
    fn take_events(&self) -> Vec<Event>;
}
