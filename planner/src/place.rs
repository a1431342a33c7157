//! The placement of a table's partitions on machines.
//!
//! The partitions of a new table are distributed round-robin: partition p is on the machine at
//! position p modulo their number. The partitions of a table that is colocated with another table
//! are where the other's partitions are; new machines do not change that.

use fencepost_sql::catalog::TableDef;
use fencepost_storage::Addr;
use fencepost_txn::{Machine, MachineId, ObjectLocation};

/// The placement of a table's partitions.
#[derive(Debug)]
pub enum PartitionPlacement {
    /// Round-robin over these machines.
    Round(Vec<MachineId>),
    /// Each partition on the machine of one of these objects.
    With(Vec<Addr>),
}

impl PartitionPlacement {
    /// Returns a placement on all machines.
    pub fn spread(machine: &Machine) -> PartitionPlacement {
        let members = machine.members().machines;
        PartitionPlacement::Round(members.iter().map(|member| MachineId(member.id)).collect())
    }

    /// Returns the placement of the partitions of `table`.
    pub fn with(table: &TableDef) -> PartitionPlacement {
        let roots = table.primary().roots.all().iter();
        PartitionPlacement::With(roots.map(|root| Addr::from_raw(*root)).collect())
    }

    /// Returns where to create a partition.
    pub fn of(&self, partition: u32) -> ObjectLocation {
        let at = partition as usize;
        match self {
            PartitionPlacement::Round(machines) => match machines.get(at % machines.len().max(1)) {
                Some(machine) => ObjectLocation::Machine(*machine),
                None => ObjectLocation::Own,
            },
            PartitionPlacement::With(objects) => objects
                .get(at)
                .map_or(ObjectLocation::Own, |at| ObjectLocation::Object(*at)),
        }
    }
}
