//! How SELECT … FOR UPDATE and its variants lock the rows that they return.
//!
//! ```text
//! SELECT a.x FROM a JOIN b ON … WHERE … FOR UPDATE OF a
//! targets:  x │ pointer of a's row │ slots of b that a target or a condition reads
//!           shown                  hidden
//! ```
//!
//! The rows are locked after the sort, so that LIMIT and SKIP LOCKED lock exactly the returned
//! rows. Hidden targets carry the values that conditions and targets need if a locked row has
//! changed and must be evaluated again.

use std::sync::Arc;

use fencepost_sql::bound::{
    Expr, From, JoinKind, Leaf, LeafSource, RowLockOptions, Select, Target,
};
use fencepost_sql::error::SqlError;
use fencepost_sql::types::{Type, TypeKind};

use crate::access::{Access, Scope, choose};
use crate::build::{TargetTable, for_each_leaf, mark_select};
use crate::conjuncts::{conjunction, conjuncts};
use crate::plan::{Scan, Source, TablePlan};
use crate::slots::Slots;
use crate::terms::terms;

/// The lock on each row that a SELECT returns.
#[derive(Debug)]
pub struct RowLock {
    /// The lock strength and wait policy.
    pub hold: RowLockOptions,
    /// The tables whose rows are locked.
    pub leaves: Vec<LockedLeaf>,
    /// The other slots of the from row that hidden targets carry, and those targets.
    pub carried: Vec<(usize, usize)>,
    /// WHERE and the conditions of inner joins, which are evaluated again after locking.
    pub filter: Option<Expr>,
}

/// A table whose rows are locked.
#[derive(Debug)]
pub struct LockedLeaf {
    /// The table; `None` until the source is planned.
    pub table: Option<Arc<TablePlan>>,
    /// Its first slot.
    pub first_slot: usize,
    /// The target that has the row's fat pointer.
    pub pointer: usize,
    /// The columns that are read.
    pub columns: Vec<usize>,
}

impl LockedLeaf {
    /// Returns the table.
    ///
    /// # Errors
    /// XX000 before the source is planned.
    pub fn table(&self) -> Result<&TablePlan, SqlError> {
        let table = self.table.as_deref();
        table.ok_or_else(|| SqlError::internal("a locked row is of no table"))
    }

    /// Returns the number of slots that the table fills.
    pub fn width(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.layout.width())
    }
}

impl RowLock {
    /// Returns the lock of `select`, whose from row has `width` slots. Returns `None` if it locks
    /// nothing, or only one row by its key, which is locked before it is read. Fat pointers go into
    /// slots behind the from row, and all carried values into targets.
    pub fn of(select: &mut Select, width: usize) -> Option<RowLock> {
        let locking = select.locking.clone()?;
        let mut first_slots = Vec::new();
        let mut locked = vec![false; width];
        for_each_leaf(&select.from, &mut |leaf| {
            let named = locking.of.is_empty() || locking.of.contains(&leaf.first_slot);
            if named && matches!(leaf.source, LeafSource::Table(_)) {
                first_slots.push(leaf.first_slot);
                locked[leaf.first_slot..leaf.first_slot + leaf.width()].fill(true);
            }
        });
        if first_slots.is_empty() || reaches_one_row(select) {
            return None;
        }
        let mut needed = vec![false; width];
        mark_select(select, &mut needed);
        let mut hidden = Vec::new();
        let mut leaves = Vec::with_capacity(first_slots.len());
        for (nth, first_slot) in first_slots.into_iter().enumerate() {
            leaves.push(LockedLeaf {
                table: None,
                first_slot,
                pointer: select.visible + nth,
                columns: Vec::new(),
            });
            hidden.push(Expr::column(Type::of(TypeKind::Uuid), width + nth));
        }
        let mut carried = Vec::new();
        let types = slot_types(&select.from, width);
        for slot in (0..width).filter(|slot| needed[*slot] && !locked[*slot]) {
            carried.push((slot, select.visible + hidden.len()));
            hidden.push(Expr::column(types[slot], slot));
        }
        let filter = conditions_of(select);
        hide_targets(select, hidden);
        Some(RowLock {
            hold: locking.hold,
            leaves,
            carried,
            filter,
        })
    }

