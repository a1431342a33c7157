//! Determines the home machine of a statement: the one machine that has all of its data. For a
//! split statement, determines the machines that run its parts.

use std::collections::BTreeMap;

use fencepost_fabric::MachineId;
use fencepost_planner::Plan;
use fencepost_sql::settings::ShipMode;
use fencepost_sql::value::Value;
use fencepost_txn::{Addr, Machine};

/// Returns the machine to which the statement should be shipped, according to the setting
/// `fencepost.ship`; `None` if it runs here. A statement that depends on the session's state stays
/// with the session: see [`Plan::is_volatile`].
pub(crate) fn home_of(
    plan: &Plan,
    params: &[Value],
    shipping: ShipMode,
    machine: &Machine,
) -> Option<MachineId> {
    let root = match shipping {
        ShipMode::Off => None,
        // Reading memory that is mapped here is faster than a session on the other machine.
        ShipMode::Auto => root_of_partition(plan, params).filter(|root| machine.is_far(*root)),
        ShipMode::Always => root_of_partition(plan, params).or_else(|| root_of_index(plan)),
    };
    let home = root.and_then(|root| machine.primary_of(root));
    home.filter(|home| home.0 != machine.number())
}

/// Returns an object of the single partition that the statement uses.
fn root_of_partition(plan: &Plan, params: &[Value]) -> Option<Addr> {
    plan.home(params).map(|home| home.root)
}

/// Returns the root of the single index that the statement uses, if the index has one root.
fn root_of_index(plan: &Plan) -> Option<Addr> {
    let roots = &plan.by_key()?.roots;
    (!roots.are_partitioned()).then(|| Addr::from_raw(roots.of(0)))
}

/// The partitions of a split statement, by the machine that reads them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionsByMachine {
    /// The partitions that this machine reads.
    pub own: Vec<u32>,
    /// The partitions that other machines read, by machine.
    pub others: BTreeMap<u32, Vec<u32>>,
}

impl PartitionsByMachine {
    /// Returns the machines that run a part, as EXPLAIN lists them.
    pub fn machines(&self, machine: &Machine) -> Vec<MachineId> {
        let own = (!self.own.is_empty()).then(|| machine.number());
        let mut all: Vec<u32> = self.others.keys().copied().chain(own).collect();
        all.sort_unstable();
        all.into_iter().map(MachineId).collect()
    }
}

/// Returns the machines that run parts of a statement, according to the setting `fencepost.ship`;
/// `None` if all of it runs here. With `auto`, memory that is mapped here is read in place. A split
/// then only helps if other machines have idle cores, so it has to be requested with `always`.
pub(crate) fn spread(
    plan: &Plan,
    shipping: ShipMode,
    machine: &Machine,
) -> Option<PartitionsByMachine> {
    let mut spread = PartitionsByMachine::default();
    for (partition, root) in (0..).zip(plan.split_roots()?) {
        let goes = match shipping {
            ShipMode::Off => false,
            ShipMode::Auto => machine.is_far(root),
            ShipMode::Always => true,
        };
        let home = machine.primary_of(root).map(|home| home.0);
        match home.filter(|home| goes && *home != machine.number()) {
            Some(home) => spread.others.entry(home).or_default().push(partition),
            None => spread.own.push(partition),
        }
    }
    (!spread.others.is_empty()).then_some(spread)
}
