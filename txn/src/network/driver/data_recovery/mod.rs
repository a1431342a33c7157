//! Data recovery (SOSP'15 §5.4): a machine that has become a backup of an existing region copies
//! the region's data from its primary.
//!
//! ```text
//! all regions active ─► for each region that is not complete here:
//!     header block of the primary ─► blocks in use ─► each block (block.rs), at its pace (pace.rs)
//!     ─► complete
//! a new configuration ─► pause ─► all regions active ─► continue
//!     (from the beginning if the primary is another)
//! ```
//! Commits continue meanwhile, and this backup receives them like others. Copied objects are
//! installed like COMMIT-BACKUP, by their versions. Ranges of a version that is not here wait for
//! it (BACKUP-1).
//!
//! A machine that had the region before its eviction (DISK-13) first asks the primary for a digest
//! of a block's versions. It reads only the objects that differ (`block.rs`).
//!
//! # Invariants
//! * COPY-2: consider the blocks in use at the primary after the transactions of earlier
//!   configurations were settled everywhere. A replica reports itself complete when it has copied
//!   all of them. A block that came into use later was written by transactions that know this
//!   backup.
//! * COPY-3: while a block is copied, this machine has a read timestamp from before its class was
//!   read. No block gets another class before all readers have passed its release, so the block
//!   keeps its class (FAR-1, BACKUP-2).
//!
//! *Concurrency.* The reconfiguration driver runs data recovery, one step at each call.
//!
//! # Failure
//! A failed read is repeated; a new configuration replaces a lost primary. A region that cannot be
//! copied at all stays incomplete, and is tried again after the next configuration.

mod block;
mod durably;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use fencepost_cluster::Replicas;
use fencepost_fabric::{Completion, FabricError, MachineId, Place, Random};
use fencepost_storage::region::{self, BLOCK_BYTES, BlockId};
use fencepost_storage::{Piece, RegionId};

use super::{ReconfigurationDriver, State, Step};
use crate::clock::Clock;
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::Network;
use crate::network::backing::segment;
use crate::network::traffic::PostKind;
use crate::readers::{ReaderSlot, Readers};
use crate::record::BadRecord;
use block::{BlockCopy, BlockRead, CopyDestination};
use durably::DiskWaits;
use pace::ReadRate;

/// Words of a header block that are read together.
const LISTED_AT_ONCE: usize = 1 << 10;
/// The interval of checks whether copied data is durable.
const LOOK_NS: u64 = 100_000;
/// How long a previous replica's data is kept after data recovery is complete: the machine may be
/// given further regions.
const RETAINED_NS: u64 = 60_000_000_000;
/// The delay before a failed read is repeated.
const AGAIN_NS: u64 = 1_000_000;

type Read = Completion<Box<[u64]>>;
/// Posts a read of another machine's region: first word and number of words.
type PostRead<'a> = dyn Fn(MachineId, RegionId, (usize, usize)) -> Read + 'a;

/// Requests the versions of a block; `None` if there is no space for the request now.
type Versions<'a> = dyn Fn(MachineId, BlockId) -> Option<Read> + 'a;

/// The data recovery of this machine.
pub(super) struct DataRecovery {
    /// Regions to copy; the first is in progress.
    regions: VecDeque<RegionCopy>,
    /// Whether copying is enabled: not during a reconfiguration.
    going: bool,
    /// The block that is being copied.
    block: Option<BlockCopy>,
    reads: Vec<(ReadSubject, Read)>,
    /// When the next reads may be posted.
    next: u64,
    /// Keeps blocks in their size class (COPY-3).
    reader: Option<Arc<ReaderSlot>>,
    random: Random,
    durably: DiskWaits,
    counts: DataRecoveryCounts,
    /// When the data of previous replicas is dropped.
    forgets_at: u64,
}

/// The amount of data that data recovery has restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataRecoveryCounts {
    /// Bytes read from primaries.
    pub read_bytes: u64,
    /// Bytes taken from replicas of before this machine's eviction.
    pub retained_bytes: u64,
}

/// The subject of a read.
enum ReadSubject {
    /// Words of the header block, from this one on.
    Blocks(usize),
    OfBlock(BlockRead),
}

/// A region that is not complete here.
struct RegionCopy {
    region: RegionId,
    primary: MachineId,
    pace: ReadRate,
    /// The first block that was not checked for use yet.
    unlisted: usize,
    /// Blocks in use that are to be copied.
    blocks: VecDeque<u32>,
}

/// The parts of the machine that data recovery uses.
struct RecoveryContext<'a> {
    destination: CopyDestination<'a>,
    readers: &'a Readers,
    clock: &'a Clock,
    post: &'a PostRead<'a>,
    versions: &'a Versions<'a>,
}

impl DataRecovery {
    pub fn new(seed: u64) -> DataRecovery {
        DataRecovery {
            regions: VecDeque::new(),
            going: false,
            block: None,
            reads: Vec::new(),
            next: 0,
            reader: None,
            random: Random::new(seed),
            durably: DiskWaits::default(),
            counts: DataRecoveryCounts::default(),
            forgets_at: u64::MAX,
        }
    }

