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
fn crash_at_any_commit_step_leaves_whole_commits() {
    hold(0..200, Plan::draw_with_crash_in_commit);
}

#[test]
fn lost_record_before_crash_loses_no_commit() {
    hold(0..100, Plan::draw_with_lost_record);
}

#[test]
fn crash_at_any_reconfiguration_step_is_survived() {
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
fn acknowledged_but_unprocessed_records_are_recovered() {
    hold(0..60, Plan::draw_with_hole);
}

#[test]
fn torn_reads_during_recovery_lose_nothing() {
    hold(0..50, Plan::draw_with_torn_reads);
}

#[test]
fn nothing_is_lost_where_some_ways_are_much_longer_than_others() {
    hold(0..50, Plan::draw_with_slow_ways);
}

#[test]
fn crash_of_machine_far_ahead_of_its_writes_loses_nothing() {
    hold(0..150, Plan::draw_with_crash_on_slow_ways);
}

#[test]
fn long_commits_across_reconfiguration_are_atomic() {
    hold(0..50, Plan::draw_with_crash_beside_slow_ways);
}

#[test]
fn abandoned_commits_are_atomic_despite_crash() {
    hold(0..50, Plan::draw_with_client_that_leaves);
}

#[test]
fn crash_detected_only_by_leases_is_survived() {
    hold(0..100, Plan::draw_with_unnoticed_crash);
}

#[test]
fn two_machines_that_do_not_hear_each_other_for_a_while_do_no_harm() {
    hold(0..100, Plan::draw_with_silence);
}

#[test]
fn crash_at_any_quiet_reconfiguration_step_is_survived() {
    hold(0..100, Plan::draw_with_crash_at_quiet_step);
}
