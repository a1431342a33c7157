//! Machines leave in good order while clients are active. Their regions are on other machines
//! afterwards, no invariant is violated, and every aborted transaction may be retried.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn leaving_machine_loses_no_data_and_leaves_no_locks() {
    hold(0..100, Plan::draw_with_leaving);
}

#[test]
fn machine_leaves_during_crash() {
    hold(0..100, Plan::draw_with_leaving_and_crash);
}
