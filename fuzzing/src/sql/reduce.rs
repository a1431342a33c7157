//! The reduction of scripts: shorter scripts with the same fault.

use std::path::Path;

use super::round::{Bounds, Fault, Outcome, run};
use super::script::Step;

/// Returns a shorter script with a fault of the same signature, found with at most `tries` runs.
pub fn reduce(
    program: &Path,
    steps: &[Step],
    outcome: &Outcome,
    fault: &Fault,
    bounds: &Bounds,
    mut tries: usize,
) -> Vec<Step> {
    let signature = fault.signature();
    let mut shows = |steps: &[Step]| {
        tries = tries.checked_sub(1)?;
        let outcome = run(program, steps, bounds).ok()?;
        let mut faults = outcome.faults.iter();
        Some(faults.any(|fault| fault.signature() == signature))
    };
    let mut kept = steps[..fault.step.min(steps.len())].to_vec();
    let last = kept.len().saturating_sub(1);
    let of = |keeps: &dyn Fn(usize) -> bool| -> Vec<Step> {
        let steps = kept.iter().enumerate().filter(|(at, _)| keeps(*at));
        steps.map(|(_, step)| step.clone()).collect()
    };
    let alone = of(&|at| at == last);
    let needed = of(&|at| at == last || outcome.succeeded.get(at) == Some(&true));
    if shows(&alone) == Some(true) {
        return alone;
    }
    if shows(&needed) == Some(true) {
        kept = needed;
    }
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut shorter = kept.clone();
            shorter.drain(at..(at + size).min(kept.len()));
            match shows(&shorter) {
                Some(true) => kept = shorter,
                Some(false) => at += size,
                None => return kept,
            }
        }
        size /= 2;
    }
    kept
}
