//! Plans bound SELECTs.
//!
//! WHERE is split into conjuncts. Each conjunct moves down to the lowest source that has its slots,
//! where an index may serve it. Conjuncts that no source evaluates stay above as a filter.

use std::sync::Arc;

use fencepost_sql::bound::{
    Expr, From, Leaf, LeafSource, LockingClause, RowLockOptions, Select, Volatility, WaitPolicy,
};
use fencepost_sql::catalog::TableDef;
use fencepost_sql::types::{Type, TypeKind};

use crate::access::{Path, Scope, WantedOrder, choose};
use crate::analytics;
use crate::conjuncts::{conjunction, conjuncts_of};
use crate::context::PlanContext;
use crate::estimate::Estimator;
use crate::exec::Prune;
use crate::join::plan_join;
use crate::late::postpone;
use crate::locking::{RowLock, hide_targets};
use crate::plan::{Hints, RecursivePlan, Scan, SelectPlan, SetPlan, Source, TablePlan};
use crate::rules::rewrite;
use crate::slots::{SlotRange, Slots};
use crate::split::Split;
use crate::subplans::{any_deep, inits};
use crate::terms::{reads_only, terms};
use crate::unions::balanced;
use crate::wanted_order::wanted_order;

/// A table that a statement changes or locks, so that the plan must deliver its row addresses.
#[derive(Clone, Copy, Debug)]
pub struct TargetTable {
    /// Its first slot in the from row.
    pub first_slot: usize,
    /// The slot for the row's fat pointer.
    pub pointer_slot: usize,
}

/// The context in which the parts of a FROM clause are planned.
#[derive(Clone)]
pub struct Builder<'a> {
    /// The surroundings of planning, and the estimates for the relations if they are joined.
    pub estimator: Estimator<'a>,
    /// For each slot, whether an expression reads it.
    pub needed: Vec<bool>,
    /// The order wanted from a scan, if it is the only source.
    pub wanted: &'a [WantedOrder],
    /// FOR UPDATE and similar: the scans take intents on their rows.
    pub locks: Option<&'a LockingClause>,
    /// The tables for which the plan must deliver row addresses.
    pub pointers: &'a [TargetTable],
    /// WHERE CURRENT OF: the address of the row to change.
    pub place: Option<Expr>,
    /// For UPDATE, DELETE or MERGE: the lock on the rows of `pointers`, which the statement
    /// changes.
    pub writes: Option<RowLockOptions>,
    /// The rows of the scan that need not stay in the read set.
    pub hints: Hints,
    /// Whether joins use hash tables wherever possible.
    pub hashes: bool,
}

/// A planned source.
pub struct PlannedSource {
    /// The source.
    pub source: Source,
    /// The conjuncts that the source does not evaluate.
    pub rest: Vec<Expr>,
    /// Whether the source gives the wanted order.
    pub ordered: bool,
}

/// Plans `select`, which is a whole statement.
pub fn plan_whole_select(mut select: Select, cx: PlanContext<'_>) -> SelectPlan {
    rewrite(&mut select);
    let copy = analytics::may_run(&select).then(|| select.clone());
    let mut plan = plan_with(select, cx, false);
    if let Some(copy) = copy.filter(|_| analytics::reads_much(&plan)) {
        plan.bulk = analytics::bulk(plan_with(copy, cx, true)).map(Box::new);
    }
    plan
}

/// Plans `select`.
pub fn plan_select(mut select: Select, cx: PlanContext<'_>) -> SelectPlan {
    rewrite(&mut select);
    plan_with(select, cx, false)
}

