//! The segments that a machine has registered, and their writers. Their memory belongs to the
//! process, or is in files that outlive it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::fabric::FabricError;
use crate::home::MachineDirectory;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::segment::{SegmentId, Writer};

/// The reason for refusing a segment that does not exist.
pub(crate) const NO_SEGMENT: &str = "no such segment";
/// The reason for refusing a write by a machine that is not the writer.
pub(crate) const NOT_THE_WRITER: &str = "not the writer of the segment";

/// The segments of a machine.
#[derive(Debug)]
pub(crate) struct Registry {
    owner: MachineId,
    /// The machine's directory, if memory is in files.
    home: Option<MachineDirectory>,
    segments: RwLock<HashMap<SegmentId, RegisteredSegment>>,
}

#[derive(Debug)]
struct RegisteredSegment {
    memory: Arc<Memory>,
    writer: Writer,
    /// The path of the segment's file, if it has one.
    file: Option<PathBuf>,
}

impl Registry {
    /// Returns a registry without segments, for memory of the process.
    pub(crate) fn new(owner: MachineId) -> Self {
        Registry {
            owner,
            home: None,
            segments: RwLock::default(),
        }
    }

    /// Returns a registry without segments, for memory in files.
    pub(crate) fn at(home: MachineDirectory) -> Self {
        Registry {
            owner: home.me(),
            home: Some(home),
            segments: RwLock::default(),
        }
    }

    /// Returns the machine's directory, if memory is in files.
    pub(crate) fn home(&self) -> Option<&MachineDirectory> {
        self.home.as_ref()
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
        let (memory, file) = match &self.home {
            None => (Memory::anonymous(words)?, None),
            Some(home) => {
                let (memory, file) = home.make(segment, words, writer)?;
                (memory, Some(file))
            }
        };
        let memory = Arc::new(memory);
        let provided = RegisteredSegment {
            memory: Arc::clone(&memory),
            writer,
            file,
        };
        segments.insert(segment, provided);
        Ok(memory)
    }

    /// Removes a segment.
    pub(crate) fn withdraw(&self, segment: SegmentId, is_member: impl FnOnce(MachineId) -> bool) {
        let withdrawn = self.segments.write().remove(&segment);
        let file = withdrawn.and_then(|withdrawn| withdrawn.file);
        if let (Some(home), Some(file)) = (&self.home, file) {
            home.unmake(segment, &file, is_member);
        }
    }

    /// Returns the memory of a segment, for `user` to read or `to_write` (FAB-6).
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the segment does not exist, or `user` may not write it.
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
