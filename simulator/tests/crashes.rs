//! Machines crash while clients are at work: what was told to have been committed is there, what was not is there as
//! a whole or not at all, and everybody goes on.

mod seeds_of;

use fencepost_simulator::plan::Plan;
use seeds_of::{hold, seeds};

#[test]
fn nothing_that_was_committed_is_lost_with_a_machine() {
    hold(seeds(0..150), Plan::draw_with_crash);
}

#[test]
fn nothing_is_lost_with_the_next_machine_once_all_data_has_replicas_again() {
    hold(seeds(0..150), Plan::draw_with_two_crashes);
}
