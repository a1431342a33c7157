//! Copies of records that leave a log early, because they would occupy too much of it. They are
//! made where memory survives machines.
//!
//! ```text
//! words of the record + 1 | writer | tag | record ...        the first word is written last
//! ```

use std::sync::Arc;

use fencepost_fabric::{Fabric, MachineId, Memory, RetainedMemory, SegmentId, Writer};

use crate::record::BadRecord;

const HEAD: usize = 3;

/// A copy; dropping this value removes it.
pub struct SegmentCopy {
    fabric: Arc<dyn Fabric>,
    segment: SegmentId,
}

impl Drop for SegmentCopy {
    fn drop(&mut self) {
        self.fabric.withdraw(self.segment);
    }
}

/// The copies of one machine's records.
pub struct Copies {
    fabric: Arc<dyn Fabric>,
    from: MachineId,
    made: u32,
}

impl Copies {
    /// Creates the copies of one machine's records.
    pub fn of(fabric: &Arc<dyn Fabric>, from: MachineId) -> Copies {
        Copies {
            fabric: Arc::clone(fabric),
            from,
            made: 0,
        }
    }

    /// Copies a record; `None` if memory does not survive machines.
    pub fn copy(&mut self, tag: u8, record: &[u64]) -> Result<Option<SegmentCopy>, BadRecord> {
        const NO_MEMORY: BadRecord =
            BadRecord("there is no memory for a record that leaves the log");
        if !self.fabric.keeps() {
            return Ok(None);
        }
        // Copies from each peer have a lane of their own.
        let lane = u16::try_from(self.from.0).map_err(|_| NO_MEMORY)?;
        let segment = SegmentId::new(SegmentId::RECORD, lane, self.made);
        self.made = self.made.wrapping_add(1);
        let memory = self
            .fabric
            .provide(segment, HEAD + record.len(), Writer::Owner);
        let memory = memory.map_err(|_| NO_MEMORY)?;
        memory.copy_in(1, &[u64::from(self.from.0), tag.into()]);
        memory.copy_in(HEAD, record);
        memory.copy_in(0, &[record.len() as u64 + 1]);
        Ok(Some(SegmentCopy {
            fabric: Arc::clone(&self.fabric),
            segment,
        }))
    }
}

/// Returns the copies that a machine has left: the writer, tag and words of each.
pub fn left_by(retained: &RetainedMemory) -> Vec<(MachineId, u8, Vec<u64>)> {
    let copies = retained.of_kind(SegmentId::RECORD);
    copies
        .into_iter()
        .filter_map(|(_, memory)| read(memory))
        .collect()
}

fn read(memory: &Memory) -> Option<(MachineId, u8, Vec<u64>)> {
    let mut head = [0; HEAD];
    memory.copy_out(0, &mut head).then_some(())?;
    let words = head[0]
        .checked_sub(1)
        .and_then(|words| usize::try_from(words).ok())?;
    let mut record = vec![0; words.min(memory.len())];
    memory.copy_out(HEAD, &mut record).then_some(())?;
    Some((
        MachineId(u32::try_from(head[1]).ok()?),
        head[2] as u8,
        record,
    ))
}
