//! Where a statement belongs: the one machine whose data it is about, if there is one, or the several that each
//! run a part.

use std::collections::BTreeMap;

use fencepost_fabric::MachineId;
use fencepost_planner::Plan;
use fencepost_sql::settings::Shipping;
use fencepost_sql::value::Value;
use fencepost_txn::{Addr, Machine};

/// The machine that a statement is to be shipped to, as the setting `fencepost.ship` says; `None` where it
/// runs here. A statement whose expressions have to do with the session's own state stays with it: see
/// [`Plan::is_volatile`].
pub(crate) fn home_of(
    plan: &Plan,
    params: &[Value],
    shipping: Shipping,
    machine: &Machine,
) -> Option<MachineId> {
    let root = match shipping {
        Shipping::Off => None,
        // Memory that is mapped is reached faster than a session of its machine.
        Shipping::Auto => root_of_partition(plan, params).filter(|root| machine.is_far(*root)),
        Shipping::Always => root_of_partition(plan, params).or_else(|| root_of_index(plan)),
    };
    let home = root.and_then(|root| machine.primary_of(root));
    home.filter(|home| home.0 != machine.number())
}

/// An object of the one partition that the statement is about.
fn root_of_partition(plan: &Plan, params: &[Value]) -> Option<Addr> {
    plan.home(params).map(|home| home.root)
}

/// The root of the one index that the statement goes through, where that has only one.
fn root_of_index(plan: &Plan) -> Option<Addr> {
    let roots = &plan.by_key()?.roots;
    (!roots.are_partitioned()).then(|| Addr::from_raw(roots.of(0)))
}

/// Who reads which partitions of a statement that is split.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Those that this machine reads.
    pub own: Vec<u32>,
    /// Those that others read, by machine.
    pub others: BTreeMap<u32, Vec<u32>>,
}

impl Spread {
    /// The machines that have a part in it, as EXPLAIN names them.
    pub fn machines(&self, machine: &Machine) -> Vec<MachineId> {
        let own = (!self.own.is_empty()).then(|| machine.number());
        let mut all: Vec<u32> = self.others.keys().copied().chain(own).collect();
        all.sort_unstable();
        all.into_iter().map(MachineId).collect()
    }
}

/// Which machines a statement is split among, as the setting `fencepost.ship` says; `None` where all of it runs
/// here. Where memory is mapped its rows are read in place: then it is a matter of how many cores are idle
/// elsewhere, and only for who asks for it.
pub(crate) fn spread(plan: &Plan, shipping: Shipping, machine: &Machine) -> Option<Spread> {
    let mut spread = Spread::default();
    for (partition, root) in (0..).zip(plan.split_roots()?) {
        let goes = match shipping {
            Shipping::Off => false,
            Shipping::Auto => machine.is_far(root),
            Shipping::Always => true,
        };
        let home = machine.primary_of(root).map(|home| home.0);
        match home.filter(|home| goes && *home != machine.number()) {
            Some(home) => spread.others.entry(home).or_default().push(partition),
            None => spread.own.push(partition),
        }
    }
    (!spread.others.is_empty()).then_some(spread)
}
