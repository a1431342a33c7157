//! The names of registered memory, which a machine lets others read, and one of them write.
//!
//! ```text
//! SegmentId  | kind (16) | lane (16) | number (32) |
//! Place      machine + segment + word
//! ```

use crate::machine::MachineId;

/// The name of a segment of registered memory on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(u64);

impl SegmentId {
    /// The kind of the control segment of every machine, which has its bells.
    pub const CONTROL: u16 = 0;
    /// The kind of a replica's memory; the number is that of its region.
    pub const REGION: u16 = 1;
    /// The kind of a ring that one peer writes; the number is that of the peer.
    pub const RING: u16 = 2;
    /// The kind of the word in which a peer reports how far it has read this machine's ring on it.
    /// The number is that of the peer.
    pub const HEAD: u16 = 3;
    /// The kind of a machine's status page, which other machines read.
    pub const BOARD: u16 = 4;
    /// The kind of a block of old versions; the number is that of the block.
    pub const OLD_VERSIONS: u16 = 5;
    /// The kind of the generations of such blocks; the number is that of a page of them.
    pub const GENERATIONS: u16 = 6;
    /// The kind of one peer's lease messages; the number is that of the peer.
    pub const MAILBOX: u16 = 7;
    /// The kind of the word in which a machine records how far it has released the ring of a peer.
    /// The number is that of the peer.
    pub const RELEASED: u16 = 8;
    /// The kind of a machine's saved description of its regions.
    pub const HOLDINGS: u16 = 9;
    /// The kind of a record that was copied out of a ring; the number is a counter.
    pub const RECORD: u16 = 10;
    /// The kind of the data that a machine publishes about its state at the start.
    pub const STATE: u16 = 11;

    /// The lane of leases. Fabrics with connections give it its own connection, so that its
    /// messages wait for no others. It keeps no order with other lanes, and has its own bell.
    pub const LEASE_LANE: u16 = 15;

    /// Returns the segment `number` of a kind and lane. The lane chooses the connection and the
    /// bell: [`Self::LEASE_LANE`] for leases, any other for the rest.
    pub const fn new(kind: u16, lane: u16, number: u32) -> Self {
        SegmentId(((kind as u64) << 48) | ((lane as u64) << 32) | number as u64)
    }

    /// Returns the kind.
    pub const fn kind(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns the number.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// Returns the lane.
    pub const fn lane(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Converts the result of [`Self::raw`] back.
    pub const fn from_raw(raw: u64) -> Self {
        SegmentId(raw)
    }

    /// Returns the 64 bits that are used in messages and file names.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// A word of a machine's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The machine that has the memory.
    pub machine: MachineId,
    /// The segment on that machine.
    pub segment: SegmentId,
    /// The index of the word in the segment.
    pub word: usize,
}

/// The permitted writer of a segment, besides its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Only the owner.
    Owner,
    /// The owner and one peer.
    Peer(MachineId),
}
