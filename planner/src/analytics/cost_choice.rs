//! The choice of the executor of a SELECT: made when it begins, by estimated cost.
//!
//! The unit of cost is a row read by a scan. Only SELECTs are considered that scan a whole table or
//! a range, and join, group or sort the rows. Point lookups, narrow ranges and index order are
//! excluded when the SELECT is planned. The estimate then reads one path through each tree.

use fencepost_sql::bound::{From, LeafSource, Select};
use fencepost_sql::settings::Analytics;
use fencepost_sql::value::Value;
use fencepost_txn::{Machine, Stop};

use crate::access::Access;
use crate::estimate::access_rows;
use crate::plan::{JoinMethod, Scan, SelectPlan, Source};
use crate::trees::trees;

/// The cost in rows above which DataFusion pays off: it takes about a millisecond to start.
const MUCH: f64 = 100_000.0;
/// The cost of an index lookup of matching rows.
const LOOKUP: f64 = 3.0;
/// The fraction of rows that pass a filter, by rule of thumb.
pub const PASSING: f64 = 0.3;

/// Returns whether `select` may be eligible.
pub fn may_run(select: &Select) -> bool {
    let work = select.grouping.is_some() || matches!(select.from, From::Join(_));
    let mut tables = cfg!(feature = "analytics") && work && select.locking.is_none();
    select.from.for_each_leaf(&mut |leaf| {
        tables &= matches!(leaf.source, LeafSource::Table(_));
    });
    tables
}

/// Returns whether a SELECT may read many rows with the row executor.
pub fn reads_much(plan: &SelectPlan) -> bool {
    // It may end after a few rows.
    let collects = plan.grouping.is_some() && !plan.groups_in_order;
    let ends_early = plan.limit.is_some() && !collects && plan.sort.is_empty();
    !ends_early && scans_much(&plan.source)
}

fn scans_much(source: &Source) -> bool {
    match source {
        Source::Scan(scan) => match &scan.access {
            Access::Full => true,
            Access::Points(_) => false,
            Access::Ranges(branches) => branches.iter().any(|bounds| {
                bounds.prefix.is_empty() && (bounds.lower.is_none() || bounds.upper.is_none())
            }),
        },
        Source::Join(join) => scans_much(&join.left) || scans_much(&join.right),
        Source::Filter { input, .. } => scans_much(input),
        _ => false,
    }
}

/// Returns whether to run the analytical plan `plan.bulk` in place of `plan`.
///
/// # Errors
/// Those of reading rows.
pub async fn pays(
    plan: &SelectPlan,
    machine: &Machine,
    (params, setting): (&[Value], Analytics),
) -> Result<bool, Stop> {
    let Some(bulk) = plan.bulk.as_ref().filter(|_| plan.queries.is_none()) else {
        return Ok(false);
    };
    let able = match (&bulk.source, &bulk.grouping) {
        (Source::Analytics { shape, .. }, Some(grouping)) => {
            shape.groups_with(grouping, params).is_some()
        }
        _ => true,
    };
    match setting {
        _ if !able => Ok(false),
        Analytics::Off => Ok(false),
        Analytics::On => Ok(true),
        Analytics::Auto => {
            let mut sizes = Vec::new();
            scan_sizes(&plan.source, machine, &mut sizes).await?;
            let ours = cost(&plan.source, &mut sizes.iter()).1;
            if ours < MUCH {
                return Ok(false);
            }
            sizes.clear();
            scan_sizes(&bulk.source, machine, &mut sizes).await?;
            Ok(cost(&bulk.source, &mut sizes.iter()).1 <= ours)
        }
    }
}

/// Estimates the number of rows of each scan of `source` before its filter, from left to right.
pub async fn scan_sizes(
    source: &Source,
    machine: &Machine,
    sizes: &mut Vec<f64>,
) -> Result<(), Stop> {
    let mut scans = Vec::new();
    for_each_scan(source, &mut |scan| scans.push(scan));
    for scan in scans {
        let mut rows = 0.0;
        for tree in trees(scan.table.index_def(scan.index)) {
            rows += tree.about(machine).await?;
        }
        sizes.push(access_rows(&scan.access, rows));
    }
    Ok(())
}

/// Calls `f` on each scan of `source`, from left to right.
pub fn for_each_scan<'a>(source: &'a Source, f: &mut dyn FnMut(&'a Scan)) {
    match source {
        Source::Scan(scan) => f(scan),
        Source::Join(join) => {
            for_each_scan(&join.left, f);
            for_each_scan(&join.right, f);
        }
        Source::Filter { input, .. } | Source::Analytics { input, .. } => for_each_scan(input, f),
        _ => {}
    }
}

/// Estimates the rows that `source` returns and its cost. `sizes` has the numbers of rows of its
/// scans.
fn cost(source: &Source, sizes: &mut std::slice::Iter<'_, f64>) -> (f64, f64) {
    match source {
        Source::Scan(scan) => {
            let size = sizes.next().copied().unwrap_or(0.0);
            let rows = match scan.filter.is_some() {
                true => size * PASSING,
                false => size,
            };
            (rows, size)
        }
        Source::Filter { input, .. } | Source::Analytics { input, .. } => cost(input, sizes),
        Source::Join(join) => {
            let (left, left_cost) = cost(&join.left, sizes);
            let (right, right_cost) = cost(&join.right, sizes);
            match join.method {
                JoinMethod::Index => (left, left_cost + left * LOOKUP),
                JoinMethod::Hash { .. } => (left.max(right), left_cost + right_cost),
                JoinMethod::Loop => (left * right, left_cost + right_cost + left * right),
            }
        }
        _ => (0.0, 0.0),
    }
}
