//! Seeds that once found a fault, since fixed. After changes of plans or the protocol the same seed
//! may no longer reach it. The seeds are kept because they cover rare draws.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn who_is_out_waits_for_nobody_in_a_line_of_its_own() {
    hold(400_174..400_175, Plan::draw_with_hole);
    hold(400_596..400_597, Plan::draw_with_hole);
}

#[test]
fn who_missed_a_configuration_waits_for_regions_that_moved_in_it() {
    hold(200_073..200_074, Plan::draw_with_crash_at_recovery);
}

#[test]
fn slots_that_come_back_late_come_before_rest() {
    hold(200_137..200_138, Plan::draw_with_crash_beside_slow_ways);
}

#[test]
fn a_slot_is_as_a_new_life_of_its_block_left_it() {
    hold(200_115..200_116, Plan::draw_with_join);
}

#[test]
fn a_new_object_whose_slot_is_another_s_by_now_is_not_taken_for_what_is_there() {
    hold(400_526..400_527, Plan::draw_with_stalls);
}

#[test]
fn machine_that_hears_no_other_one_may_have_the_manager_left_out_beside_itself() {
    hold(700_049..700_050, Plan::draw_with_partition);
}
