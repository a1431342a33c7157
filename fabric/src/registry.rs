//! The segments that a machine has registered, and who may write them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::{SegmentId, Writer};

/// There is no such segment.
pub(crate) const NO_SEGMENT: &str = "no such segment";
/// It is not this machine that may write it.
pub(crate) const NOT_THE_WRITER: &str = "not the writer of the segment";

/// A machine's segments.
#[derive(Debug)]
pub(crate) struct Registry {
    owner: MachineId,
    segments: RwLock<HashMap<SegmentId, Provided>>,
}

#[derive(Debug)]
struct Provided {
    memory: Arc<Memory>,
    writer: Writer,
}

impl Registry {
    /// A machine without segments.
    pub(crate) fn new(owner: MachineId) -> Self {
        Registry {
            owner,
            segments: RwLock::default(),
        }
    }

    /// Makes zeroed memory and registers it.
    ///
    /// # Errors
    /// As [`crate::Fabric::provide`].
    pub(crate) fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        let mut segments = self.segments.write();
        if segments.contains_key(&segment) {
            return Err(FabricError::Refused("the segment is there already"));
        }
        let memory = Arc::new(Memory::anonymous(words)?);
        let provided = Provided {
            memory: Arc::clone(&memory),
            writer,
        };
        segments.insert(segment, provided);
        Ok(memory)
    }

    /// Forgets a segment.
    pub(crate) fn withdraw(&self, segment: SegmentId) {
        self.segments.write().remove(&segment);
    }

    /// The memory of a segment, for `user` to read or `to_write` (FAB-6).
    ///
    /// # Errors
    /// [`FabricError::Refused`] where there is none, or none to write.
    pub(crate) fn memory(
        &self,
        segment: SegmentId,
        user: MachineId,
        to_write: bool,
    ) -> Result<Arc<Memory>, FabricError> {
        let segments = self.segments.read();
        let provided = segments
            .get(&segment)
            .ok_or(FabricError::Refused(NO_SEGMENT))?;
        if to_write && user != self.owner && provided.writer != Writer::Peer(user) {
            return Err(FabricError::Refused(NOT_THE_WRITER));
        }
        Ok(Arc::clone(&provided.memory))
    }
}
