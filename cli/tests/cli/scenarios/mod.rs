//! Machines in their own processes under load, of which some fail. The others go on, and the
//! observations of clients are checked.
//!
//! ```text
//!   machines ─► load ─► fault (kill -9, SIGSTOP, a cut network, all at once) ─► more load ─► check
//! ```
//! Each fault runs once under one load, or `FENCEPOST_SCENARIO_ROUNDS` times under each load:
//! `.ci/scenarios --rounds 10`. Each run writes a line about its check to stderr.

mod faults;
mod loads;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use faults::Fault;
use loads::Load;

/// Returns how often each fault runs under each of the loads; `None` for once under one load.
fn rounds() -> Option<u32> {
    let rounds = std::env::var("FENCEPOST_SCENARIO_ROUNDS").ok()?;
    Some(rounds.parse().expect("a number of rounds"))
}

/// Runs a fault; `load` is the load if it runs only once.
fn scenario(fault: &'static Fault, load: Load) {
    let (rounds, loads) = match rounds() {
        Some(rounds) => (rounds, Load::ALL.to_vec()),
        None => (1, vec![load]),
    };
    // Network namespaces belong to threads, so the fault has its own thread.
    let all = std::thread::spawn(move || {
        let mut failed = 0;
        for round in 1..=rounds {
            for load in &loads {
                failed += u32::from(!once(fault, *load, round));
            }
        }
        failed
    });
    assert_eq!(all.join().expect("no panic"), 0, "rounds failed");
}

/// Runs one round; returns whether it succeeded or was skipped.
fn once(fault: &Fault, load: Load, round: u32) -> bool {
    let began = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| fault.under(load)));
    let (ok, what) = match done {
        Ok(Ok(checked)) => (true, format!("ok: {checked}")),
        Ok(Err(why)) => (true, format!("skipped: {why}")),
        // The panic message has been printed.
        Err(_) => (false, "FAILED".to_string()),
    };
    // eprintln would be hidden while the test passes.
    let _ = writeln!(
        std::io::stderr(),
        "scenario: {}, {load:?}, round {round}: {what} ({:.0} s)",
        fault.name,
        began.elapsed().as_secs_f64()
    );
    ok
}

#[test]
fn killed_machine() {
    scenario(&faults::KILL, Load::Lists);
}

#[test]
fn killed_cm() {
    scenario(&faults::KILL_MANAGER, Load::Tpcc);
}

#[test]
fn two_of_five_that_are_one_domain_are_killed() {
    scenario(&faults::KILL_DOMAIN, Load::Tatp);
}

#[test]
fn two_of_five_that_are_one_domain_are_killed_one_of_them_the_manager() {
    scenario(&faults::KILL_DOMAIN_OF_MANAGER, Load::Bank);
}

#[test]
fn machine_stopped_beyond_lease() {
    scenario(&faults::STOP, Load::Bank);
}

#[test]
fn cm_stopped_beyond_lease() {
    scenario(&faults::STOP_MANAGER, Load::Lists);
}

#[test]
fn machine_cut_off() {
    scenario(&faults::CUT_OFF, Load::Bank);
}

#[test]
fn two_of_five_are_cut_off_one_of_them_the_manager() {
    scenario(&faults::CUT_OFF_MANAGER, Load::Lists);
}

#[test]
fn machine_with_outgoing_messages_lost() {
    scenario(&faults::UNHEARD, Load::Lists);
}

#[test]
fn cm_with_outgoing_messages_lost() {
    scenario(&faults::UNHEARD_MANAGER, Load::Bank);
}

#[test]
fn two_that_do_not_hear_each_other_are_parted() {
    scenario(&faults::APART, Load::Lists);
}

#[test]
fn all_machines_are_killed_at_once() {
    scenario(&faults::ALL, Load::Lists);
}

#[test]
fn nvram_machines_killed_in_turn_then_all() {
    scenario(&faults::IN_TURN, Load::Bank);
}

#[test]
fn nvram_machines_over_tcp_killed_in_turn_then_all() {
    scenario(&faults::IN_TURN_OF_A_NETWORK, Load::Lists);
}

#[test]
fn all_machines_with_disks_are_killed_at_once() {
    scenario(&faults::ALL_WITH_DISKS, Load::Lists);
}

#[test]
fn all_machines_of_a_network_with_disks_are_killed_at_once() {
    scenario(&faults::ALL_OF_A_NETWORK, Load::Tpcc);
}
