//! Recovered blocks: blocks that this machine has not carved. Their free slots are found by
//! scanning (SOSP'15 §5.5).
//!
//! ```text
//! block  | allocated | free | locked | free, later | allocated | never used ...        |
//!                                                              ^ carved from here on
//! ```
//! Slots are carved in order, so nothing was ever written after the last used slot: neither a
//! header nor the links that [`Region::clear`] writes where the block had another class before.
//! That part takes no memory. It is not charged, and the pages that the scan has touched are
//! returned to the system.

use fencepost_fabric::memory::WORD_BYTES;

use super::Regions;
use super::blocks::{BlockId, Region};
use crate::account::Account;
use crate::addr::Addr;
use crate::classes::Class;
use crate::header::{Header, LinkWord, OldVersionPtr};
use crate::lanes::{self, Lanes};
use crate::timestamp::Timestamp;

/// The slots of a block without an object.
#[derive(Debug, PartialEq, Eq)]
struct FreeSlots {
    /// Free slots that all readers have passed, the last of the block first.
    free: Vec<u32>,
    /// Free slots that readers have not passed yet.
    later: Vec<Addr>,
    /// The first slot that was never used; at least one, so that a completely unused block is
    /// released.
    carved: usize,
}

impl Regions {
    /// Gives the lanes all blocks of a machine that is opening, before any transaction uses them.
    pub fn adopt_blocks(&self, lanes: &Lanes, account: &Account) {
        for (id, class) in self.blocks() {
            if let Some(region) = self.region(id.region) {
                let times = (Timestamp::MAX, Timestamp::MAX);
                region.adopt((id, class), (lanes, account), times);
            }
        }
    }
}

impl Region {
    /// Gives the lanes the free slots of a block. A slot that was freed above `floor` belongs to
    /// the transaction that freed it. No transaction reads below `oldest`.
    pub(super) fn adopt(
        &self,
        (id, class): (BlockId, Class),
        (lanes, account): (&Lanes, &Account),
        (floor, oldest): (Timestamp, Timestamp),
    ) {
        let found = self.look_through((id, class), floor, oldest);
        let charged = lanes::charge_of(class, found.carved);
        self.discard(id.block, charged / WORD_BYTES);
        account.charge_unchecked(charged as u64);
        lanes.adopt((id, class), found.free, found.carved);
        let mut lane = lanes.enter(0);
        for addr in found.later {
            // A slot freed exactly at the floor may also be retired by the transaction that freed
            // it.
            lane.retire(addr, Timestamp::from_raw(floor.raw() + 1));
        }
    }