fn plan_with(select: Select, cx: PlanContext<'_>, hashes: bool) -> SelectPlan {
    let mut select = postpone(select);
    let from_width = select.from.width();
    let computed = take_computed(&mut select);
    let ungrouped = select.grouping.is_none();
    let windows = if ungrouped { select.windows.len() } else { 0 };
    let mut lock = RowLock::of(&mut select, from_width);
    let places = places_of(&mut select, from_width, lock.is_some());
    let pointers = pointers_of(lock.as_ref(), places, from_width);
    let width = from_width + computed.len() + windows + pointers.len();
    let mut needed = vec![false; from_width];
    mark_select(&select, &mut needed);
    computed.iter().for_each(|expr| mark(expr, &mut needed));
    let wanted = wanted_order(&select, cx).filter(|_| !hashes);
    let builder = Builder {
        estimator: Estimator::of_joins(cx, &select.from),
        needed,
        wanted: wanted.as_deref().unwrap_or(&[]),
        locks: select.locking.as_ref().filter(|_| lock.is_none()),
        pointers: &pointers,
        place: None,
        writes: None,
        hints: match &lock {
            None => Hints::No,
            Some(_) if matches!(select.from, From::Join(_)) => Hints::No,
            Some(lock) if lock.hold.wait == WaitPolicy::Skip => Hints::All,
            Some(_) => Hints::Passing,
        },
        hashes,
    };
    let conditions = conjuncts_of(select.filter);
    let (mut planned, presorted) = if select.limit.is_some() && lock.is_none() && ungrouped {
        builder.plan_with_prefix(select.from, conditions)
    } else {
        (builder.plan_from(select.from, conditions, Slots::NONE), 0)
    };
    if let Some(lock) = &mut lock {
        lock.take_tables(&planned.source);
    }
    let sorted = wanted.is_some() && planned.ordered;
    let cut_off = !sorted && !select.order_by.is_empty() && select.limit.is_some();
    if let Source::Scan(scan) = &mut planned.source
        && scan.hints == Hints::Passing
        && cut_off
    {
        // Rows that the sort and LIMIT remove have influenced the result, so they stay in the read
        // set.
        scan.hints = Hints::No;
    }
    // A sorted cursor delivers row addresses only if its rows are locked.
    let lone = select.locking.is_some() || sorted || select.order_by.is_empty();
    let (sort, order) = match sorted {
        true => (Vec::new(), select.order_by),
        false => (select.order_by, Vec::new()),
    };
    let mut plan = SelectPlan {
        width,
        source: planned.source,
        filter: conjunction(planned.rest),
        grouping: select.grouping,
        having: select.having,
        windows: select.windows,
        distinct_on: select.distinct_on,
        targets: select.targets,
        visible: select.visible,
        distinct: select.distinct,
        presorted: if sort.is_empty() { 0 } else { presorted },
        groups_in_order: sorted && !ungrouped,
        sort,
        computed,
        deep: false,
        inits: Vec::new(),
        queries: None,
        limit: select.limit,
        with_ties: select.with_ties,
        offset: select.offset,
        gives_skipped: select.gives_skipped,
        lock,
        home: None,
        split: None,
        bulk: None,
        places: places.map(|(_, table)| table).filter(|_| lone),
    };
    plan.inits = inits(&plan.source);
    let ends = plan.limit.iter().chain(&plan.offset);
    let conditions = plan.filter.iter().chain(&plan.having);
    let targets = plan.targets.iter().map(|target| &target.expr);
    plan.deep = any_deep(conditions.chain(targets).chain(ends).chain(&plan.computed));
    let by_sets = plan.grouping.as_ref().is_some_and(|g| !g.sets.is_empty());
    if !plan.deep && plan.inits.is_empty() && plan.windows.is_empty() && !by_sets {
        plan.split = Split::of(&plan, order);
    }
    plan
}

/// Returns the tables for which the plan must deliver row addresses: those that are locked, or that
/// of a cursor.
fn pointers_of(
    lock: Option<&RowLock>,
    places: Option<(usize, u32)>,
    from_width: usize,
) -> Vec<TargetTable> {
    match (lock, places) {
        (Some(lock), _) => lock.pointers(from_width),
        (None, Some((first_slot, _))) => vec![TargetTable {
            first_slot,
            pointer_slot: from_width,
        }],
        (None, None) => Vec::new(),
    }
}

/// Returns the first slot and the oid of the table that WHERE CURRENT OF can change through a
/// cursor, if there is one. It is the cursor's only table, or the one locked table of several. The
/// pointer gets a target of its own, unless the plan already `has` one.
fn places_of(select: &mut Select, pointer_slot: usize, has: bool) -> Option<(usize, u32)> {
    let plain = select.grouping.is_none()
        && !select.distinct
        && select.distinct_on.is_empty()
        && select.windows.is_empty();
    if !select.places || !plain {
        return None;
    }
    let mut tables = Vec::new();
    let alone = matches!(select.from, From::Leaf(_));
    for_each_leaf(&select.from, &mut |leaf| {
        let locked = select
            .locking
            .as_ref()
            .is_some_and(|locking| locking.of.is_empty() || locking.of.contains(&leaf.first_slot));
        if let LeafSource::Table(table) = &leaf.source
            && (locked || alone && select.locking.is_none())
            && !table.is_parent()
        {
            tables.push((leaf.first_slot, table.id));
        }
    });
    let [only] = tables.as_slice() else {
        return None;
    };
    if !has {
        let pointer = Expr::column(Type::of(TypeKind::Uuid), pointer_slot);
        hide_targets(select, vec![pointer]);
    }
    Some(*only)
}

/// Calls `f` on each relation of `from`.
pub fn for_each_leaf(from: &From, f: &mut dyn FnMut(&Leaf)) {
    match from {
        From::Nothing => {}
        From::Leaf(leaf) => f(leaf),
        From::Join(join) => {
            for_each_leaf(&join.left, f);
            for_each_leaf(&join.right, f);
        }
    }
}

