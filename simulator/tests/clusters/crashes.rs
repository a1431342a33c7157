//! Machines crash while clients are active. Acknowledged commits remain, other commits take effect
//! completely or not at all, and the remaining clients continue. The same holds if machines pause
//! or are cut off for a while, and find that they have been replaced.
//!
//! More seeds: `SEEDS=from..to`, or
//! `cargo run --release -p fencepost-simulator -- --kind crash --seeds 10000`.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn nothing_that_was_committed_is_lost_with_a_machine() {
    hold(0..150, Plan::draw_with_crash);
}

#[test]
fn nothing_is_lost_where_writes_never_arrive_or_come_late() {
    hold(0..150, Plan::draw_with_bad_network);
}

#[test]
fn nothing_is_lost_with_the_next_machine_once_all_data_has_replicas_again() {
    hold(0..150, Plan::draw_with_two_crashes);
}

#[test]
fn nothing_is_lost_with_a_machine_that_crashes_while_another_is_replaced() {
    hold(0..150, Plan::draw_with_crash_in_recovery);
}

#[test]
fn commits_are_whole_whatever_step_their_machine_crashes_at() {
    hold(0..200, Plan::draw_with_crash_in_commit);
}

#[test]
fn a_record_may_be_lost_before_its_machine() {
    hold(0..100, Plan::draw_with_lost_record);
}

#[test]
fn machines_are_replaced_whatever_step_of_that_another_crashes_at() {
    hold(0..200, Plan::draw_with_crash_at_recovery);
}

#[test]
fn machines_that_stood_still_do_no_harm() {
    hold(0..120, Plan::draw_with_pause);
}

#[test]
fn nothing_is_lost_while_clients_get_a_processor_only_now_and_then() {
    hold(0..120, Plan::draw_with_stalls);
}

#[test]
fn machines_that_were_cut_off_do_no_harm() {
    hold(0..120, Plan::draw_with_partition);
}

#[test]
fn who_acknowledges_what_it_never_sees_has_not_got_it() {
    hold(0..60, Plan::draw_with_hole);
}

#[test]
fn nothing_is_lost_where_memory_changes_while_it_is_read() {
    hold(0..50, Plan::draw_with_torn_reads);
}

#[test]
fn nothing_is_lost_where_some_ways_are_much_longer_than_others() {
    hold(0..50, Plan::draw_with_slow_ways);
}

#[test]
fn nothing_is_lost_with_a_machine_that_is_far_ahead_of_what_it_has_written() {
    hold(0..150, Plan::draw_with_crash_on_slow_ways);
}

#[test]
fn what_was_under_way_for_long_while_a_machine_was_replaced_is_whole_or_not_at_all() {
    hold(0..50, Plan::draw_with_crash_beside_slow_ways);
}

#[test]
fn commits_whose_clients_have_left_are_whole_whatever_becomes_of_their_machine() {
    hold(0..50, Plan::draw_with_client_that_leaves);
}

#[test]
fn machines_whose_end_only_leases_tell_are_replaced() {
    hold(0..100, Plan::draw_with_unnoticed_crash);
}

#[test]
fn two_machines_that_do_not_hear_each_other_for_a_while_do_no_harm() {
    hold(0..100, Plan::draw_with_silence);
}

#[test]
fn machines_are_replaced_whatever_quiet_step_of_that_another_crashes_at() {
    hold(0..100, Plan::draw_with_crash_at_quiet_step);
}