    fn look_through(
        &self,
        (id, class): (BlockId, Class),
        floor: Timestamp,
        oldest: Timestamp,
    ) -> FreeSlots {
        let slot = |slot| {
            let addr = id.slot(class, slot);
            let object = self.object(addr.offset() as usize);
            object.map(|object| (addr, object.header(), object.link()))
        };
        let was_used = |at: &usize| {
            let never = (Header(0), LinkWord::new(0, OldVersionPtr::NONE));
            slot(*at).is_some_and(|(_, header, link)| (header, link) != never)
        };
        let last = (0..class.slots()).rev().find(was_used).unwrap_or(0);
        let (mut free, mut later) = (Vec::new(), Vec::new());
        for (addr, header, _) in (0..=last).rev().filter_map(slot) {
            if header.is_allocated() || header.is_locked() || header.timestamp() > floor {
                continue;
            }
            match header.timestamp() <= oldest {
                true => free.push(addr.offset()),
                false => later.push(addr),
            }
        }
        let carved = last + 1;
        FreeSlots {
            free,
            later,
            carved,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lanes::tests::supply;
    use crate::region::{BLOCK_BYTES, MIN_REGION_BYTES};
    use proptest::prelude::*;

    fn used(regions: &Regions, addr: Addr, ts: u64, live: bool) {
        let object = regions.object(addr).expect("there");
        let header = Header(0).succeed(Timestamp::from_raw(ts), live);
        object.finish_install(header, LinkWord::new(1, OldVersionPtr::NONE));
    }

    #[test]
    fn empty_block_is_returned_whole() {
        let (regions, lanes) = (Regions::new(MIN_REGION_BYTES), Lanes::new(1));
        let class = Class::for_payload(10).expect("small");
        let acquired = regions.acquire_block(class, Timestamp::ZERO, true);
        acquired.expect("memory");
        let account = Account::new(1 << 30);
        regions.adopt_blocks(&lanes, &account);
        lanes.release_empty_blocks(&regions, &account, || Timestamp::ZERO);
        assert_eq!((regions.blocks(), account.used()), (vec![], 0));
    }

    #[test]
    fn block_with_new_class_is_used_completely() {
        let (regions, lanes) = (Regions::new(MIN_REGION_BYTES), Lanes::new(1));
        let (one, other) = (Class::for_payload(10), Class::for_payload(100));
        let (one, other) = (one.expect("small"), other.expect("small"));
        let acquired = regions.acquire_block(one, Timestamp::ZERO, true);
        let id = acquired.expect("memory");
        regions.release_block(id, || Timestamp::ZERO);
        while regions.acquire_block(other, Timestamp::MAX, true) != Ok(id) {}
        let region = regions.region(id.region).expect("there");
        let incarnation = |region: &Region| {
            let last = id.slot(other, other.slots() - 1).offset();
            region.object(last as usize).expect("there").link()
        };
        let before = incarnation(region);
        let account = Account::new(1 << 30);
        let times = (Timestamp::MAX, Timestamp::MAX);
        region.adopt((id, other), (&lanes, &account), times);
        assert_eq!(incarnation(region), before);
        assert_eq!(account.used(), BLOCK_BYTES as u64);
    }

    proptest! {
        /// Each free slot of a block is allocated once, whichever slots were used. No memory is
        /// charged for slots that were never used.
        #[test]
        fn each_free_slot_is_allocated_once(
            slots in proptest::collection::btree_map(0usize..900, (1u64..20, any::<bool>()), 0..40),
            floor in 5u64..25,
            words in 1usize..100,
        ) {
            let (regions, lanes) = (Regions::new(MIN_REGION_BYTES), Lanes::new(1));
            let class = Class::for_payload(words).expect("small");
            let id = regions.acquire_block(class, Timestamp::ZERO, true).expect("memory");
            for (slot, (ts, live)) in &slots {
                used(&regions, id.slot(class, *slot), *ts, *live);
            }
            let account = Account::new(1 << 30);
            let floor = Timestamp::from_raw(floor);
            let region = regions.region(id.region).expect("there");
            region.adopt((id, class), (&lanes, &account), (floor, Timestamp::MAX));
            let carved = slots.keys().last().map_or(1, |last| last + 1);
            prop_assert_eq!(account.used(), lanes::charge_of(class, carved) as u64);
            let in_use = |(slot, (ts, live)): (&usize, &(u64, bool))| {
                (*live || *ts > floor.raw()).then_some(*slot)
            };
            let in_use: Vec<usize> = slots.iter().filter_map(in_use).collect();
            let mut came = Vec::new();
            let mut lane = lanes.enter(0);
            while came.len() < class.slots() - in_use.len() {
                let slot = lane.alloc(supply(&regions, &account), class, Addr::NULL);
                came.push(slot.expect("memory"));
            }
            let next = lane.alloc(supply(&regions, &account), class, Addr::NULL).expect("memory");
            prop_assert!(BlockId::of(next) != id, "more than was free");
            came.sort();
            let free = (0..class.slots()).filter(|slot| !in_use.contains(slot));
            let free: Vec<Addr> = free.map(|slot| id.slot(class, slot)).collect();
            prop_assert_eq!(came, free);
        }
    }
}
