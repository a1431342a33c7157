//! Machines that are not there for a while, and come back when others have taken their place: they tell nobody anything
//! wrong and harm nothing, and learn that they are out.

mod held;

use fencepost_simulator::plan::Plan;
use held::hold;

#[test]
fn machines_that_stood_still_do_no_harm() {
    hold(0..150, Plan::draw_with_pause);
}

#[test]
fn machines_that_were_cut_off_do_no_harm() {
    hold(0..150, Plan::draw_with_partition);
}
