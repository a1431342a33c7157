//! SELECTs that can be split: each machine scans its own partitions of the table and sends partial
//! results.
//!
//! ```text
//! another machine                              the session's machine
//! scan of some partitions ─► filter ─► …       … ─► having ─► targets ─► distinct ─► sort ─► limit
//!   no groups   targets ─► distinct, first rows of the order ═══► the same over all of them
//!   groups      partial aggregates of each group             ═══► combined
//!   groups      columns, if an aggregate has no partial form ═══► grouped
//! ```
//!
//! A SELECT can be split if it scans one table through an index with one tree for each partition,
//! and its partition is not known. The machine that runs a part has planned the same text. Only
//! rows travel, and a number that shows whether the two plans are equal ([`Split::fingerprint`]).

use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use fencepost_sql::bound::{Aggregate, Grouping, OrderKey};
use fencepost_sql::types::TypeKind;
use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use crate::access::Access;
use crate::plan::{Scan, SelectPlan, Source};
use crate::statement::Plan;

/// The output of a part of a SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartOutput {
    /// Rows of targets.
    Targets,
    /// The group keys and partial aggregates.
    Groups,
    /// The columns of its scan, for an aggregate that needs all of its input together.
    Columns,
}

/// How a SELECT is split.
#[derive(Debug)]
pub struct Split {
    /// The output of a part.
    pub gives: PartOutput,
    /// The column types of that output.
    pub columns: Vec<TypeKind>,
    /// The order in which the index returns the rows, if that is the requested order.
    pub order: Vec<OrderKey>,
    fingerprint: OnceLock<u64>,
}

impl Split {
    /// Returns the split of a plan whose rows come in the order `order` without a sort.
    pub(crate) fn of(plan: &SelectPlan, order: Vec<OrderKey>) -> Option<Split> {
        let scan = plan.split_scan()?;
        let (gives, columns) = match &plan.grouping {
            None => {
                let targets = plan.targets.iter().map(|target| target.expr.ty.kind);
                (PartOutput::Targets, targets.collect())
            }
            Some(grouping) => match partial_types(grouping) {
                Some(columns) => (PartOutput::Groups, columns),
                None if grouping.aggregates.iter().all(has_an_order) => {
                    let column = |column: &usize| scan.table.def.columns[*column].ty.kind;
                    (
                        PartOutput::Columns,
                        scan.columns.iter().map(column).collect(),
                    )
                }
                None => return None,
            },
        };
        let some = !Vec::is_empty(&columns);
        some.then_some(Split {
            gives,
            columns,
            order,
            fingerprint: OnceLock::new(),
        })
    }

    /// Returns a number that is equal on two machines if they plan the statement alike. It hashes
    /// the whole plan, including addresses of partitions and folded constants.
    fn fingerprint(&self, plan: &SelectPlan) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hash = Hash(FixedState::default().build_hasher());
            let whole = (&plan.source, &plan.filter, &plan.grouping, &plan.having);
            let above = (&plan.targets, plan.visible, plan.distinct, &plan.sort);
            let ends = (
                &plan.limit,
                &plan.offset,
                &self.order,
                self.gives,
                &self.columns,
            );
            // Writing into a hash cannot fail.
            let _ = write!(hash, "{whole:?} {above:?} {ends:?}");
            hash.0.finish()
        })
    }
}

/// Returns the types of the group keys and partial aggregates, if all aggregates have partial
/// forms.
fn partial_types(grouping: &Grouping) -> Option<Vec<TypeKind>> {
    let mut columns: Vec<_> = grouping.keys.iter().map(|key| key.ty.kind).collect();
    for aggregate in &grouping.aggregates {
        columns.extend(aggregate.partial_types()?);
    }
    Some(columns)
}

/// Returns whether the result of an aggregate does not depend on the order of its input rows: it
/// sorts by itself, or it needs no order.
fn has_an_order(aggregate: &Aggregate) -> bool {
    aggregate.distinct || !aggregate.order_by.is_empty() || aggregate.partial_types().is_some()
}

/// A `Write` that hashes its text.
struct Hash<H>(H);

impl<H: Hasher> Write for Hash<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl SelectPlan {
    /// Returns the scan of a plan that can be split by its partitions.
    pub(crate) fn split_scan(&self) -> Option<&Scan> {
        let Source::Scan(scan) = &self.source else {
            return None;
        };
        let some = match &scan.access {
            Access::Full => true,
            Access::Points(_) => false,
            Access::Ranges(branches) => branches.iter().any(|b| b.first_value().is_none()),
        };
        let partitioned = scan.table.index_def(scan.index).roots.are_partitioned()
            && scan.table.def.partitioning.is_some();
        (some && partitioned && scan.locks.is_none() && scan.pointer_slot.is_none()).then_some(scan)
    }
}

impl Plan {
    fn split_select(&self) -> Option<(&SelectPlan, &Split)> {
        match self {
            Plan::Select(select) | Plan::CopyOut(_, select) => {
                Some((select, select.split.as_ref()?))
            }
            _ => None,
        }
    }

    /// Returns how the plan can be split, if it can.
    pub fn split(&self) -> Option<&Split> {
        self.split_select().map(|(_, split)| split)
    }

    /// Returns the number that identifies equal plans on two machines; `None` if the plan is not
    /// split.
    pub fn fingerprint(&self) -> Option<u64> {
        self.split_select()
            .map(|(select, split)| split.fingerprint(select))
    }

    /// Returns one object of each partition that the plan is split by.
    pub fn split_roots(&self) -> Option<Vec<Addr>> {
        let scan = self.split_select()?.0.split_scan()?;
        let roots = scan.table.index_def(scan.index).roots.all().iter();
        Some(roots.map(|root| Addr::from_raw(*root)).collect())
    }

    /// Returns the SELECT of a plan that is split.
    pub(crate) fn part(&self) -> Option<&SelectPlan> {
        self.split_select().map(|(select, _)| select)
    }
}
