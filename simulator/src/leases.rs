//! What must hold of leases: nobody who is suspected believes in its own, clients are answered in one configuration at a
//! time, and without faults nobody is suspected.

use std::sync::Arc;

use fencepost_txn::Machine;

use crate::executor::Halted;

/// Whether a machine has its lease that the manager says has expired (LEASE-1). In a later configuration it has one of
/// another manager's.
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

/// Whether machines answer clients in different configurations at once (RECONF-1).
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

/// Nobody was suspected in a run in which nothing failed.
///
/// # Errors
/// Who was not let alone.
pub fn look(machines: &[Arc<Machine>]) -> Result<(), Halted> {
    for machine in machines {
        let counts = machine.lease_counts().unwrap_or_default();
        if counts.expired > 0 {
            let found = format!("m{} has suspected others: {counts:?}", machine.number());
            return Err(Halted::Broken(found));
        }
    }
    Ok(())
}