    /// Returns the next time at which data recovery has work without new input.
    pub fn next_wake(&self, now: u64) -> u64 {
        let wake = match self.regions.front().filter(|_| self.going) {
            None if !self.durably.is_at_rest() => now + LOOK_NS,
            Some(filling) if self.reads.is_empty() => self.next.max(now + filling.pace.look_ns),
            Some(filling) => now + filling.pace.look_ns,
            None => u64::MAX,
        };
        wake.min(self.forgets_at)
    }

    /// Begins to copy the regions in `lacking`, whose primaries serve.
    fn begin(&mut self, lacking: Vec<(RegionId, Replicas)>, readers: &Readers) {
        self.drop_block(readers);
        let mut before = std::mem::take(&mut self.regions);
        for (region, replicas) in lacking {
            let primary = replicas.primary();
            let same =
                |filling: &RegionCopy| (filling.region, filling.primary) == (region, primary);
            let known = before
                .iter()
                .position(same)
                .and_then(|at| before.remove(at));
            self.regions.push_back(RegionCopy {
                region,
                primary,
                pace: ReadRate::of(replicas.count()),
                unlisted: known.as_ref().map_or(1, |known| known.unlisted),
                blocks: known.map_or_else(VecDeque::new, |known| known.blocks),
            });
        }
        let all = self.regions.make_contiguous();
        all.sort_by_key(|filling| !filling.pace.is_eager());
        self.going = true;
    }

    /// Stops copying until [`Self::begin`] is called.
    fn pause(&mut self, readers: &Readers) {
        self.going = false;
        self.durably = DiskWaits::default();
        self.drop_block(readers);
    }

    /// Abandons the block that is being copied; it is copied again later.
    fn drop_block(&mut self, readers: &Readers) {
        self.reads.clear();
        if let (Some(block), Some(filling)) = (self.block.take(), self.regions.front_mut()) {
            filling.blocks.push_front(block.id().block);
        }
        if let Some(reader) = self.reader.take() {
            readers.leave(&reader);
        }
    }

    /// Performs one step. Returns the region whose copy is complete, if any.
    fn step(&mut self, now: u64, around: &RecoveryContext<'_>) -> Option<RegionId> {
        if !self.going {
            return None;
        }
        self.take_answers(now, around);
        let filled = self.go_on(around);
        if filled.is_none() {
            self.ask(now, around);
            // Where memory is mapped, the answers are available at once.
            self.take_answers(now, around);
        }
        filled
    }

    fn take_answers(&mut self, now: u64, around: &RecoveryContext<'_>) {
        let mut at = 0;
        while at < self.reads.len() {
            let Some(answer) = self.reads[at].1.take() else {
                at += 1;
                continue;
            };
            let (asked, _) = self.reads.swap_remove(at);
            if self.take(now, asked, answer, around).is_err() {
                self.drop_block(around.readers);
                self.regions.pop_front();
                return;
            }
        }
    }

    fn take(
        &mut self,
        now: u64,
        asked: ReadSubject,
        answer: Result<Box<[u64]>, FabricError>,
        around: &RecoveryContext<'_>,
    ) -> Result<(), BadRecord> {
        if let Err(why) = &answer
            && *why != FabricError::Unsteady
        {
            self.next = now + AGAIN_NS;
        }
        if let Ok(words) = &answer {
            self.counts.read_bytes += 8 * words.len() as u64;
        }
        match (asked, answer) {
            (ReadSubject::OfBlock(wanted), answer) => {
                let Some(block) = &mut self.block else {
                    return Ok(());
                };
                match answer {
                    Ok(words) => return block.take(wanted, words, around.destination),
                    Err(_) => block.put_back(wanted),
                }
            }
            (ReadSubject::Blocks(from), Ok(words)) => {
                if let Some(filling) = self.regions.front_mut() {
                    let used = words.iter().zip(from as u32..);
                    let used = used.filter(|(word, _)| region::class_of(**word).is_some());
                    filling.blocks.extend(used.map(|(_, block)| block));
                    filling.unlisted = from + words.len();
                }
            }
            // The words are requested again, because `unlisted` has not changed.
            (ReadSubject::Blocks(_), Err(_)) => {}
        }
        Ok(())
    }

    /// Begins the next block once one is copied. Returns the region once all its blocks are.
    fn go_on(&mut self, around: &RecoveryContext<'_>) -> Option<RegionId> {
        let copies = self
            .block
            .as_ref()
            .is_some_and(|block| !block.all_requested());
        if copies || !self.reads.is_empty() {
            return None;
        }
        if let Some(block) = self.block.take() {
            self.counts.retained_bytes += block.retained_bytes;
        }
        let Some(filling) = self.regions.front_mut() else {
            self.drop_block(around.readers);
            return None;
        };
        if fault::injected(Fault::SkipBlock) && filling.blocks.len() > 1 {
            filling.blocks.pop_front();
        }
        if let Some(block) = filling.blocks.pop_front() {
            let region = filling.region;
            self.block = Some(BlockCopy::of(BlockId { region, block }, around.destination));
            let join = || around.readers.join();
            let reader = self.reader.get_or_insert_with(join);
            around.readers.begin(reader, around.clock);
            return None;
        }
        if let Some(reader) = &self.reader {
            reader.end();
        }
        if filling.unlisted < around.blocks() {
            return None;
        }
        let filled = self.regions.pop_front();
        if self.regions.is_empty() {
            self.drop_block(around.readers);
        }
        filled.map(|filling| filling.region)
    }