/// Moves the expressions with subqueries that grouping reads out of a SELECT. Grouping then reads
/// them from slots behind those of the from row.
fn take_computed(select: &mut Select) -> Vec<Expr> {
    let width = select.from.width();
    let mut computed = Vec::new();
    let mut take = |expr: &mut Expr| {
        if expr.has_subquery() {
            let slot = Expr::column(expr.ty, width + computed.len());
            computed.push(std::mem::replace(expr, slot));
        }
    };
    if let Some(grouping) = &mut select.grouping {
        grouping.keys.iter_mut().for_each(&mut take);
        for aggregate in &mut grouping.aggregates {
            aggregate.args.iter_mut().for_each(&mut take);
            aggregate.filter.iter_mut().for_each(&mut take);
            let order = aggregate.order_by.iter_mut();
            order.for_each(|(key, ..)| take(key));
        }
    }
    computed
}

/// Marks the slots that `expr` reads.
pub fn mark(expr: &Expr, needed: &mut [bool]) {
    expr.for_each_column(&mut |slot| {
        if let Some(slot) = needed.get_mut(slot) {
            *slot = true;
        }
    });
}

/// Marks the slots that `select` reads, except those of its ORDER BY.
pub fn mark_select(select: &Select, needed: &mut [bool]) {
    if let Some(filter) = &select.filter {
        mark(filter, needed);
    }
    mark_joins(&select.from, needed);
    match &select.grouping {
        None => {
            select.targets.iter().for_each(|t| mark(&t.expr, needed));
            let calls = select.windows.iter();
            calls.for_each(|call| call.for_each_expr(&mut |expr| mark(expr, needed)));
        }
        Some(grouping) => {
            grouping.keys.iter().for_each(|e| mark(e, needed));
            for aggregate in &grouping.aggregates {
                aggregate.args.iter().for_each(|e| mark(e, needed));
                aggregate.filter.iter().for_each(|e| mark(e, needed));
                let keys = aggregate.order_by.iter();
                keys.for_each(|(e, _, _)| mark(e, needed));
            }
        }
    }
}

/// Marks the slots that the ON conditions and relations of `from` read.
pub fn mark_joins(from: &From, needed: &mut [bool]) {
    if let From::Leaf(leaf) = from
        && let LeafSource::Lateral(lateral) = &leaf.source
    {
        lateral.args.iter().for_each(|(_, arg)| mark(arg, needed));
    }
    if let From::Join(join) = from {
        if let Some(on) = &join.on {
            mark(on, needed);
        }
        mark_joins(&join.left, needed);
        mark_joins(&join.right, needed);
    }
}

