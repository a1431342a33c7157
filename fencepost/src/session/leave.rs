//! ALTER SYSTEM DRAIN MACHINE and REMOVE MACHINE: planned removal of machines.
//!
//! Both only start the operation and return; `pg_fencepost_machines` shows its progress. They may
//! be repeated until the operation has completed. That may be necessary, because a configuration
//! manager that is busy or lost forgets the request.

use std::collections::BTreeSet;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::MachineId;
use fencepost_txn::network::MemberState;

use super::Session;

impl Session {
    /// Executes ALTER SYSTEM DRAIN MACHINE: moves the machine's replicas to other machines.
    pub(super) fn drain_machine(&mut self, number: u32) -> Result<&'static str, SqlError> {
        let machine = self.machine_to_leave(number, "ALTER SYSTEM DRAIN MACHINE")?;
        if !machine.leaving {
            let members = self.db.machine.members();
            let staying = members.machines.iter();
            let staying = staying.filter(|other| !other.leaving && other.id != number);
            let domains: BTreeSet<&str> = staying.map(|other| &*other.domain).collect();
            if domains.len() < members.replicas {
                let (replicas, left) = (members.replicas, domains.len());
                return Err(not_ready(format!(
                    "machine {number} cannot be drained: regions have {replicas} replicas, \
                     and without it there are {left} failure domains"
                )));
            }
        }
        self.db.machine.ask_to_leave(MachineId(number));
        Ok("ALTER SYSTEM")
    }

    /// Executes ALTER SYSTEM REMOVE MACHINE: removes a machine that has no replicas any more.
    pub(super) async fn remove_machine(
        &mut self,
        number: u32,
    ) -> Result<&'static str, StatementStop> {
        let machine = self.machine_to_leave(number, "ALTER SYSTEM REMOVE MACHINE")?;
        let regions = self.db.machine.all_regions().await?;
        let mut regions = regions.iter();
        if !machine.leaving || regions.any(|region| region.replicas.has(MachineId(number))) {
            let refused = not_ready(format!("machine {number} is not drained"));
            return Err(refused
                .hint("Drain it first: ALTER SYSTEM DRAIN MACHINE.")
                .into());
        }
        self.db.machine.ask_to_part_with(MachineId(number));
        Ok("ALTER SYSTEM")
    }

    fn machine_to_leave(&mut self, number: u32, command: &str) -> Result<MemberState, SqlError> {
        self.outside_block(command)?;
        self.superuser_only(&format!("must be superuser to do {command}"))?;
        let machine = &self.db.machine;
        let mut members = machine.members().machines.into_iter();
        let member = members.find(|member| member.id == number);
        let member = member.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("there is no machine {number}"),
            )
        })?;
        if !machine.lets_others_leave() {
            return Err(not_ready(format!(
                "machine {number} cannot leave: these machines have no leases, \
                 or do not keep their configuration"
            )));
        }
        Ok(member)
    }
}

fn not_ready(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
