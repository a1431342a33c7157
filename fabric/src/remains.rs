//! What machines that have ended have left in memory that outlives them.

use std::sync::Arc;

use foldhash::HashMap;

use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::SegmentId;

/// The memory of one machine that has ended. Nobody else uses it.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    segments: HashMap<SegmentId, Arc<Memory>>,
}

impl Remains {
    /// A machine with these segments.
    pub fn new(segments: impl IntoIterator<Item = (SegmentId, Arc<Memory>)>) -> Remains {
        Remains {
            segments: segments.into_iter().collect(),
        }
    }

    /// A segment, if it is there.
    pub fn get(&self, segment: SegmentId) -> Option<&Arc<Memory>> {
        self.segments.get(&segment)
    }

    /// All segments of a kind, in their order.
    pub fn of_kind(&self, kind: u16) -> Vec<(SegmentId, &Arc<Memory>)> {
        let all = self.segments.iter();
        let all = all.filter(|(segment, _)| segment.kind() == kind);
        let mut all: Vec<_> = all.map(|(segment, memory)| (*segment, memory)).collect();
        all.sort_unstable_by_key(|(segment, _)| *segment);
        all
    }
}

/// Where memory is that outlives machines, once all of them have ended.
pub trait Afterlife {
    /// What a machine has left.
    ///
    /// # Errors
    /// What the system answered.
    fn remains(&self, machine: MachineId) -> std::io::Result<Remains>;

    /// Makes memory of `words` words for a region of a machine that has none.
    ///
    /// # Errors
    /// What the system answered.
    fn make_region(
        &self,
        machine: MachineId,
        region: u32,
        words: usize,
    ) -> std::io::Result<Arc<Memory>>;
}
