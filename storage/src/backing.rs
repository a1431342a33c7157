//! Where memory comes from that peers may read too, and how the memory of peers is found.

use std::io;

use fencepost_fabric::Memory;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// A region, by its id: of its primary, or a backup, which may become one.
    Region(u32),
    /// A block of old versions, by its number.
    OldVersions(u32),
    /// Generations of old-version blocks, by the number of their page.
    Generations(u32),
}

/// Memory of a peer.
#[derive(Clone, Debug)]
pub struct PeerMemory {
    /// It.
    pub memory: Memory,
    /// The peer's number.
    pub machine: u32,
}

/// A source of memory.
pub trait Backing: Send + Sync {
    /// Makes zeroed memory of `words` words.
    ///
    /// # Errors
    /// What the kernel or the fabric answered.
    fn make(&self, piece: Piece, words: usize) -> io::Result<Memory>;

    /// What somebody else has made, if it is there.
    fn find(&self, piece: Piece) -> Option<PeerMemory>;

    /// Takes what was made out of the reach of others.
    fn withdraw(&self, piece: Piece);

    /// Id of the next region of this machine, which has `made` so many; `None` where regions are given to it
    /// ([`crate::region::Regions::keep`]).
    fn next_region(&self, made: u32) -> Option<u32>;
}

/// Memory of a machine that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Private;

impl Backing for Private {
    fn make(&self, _piece: Piece, words: usize) -> io::Result<Memory> {
        Memory::anonymous(words)
    }

    fn find(&self, _piece: Piece) -> Option<PeerMemory> {
        None
    }

    fn withdraw(&self, _piece: Piece) {}

    fn next_region(&self, made: u32) -> Option<u32> {
        Some(made)
    }
}
