//! Writing a checkpoint: scan in parallel, finish the file, wait for the log, publish, clean up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_fabric::{Disk, DiskFile};
use parking_lot::Mutex;

use super::error::CheckpointError;
use super::format::{FILE_HEADER_WORDS, Section, WORD, crc, file_header, seal_section};
use super::manifest::{self, Manifest, read_manifest};
use super::scan;
use crate::log::{Log, Lsn};
use crate::region::{BlockId, Regions};
use crate::timestamp::Timestamp;

/// Bytes between two syncs of the file. Without them the last sync would be long, and flushes of
/// the log would wait for it.
const SYNC_BYTES: u64 = 16 << 20;

/// The parameters of a checkpoint.
pub struct Plan<'a> {
    /// The log position where replay will begin. Every transaction with a record before it has
    /// installed its new objects.
    pub begin: Lsn,
    /// A function that returns a timestamp that no commit so far exceeds; called once, after the
    /// scan.
    pub clock: &'a (dyn Fn() -> Timestamp + Sync),
    /// Number of scanning threads, from 1 to 64; others are moved into this range.
    pub threads: usize,
    /// Limit of the scan's write rate; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Called between blocks; once it returns `true` the checkpoint is given up.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Takes a checkpoint into `disk`, a directory of its own, and truncates the log before it.
///
/// Blocks until the checkpoint is durable. The calling thread is one of the scanning threads. The
/// caller takes one checkpoint at a time.
///
/// # Errors
/// [`CheckpointError::Stopped`] if [`Plan::stop`] asked for it; [`CheckpointError::Stuck`] if an
/// object stays locked for about ten seconds; [`CheckpointError::Io`] and [`CheckpointError::Log`]
/// for errors of the disk and the log; [`CheckpointError::Corrupt`] if the manifest of the previous
/// checkpoint is damaged. The previous checkpoint stays valid, unless only the cleanup failed; the
/// next checkpoint then repeats the cleanup.
pub fn write(
    disk: &dyn Disk,
    regions: &Regions,
    log: &Log,
    plan: &Plan<'_>,
) -> Result<Manifest, CheckpointError> {
    let before = read_manifest(disk)?.map(|manifest| manifest.sequence);
    manifest::remove_others(disk, before)?;
    let sequence = before.unwrap_or(0) + 1;
    let name = manifest::file_name(sequence);
    let written = write_file(disk, &name, sequence, regions, plan);
    let written = written.and_then(|manifest| complete_manifest(log, plan, manifest));
    let manifest = match written {
        Ok(manifest) => manifest,
        Err(error) => {
            // Frees the space now; if that fails too, the next checkpoint does it.
            let _ = disk.remove(&name);
            return Err(error);
        }
    };
    manifest::publish(disk, &manifest)?;
    log.truncate_before(manifest.begin)?;
    manifest::remove_others(disk, Some(sequence))?;
    Ok(manifest)
}

/// Adds the values that are known only after the scan, and waits until the log is durable up to its
/// present end.
fn complete_manifest(
    log: &Log,
    plan: &Plan<'_>,
    manifest: Manifest,
) -> Result<Manifest, CheckpointError> {
    let clock = (plan.clock)().max(manifest.clock);
    let end = log.position();
    log.wait_flushed_blocking(end)?;
    Ok(Manifest {
        clock,
        end,
        ..manifest
    })
}

