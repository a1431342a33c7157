//! Machines leave in good order while clients are active. Their regions are on other machines
//! afterwards, no invariant is violated, and every aborted transaction may be retried.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn a_machine_leaves_nothing_behind_and_takes_nothing_along() {
    hold(0..100, Plan::draw_with_leaving);
}

#[test]
fn a_machine_leaves_while_a_machine_crashes() {
    hold(0..100, Plan::draw_with_leaving_and_crash);
}
