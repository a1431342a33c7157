//! The memory of ended machines, in a medium that outlives them.

use std::sync::Arc;

use foldhash::HashMap;

use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::SegmentId;

/// The memory of one ended machine, which no process uses.
#[derive(Clone, Debug, Default)]
pub struct RetainedMemory {
    segments: HashMap<SegmentId, Arc<Memory>>,
}

impl RetainedMemory {
    /// Returns a machine's memory with these segments.
    pub fn new(segments: impl IntoIterator<Item = (SegmentId, Arc<Memory>)>) -> RetainedMemory {
        RetainedMemory {
            segments: segments.into_iter().collect(),
        }
    }

    /// Returns a segment, if the machine has it.
    pub fn get(&self, segment: SegmentId) -> Option<&Arc<Memory>> {
        self.segments.get(&segment)
    }

    /// Returns all segments of a kind, in their order.
    pub fn of_kind(&self, kind: u16) -> Vec<(SegmentId, &Arc<Memory>)> {
        let all = self.segments.iter();
        let all = all.filter(|(segment, _)| segment.kind() == kind);
        let mut all: Vec<_> = all.map(|(segment, memory)| (*segment, memory)).collect();
        all.sort_unstable_by_key(|(segment, _)| *segment);
        all
    }
}

/// A store of memory that outlives machines, once all of them have ended.
pub trait MemoryStore {
    /// Returns the memory that an ended machine has left: without segments if it has left none, or
    /// if the memory is not as it was when the machine ended.
    ///
    /// # Errors
    /// The error of the system.
    fn retained(&self, machine: MachineId) -> std::io::Result<RetainedMemory>;

    /// Makes memory of `words` words for a region of a machine that lacks it.
    ///
    /// # Errors
    /// The error of the system.
    fn make_region(
        &self,
        machine: MachineId,
        region: u32,
        words: usize,
    ) -> std::io::Result<Arc<Memory>>;
}
