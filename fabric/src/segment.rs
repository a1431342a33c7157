//! Names of registered memory: what a machine lets others read, and one of them write.
//!
//! ```text
//! SegmentId  | kind (16) | lane (16) | number (32) |
//! Place      machine + segment + word
//! ```

use crate::machine::MachineId;

/// A piece of registered memory on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(u64);

impl SegmentId {
    /// Kind of the control segment, which every machine has: its bells.
    pub const CONTROL: u16 = 0;
    /// Kind of a replica's memory; the number is its region's.
    pub const REGION: u16 = 1;
    /// Kind of a ring that one peer writes; the number is the peer's.
    pub const RING: u16 = 2;
    /// Kind of the word in which a peer says how far it has read our ring there; the number is the
    /// peer's.
    pub const HEAD: u16 = 3;
    /// Kind of the words in which a machine says things about itself to whoever reads them.
    pub const BOARD: u16 = 4;
    /// Kind of a block of old versions; the number is the block's.
    pub const OLD_VERSIONS: u16 = 5;
    /// Kind of the generations of such blocks; the number is that of a page of them.
    pub const GENERATIONS: u16 = 6;
    /// Kind of what one peer has to say about leases; the number is the peer's.
    pub const MAILBOX: u16 = 7;
    /// Kind of the word in which a machine writes down how far it has released the ring of a peer; the number is
    /// the peer's.
    pub const RELEASED: u16 = 8;
    /// Kind of what a machine writes down of the regions that it holds.
    pub const HOLDINGS: u16 = 9;
    /// Kind of a record that was copied out of a ring; the number counts them.
    pub const RECORD: u16 = 10;
    /// Kind of what a machine shows of the data that it begins with.
    pub const STATE: u16 = 11;

    /// The lane of leases. Where there are connections it has its own, so that what goes on it
    /// waits behind nothing else; it keeps no order with other lanes, and has a bell of its own.
    pub const LEASE_LANE: u16 = 15;

    /// The segment `number` of a kind and lane.
    pub const fn new(kind: u16, lane: u16, number: u32) -> Self {
        SegmentId(((kind as u64) << 48) | ((lane as u64) << 32) | number as u64)
    }

    /// The kind.
    pub const fn kind(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// The lane.
    pub const fn lane(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// From what [`Self::raw`] gave.
    pub const fn from_raw(raw: u64) -> Self {
        SegmentId(raw)
    }

    /// The 64 bits that go over a wire or into a name.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// A word of a machine's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose memory.
    pub machine: MachineId,
    /// Which piece.
    pub segment: SegmentId,
    /// Which word of it.
    pub word: usize,
}

/// Who may write a segment, besides the machine that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Nobody.
    Owner,
    /// One peer.
    Peer(MachineId),
}
