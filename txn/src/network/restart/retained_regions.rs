//! The record of a machine's regions where its memory survives it.
//!
//! ```text
//! half | count of writes | bytes | sealed bytes ...  |     the valid half with the later
//! half | the same |                                        count is used
//! ```

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fencepost_cluster::reconfiguration::SavedRegions;
use fencepost_fabric::{Fabric, FabricError, Memory, SegmentId, Writer};

use crate::bytes;

/// The segment of the record.
pub const SEGMENT: SegmentId = SegmentId::new(SegmentId::HOLDINGS, 0, 0);
/// Words of a half: enough for the maximum number of regions.
const HALF: usize = 1 << 19;
/// Words before the sealed bytes.
const HEAD: usize = 2;

/// The memory in which a machine writes the record.
#[derive(Debug)]
pub struct RecordMemory {
    memory: Arc<Memory>,
    written: u64,
}

impl RecordMemory {
    /// Returns the memory of a machine whose memory survives it; otherwise `None`.
    pub fn of(fabric: &dyn Fabric) -> Result<Option<RecordMemory>, FabricError> {
        let memory = fabric
            .keeps()
            .then(|| fabric.provide(SEGMENT, 2 * HALF, Writer::Owner));
        let memory = memory.transpose()?;
        Ok(memory.map(|memory| RecordMemory { memory, written: 0 }))
    }

    /// Writes the record; the previous one stays until the new one is complete.
    pub fn write(&mut self, saved: &SavedRegions) {
        let sealed = saved.seal();
        let mut words = vec![0, sealed.len() as u64];
        bytes::put(&mut words, &sealed);
        self.written += 1;
        words[0] = self.written;
        let half = (self.written % 2) as usize * HALF;
        if words.len() <= HALF {
            // Invalidates the record of two writes ago.
            self.memory.words()[half].store(0, Ordering::Release);
            fence(Ordering::SeqCst);
            self.memory.copy_in(half, &words);
        }
    }
}

/// Returns the last complete record; `None` if no half is valid.
pub fn read(memory: &Memory) -> Option<SavedRegions> {
    let half = |from: usize| {
        let mut head = [0; HEAD];
        memory.copy_out(from, &mut head).then_some(())?;
        let length = usize::try_from(head[1]).ok()?;
        let mut words = vec![0; length.div_ceil(8).min(HALF - HEAD)];
        memory.copy_out(from + HEAD, &mut words).then_some(())?;
        let saved = SavedRegions::unseal(bytes::first(&words, length)?).ok()?;
        (head[0] > 0).then_some((head[0], saved))
    };
    let whole = [0, HALF].into_iter().filter_map(half);
    let last = whole.max_by_key(|(written, _)| *written);
    last.map(|(_, saved)| saved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_cluster::reconfiguration::RegionReport;
    use fencepost_cluster::{ConfigurationId, RegionId};

    fn saved(next: u32) -> SavedRegions {
        SavedRegions {
            holdings: RegionReport {
                last_drained: ConfigurationId(1),
                held: Vec::new(),
                known: Vec::new(),
                next_region: RegionId(next),
                numbers: false,
                granted_ns: 0,
                time_ns: None,
            },
            configuration: ConfigurationId(1),
            recovered: ConfigurationId(1),
        }
    }

    #[test]
    fn last_intact_record_is_read() {
        let memory = Arc::new(Memory::anonymous(2 * HALF).expect("memory"));
        assert_eq!(read(&memory), None);
        let mut notes = RecordMemory {
            memory: Arc::clone(&memory),
            written: 0,
        };
        for next in 1..4 {
            notes.write(&saved(next));
            assert_eq!(read(&memory), Some(saved(next)));
        }
        // The third record is in the second half, and torn.
        memory.words()[HALF + HEAD + 1].fetch_xor(1, Ordering::Relaxed);
        assert_eq!(read(&memory), Some(saved(2)));
        memory.words()[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(read(&memory), None);
    }
}
