//! Slots near others, runs, retired slots, the memory limit, and random histories.

use super::*;
use crate::region::{BLOCK_BYTES, MIN_REGION_BYTES};
use proptest::prelude::*;
use std::collections::HashSet;

/// Returns a supply of memory without active readers.
pub(crate) fn supply<'a>(regions: &'a Regions, account: &'a Account) -> LaneResources<'a> {
    LaneResources {
        regions,
        account,
        oldest: &|| Timestamp::ZERO,
        may_reuse_blocks: &|| true,
    }
}

/// Returns empty regions, an account of `limit_bytes`, and lanes.
fn memory(limit_bytes: u64, lanes: usize) -> (Regions, Account, Lanes) {
    let regions = Regions::new(MIN_REGION_BYTES);
    (regions, Account::new(limit_bytes), Lanes::new(lanes))
}

/// Generates a step: its kind, its lane, a payload in words, and an allocated slot.
fn step() -> impl Strategy<Value = (usize, usize, usize, prop::sample::Index)> {
    (
        0usize..3,
        0usize..2,
        1usize..3000,
        any::<prop::sample::Index>(),
    )
}

#[test]
fn near_finds_the_block_then_the_region() {
    let (regions, account, lanes) = memory(1 << 30, 1);
    let class = Class::for_payload(1000).expect("fits");
    let mut lane = lanes.enter(0);
    let mut all = Vec::new();
    for _ in 0..class.slots() * 2 + 1 {
        all.push(
            lane.alloc(supply(&regions, &account), class, Addr::NULL)
                .expect("fits"),
        );
    }
    let (first, middle) = (all[3], all[class.slots() + 3]);
    lane.give_back(&regions, first);
    lane.give_back(&regions, middle);
    let near = all[class.slots() + 5];
    assert_eq!(
        lane.alloc(supply(&regions, &account), class, near),
        Ok(middle)
    );
    assert_eq!(
        lane.alloc(supply(&regions, &account), class, all[0]),
        Ok(first)
    );
}

#[test]
fn run_is_consecutive_and_retired_slot_waits() {
    let (regions, account, lanes) = memory(1 << 30, 1);
    let class = Class::for_payload(30).expect("fits");
    let mut lane = lanes.enter(0);
    let first = lane
        .alloc_run(supply(&regions, &account), class, 100)
        .expect("fits a block");
    let next = lane
        .alloc(supply(&regions, &account), class, Addr::NULL)
        .expect("fits");
    assert_eq!(
        next.offset() - first.offset(),
        (100 * class.slot_words() * WORD_BYTES) as u32
    );
    lane.retire(next, Timestamp::from_raw(10));
    lane.reuse_retired(&regions, Timestamp::from_raw(9));
    assert_ne!(
        lane.alloc(supply(&regions, &account), class, next),
        Ok(next)
    );
    lane.reuse_retired(&regions, Timestamp::from_raw(10));
    assert_eq!(
        lane.alloc(supply(&regions, &account), class, next),
        Ok(next)
    );
}

#[test]
fn at_the_limit_nothing_more_is_given_and_nothing_is_lost() {
    let (regions, account, lanes) = memory(256 << 10, 1);
    let class = Class::for_payload(100).expect("fits");
    let mut lane = lanes.enter(0);
    let mut got = Vec::new();
    while let Ok(addr) = lane.alloc(supply(&regions, &account), class, Addr::NULL) {
        got.push(addr);
    }
    assert!(account.used() <= 256 << 10 && got.len() > 200);
    let back = got[17];
    lane.give_back(&regions, back);
    assert_eq!(
        lane.alloc(supply(&regions, &account), class, Addr::NULL),
        Ok(back)
    );
}

#[test]
fn at_the_limit_a_free_slot_is_found_though_other_blocks_could_be_carved() {
    let (regions, account, lanes) = memory((1 << 20) + (128 << 10), 1);
    let class = Class::for_payload(1000).expect("fits");
    let mut lane = lanes.enter(0);
    let mut got = Vec::new();
    while let Ok(addr) = lane.alloc(supply(&regions, &account), class, Addr::NULL) {
        got.push(addr);
    }
    assert!(got.len() > class.slots(), "a second block was begun");
    lane.give_back(&regions, got[3]);
    let last = got[got.len() - 1];
    assert_eq!(
        lane.alloc(supply(&regions, &account), class, last),
        Ok(got[3])
    );
}

#[test]
fn block_freed_into_other_lane_is_returned_whole() {
    let (regions, account, lanes) = memory(1 << 30, 2);
    let class = Class::for_payload(1000).expect("fits");
    // One slot more than a block has, so that the first block leaves the search of its lane.
    let all: Vec<Addr> = (0..=class.slots())
        .map(|_| {
            lanes
                .enter(0)
                .alloc(supply(&regions, &account), class, Addr::NULL)
                .expect("fits")
        })
        .collect();
    for addr in all {
        lanes.enter(1).give_back(&regions, addr);
    }
    lanes.release_empty_blocks(&regions, &account, || Timestamp::from_raw(1));
    assert_eq!((regions.blocks(), account.used()), (vec![], 0));
}

proptest! {
    /// Compares with a model: no slot is allocated twice, and slots of a block do not overlap.
    /// When all slots are returned, every block returns to the regions and the account to zero.
    #[test]
    fn slot_is_allocated_only_once(steps in proptest::collection::vec(step(), 1..300)) {
        let (regions, account, lanes) = memory(1 << 40, 2);
        let mut held: Vec<(Addr, Class)> = Vec::new();
        let mut set = HashSet::new();
        for (what, lane, words, pick) in steps {
            let mut lane = lanes.enter(lane);
            if what < 2 || held.is_empty() {
                let class = Class::for_payload(words).expect("small");
                let mut near = Addr::NULL;
                if what == 1 && !held.is_empty() {
                    near = held[pick.index(held.len())].0;
                }
                let addr = lane.alloc(supply(&regions, &account), class, near);
                let addr = addr.expect("no limit");
                prop_assert!(set.insert(addr), "{addr} twice");
                prop_assert_eq!(regions.class_of(addr), Some(class));
                let within = addr.offset() as usize % BLOCK_BYTES;
                prop_assert_eq!(within % (class.slot_words() * WORD_BYTES), 0);
                held.push((addr, class));
            } else {
                let (addr, _) = held.swap_remove(pick.index(held.len()));
                set.remove(&addr);
                lane.give_back(&regions, addr);
            }
        }
        for (addr, _) in held.drain(..) {
            lanes.enter(1).give_back(&regions, addr);
        }
        lanes.release_empty_blocks(&regions, &account, || Timestamp::from_raw(1));
        prop_assert_eq!(regions.blocks(), vec![]);
        prop_assert_eq!(account.used(), 0);
    }
}
