//! Where a statement belongs: the one machine whose data it is about, if there is one.

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
