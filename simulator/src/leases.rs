//! The checks of leases: no suspected machine relies on its lease, machines answer clients in one
//! configuration at a time, and without faults no machine is suspected.

use std::sync::Arc;

use fencepost_txn::Machine;

use crate::executor::RunFailure;

/// Returns an error if a machine holds its lease although the manager says that it has expired
/// (LEASE-1). A machine in a later configuration has the lease of another manager.
pub fn wrong_about(manager: &Machine, machines: &[Arc<Machine>]) -> Option<String> {
    let counts = manager.lease_counts()?;
    let suspected = |machine: &&Arc<Machine>| counts.suspected.contains(&machine.number());
    let configuration = |machine: &Machine| machine.members().configuration;
    let current = configuration(manager);
    let believes =
        |machine: &&Arc<Machine>| machine.holds_lease() && configuration(machine) == current;
    let wrong = machines.iter().filter(suspected).find(believes)?;
    Some(format!(
        "m{} is suspected in configuration {current}, and has its lease",
        wrong.number()
    ))
}

/// Returns an error if machines answer clients in different configurations at once (RECONF-1).
pub fn two_act(machines: &[Arc<Machine>]) -> Option<String> {
    let mut acting = machines.iter().filter(|machine| machine.is_answering());
    let one = acting.next()?;
    let other = acting.find(|other| other.configuration() != one.configuration())?;
    let say = |machine: &Machine| format!("m{} in {}", machine.number(), machine.configuration());
    Some(format!(
        "two configurations act: {}, {}",
        say(one),
        say(other)
    ))
}

/// Checks that no machine was suspected in a run without faults.
///
/// # Errors
/// A description of the suspicion.
pub fn look(machines: &[Arc<Machine>]) -> Result<(), RunFailure> {
    for machine in machines {
        let counts = machine.lease_counts().unwrap_or_default();
        if counts.expired > 0 {
            let found = format!("m{} has suspected others: {counts:?}", machine.number());
            return Err(RunFailure::Broken(found));
        }
    }
    Ok(())
}
