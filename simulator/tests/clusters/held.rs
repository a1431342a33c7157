//! Runs of many seeds of a kind of plan.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fencepost_simulator::plan::Plan;
use fencepost_simulator::run::record_plan;

/// Returns the seeds of the environment variable `SEEDS`, `from..to`, or else the given ones.
fn seeds(otherwise: Range<u64>) -> Range<u64> {
    std::env::var("SEEDS").map_or(otherwise, |seeds| {
        let (from, to) = seeds.split_once("..").expect("a range");
        from.parse().expect("a seed")..to.parse().expect("a seed")
    })
}

/// Runs the plans of these seeds, or of those in `SEEDS`, and reports the seeds that find a fault.
pub fn hold(otherwise: Range<u64>, plan: impl Fn(u64) -> Plan) {
    let mut found = Vec::new();
    for seed in seeds(otherwise) {
        let plan = Rc::new(plan(seed));
        let (machines, faults) = (plan.machines, plan.faults.clone());
        let say = |what: &str| println!("seed {seed}, {machines} machines, {faults:?}: {what}");
        match catch_unwind(AssertUnwindSafe(|| record_plan(plan))) {
            Ok(Ok(_)) => {}
            Ok(Err(halted)) => {
                let halted: String = halted.to_string().chars().take(1000).collect();
                say(&halted);
                found.push(seed);
            }
            Err(_) => {
                say("panicked");
                found.push(seed);
            }
        }
    }
    assert_eq!(found, [0; 0], "these seeds find something");
}