    /// Returns the slots for the fat pointers of the rows, given a from row with `width` slots.
    pub fn pointers(&self, width: usize) -> Vec<TargetTable> {
        let slot = |(nth, leaf): (usize, &LockedLeaf)| TargetTable {
            first_slot: leaf.first_slot,
            pointer_slot: width + nth,
        };
        self.leaves.iter().enumerate().map(slot).collect()
    }

    /// Takes the tables from the source, once it is planned.
    pub fn take_tables(&mut self, source: &Source) {
        for leaf in &mut self.leaves {
            if let Some(scan) = scan_at(source, leaf.first_slot) {
                leaf.table = Some(Arc::clone(&scan.table));
                leaf.columns.clone_from(&scan.columns);
            }
        }
    }

    /// Returns whether `target` exists only for the lock.
    pub fn hides(&self, target: usize) -> bool {
        let pointers = self.leaves.iter().map(|leaf| leaf.pointer);
        let carried = self.carried.iter().map(|(_, target)| *target);
        pointers.chain(carried).any(|hidden| hidden == target)
    }
}

/// Inserts hidden targets behind the visible ones.
pub fn hide_targets(select: &mut Select, exprs: Vec<Expr>) {
    let (at, count) = (select.visible, exprs.len());
    let targets = exprs.into_iter().map(|expr| Target {
        name: String::new(),
        expr,
        origin: None,
    });
    select.targets.splice(at..at, targets);
    for key in &mut select.order_by {
        if key.target >= at {
            key.target += count;
        }
    }
}

/// Returns whether `select` reads one table by whole unique keys.
fn reaches_one_row(select: &Select) -> bool {
    let From::Leaf(leaf) = &select.from else {
        return false;
    };
    let LeafSource::Table(table) = &leaf.source else {
        return false;
    };
    let mut conditions = Vec::new();
    conjuncts(select.filter.clone(), &mut conditions);
    let own = (leaf.first_slot, leaf.first_slot + leaf.width());
    let found = terms(&conditions, own, Slots::NONE);
    let scope = Scope {
        conditions: &conditions,
        own,
        known: Slots::NONE,
    };
    let path = choose(table, &found, &[], &scope);
    matches!(path.access, Access::Points(_))
}

/// Returns WHERE and ON of inner joins. The ON condition of an outer join is not evaluated again.
fn conditions_of(select: &Select) -> Option<Expr> {
    let mut all = Vec::new();
    conjuncts(select.filter.clone(), &mut all);
    add_inner(&select.from, &mut all);
    conjunction(all)
}

fn add_inner(from: &From, out: &mut Vec<Expr>) {
    if let From::Join(join) = from {
        if join.kind == JoinKind::Inner {
            conjuncts(join.on.clone(), out);
        }
        add_inner(&join.left, out);
        add_inner(&join.right, out);
    }
}

fn slot_types(from: &From, width: usize) -> Vec<Type> {
    let mut types = vec![Type::UNKNOWN; width];
    for_each_leaf(from, &mut |leaf: &Leaf| {
        types[leaf.first_slot..][..leaf.column_types.len()].copy_from_slice(&leaf.column_types);
    });
    types
}

/// Returns the scan of the table whose first slot is `first_slot`.
fn scan_at(source: &Source, first_slot: usize) -> Option<&Scan> {
    match source {
        Source::Scan(scan) => (scan.first_slot == first_slot).then_some(scan),
        Source::Filter { input, .. }
        | Source::Analytics { input, .. }
        | Source::Lateral { input, .. } => scan_at(input, first_slot),
        Source::Join(join) => {
            scan_at(&join.left, first_slot).or_else(|| scan_at(&join.right, first_slot))
        }
        Source::One
        | Source::Values { .. }
        | Source::Function { .. }
        | Source::System { .. }
        | Source::Subquery { .. }
        | Source::Set(_)
        | Source::Cte { .. }
        | Source::Recursive(_)
        | Source::Work { .. } => None,
    }
}