fn write_file(
    disk: &dyn Disk,
    name: &str,
    sequence: u64,
    regions: &Regions,
    plan: &Plan<'_>,
) -> Result<Manifest, CheckpointError> {
    let path = disk.path(name);
    let file = disk
        .create(name)
        .map_err(CheckpointError::io(path.as_str()))?;
    let region_bytes = regions.region_bytes() as u64;
    let header = file_header(sequence, region_bytes);
    file.write_at(0, bytemuck::cast_slice(&header))
        .map_err(CheckpointError::io(path.as_str()))?;
    let scan = Scan {
        regions,
        plan,
        sequence,
        path: &path,
        file,
        blocks: regions.replica_blocks(),
        next_block: AtomicUsize::new(0),
        next_byte: AtomicU64::new((FILE_HEADER_WORDS * WORD) as u64),
        objects: AtomicU64::new(0),
        sections: Mutex::default(),
        failed: AtomicBool::new(false),
        started: Instant::now(),
    };
    scan.run()?;
    let Scan {
        file,
        next_byte,
        objects,
        sections,
        ..
    } = scan;
    let (mut sections, index_offset) = (sections.into_inner(), next_byte.into_inner());
    sections.sort_unstable_by_key(|section| section.block);
    let mut index: Vec<u64> = sections.iter().flat_map(Section::encode).collect();
    index.push(crc(&index));
    let finished = file.write_at(index_offset, bytemuck::cast_slice(&index));
    let finished = finished
        .and_then(|()| file.sync_all())
        .and_then(|()| disk.sync_dir());
    finished.map_err(CheckpointError::io(path.as_str()))?;
    Ok(Manifest {
        sequence,
        begin: plan.begin,
        end: plan.begin,
        clock: Timestamp::ZERO,
        objects: objects.into_inner(),
        region_bytes,
        index_offset,
        bytes: index_offset + (index.len() * WORD) as u64,
        sections: sections.len() as u64,
    })
}

/// The shared state of the scanning threads.
struct Scan<'a> {
    regions: &'a Regions,
    plan: &'a Plan<'a>,
    sequence: u64,
    path: &'a str,
    file: Arc<dyn DiskFile>,
    blocks: Vec<(BlockId, crate::classes::Class)>,
    next_block: AtomicUsize,
    next_byte: AtomicU64,
    objects: AtomicU64,
    sections: Mutex<Vec<Section>>,
    failed: AtomicBool,
    started: Instant,
}

impl Scan<'_> {
    /// Scans all blocks that were in use at the start; the log has the contents of later ones.
    fn run(&self) -> Result<(), CheckpointError> {
        let threads = self.plan.threads.clamp(1, 64).min(self.blocks.len().max(1));
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| self.work())).collect();
            let mut outcome = self.work();
            for other in others {
                match other.join() {
                    Ok(result) => outcome = outcome.and(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            outcome
        })
    }

    fn work(&self) -> Result<(), CheckpointError> {
        let outcome = self.work_on();
        if outcome.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        outcome
    }

    fn work_on(&self) -> Result<(), CheckpointError> {
        let mut words = Vec::new();
        while let Some((id, _)) = self
            .blocks
            .get(self.next_block.fetch_add(1, Ordering::Relaxed))
        {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            if (self.plan.stop)() {
                return Err(CheckpointError::Stopped);
            }
            if let Some(scanned) = scan::block(self.regions, *id, &mut words)?
                && scanned.entries > 0
            {
                seal_section(
                    &mut words,
                    self.sequence,
                    *id,
                    scanned.class,
                    scanned.entries,
                );
                self.objects.fetch_add(scanned.objects, Ordering::Relaxed);
                self.put(&words, *id, scanned.class)?;
            }
        }
        Ok(())
    }

    fn put(
        &self,
        words: &[u64],
        block: BlockId,
        class: crate::classes::Class,
    ) -> Result<(), CheckpointError> {
        let bytes = (words.len() * WORD) as u64;
        let offset = self.next_byte.fetch_add(bytes, Ordering::Relaxed);
        let mut written = self.file.write_at(offset, bytemuck::cast_slice(words));
        if offset / SYNC_BYTES != (offset + bytes) / SYNC_BYTES {
            written = written.and_then(|()| self.file.sync());
        }
        written.map_err(CheckpointError::io(self.path))?;
        self.sections.lock().push(Section {
            offset,
            words: words.len() as u64,
            block,
            class,
        });
        self.pace(offset + bytes);
        Ok(())
    }

    /// Sleeps if the scan has written faster than the plan allows.
    fn pace(&self, written: u64) {
        let Some(rate) = self.plan.bytes_per_second.filter(|rate| *rate > 0) else {
            return;
        };
        let due = Duration::from_secs_f64(written as f64 / rate as f64);
        // Short sleeps, so that a stop is noticed.
        while let Some(early) = due
            .checked_sub(self.started.elapsed())
            .filter(|d| !d.is_zero())
        {
            if (self.plan.stop)() {
                return;
            }
            thread::sleep(early.min(Duration::from_millis(20)));
        }
    }
}
