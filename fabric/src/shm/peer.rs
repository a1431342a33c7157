//! A peer on the same host: its present process, and the mapped parts of its memory.
//!
//! A process that ends in good order reports that in its control segment. A later process of the
//! same machine is another incarnation, whose memory is mapped anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foldhash::HashMap;
use parking_lot::RwLock;

use super::files::open_file;
use super::{BELL, CONTROL, CONTROL_WORDS, GENERATION, LEASE_BELL, MEMBERS};
use crate::bell::Bell;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::SegmentId;
use crate::sync::{AtomicU64, Ordering};

/// A peer, and the mappings of its present incarnation.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) home: PathBuf,
    pub(super) incarnation: RwLock<Option<Arc<PeerIncarnation>>>,
    /// Whether the peer was connected when events were last taken.
    pub(super) connected: AtomicBool,
}

/// The mappings of one incarnation of a process.
#[derive(Debug)]
pub(super) struct PeerIncarnation {
    control: Arc<Memory>,
    pub(super) bell: Bell,
    pub(super) lease_bell: Bell,
    pub(super) mapped: RwLock<HashMap<SegmentId, MappedSegment>>,
    /// The generation of the peer's members in which this machine was found among them.
    counted: AtomicU64,
}

impl PeerIncarnation {
    fn generation(&self) -> u64 {
        self.control.words()[GENERATION].load(Ordering::Acquire)
    }

    pub(super) fn lasts(&self) -> bool {
        self.generation() != 0
    }

    /// Returns whether the peer has `machine` as a member.
    pub(super) fn counts(&self, machine: MachineId) -> bool {
        let generation = self.generation();
        if generation == self.counted.load(Ordering::Relaxed) {
            return true;
        }
        let members = &self.control.words()[MEMBERS..];
        let number = u64::from(machine.0) + 1;
        let found = members
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .take_while(|member| *member != 0)
            .any(|member| member == number);
        if found {
            self.counted.store(generation, Ordering::Relaxed);
        }
        found
    }
}

impl Peer {
    /// Returns a peer with its files in `home`, without mappings.
    pub(super) fn at(home: PathBuf) -> Peer {
        Peer {
            home,
            incarnation: RwLock::default(),
            connected: AtomicBool::new(false),
        }
    }

    /// Returns the present incarnation of the peer.
    pub(super) fn mapped_incarnation(&self) -> Result<Arc<PeerIncarnation>, FabricError> {
        if let Some(incarnation) = self
            .incarnation
            .read()
            .as_ref()
            .filter(|incarnation| incarnation.lasts())
        {
            return Ok(Arc::clone(incarnation));
        }
        let mut known = self.incarnation.write();
        *known = None;
        let control = Memory::of_file(&open_file(&self.home.join(CONTROL), true)?, true)?;
        if control.len() < CONTROL_WORDS {
            return Err(FabricError::Lost);
        }
        let control = Arc::new(control);
        let incarnation = Arc::new(PeerIncarnation {
            bell: Bell::new(Arc::clone(&control), BELL),
            lease_bell: Bell::new(Arc::clone(&control), LEASE_BELL),
            control,
            mapped: RwLock::default(),
            counted: AtomicU64::new(0),
        });
        if !incarnation.lasts() {
            return Err(FabricError::Lost);
        }
        Ok(Arc::clone(known.insert(incarnation)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct MappedSegment {
    pub(super) memory: Arc<Memory>,
    pub(super) writable: bool,
}
