//! Seeds that once found a fault, since fixed. After changes of plans or the protocol the same seed
//! may no longer reach it. The seeds are kept because they cover rare draws.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn evicted_machine_does_not_wait_in_local_lock_queue() {
    hold(400_174..400_175, Plan::draw_with_hole);
    hold(400_596..400_597, Plan::draw_with_hole);
}

#[test]
fn machine_that_missed_configuration_awaits_moved_regions() {
    hold(200_073..200_074, Plan::draw_with_crash_at_recovery);
}

#[test]
fn slots_that_come_back_late_come_before_rest() {
    hold(200_137..200_138, Plan::draw_with_crash_beside_slow_ways);
}

#[test]
fn slot_keeps_state_of_latest_block_use() {
    hold(200_115..200_116, Plan::draw_with_join);
}

#[test]
fn new_object_is_not_confused_with_current_slot_owner() {
    hold(400_526..400_527, Plan::draw_with_stalls);
}

#[test]
fn isolated_machine_may_be_evicted_together_with_cm() {
    hold(700_049..700_050, Plan::draw_with_partition);
}
