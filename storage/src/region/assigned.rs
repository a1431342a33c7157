//! Regions that are assigned to a machine of a cluster: as their primary, or as a backup.
//!
//! ```text
//! reserve ─► memory that peers find ─┬─► keep      a region of its own, or a backup
//!                                    └─► release   it never was
//! ```
//! The CM decides about the regions; this module manages their memory. Backups have a table of
//! their own, so that no address leads there. Only the machine itself knows whether a replica is a
//! primary or a backup: peers know its memory by the same name in either case. So nothing must be
//! registered again when a backup becomes the primary ([`super::handover`]).
//!
//! # Failure
//! If there is no memory, or the id is too large, nothing is reserved. `keep` and `release` may be
//! called twice, or late: a backup that is written to is kept by that.

use fencepost_fabric::memory::{Memory, WORD_BYTES};

use super::Regions;
use super::blocks::{BlockId, Region};
use crate::account::OutOfMemory;
use crate::addr::{Addr, RegionId};
use crate::backing::Piece;
use crate::classes::Class;
use crate::object::ObjectRef;

/// Memory of a region that this machine may receive.
pub(super) struct SpareMemory {
    memory: Memory,
    /// Whether this machine is to be its primary.
    own: bool,
}

impl Regions {
    /// Creates memory for a region of which this machine is to be the primary, if it is to be its
    /// `own`, or a backup: the first step of region allocation (SOSP'15 §3, prepare). Peers find
    /// the memory, but it has no blocks here before it is kept.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory, or the id is too large; nothing is reserved then.
    pub fn reserve(&self, id: RegionId, own: bool) -> Result<(), OutOfMemory> {
        if !self.table.has(id) {
            return Err(OutOfMemory);
        }
        if self.parted.lock().remove(&id.0) == Some(true) {
            // The region returns before all peers have heard that it was gone.
            self.backing.withdraw(Piece::Region(id.0));
        }
        let words = self.region_bytes / WORD_BYTES;
        let memory = self.backing.make(Piece::Region(id.0), words);
        let memory = memory.map_err(|_| OutOfMemory)?;
        self.reserved
            .lock()
            .insert(id.0, SpareMemory { memory, own });
        Ok(())
    }

    /// Makes a reserved region this machine's own, or its backup: the second step of region
    /// allocation (SOSP'15 §3, commit). Does nothing if the region is not reserved.
    pub fn keep(&self, id: RegionId) {
        let Some(SpareMemory { memory, own }) = self.reserved.lock().remove(&id.0) else {
            // A backup that was written to has been kept already.
            return;
        };
        match own {
            true => self.add_own(&mut self.growth.lock(), id.0, memory),
            false => self.backups.put(id, Region::of_backup(memory)),
        }
    }

    /// Gives up a reserved region. Returns whether it was reserved.
    pub(super) fn give_up(&self, id: RegionId) -> bool {
        let spare = self.reserved.lock().remove(&id.0);
        let there = spare.is_some();
        if there {
            self.backing.withdraw(Piece::Region(id.0));
        }
        there
    }

    /// Returns whether this machine has a backup of a region.
    pub fn has_backup(&self, id: RegionId) -> bool {
        self.backups.get(id).is_some()
    }

    /// Returns the slot at `addr` of a backup of this machine.
    pub fn backup(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        let region = self.backups.get(addr.region())?;
        region.object(addr.offset() as usize)
    }

    /// Returns the size class of a block of a backup, if it has one.
    pub fn backup_class(&self, id: BlockId) -> Option<Class> {
        let region = self.backups.get(id.region)?;
        region.class(id.block as usize)
    }

    /// Gives block `id` of a backup to `class`, as its primary did.
    ///
    /// # Errors
    /// [`OutOfMemory`] if this machine has no such backup, or the backup no such block.
    pub fn restore_backup(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        if !self.has_backup(id.region) {
            // The writer knows that the region is to be kept; that message is still on its way.
            self.keep(id.region);
        }
        let region = self.backups.get(id.region).ok_or(OutOfMemory)?;
        let there = region.class(id.block as usize);
        if there == Some(class) {
            return Ok(());
        }
        if there.is_some() {
            region.clear(id.block, class);
        }
        region.set_class(id.block, class)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::backing::{Backing, PeerMemory};
    use crate::region::{MAX_REGIONS, MIN_REGION_BYTES};
    use crate::timestamp::Timestamp;

    /// The backing of a machine whose regions are assigned to it.
    #[derive(Default)]
    struct AssignedBacking(Mutex<Vec<Piece>>);

    impl Backing for AssignedBacking {
        fn make(&self, piece: Piece, words: usize) -> std::io::Result<Memory> {
            let mut made = self.0.lock();
            if made.contains(&piece) {
                return Err(std::io::ErrorKind::AlreadyExists.into());
            }
            made.push(piece);
            Memory::anonymous(words)
        }

        fn find(&self, _piece: Piece) -> Option<PeerMemory> {
            None
        }

        fn withdraw(&self, piece: Piece) {
            self.0.lock().retain(|made| *made != piece);
        }

        fn next_region(&self, _made: u32) -> Option<u32> {
            None
        }
    }

    #[test]
    fn assigned_region_serves_once_committed() {
        let backing = Arc::new(AssignedBacking::default());
        let regions = Regions::with(MIN_REGION_BYTES, Arc::clone(&backing) as _);
        let take = || regions.acquire_block(Class(0), Timestamp::ZERO, true);
        assert!(regions.is_full());
        assert_eq!(take(), Err(OutOfMemory));
        let (first, second) = (RegionId(7), RegionId(3));
        regions.reserve(first, true).expect("memory");
        assert_eq!(take(), Err(OutOfMemory), "it may yet be given up");
        assert!(regions.give_up(first) && !regions.give_up(first));
        assert_eq!(*backing.0.lock(), []);
        for id in [first, second] {
            regions.reserve(id, true).expect("memory, again");
            regions.keep(id);
        }
        assert!(!regions.is_full());
        let mut last = None;
        for at in 0..30 {
            let id = take().expect("15 blocks in each of two regions");
            let of = if at < 15 { first } else { second };
            assert_eq!((id.region, id.block), (of, at % 15 + 1));
            last = Some(id);
        }
        assert!(regions.is_full() && regions.count() == 2);
        assert_eq!(take(), Err(OutOfMemory));
        let last = last.expect("thirty of them");
        regions.release_block(last, || Timestamp::ZERO);
        assert_eq!(take(), Ok(last), "what is free again serves");
        let beyond = RegionId(MAX_REGIONS as u32);
        assert_eq!(regions.reserve(beyond, true), Err(OutOfMemory));
    }

    #[test]
    fn reserved_backup_accepts_writes() {
        let backing = Arc::new(AssignedBacking::default());
        let regions = Regions::with(MIN_REGION_BYTES, Arc::clone(&backing) as _);
        let at = |region| BlockId {
            region: RegionId(region),
            block: 2,
        };
        assert_eq!(regions.restore_backup(at(1), Class(3)), Err(OutOfMemory));
        regions.reserve(RegionId(1), false).expect("memory");
        assert_eq!(*backing.0.lock(), [Piece::Region(1)]);
        assert_eq!(regions.restore_backup(at(1), Class(3)), Ok(()));
        // The message to keep it comes later.
        regions.keep(RegionId(1));
        assert_eq!(regions.backup_class(at(1)), Some(Class(3)));
        assert!(regions.is_full() && regions.region(RegionId(1)).is_none());
    }
}