impl Builder<'_> {
    /// Plans the only relation of a query so that it returns its rows in the wanted order, or
    /// else in the order of the first wanted keys. Returns the number of these keys too.
    fn plan_with_prefix(&self, from: From, conditions: Vec<Expr>) -> (PlannedSource, usize) {
        if self.wanted.len() < 2 {
            return (self.plan_from(from, conditions, Slots::NONE), 0);
        }
        let whole = self.plan_from(from.clone(), conditions.clone(), Slots::NONE);
        if whole.ordered {
            return (whole, self.wanted.len());
        }
        for keys in (1..self.wanted.len()).rev() {
            let prefix = Builder {
                wanted: &self.wanted[..keys],
                ..self.clone()
            };
            let planned = prefix.plan_from(from.clone(), conditions.clone(), Slots::NONE);
            if planned.ordered {
                let planned = PlannedSource {
                    ordered: false,
                    ..planned
                };
                return (planned, keys);
            }
        }
        (whole, 0)
    }

    /// Plans `from` under `conditions`, which read its slots and the `known` slots to its left.
    pub fn plan_from(&self, from: From, conditions: Vec<Expr>, known: &Slots) -> PlannedSource {
        match from {
            From::Nothing => PlannedSource {
                source: Source::One,
                rest: conditions,
                ordered: false,
            },
            From::Leaf(leaf) => self.plan_leaf(leaf, conditions, known),
            From::Join(join) => plan_join(self, *join, conditions),
        }
    }

    fn plan_leaf(&self, leaf: Leaf, conditions: Vec<Expr>, known: &Slots) -> PlannedSource {
        let own = (leaf.first_slot, leaf.first_slot + leaf.width());
        let first_slot = leaf.first_slot;
        let source = match leaf.source {
            LeafSource::Table(ref table) => {
                let table = Arc::clone(table);
                return self.plan_scan(&table, leaf, conditions, own, known);
            }
            other => {
                let names = (leaf.alias, leaf.column_names);
                plan_relation(self.estimator.context(), other, first_slot, names)
            }
        };
        let (mine, rest) = conditions.into_iter().partition(|c| reads_only(c, own));
        let source = match conjunction(mine) {
            None => source,
            Some(filter) => Source::Filter {
                input: Box::new(source),
                filter,
            },
        };
        PlannedSource {
            source,
            rest,
            ordered: false,
        }
    }

    fn plan_scan(
        &self,
        table: &Arc<TableDef>,
        leaf: Leaf,
        conditions: Vec<Expr>,
        own: SlotRange,
        known: &Slots,
    ) -> PlannedSource {
        let found = terms(&conditions, own, known);
        let scope = Scope {
            conditions: &conditions,
            own,
            known,
        };
        let path = choose(table, &found, self.wanted, &scope);
        let mut mine = Vec::new();
        let mut rest = Vec::new();
        for (position, condition) in conditions.into_iter().enumerate() {
            if path.served.contains(&position) {
                continue;
            }
            match reads_only(&condition, own) && !condition.has_subquery() {
                true => mine.push(condition),
                false => rest.push(condition),
            }
        }
        let ordered = path.ordered;
        let mut scan = self.scan(table, leaf, path, conjunction(mine));
        scan.prune = Prune::of(table, &found);
        scan.chosen_above = any_deep(&rest);
        PlannedSource {
            source: Source::Scan(Box::new(scan)),
            rest,
            ordered,
        }
    }

    fn scan(&self, table: &Arc<TableDef>, leaf: Leaf, path: Path, filter: Option<Expr>) -> Scan {
        let mut pointers = self.pointers.iter();
        let changed = pointers.find(|c| c.first_slot == leaf.first_slot);
        let columns = (0..leaf.column_types.len())
            .filter(|c| self.needed[leaf.first_slot + c])
            .collect();
        let own = (leaf.first_slot, leaf.first_slot + leaf.width());
        let filters_first = filter.as_ref().is_some_and(|filter| {
            // A volatile function is called once for each row.
            reads_only(filter, own) && filter.volatility() != Volatility::Volatile
        });
        Scan {
            table: Arc::new(TablePlan::new(table)),
            locks: self.locks_of(&leaf),
            filters_first,
            hints: self.hints,
            alias: leaf.alias,
            first_slot: leaf.first_slot,
            columns,
            index: path.index,
            access: path.access,
            backward: path.backward,
            merged: path.merged,
            prune: Vec::new(),
            filter,
            chosen_above: false,
            place: self.place.clone().filter(|_| changed.is_some()),
            pointer_slot: changed.map(|c| c.pointer_slot),
        }
    }
}

impl Builder<'_> {
    /// Returns how the rows of a table are locked.
    fn locks_of(&self, leaf: &Leaf) -> Option<RowLockOptions> {
        let mut pointers = self.pointers.iter();
        if self.writes.is_some() && pointers.any(|c| c.first_slot == leaf.first_slot) {
            return self.writes;
        }
        let of = |locking: &&LockingClause| {
            locking.of.is_empty() || locking.of.contains(&leaf.first_slot)
        };
        self.locks.filter(of).map(|locking| locking.hold)
    }
}

/// Plans a source other than a table.
fn plan_relation(
    cx: PlanContext<'_>,
    source: LeafSource,
    first_slot: usize,
    (alias, columns): (String, Vec<String>),
) -> Source {
    match source {
        LeafSource::Subquery(select) => Source::Subquery {
            plan: Box::new(plan_select(*select, cx)),
            first_slot,
            alias,
        },
        LeafSource::Function { function, args } => Source::Function {
            function,
            args,
            first_slot,
        },
        LeafSource::Values(rows) => Source::Values { rows, first_slot },
        LeafSource::System(table) => Source::System { table, first_slot },
        LeafSource::Set(set) => {
            let set = balanced(*set);
            Source::Set(Box::new(SetPlan {
                op: set.op,
                all: set.all,
                left: plan_select(set.left, cx),
                right: plan_select(set.right, cx),
                first_slot,
            }))
        }
        LeafSource::Cte(cte) => Source::Cte {
            cte,
            first_slot,
            alias,
        },
        LeafSource::Recursive(recursive) => Source::Recursive(Box::new(RecursivePlan {
            work: recursive.work,
            all: recursive.all,
            base: plan_select(recursive.base, cx),
            step: plan_select(recursive.step, cx),
            first_slot,
        })),
        LeafSource::Work(work) => Source::Work {
            work,
            columns,
            first_slot,
            alias,
        },
        LeafSource::Lateral(lateral) => Source::Lateral {
            args: lateral.args,
            input: Box::new(plan_relation(
                cx,
                lateral.source,
                first_slot,
                (alias, columns),
            )),
        },
        // Tables are scanned; they never get here.
        LeafSource::Table(_) => Source::One,
    }
}
