//! Runs of many seeds, for tests of which each has its plans.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fencepost_simulator::plan::Plan;
use fencepost_simulator::run::record_plan;

/// The seeds of `SEEDS`, `from..to`, where that is given.
pub fn seeds(otherwise: Range<u64>) -> Range<u64> {
    std::env::var("SEEDS").map_or(otherwise, |seeds| {
        let (from, to) = seeds.split_once("..").expect("a range");
        from.parse().expect("a seed")..to.parse().expect("a seed")
    })
}

/// All that must hold of runs holds of those of these seeds.
pub fn hold(seeds: Range<u64>, plan: impl Fn(u64) -> Plan) {
    let mut found = Vec::new();
    for seed in seeds {
        let plan = Rc::new(plan(seed));
        match catch_unwind(AssertUnwindSafe(|| record_plan(plan))) {
            Ok(Ok(_)) => {}
            Ok(Err(halted)) => {
                let halted: String = halted.to_string().chars().take(300).collect();
                println!("seed {seed}: {halted}");
                found.push(seed);
            }
            Err(_) => {
                println!("seed {seed}: panicked");
                found.push(seed);
            }
        }
    }
    assert_eq!(found, [0; 0], "these seeds find something");
}
