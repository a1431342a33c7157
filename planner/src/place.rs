//! On which machines the partitions of a table are.
//!
//! Those of a new table go round the machines: partition p is on the machine at position p modulo their
//! number. Those of a table that is kept together with another are where the other's are, which new machines
//! do not change.

use fencepost_sql::catalog::TableDef;
use fencepost_storage::Addr;
use fencepost_txn::{Machine, MachineId, Near};

/// Where the partitions of a table are made.
#[derive(Debug)]
pub enum Places {
    /// On these machines in turn.
    Round(Vec<MachineId>),
    /// Each with one of these objects.
    With(Vec<Addr>),
}

impl Places {
    /// On all machines.
    pub fn spread(machine: &Machine) -> Places {
        let members = machine.members().machines;
        Places::Round(members.iter().map(|member| MachineId(member.id)).collect())
    }

    /// Where the partitions of `table` are.
    pub fn with(table: &TableDef) -> Places {
        let roots = table.primary().roots.all().iter();
        Places::With(roots.map(|root| Addr::from_raw(*root)).collect())
    }

    /// Where a partition is made.
    pub fn of(&self, partition: u32) -> Near {
        let at = partition as usize;
        match self {
            Places::Round(machines) => match machines.get(at % machines.len().max(1)) {
                Some(machine) => Near::Machine(*machine),
                None => Near::Own,
            },
            Places::With(objects) => objects.get(at).map_or(Near::Own, |at| Near::Object(*at)),
        }
    }
}
