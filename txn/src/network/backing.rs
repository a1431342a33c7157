//! Memory of a machine in a cluster: registered with the fabric, where peers find it.

use std::io;
use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Memory, SegmentId, Writer};
use fencepost_storage::{Backing, PeerMemory, Piece, RegionId};

use super::LocalRegionMap;

/// Returns the segment of a piece of memory.
pub(super) fn segment(piece: Piece) -> SegmentId {
    let (kind, number) = match piece {
        Piece::Region(id) => (SegmentId::REGION, id),
        Piece::OldVersions(number) => (SegmentId::OLD_VERSIONS, number),
        Piece::Generations(page) => (SegmentId::GENERATIONS, page),
    };
    SegmentId::new(kind, 0, number)
}

fn map(fabric: &dyn Fabric, peer: MachineId, piece: Piece) -> Option<PeerMemory> {
    let there = fabric.map(peer, segment(piece))?;
    Some(PeerMemory {
        memory: Memory::clone(&there),
        machine: peer.0,
    })
}

/// The source of this machine's memory; remote regions are found at their primaries, once those are
/// known.
pub(super) struct RegisteredBacking {
    pub fabric: Arc<dyn Fabric>,
    pub region_map: Arc<LocalRegionMap>,
}

impl Backing for RegisteredBacking {
    fn make(&self, piece: Piece, words: usize) -> io::Result<Memory> {
        let made = self.fabric.provide(segment(piece), words, Writer::Owner);
        made.map(|memory| Memory::clone(&memory))
            .map_err(io::Error::other)
    }

    fn find(&self, piece: Piece) -> Option<PeerMemory> {
        let Piece::Region(id) = piece else {
            return None;
        };
        let primary = self.region_map.primary(RegionId(id))?;
        match primary == self.fabric.me() {
            true => None,
            false => map(&*self.fabric, primary, piece),
        }
    }

    fn withdraw(&self, piece: Piece) {
        self.fabric.withdraw(segment(piece));
    }

    fn next_region(&self, _made: u32) -> Option<u32> {
        None
    }
}

/// The memory of one peer.
pub(super) struct PeerBacking {
    pub fabric: Arc<dyn Fabric>,
    pub peer: MachineId,
}

impl Backing for PeerBacking {
    fn make(&self, _piece: Piece, _words: usize) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn find(&self, piece: Piece) -> Option<PeerMemory> {
        map(&*self.fabric, self.peer, piece)
    }

    fn withdraw(&self, _piece: Piece) {}

    fn next_region(&self, _made: u32) -> Option<u32> {
        None
    }
}
