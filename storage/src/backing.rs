//! The source of memory that peers may read too, and the lookup of peers' memory.

use std::io;

use fencepost_fabric::Memory;

/// The use of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// A region, by its id: a primary or a backup, which may become a primary.
    Region(u32),
    /// A block of old versions, by its number.
    OldVersions(u32),
    /// Generations of old-version blocks, by the number of their page.
    Generations(u32),
}

/// Memory of a peer.
#[derive(Clone, Debug)]
pub struct PeerMemory {
    /// The mapped memory.
    pub memory: Memory,
    /// The peer's number.
    pub machine: u32,
}

/// A source of memory.
pub trait Backing: Send + Sync {
    /// Creates zeroed memory of `words` words.
    ///
    /// # Errors
    /// The error of the kernel or the fabric.
    fn make(&self, piece: Piece, words: usize) -> io::Result<Memory>;

    /// Returns memory that a peer has created, if it exists.
    fn find(&self, piece: Piece) -> Option<PeerMemory>;

    /// Removes created memory from the reach of peers.
    fn withdraw(&self, piece: Piece);

    /// Returns the id of the next region of this machine, which has `made` regions so far. Returns
    /// `None` where regions are given to it ([`crate::region::Regions::keep`]).
    fn next_region(&self, made: u32) -> Option<u32>;
}

/// The backing of a machine that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrivateBacking;

impl Backing for PrivateBacking {
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
