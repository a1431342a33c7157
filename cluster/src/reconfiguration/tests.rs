//! Simulated clusters that lose machines and connections at any step, and single rules.

mod check;
mod faults;
mod messages;
mod never_in_force;
mod node;
mod regions;
mod rules;
mod world;

use proptest::prelude::*;

use self::check::EventCounts;
use self::world::World;

proptest! {
    // PROPTEST_CASES may set a larger number.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(400)))]

    #[test]
    fn random_failures_leave_one_active_configuration_with_majority(seed: u64) {
        World::new(seed).run();
    }
}

/// Runs worlds in which only some members had applied a configuration, and the next one followed.
/// The former had given up a replica, replaced one of a region that was only prepared, or promoted
/// a backup.
#[test]
fn replicas_survive_configurations_that_were_never_in_force() {
    for seed in [
        9_677_560_599_820_646_464,
        12_618_738_322_924_635_112,
        17_058_869_962_491_774_720,
        10_992_090_151_840_968_102,
    ] {
        World::new(seed).run();
    }
}

/// Checks that the random worlds reach every interesting event often.
#[test]
fn everything_that_matters_happens_often() {
    let seeds = 200;
    let mut all = EventCounts::default();
    for seed in 0..seeds {
        all.add(&World::new(seed).run());
    }
    let EventCounts {
        committed,
        new_cms,
        joined,
        removals,
        leaving,
        parted,
        given_up,
        evicted,
        lost,
        refused,
        filled,
        stuck,
        skipped,
    } = all;
    assert!(committed > seeds && new_cms > seeds / 2, "{all:?}");
    assert!(evicted > seeds / 2 && filled > seeds / 2, "{all:?}");
    assert!(joined > seeds / 10 && removals > seeds / 20, "{all:?}");
    assert!(
        leaving > seeds / 10 && parted > seeds / 50 && given_up > seeds / 10,
        "{all:?}"
    );
    assert!(
        lost > seeds / 20 && refused > 0 && skipped > seeds / 20,
        "{all:?}"
    );
    assert!(stuck < seeds / 10, "{all:?}");
}

#[test]
fn same_seed_gives_same_history() {
    assert_eq!(World::new(7).run(), World::new(7).run());
}
