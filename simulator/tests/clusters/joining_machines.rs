//! Machines join while clients are active: no invariant is violated, and the joining machine works
//! like all others.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn a_machine_that_joins_sees_and_writes_everything_and_becomes_a_backup() {
    hold(0..100, Plan::draw_with_join);
}

#[test]
fn a_machine_joins_while_another_one_crashes() {
    hold(0..100, Plan::draw_with_join_and_crash);
}
