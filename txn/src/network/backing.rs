//! Memory of a machine among others: registered with the fabric, where peers find it.

use std::io;
use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Memory, SegmentId, Writer};
use fencepost_storage::{Backing, Piece, RegionId};

use super::Whereabouts;

/// The segment of a piece of memory.
pub(super) fn segment(piece: Piece) -> SegmentId {
    let (kind, number) = match piece {
        Piece::Region(id) => (SegmentId::REGION, id),
        Piece::Backup(id) => (SegmentId::BACKUP, id),
        Piece::OldVersions(number) => (SegmentId::OLD_VERSIONS, number),
        Piece::Generations(page) => (SegmentId::GENERATIONS, page),
    };
    SegmentId::new(kind, 0, number)
}

/// This machine's memory; regions of others are found at their primaries, once those are known.
pub(super) struct Registered {
    pub fabric: Arc<dyn Fabric>,
    pub whereabouts: Arc<Whereabouts>,
}

impl Backing for Registered {
    fn make(&self, piece: Piece, words: usize) -> io::Result<Memory> {
        let made = self.fabric.provide(segment(piece), words, Writer::Owner);
        made.map(|memory| Memory::clone(&memory))
            .map_err(io::Error::other)
    }

    fn find(&self, piece: Piece) -> Option<Memory> {
        let Piece::Region(id) = piece else {
            return None;
        };
        let primary = self.whereabouts.primary(RegionId(id))?;
        let there = (primary != self.fabric.me()).then(|| self.fabric.map(primary, segment(piece)));
        there.flatten().map(|memory| Memory::clone(&memory))
    }

    fn withdraw(&self, piece: Piece) {
        self.fabric.withdraw(segment(piece));
    }

    fn next_region(&self, _made: u32) -> Option<u32> {
        None
    }
}

/// What a peer has made.
pub(super) struct OfPeer {
    pub fabric: Arc<dyn Fabric>,
    pub peer: MachineId,
}

impl Backing for OfPeer {
    fn make(&self, _piece: Piece, _words: usize) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn find(&self, piece: Piece) -> Option<Memory> {
        let there = self.fabric.map(self.peer, segment(piece));
        there.map(|memory| Memory::clone(&memory))
    }

    fn withdraw(&self, _piece: Piece) {}

    fn next_region(&self, _made: u32) -> Option<u32> {
        None
    }
}
