//! Loading a checkpoint: sections in parallel, each checked before it is used.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use fencepost_fabric::{Disk, DiskFile};

use super::error::CheckpointError;
use super::format::{
    FILE_HEADER_WORDS, ObjectHead, SECTION_HEADER_WORDS, Section, WORD, check_file_header,
    check_section, decode_index,
};
use super::manifest::Manifest;
use crate::RegionId;
use crate::classes::Class;
use crate::header::{LinkWord, OldVersionPtr};
use crate::region::{BlockId, Regions};

/// Loads the objects of a checkpoint into `regions`, which no other thread uses yet. Skips regions
/// that are not `wanted`. Returns the number of objects. Regions that are backups there stay so;
/// others become this machine's own.
///
/// # Errors
/// [`CheckpointError::Corrupt`] names the file and offset of damage.
/// [`CheckpointError::DoesNotFit`] names a block that these regions have no place for.
/// [`CheckpointError::Io`] is an error of the disk. The regions are unusable in all cases.
pub fn load(
    disk: &dyn Disk,
    manifest: &Manifest,
    regions: &Regions,
    threads: usize,
    wanted: &(dyn Fn(RegionId) -> bool + Sync),
) -> Result<u64, CheckpointError> {
    let name = manifest.file_name();
    let path = disk.path(&name);
    let file = disk
        .open(&name)
        .map_err(CheckpointError::io(path.as_str()))?;
    let source = Source {
        file: &*file,
        path: &path,
    };
    let header = source.words(0, FILE_HEADER_WORDS as u64)?;
    let good = check_file_header(&header, manifest.sequence, manifest.region_bytes);
    good.map_err(|what| source.corrupt(0, what))?;
    let index_words = manifest.bytes.saturating_sub(manifest.index_offset) / WORD as u64;
    let index = source.words(manifest.index_offset, index_words)?;
    let damaged = || source.corrupt(manifest.index_offset, "the index is damaged");
    let sections = decode_index(&index).ok_or_else(damaged)?;
    if sections.len() as u64 != manifest.sections {
        return Err(damaged());
    }
    let load = Load {
        source,
        regions,
        wanted,
        sequence: manifest.sequence,
        sections: &sections,
        next: AtomicUsize::new(0),
        objects: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    load.run(threads)?;
    let all = sections.iter().all(|section| wanted(section.block.region));
    let objects = load.objects.into_inner();
    if all && objects != manifest.objects {
        return Err(damaged());
    }
    Ok(objects)
}

/// The open file of the checkpoint.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a dyn DiskFile,
    path: &'a str,
}

impl Source<'_> {
    fn words(&self, offset: u64, words: u64) -> Result<Vec<u64>, CheckpointError> {
        let mut out = Vec::new();
        self.read(offset, words, &mut out)?;
        Ok(out)
    }

    /// Reads words, or returns an error if the file is too short. Allocates no more memory than the
    /// file has bytes.
    fn read(&self, offset: u64, words: u64, out: &mut Vec<u64>) -> Result<(), CheckpointError> {
        let length = self.file.len().map_err(CheckpointError::io(self.path))?;
        let end = words
            .checked_mul(WORD as u64)
            .and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > length) {
            return Err(self.corrupt(length, "the file ends too early"));
        }
        out.clear();
        out.resize(words as usize, 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
        let read = self.file.read_at(offset, bytes);
        let n = read.map_err(CheckpointError::io(self.path))?;
        if n != bytes.len() {
            return Err(self.corrupt(offset + n as u64, "the file ends too early"));
        }
        Ok(())
    }

    fn corrupt(&self, offset: u64, what: &'static str) -> CheckpointError {
        CheckpointError::Corrupt {
            file: self.path.to_owned(),
            offset,
            what,
        }
    }
}

/// The shared state of the loading threads.
struct Load<'a> {
    source: Source<'a>,
    regions: &'a Regions,
    wanted: &'a (dyn Fn(RegionId) -> bool + Sync),
    sequence: u64,
    sections: &'a [Section],
    next: AtomicUsize,
    objects: AtomicU64,
    failed: AtomicBool,
}

impl Load<'_> {
    fn run(&self, threads: usize) -> Result<(), CheckpointError> {
        let threads = threads.clamp(1, 64).min(self.sections.len().max(1));
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
        let mut words = Vec::new();
        while let Some(section) = self.sections.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let loaded = self.section(section, &mut words);
            if loaded.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            self.objects.fetch_add(loaded?, Ordering::Relaxed);
        }
        Ok(())
    }

    fn section(&self, section: &Section, words: &mut Vec<u64>) -> Result<u64, CheckpointError> {
        if !(self.wanted)(section.block.region) {
            return Ok(0);
        }
        self.source.read(section.offset, section.words, words)?;
        let damaged = |what| self.source.corrupt(section.offset, what);
        let entries = check_section(words, self.sequence, section).map_err(damaged)?;
        let (id, class) = (section.block, section.class);
        let no_place = |_| CheckpointError::DoesNotFit {
            region: id.region.0,
            block: id.block,
        };
        match self.regions.has_backup(id.region) {
            true => self.regions.restore_backup(id, class),
            false => self.regions.restore_block(id, class),
        }
        .map_err(no_place)?;
        let body = &words[SECTION_HEADER_WORDS..];
        let objects = self.objects_of(id, class, body, entries);
        objects.ok_or_else(|| damaged("the objects of a section make no sense"))
    }

    /// Installs the objects of a section; returns `None` if they are malformed.
    fn objects_of(
        &self,
        id: BlockId,
        class: Class,
        mut words: &[u64],
        entries: u64,
    ) -> Option<u64> {
        let mut objects = 0;
        for _ in 0..entries {
            let head = ObjectHead::decode(words)?;
            let (payload, rest) = words[ObjectHead::WORDS..].split_at_checked(head.words)?;
            words = rest;
            if head.slot >= class.slots() || head.header.is_locked() {
                return None;
            }
            let region = self.regions.replica(id.region)?;
            let object = region.object(id.slot(class, head.slot).offset() as usize)?;
            if payload.len() > object.len() {
                return None;
            }
            object.put(0, payload);
            object.finish_install(
                head.header,
                LinkWord::new(head.incarnation, OldVersionPtr::NONE),
            );
            objects += u64::from(head.header.is_allocated());
        }
        words.is_empty().then_some(objects)
    }
}
