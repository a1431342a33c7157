//! What a machine had before it was out, for what it gets again: it asks for what is another by now (`governor/refill`).
//!
//! ```text
//! on its disk      ─► the log, replayed aside (disk/before.rs)        ─┐
//! in its memory    ─► the files that its process has left, as they are ─┴► per piece of a block: the same versions? ─► taken
//! ```
//! It is never what the machine has: it lies aside, and each object of it is taken that the primary has in the same version, while
//! it is copied.
//!
//! # Invariants
//! * DISK-13: an object of it is taken only while the block is copied, and if the primary has said since the copying began that it
//!   has the same version (REFILL-1): one version of an object is the same everywhere, whoever has it.
//! * LEFT-1: what a process that was killed has in memory under a version is that version, or one that no primary shows any more.
//!   Nobody begins to put a version in place before its transaction is committed: a primary has its COMMIT-PRIMARY, so that all
//!   COMMIT-BACKUPs are there; a backup has its TRUNCATE; data recovery has it from a primary; recovery has decided so, and decides
//!   so again (RECOVERY-3). So where a process ended in the midst of that, what its header still says is overwritten everywhere else
//!   before the region serves. An evicted machine that does not know it is not acknowledged any more by those who go on, and what
//!   had been acknowledged before recovery finds. A slot of which nobody knows yet is written earlier, and its header says that
//!   there is no object in it: of such the payload is not taken.
//! * LEFT-2: what is locked, or whose line versions are not its header's, is not taken all the same.
//!
//! # Failure
//! What cannot be read is not there, and everything is copied.

use std::sync::Arc;
use std::thread;

use fencepost_cluster::few::FewMap;
use fencepost_fabric::{Gone, Remains, SegmentId};
use fencepost_storage::classes::Class;
use fencepost_storage::region::{BlockId, Image, Regions};
use fencepost_storage::{Addr, ObjectRef, RegionId};

/// All that a machine had.
pub(crate) struct Before {
    parts: Vec<Part>,
    gone: Option<Arc<Gone>>,
}

/// Some of what it had: one version of each object.
pub(crate) enum Part {
    /// Regions, all of them as backups, that nobody has ever written to but to make them what they were.
    Replayed(Box<Regions>),
    /// Memory as a process has left it.
    Left(FewMap<RegionId, Image>),
}

impl Before {
    /// What a disk had.
    pub fn replayed(regions: Regions) -> Before {
        let parts = vec![Part::Replayed(Box::new(regions))];
        Before { parts, gone: None }
    }

    /// What there is in memory.
    pub fn left(gone: &Arc<Gone>) -> Option<Before> {
        let parts: Vec<Part> = gone.left().iter().map(Part::left).collect();
        (!parts.is_empty()).then(|| Before {
            parts,
            gone: Some(Arc::clone(gone)),
        })
    }

    /// The parts in which a block is of a class, whatever that is.
    pub fn has(&self, block: BlockId) -> bool {
        self.parts.iter().any(|part| part.class(block).is_some())
    }

    /// The parts in which a block is of that class.
    pub fn parts_with(&self, block: BlockId, class: Class) -> Vec<&Part> {
        let parts = self.parts.iter();
        parts
            .filter(|part| part.class(block) == Some(class))
            .collect()
    }

    /// Nobody needs it any more.
    pub fn forget(self: Arc<Self>) {
        let Some(gone) = self.gone.clone() else {
            return;
        };
        // It takes a while to give much memory back, and who calls this has other things to do.
        let forgetting = thread::Builder::new().name("forget".into());
        let begun = forgetting.spawn(move || {
            gone.forget();
            drop(self);
        });
        // Without a thread it stays until all machines begin again.
        drop(begun);
    }
}

impl Part {
    fn left(remains: &Remains) -> Part {
        let regions = remains.of_kind(SegmentId::REGION).into_iter();
        let image = |(segment, memory): (SegmentId, &Arc<_>)| {
            let region = RegionId(segment.number());
            Some((region, Image::of(region, memory)?))
        };
        Part::Left(regions.filter_map(image).collect())
    }

    fn class(&self, block: BlockId) -> Option<Class> {
        match self {
            Part::Replayed(regions) => regions.backup_class(block),
            Part::Left(images) => images.get(&block.region)?.class_of(block.slot(Class(0), 0)),
        }
    }

    /// An object, where it is whole (LEFT-2).
    pub fn object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        match self {
            Part::Replayed(regions) => regions.backup(addr),
            Part::Left(images) => {
                let object = images.get(&addr.region())?.object(addr)?;
                let header = object.header();
                let whole = !header.is_locked() && object.lines_agree(header);
                whole.then_some(object)
            }
        }
    }
}
