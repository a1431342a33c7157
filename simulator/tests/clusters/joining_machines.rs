//! Machines join while clients are active: no invariant is violated, and the joining machine works
//! like all others.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn joined_machine_reads_writes_and_becomes_backup() {
    hold(0..100, Plan::draw_with_join);
}

#[test]
fn machine_joins_during_crash() {
    hold(0..100, Plan::draw_with_join_and_crash);
}
