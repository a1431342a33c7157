//! The data that a machine had before its eviction. Data recovery uses them and reads only objects
//! that have changed (`driver/data_recovery`).
//!
//! ```text
//! on its disk      ─► the log, replayed aside (disk/retained_data.rs)  ─┐
//! in its memory    ─► the files left by its process, unchanged  ─┴► each piece of a block:
//!                                                                   equal versions? ─► taken
//! ```
//! These data are kept apart from the machine's current data. While a block is copied, each of its
//! objects is taken if the primary has it in the same version.
//!
//! # Invariants
//! * DISK-13: an object is taken only while its block is copied. The primary must have reported the
//!   same version since that copy began (COPY-1). A version of an object is the same on all
//!   machines.
//! * CONTENT-1: in the memory of a killed process an object has the version that its header names.
//!   Otherwise no primary shows the named version any more. No machine begins to install a version
//!   before its transaction is committed. A primary has its COMMIT-PRIMARY, so all COMMIT-BACKUPs
//!   exist; a backup has its TRUNCATE. Data recovery has the version from a primary. Transaction
//!   recovery has decided to commit, and decides so again (RECOVERY-3). So if a process ended
//!   during an install, the version in the header is overwritten on all other machines before the
//!   region serves. The remaining machines no longer acknowledge an evicted machine that does not
//!   know of its eviction. Recovery finds the records acknowledged before that. A slot that no
//!   pointer leads to is written earlier, and its header says that it contains no object: its
//!   payload is not taken.
//! * CONTENT-2: an object is not taken if it is locked, or if its line versions differ from its
//!   header.
//!
//! # Failure
//! Unreadable data are ignored, and the blocks are copied completely.

use std::sync::Arc;
use std::thread;

use fencepost_cluster::few::FewMap;
use fencepost_fabric::{EvictedMemory, RetainedMemory, SegmentId};
use fencepost_storage::classes::Class;
use fencepost_storage::region::{BlockId, Image, Regions};
use fencepost_storage::{Addr, ObjectRef, RegionId};

/// All data that a machine had before its eviction.
pub(crate) struct RetainedData {
    parts: Vec<RetainedPart>,
    evicted: Option<Arc<EvictedMemory>>,
}

/// A part of these data: one version of each object.
pub(crate) enum RetainedPart {
    /// Regions, all as backups, that were written only by replay.
    Replayed(Box<Regions>),
    /// Memory as a process has left it.
    Left(FewMap<RegionId, Image>),
}

impl RetainedData {
    /// Returns the data of a disk.
    pub fn replayed(regions: Regions) -> RetainedData {
        let parts = vec![RetainedPart::Replayed(Box::new(regions))];
        RetainedData {
            parts,
            evicted: None,
        }
    }

    /// Returns the data in memory; `None` if there are none.
    pub fn left(evicted: &Arc<EvictedMemory>) -> Option<RetainedData> {
        let parts: Vec<RetainedPart> = evicted.left().iter().map(RetainedPart::left).collect();
        (!parts.is_empty()).then(|| RetainedData {
            parts,
            evicted: Some(Arc::clone(evicted)),
        })
    }

    /// Returns whether a part has a size class for a block.
    pub fn has(&self, block: BlockId) -> bool {
        self.parts.iter().any(|part| part.class(block).is_some())
    }

    /// Returns the parts in which a block has this size class.
    pub fn parts_with(&self, block: BlockId, class: Class) -> Vec<&RetainedPart> {
        let parts = self.parts.iter();
        parts
            .filter(|part| part.class(block) == Some(class))
            .collect()
    }

    /// Drops the data.
    pub fn forget(self: Arc<Self>) {
        let Some(evicted) = self.evicted.clone() else {
            return;
        };
        // Releasing much memory takes long, and the calling thread has other work.
        let forgetting = thread::Builder::new().name("forget".into());
        let begun = forgetting.spawn(move || {
            evicted.forget();
            drop(self);
        });
        // Without a thread the memory stays until all machines restart.
        drop(begun);
    }
}

impl RetainedPart {
    fn left(retained: &RetainedMemory) -> RetainedPart {
        let regions = retained.of_kind(SegmentId::REGION).into_iter();
        let image = |(segment, memory): (SegmentId, &Arc<_>)| {
            let region = RegionId(segment.number());
            Some((region, Image::of(region, memory)?))
        };
        RetainedPart::Left(regions.filter_map(image).collect())
    }

    fn class(&self, block: BlockId) -> Option<Class> {
        match self {
            RetainedPart::Replayed(regions) => regions.backup_class(block),
            RetainedPart::Left(images) => {
                images.get(&block.region)?.class_of(block.slot(Class(0), 0))
            }
        }
    }

    /// Returns an object if it is consistent (CONTENT-2).
    pub fn object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        match self {
            RetainedPart::Replayed(regions) => regions.backup(addr),
            RetainedPart::Left(images) => {
                let object = images.get(&addr.region())?.object(addr)?;
                let header = object.header();
                let whole = !header.is_locked() && object.lines_agree(header);
                whole.then_some(object)
            }
        }
    }
}
