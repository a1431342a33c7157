//! Injected faults in the handling of disks are found, each by a test that passes without the
//! fault.

use std::panic::catch_unwind;

use fencepost_txn::planted::{Planted, plant};

use crate::leased;

/// Most seeds that are tried.
const SEEDS: u64 = 10;

/// Returns whether a fault is found.
fn is_found(planted: Planted) -> bool {
    let found = |test: fn()| {
        let _planted = plant(planted);
        catch_unwind(test).is_err()
    };
    match planted {
        Planted::BeginAlone => found(leased::a_machine_that_was_out_is_stale),
        Planted::GiveUpRegions => found(leased::no_region_is_given_up_that_a_disk_has),
        Planted::WholeBeforeCheckpoint => {
            found(leased::a_machine_that_was_out_is_taken_back_with_nothing)
        }
        Planted::TakeOldVersions => {
            found(leased::comes_back::a_machine_that_comes_back_gets_what_has_changed)
        }
        _ => (0..SEEDS).any(|seed| {
            let _planted = plant(planted);
            let found = catch_unwind(|| leased::one_fails_and_then_all(seed)).is_err();
            if found {
                println!("{planted:?}: seed {seed}");
            }
            found
        }),
    }
}

#[test]
fn each_is_found() {
    let all = Planted::of_disks().iter();
    let missed: Vec<&Planted> = all.filter(|planted| !is_found(**planted)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
