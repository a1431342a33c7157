//! Injected faults in the handling of disks are found, each by a test that passes without the
//! fault.

use std::panic::catch_unwind;

use fencepost_txn::fault::{Fault, inject};

use crate::leased;

/// Most seeds that are tried.
const SEEDS: u64 = 10;

/// Returns whether a fault is found.
fn is_found(fault: Fault) -> bool {
    let found = |test: fn()| {
        let _fault = inject(fault);
        catch_unwind(test).is_err()
    };
    match fault {
        Fault::BeginAlone => found(leased::evicted_machine_is_stale_at_restart),
        Fault::GiveUpRegions => found(leased::no_region_is_given_up_that_a_disk_has),
        Fault::WholeBeforeCheckpoint => found(leased::readmitted_machine_restarts_without_data),
        Fault::TakeOldVersions => {
            found(leased::comes_back::rejoining_machine_copies_only_changed_objects)
        }
        _ => (0..SEEDS).any(|seed| {
            let _fault = inject(fault);
            let found = catch_unwind(|| leased::one_fails_and_then_all(seed)).is_err();
            if found {
                println!("{fault:?}: seed {seed}");
            }
            found
        }),
    }
}

#[test]
fn each_is_found() {
    let all = Fault::of_disks().iter();
    let missed: Vec<&Fault> = all.filter(|fault| !is_found(**fault)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
