//! The memory of a region after all its machines have ended: operations that a restart needs.
//!
//! # Requirements on the caller
//! Only the code that recovers the state of the previous incarnation uses an image. No other thread
//! uses the memory.

use fencepost_fabric::memory::{Memory, WORD_BYTES};
use fencepost_fabric::sync::{AtomicU64, Ordering};

use super::blocks::{BLOCK_BYTES, BlockId, Region};
use crate::account::OutOfMemory;
use crate::addr::{Addr, RegionId};
use crate::classes::{Class, MAX_SLOT_WORDS};
use crate::header::{LinkWord, OldVersionPtr};
use crate::object::ObjectRef;
use crate::timestamp::Timestamp;

/// The memory of a replica after its machine has ended.
pub struct Image {
    id: RegionId,
    memory: Memory,
    region: Region,
}

impl Image {
    /// Returns a replica of region `id`; `None` if the size of the memory is not that of a region.
    pub fn of(id: RegionId, memory: &Memory) -> Option<Image> {
        let bytes = memory.len() * WORD_BYTES;
        let allowed = (super::MIN_REGION_BYTES..=super::MAX_REGION_BYTES).contains(&bytes);
        (allowed && bytes.is_power_of_two()).then(|| Image {
            id,
            memory: memory.clone(),
            region: Region::of_backup(memory.clone()),
        })
    }

    /// Returns the number of words of the region.
    pub fn words(&self) -> usize {
        self.memory.len()
    }

    /// Returns the slot at `addr`, which is in this region; `None` outside every block in use.
    pub fn object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        self.region.object(addr.offset() as usize)
    }

    /// Returns the size class of the block of `addr`.
    pub fn class_of(&self, addr: Addr) -> Option<Class> {
        self.region.class(addr.offset() as usize / BLOCK_BYTES)
    }

    /// Gives a block that has another class, or none, to `class`; its contents are lost.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no such block.
    pub fn put_anew(&self, addr: Addr, class: Class) -> Result<(), OutOfMemory> {
        let block = BlockId::of(addr).block;
        if self.class_of(addr).is_some() {
            self.region.clear(block, class);
        }
        self.region.set_class(block, class)
    }

    /// Returns the newest timestamp in the block of `addr`.
    pub fn newest_in_block(&self, addr: Addr) -> Timestamp {
        let block = BlockId::of(addr).block as usize;
        let objects = self.objects_of(block);
        let newest = objects.map(|object| object.header().timestamp()).max();
        newest.unwrap_or(Timestamp::ZERO)
    }

    fn objects_of(&self, block: usize) -> impl Iterator<Item = ObjectRef<'_>> {
        let class = self.region.class(block);
        let slots = class.into_iter().flat_map(move |class| {
            let id = BlockId {
                region: self.id,
                block: block as u32,
            };
            (0..class.slots()).map(move |slot| id.slot(class, slot))
        });
        slots.filter_map(|addr| self.object(addr))
    }

    /// Releases all locks and clears the places of old versions. Returns the newest timestamp.
    pub fn calm(&self) -> Timestamp {
        let mut newest = Timestamp::ZERO;
        for object in (1..self.region.blocks()).flat_map(|block| self.objects_of(block)) {
            let (header, link) = (object.header(), object.link());
            newest = newest.max(header.timestamp());
            if !link.place().is_none() {
                object.put_link(LinkWord::new(link.incarnation(), OldVersionPtr::NONE));
            }
            if header.is_locked() {
                object.unlock(header);
            }
        }
        newest
    }

    /// Copies from another backup all objects of which it has newer versions.
    pub fn take_newer(&self, other: &Image) {
        for block in 1..self.region.blocks().min(other.region.blocks()) {
            let Some(class) = other.region.class(block) else {
                continue;
            };
            let at = |slot| {
                let block = block as u32;
                BlockId {
                    region: self.id,
                    block,
                }
                .slot(class, slot)
            };
            if self.region.class(block) != Some(class) {
                // A block gets another class only after all its objects were freed.
                let newer = other.newest_in_block(at(0)) > self.newest_in_block(at(0));
                if !newer || self.put_anew(at(0), class).is_err() {
                    continue;
                }
            }
            for slot in 0..class.slots() {
                let ours = self
                    .object(at(slot))
                    .map(|object| object.header().timestamp());
                let theirs = other
                    .object(at(slot))
                    .map(|object| object.header().timestamp());
                if theirs > ours {
                    let from = at(slot).offset() as usize / WORD_BYTES;
                    let words = from..from + class.slot_words();
                    copy(
                        &other.memory.words()[words.clone()],
                        &self.memory.words()[words],
                    );
                }
            }
        }
    }

    /// Makes another replica equal to this one. Memory outside blocks in use becomes zero there.
    pub fn copy_to(&self, other: &Image) {
        let (from, to) = (self.memory.words(), other.memory.words());
        for block in 1..self.region.blocks() {
            let words = block * MAX_SLOT_WORDS..(block + 1) * MAX_SLOT_WORDS;
            if self.region.class(block).is_some() {
                copy(&from[words.clone()], &to[words]);
            } else if to[block].load(Ordering::Relaxed) != 0 {
                to[words].iter().for_each(|word| put(word, 0));
            }
        }
        let header = 0..self.region.blocks();
        copy(&from[header.clone()], &to[header]);
    }
}

fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        put(to, from.load(Ordering::Relaxed));
    }
}

/// Writes only words that differ, so that equal pages stay untouched.
fn put(to: &AtomicU64, word: u64) {
    if to.load(Ordering::Relaxed) != word {
        to.store(word, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::header::Header;
    use crate::region::MIN_REGION_BYTES;

    const REGION: RegionId = RegionId(3);

    fn image() -> Image {
        let memory = Memory::anonymous(MIN_REGION_BYTES / WORD_BYTES).expect("memory");
        Image::of(REGION, &memory).expect("a region")
    }

    #[test]
    fn of_two_backups_the_later_versions_count() {
        let (image, other) = (image(), image());
        let class = Class::for_payload(5).expect("small");
        let at = |block, slot| {
            let region = REGION;
            BlockId { region, block }.slot(class, slot)
        };
        let write = |image: &Image, addr: Addr, w| {
            let object = image.object(addr).expect("a slot");
            object.put(0, &[w]);
            let header = Header(0).succeed(Timestamp::from_raw(w), true);
            object.finish_install(header, LinkWord::new(1, OldVersionPtr::NONE));
        };
        for (block, there) in [(2, &image), (2, &other), (3, &other)] {
            there.put_anew(at(block, 0), class).expect("a block");
        }
        write(&image, at(2, 0), 5);
        write(&other, at(2, 0), 6);
        write(&image, at(2, 1), 8);
        write(&other, at(2, 1), 7);
        write(&other, at(3, 4), 9);
        image.take_newer(&other);
        let word = |addr| image.object(addr).map(|object| object.word(0));
        assert_eq!(
            [at(2, 0), at(2, 1), at(3, 4)].map(word),
            [6, 8, 9].map(Some)
        );
        // The block has been given another class since.
        let later = Class::for_payload(50).expect("small");
        other.put_anew(at(3, 0), later).expect("a block");
        image.take_newer(&other);
        assert_eq!(image.class_of(at(3, 0)), Some(class));
    }

    #[test]
    fn retained_image_is_unlocked_and_copy_is_equal() {
        let (image, other) = (image(), image());
        let class = Class::for_payload(5).expect("small");
        let block = BlockId {
            region: REGION,
            block: 2,
        };
        let at = |slot| block.slot(class, slot);
        image.put_anew(at(0), class).expect("a block");
        let object = image.object(at(1)).expect("a slot");
        object.put(0, &[7, 8]);
        let header = Header(0).succeed(Timestamp::from_raw(9), true);
        object.finish_install(header, LinkWord::new(4, OldVersionPtr::new(5, 6, 7)));
        object.try_lock(header).expect("unlocked");
        assert_eq!(image.newest_in_block(at(0)).raw(), 9);
        assert_eq!(image.calm().raw(), 9);
        assert_eq!(object.header(), header);
        assert_eq!(object.link(), LinkWord::new(4, OldVersionPtr::NONE));
        // The earlier contents are overwritten.
        let old = Class::for_payload(50).expect("small");
        other.put_anew(at(0), old).expect("a block");
        image.copy_to(&other);
        assert_eq!(other.class_of(at(0)), Some(class));
        let copied = other.object(at(1)).expect("a slot");
        assert_eq!((copied.header(), copied.word(1)), (header, 8));
        // The contents of a block that is no longer in use are cleared.
        let stale = BlockId {
            region: REGION,
            block: 3,
        };
        other
            .put_anew(stale.slot(class, 0), class)
            .expect("a block");
        let left = other.object(stale.slot(class, 2)).expect("a slot");
        left.put(0, &[5]);
        image.copy_to(&other);
        assert_eq!(other.class_of(stale.slot(class, 0)), None);
        assert_eq!(left.word(0), 0);
        image.put_anew(at(0), old).expect("a block");
        let emptied = image.object(block.slot(old, 0)).expect("a slot");
        assert_eq!(emptied.header(), Header(0));
        let small = Memory::anonymous(8).expect("memory");
        assert!(Image::of(REGION, &small).is_none());
    }
}