    /// Posts as many reads as the pace allows.
    fn ask(&mut self, now: u64, around: &RecoveryContext<'_>) {
        let Some(filling) = self.regions.front().filter(|_| now >= self.next) else {
            return;
        };
        let before = self.reads.len();
        let mut post = |asked, place| {
            let read = (around.post)(filling.primary, filling.region, place);
            self.reads.push((asked, read));
        };
        match &mut self.block {
            Some(block) => {
                let most = filling.pace.at_once.min(before + filling.pace.a_look);
                for _ in before..most {
                    let Some(wanted) = block.next() else { break };
                    if wanted == BlockRead::Versions {
                        match (around.versions)(filling.primary, block.id()) {
                            Some(read) => self.reads.push((ReadSubject::OfBlock(wanted), read)),
                            None => block.put_back(wanted),
                        }
                        break;
                    }
                    let place = block.place(&wanted);
                    post(ReadSubject::OfBlock(wanted), place);
                }
            }
            None if before == 0 => {
                let from = filling.unlisted;
                let words = around.blocks().saturating_sub(from).min(LISTED_AT_ONCE);
                if words > 0 {
                    post(ReadSubject::Blocks(from), (from, words));
                }
            }
            None => {}
        }
        if self.reads.len() > before {
            self.next = filling.pace.next(now, &mut self.random);
        }
    }
}

impl RecoveryContext<'_> {
    /// Returns the number of blocks of a region, the header block included.
    fn blocks(&self) -> usize {
        self.destination.regions.region_bytes() / BLOCK_BYTES
    }
}

impl Network {
    /// Begins to copy the data that this machine lacks, once all regions are active.
    pub(super) fn begin_data_recovery(&self, machine: &Machine, now: u64, state: &mut State) {
        let lacking = self.region_allocation.lacking();
        if !lacking.is_empty() {
            state.timelines.since_applied(Step::DataRecovery, now);
        }
        state.data_recovery.begin(lacking, machine.readers());
    }

    /// Stops copying because the configuration changes.
    pub(super) fn pause_data_recovery(&self, machine: &Machine, state: &mut State) {
        state.data_recovery.pause(machine.readers());
    }

    /// Performs a step of data recovery.
    pub(super) fn recover_data(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        let post = |machine, region: RegionId, (word, words)| {
            self.counting.count(PostKind::Object);
            let segment = segment(Piece::Region(region.0));
            let place = Place {
                machine,
                segment,
                word,
            };
            self.fabric.read(place, words)
        };
        let now = driver.clock.now_ns();
        let before = self.before.lock().clone();
        if before.is_some() {
            let data_recovery = &mut state.data_recovery;
            if !data_recovery.regions.is_empty() || data_recovery.forgets_at == u64::MAX {
                data_recovery.forgets_at = now + RETAINED_NS;
            } else if now >= data_recovery.forgets_at {
                if let Some(before) = self.before.lock().take() {
                    before.forget();
                }
                data_recovery.forgets_at = u64::MAX;
            }
        }
        let versions = |machine, block| self.ask_versions(machine, block);
        let around = RecoveryContext {
            destination: CopyDestination {
                regions: machine.regions(),
                before: before.as_deref(),
                changed: &self.changed,
            },
            readers: machine.readers(),
            clock: machine.clock(),
            post: &post,
            versions: &versions,
        };
        let filled = state.data_recovery.step(driver.clock.now_ns(), &around);
        let filled = match &self.disk {
            None => filled.into_iter().collect(),
            Some(disk) => state.data_recovery.durably.step((machine, disk), filled),
        };
        if !filled.is_empty() {
            // A region completed too late for the next configuration is copied again after it.
            for region in filled {
                self.region_allocation.filled(region);
            }
            if self.region_allocation.lacking().is_empty() {
                let now = driver.clock.now_ns();
                state.timelines.since_applied(Step::Whole, now);
            }
        }
    }
}

impl Machine {
    /// Returns the amount of data that data recovery has restored on this machine.
    pub fn data_recovery_counts(&self) -> DataRecoveryCounts {
        let driver = self.network().and_then(|network| network.driver.as_ref());
        driver.map_or_else(DataRecoveryCounts::default, |driver| {
            driver.state.lock().data_recovery.counts
        })
    }

    /// Returns whether this machine is a backup of a region whose data it has not copied
    /// completely.
    pub fn lacks_data(&self) -> bool {
        let network = self.network();
        network.is_some_and(|network| !network.region_allocation.lacking().is_empty())
    }
}
