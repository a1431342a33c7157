//! Machines leave in good order while clients are at work: what they had is at others then, nothing that anybody does is less
//! right than before, and no transaction ends but in a way that has it tried again.

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
