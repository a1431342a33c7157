//! EXPLAIN: a plan as a tree of lines, in PostgreSQL's terms and without costs.

mod document;
mod partitions;
mod text;

use fencepost_sql::bound::{JoinKind, OrderKey, SetOp, Target};
use fencepost_txn::MachineId;

use crate::access::{Access, KeyBounds, KeyTerm};
use crate::plan::{Join, JoinMethod, Scan, SelectPlan, Source};
use crate::split::PartOutput;
use crate::statement::Plan;
use crate::subplans::Subplans;
use crate::terms::is_array;
use crate::write::{ChangePlan, InsertSource};
use document::Entry;
pub use document::{PlanDescription, RunInformation};
pub use partitions::ExplainContext;
use text::Names;

/// Describes `plan`; with `verbose`, includes the output columns of its nodes.
pub fn explain(plan: &Plan, known: &ExplainContext<'_>, verbose: bool) -> PlanDescription {
    let mut out = ExplainBuilder {
        entries: Vec::new(),
        known,
        verbose,
    };
    match plan {
        Plan::Row(select)
        | Plan::Point(select)
        | Plan::Select(select)
        | Plan::CopyOut(_, select) => {
            out.whole_select(select);
        }
        Plan::Insert(insert) => {
            out.node(0, format!("Insert on {}", insert.table.def.name));
            if let (InsertSource::Values(rows), Some(by)) =
                (&insert.source, &insert.table.def.partitioning)
            {
                let values: Vec<_> = rows.iter().map(|row| &row[by.column]).collect();
                out.details(0, known.of_values(&insert.table, &values));
            }
            match &insert.source {
                InsertSource::Values(rows) if rows.len() == 1 => out.node(1, "Result".into()),
                InsertSource::Values(_) => out.node(1, "Values Scan on \"*VALUES*\"".into()),
                InsertSource::Select { plan, .. } => out.select(plan, 1),
            }
        }
        Plan::Update(change) => out.change("Update", change),
        Plan::Delete(change) => out.change("Delete", change),
        Plan::Merge(change) => out.change("Merge", change),
        Plan::CopyIn(_) => out.node(0, "Copy".into()),
    }
    if let Some(queries) = plan.queries() {
        out.queries(queries);
    }
    PlanDescription(out.entries)
}

/// The part of the work above a source that is described.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanPhase {
    All,
    /// The partial aggregation, for one part of the rows.
    Partial,
    /// The final aggregation, over all parts.
    Final,
}

impl PlanPhase {
    fn prefix(self) -> &'static str {
        match self {
            PlanPhase::All => "",
            PlanPhase::Partial => "Partial ",
            PlanPhase::Final => "Finalize ",
        }
    }
}

struct ExplainBuilder<'a> {
    entries: Vec<Entry>,
    known: &'a ExplainContext<'a>,
    verbose: bool,
}

impl ExplainBuilder<'_> {
    /// Describes the subqueries in expressions, below the statement.
    fn queries(&mut self, queries: &Subplans) {
        for (id, plan) in queries.numbered() {
            let change = queries.changes.iter().find(|change| change.id == id);
            self.entries.push(Entry::SubPlan(id + 1));
            match change.map(|change| &change.plan) {
                Some(Plan::Insert(insert)) => {
                    self.node(1, format!("Insert on {}", insert.table.def.name));
                }
                Some(Plan::Update(change)) => {
                    self.node(1, format!("Update on {}", change.table.def.name));
                }
                Some(Plan::Delete(change)) => {
                    self.node(1, format!("Delete on {}", change.table.def.name));
                }
                _ => self.select(plan, 1),
            }
        }
    }

    fn node(&mut self, depth: usize, text: String) {
        self.entries.push(Entry::Node { depth, text });
    }

    fn detail(&mut self, depth: usize, name: &str, text: &str) {
        self.entries.push(Entry::Detail {
            depth,
            name: name.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Adds the output columns of the last node, with `verbose`.
    fn output(&mut self, depth: usize, columns: impl Iterator<Item = String>) {
        if self.verbose {
            let columns = columns.collect();
            self.entries.push(Entry::Output { depth, columns });
        }
    }

    fn details(&mut self, depth: usize, properties: Vec<(&str, String)>) {
        for (name, text) in properties {
            self.detail(depth, name, &text);
        }
    }

    fn change(&mut self, verb: &str, change: &ChangePlan) {
        self.node(0, format!("{verb} on {}", change.table.def.name));
        let names = slot_names(&change.source);
        self.source(&change.source, &names, 1);
        if let Some(filter) = &change.filter {
            self.detail(1, "Filter", &names.text(filter));
        }
    }

    fn select(&mut self, plan: &SelectPlan, depth: usize) {
        let names = slot_names(&plan.source);
        let first = self.entries.len();
        let below = self.above(plan, &names, depth, PlanPhase::All);
        self.below(plan, &names, below);
        if self.verbose {
            let rows = match &plan.grouping {
                None => names,
                Some(grouping) => names.grouped(grouping),
            };
            let visible = plan.targets[..plan.visible].iter();
            let columns = visible.map(|target| rows.text(&target.expr)).collect();
            // The top node shows the output of the query, and not that of the node below.
            let own =
                |entry: &Entry| matches!(entry, Entry::Output { depth: at, .. } if *at == depth);
            if let Some(at) = (first..self.entries.len()).find(|at| own(&self.entries[*at])) {
                self.entries.remove(at);
            }
            self.entries
                .insert(first + 1, Entry::Output { depth, columns });
        }
    }

    /// Describes a statement; other machines may run parts of it.
    fn whole_select(&mut self, plan: &SelectPlan) {
        if let Some(bulk) = plan.bulk.as_ref().filter(|_| self.known.bulk) {
            self.select(bulk, 0);
            let executor = Entry::Detail {
                depth: 0,
                name: "Executor".to_owned(),
                text: "DataFusion".to_owned(),
            };
            self.entries.insert(1, executor);
            return;
        }
        let Some(split) = plan.split.as_ref().filter(|_| !self.known.parts.is_empty()) else {
            return self.select(plan, 0);
        };
        let names = slot_names(&plan.source);
        if split.gives == PartOutput::Columns {
            let depth = self.above(plan, &names, 0, PlanPhase::All);
            let depth = self.gather(depth, "");
            return self.below(plan, &names, depth);
        }
        let depth = self.above(plan, &names, 0, PlanPhase::Final);
        let merges = if split.order.is_empty() { "" } else { " Merge" };
        let depth = self.gather(depth, merges);
        let depth = self.above(plan, &names, depth, PlanPhase::Partial);
        self.below(plan, &names, depth);
    }

    /// Adds the node that gathers the parts. Returns the depth of the nodes below it.
    fn gather(&mut self, depth: usize, how: &str) -> usize {
        self.node(depth, format!("Gather{how}"));
        let machines: Vec<String> = self.known.parts.iter().map(MachineId::to_string).collect();
        self.detail(depth, "Machines", &machines.join(", "));
        depth + 1
    }

    /// Describes the operations above the from rows, or above the parts. Returns the depth of the
    /// node below them.
    fn above(
        &mut self,
        plan: &SelectPlan,
        from_names: &Names,
        mut depth: usize,
        share: PlanPhase,
    ) -> usize {
        let row_names = match &plan.grouping {
            None => from_names.clone(),
            Some(grouping) => from_names.grouped(grouping),
        };
        // A part returns all of its groups, or those rows that may be among the first of the whole
        // result.
        let ends = share != PlanPhase::Partial || plan.grouping.is_none();
        let limited =
            plan.limit.is_some() || (plan.offset.is_some() && share != PlanPhase::Partial);
        if limited && ends {
            self.node(depth, "Limit".into());
            depth += 1;
        }
        if !plan.sort.is_empty() && ends && (limited || share != PlanPhase::Partial) {
            self.node(depth, "Sort".into());
            let keys = sort_keys(&plan.sort, &plan.targets, &row_names);
            self.detail(depth, "Sort Key", &keys);
            depth += 1;
        }
        if plan.distinct && ends {
            match plan.distinct_on.is_empty() {
                true => {
                    self.node(depth, "HashAggregate".into());
                    let visible = plan.targets[..plan.visible].iter();
                    let keys: Vec<String> = visible.map(|t| row_names.text(&t.expr)).collect();
                    self.detail(depth, "Group Key", &keys.join(", "));
                }
                false => self.node(depth, "Unique".into()),
            }
            depth += 1;
        }
        if !plan.windows.is_empty() {
            self.node(depth, "WindowAgg".into());
            depth += 1;
        }
        if let Some(grouping) = &plan.grouping {
            let name = if grouping.keys.is_empty() {
                "Aggregate"
            } else if plan.groups_in_order {
                "GroupAggregate"
            } else {
                "HashAggregate"
            };
            self.node(depth, format!("{}{name}", share.prefix()));
            for set in &grouping.sets {
                let keys: Vec<_> = set.iter().map(|key| grouping.keys[*key].clone()).collect();
                let keys = from_names.list(&keys);
                self.detail(
                    depth,
                    "Group Key",
                    if set.is_empty() { "()" } else { &keys },
                );
            }
            if !grouping.keys.is_empty() && grouping.sets.is_empty() {
                self.detail(depth, "Group Key", &from_names.list(&grouping.keys));
            }
            if let Some(having) = plan.having.as_ref().filter(|_| ends) {
                self.detail(depth, "Filter", &row_names.text(having));
            }
            depth += 1;
        }
        depth
    }

    /// Describes the source of the from rows.
    fn below(&mut self, plan: &SelectPlan, names: &Names, depth: usize) {
        self.source(&plan.source, names, depth);
        if let Some(filter) = &plan.filter {
            self.detail(depth, "Filter", &names.text(filter));
        }
    }

    fn source(&mut self, source: &Source, names: &Names, depth: usize) {
        match source {
            Source::One => self.node(depth, "Result".into()),
            Source::Scan(scan) => self.scan(scan, names, depth),
            Source::Values { .. } => self.node(depth, "Values Scan on \"*VALUES*\"".into()),
            Source::Function { function, .. } => {
                self.node(depth, format!("Function Scan on {}", function.name()));
            }
            Source::System { table, .. } => {
                self.node(depth, format!("Function Scan on {}", table.name()));
            }
            Source::Subquery { plan, alias, .. } => {
                self.node(depth, format!("Subquery Scan on {alias}"));
                self.select(plan, depth + 1);
            }
            Source::Set(set) => {
                let all = if set.all { " All" } else { "" };
                let mut depth = depth;
                match set.op {
                    SetOp::Union => {
                        if !set.all {
                            self.node(depth, "HashAggregate".into());
                            depth += 1;
                        }
                        self.node(depth, "Append".into());
                    }
                    SetOp::Intersect => self.node(depth, format!("HashSetOp Intersect{all}")),
                    SetOp::Except => self.node(depth, format!("HashSetOp Except{all}")),
                }
                self.select(&set.left, depth + 1);
                self.select(&set.right, depth + 1);
            }
            Source::Cte { cte, alias, .. } => {
                let on = match *alias == cte.name {
                    true => alias.clone(),
                    false => format!("{} {alias}", cte.name),
                };
                self.node(depth, format!("CTE Scan on {on}"));
                self.detail(depth, "Rows of", &format!("SubPlan {}", cte.id + 1));
            }
            Source::Recursive(plan) => {
                self.node(depth, "Recursive Union".into());
                self.select(&plan.base, depth + 1);
                self.select(&plan.step, depth + 1);
            }
            Source::Work { alias, .. } => self.node(depth, format!("WorkTable Scan on {alias}")),
            Source::Lateral { input, .. } | Source::Analytics { input, .. } => {
                self.source(input, names, depth);
            }
            Source::Filter { input, filter } => {
                self.source(input, names, depth);
                self.detail(depth, "Filter", &names.text(filter));
            }
            Source::Join(join) => self.join(join, names, depth),
        }
    }

    fn join(&mut self, join: &Join, names: &Names, depth: usize) {
        let kind = match join.kind {
            JoinKind::Inner => "",
            JoinKind::Left => " Left",
            JoinKind::Right => " Right",
            JoinKind::Full => " Full",
        };
        match &join.method {
            JoinMethod::Hash {
                left_keys,
                right_keys,
            } => {
                self.node(depth, format!("Hash{kind} Join"));
                let pairs = left_keys.iter().zip(right_keys);
                let conditions: Vec<String> = pairs
                    .map(|(l, r)| format!("({} = {})", names.text(l), names.text(r)))
                    .collect();
                self.detail(depth, "Hash Cond", &all(conditions));
            }
            JoinMethod::Index | JoinMethod::Loop => {
                let suffix = if kind.is_empty() { "" } else { " Join" };
                self.node(depth, format!("Nested Loop{kind}{suffix}"));
            }
        }
        if let Some(on) = &join.on {
            self.detail(depth, "Join Filter", &names.text(on));
        }
        self.source(&join.left, names, depth + 1);
        if let JoinMethod::Hash { .. } = join.method {
            self.node(depth + 1, "Hash".into());
            self.source(&join.right, names, depth + 2);
        } else {
            self.source(&join.right, names, depth + 1);
        }
    }

    fn scan(&mut self, scan: &Scan, names: &Names, depth: usize) {
        let table = &scan.table.def.name;
        let on = match scan.alias == *table {
            true => table.clone(),
            false => format!("{table} {}", scan.alias),
        };
        let index = scan.table.index_def(scan.index);
        let direction = if scan.backward { " Backward" } else { "" };
        match &scan.access {
            _ if scan.place.is_some() => self.node(depth, format!("Tid Scan on {on}")),
            Access::Full if index.is_hidden() || (scan.index == 0 && !scan.backward) => {
                self.node(depth, format!("Seq Scan on {on}"));
            }
            _ => self.node(
                depth,
                format!("Index Scan{direction} using {} on {on}", index.name),
            ),
        }
        let columns = scan.columns.iter();
        let columns = columns.map(|column| names.0[scan.first_slot + column].clone());
        self.output(depth, columns);
        let conditions = index_conditions(scan, names);
        if !conditions.is_empty() {
            self.detail(depth, "Index Cond", &all(conditions));
        }
        if let Some(filter) = &scan.filter {
            self.detail(depth, "Filter", &names.text(filter));
        }
        self.details(depth, self.known.of_scan(scan));
    }
}

/// Returns the conditions on key columns that the access covers.
fn index_conditions(scan: &Scan, names: &Names) -> Vec<String> {
    let column = |position: usize| {
        let index = scan.table.index_def(scan.index);
        let column = index.columns[position].column;
        match index.expression(column) {
            Some(expression) => expression.text.clone(),
            None => names.0[scan.first_slot + column].clone(),
        }
    };
    let one = |terms, bounds| conditions_of(terms, bounds, &column, names);
    match &scan.access {
        Access::Full => Vec::new(),
        Access::Points(terms) => one(terms, None),
        Access::Ranges(branches) => match branches.as_slice() {
            [bounds] => one(&bounds.prefix, Some(bounds)),
            branches => {
                let each = branches.iter();
                let each = each.map(|bounds| all(one(&bounds.prefix, Some(bounds))));
                vec![format!("({})", each.collect::<Vec<_>>().join(" OR "))]
            }
        },
    }
}

/// Returns the conditions of one branch; `column` returns the text of a key column.
fn conditions_of(
    terms: &[KeyTerm],
    bounds: Option<&KeyBounds>,
    column: &dyn Fn(usize) -> String,
    names: &Names,
) -> Vec<String> {
    let lower = bounds.and_then(|bounds| bounds.lower.as_ref());
    let upper = bounds.and_then(|bounds| bounds.upper.as_ref());
    let mut found = Vec::new();
    for (position, term) in terms.iter().enumerate() {
        let name = column(position);
        found.push(match term {
            KeyTerm::One(value) => format!("({name} = {})", names.text(value)),
            KeyTerm::Any(values) if is_array(values) => {
                format!("({name} = ANY ({}))", names.text(&values[0]))
            }
            KeyTerm::Any(values) => format!("({name} = ANY ({}))", names.list(values)),
            KeyTerm::Members(condition) => format!("({name} = {})", names.text(condition)),
        });
    }
    for (bound, strict, loose) in [(lower, ">", ">="), (upper, "<", "<=")] {
        if let Some((value, included)) = bound {
            let operator = if *included { loose } else { strict };
            found.push(format!(
                "({} {operator} {})",
                column(terms.len()),
                names.text(value)
            ));
        }
    }
    found
}

fn all(mut conditions: Vec<String>) -> String {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => format!("({})", conditions.join(" AND ")),
    }
}

fn sort_keys(keys: &[OrderKey], targets: &[Target], names: &Names) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|key| {
            let text = names.text(&targets[key.target].expr);
            let direction = if key.desc { " DESC" } else { "" };
            let nulls = match (key.nulls_first, key.desc) {
                (true, false) => " NULLS FIRST",
                (false, true) => " NULLS LAST",
                _ => "",
            };
            format!("{text}{direction}{nulls}")
        })
        .collect();
    keys.join(", ")
}

/// Returns the names of the from row's slots, qualified if there are several relations.
fn slot_names(source: &Source) -> Names {
    let mut leaves: Vec<(usize, String, Vec<String>)> = Vec::new();
    collect(source, &mut leaves);
    let qualified = leaves.len() > 1;
    let mut names = Names::default();
    for (first, alias, columns) in leaves {
        let end = first + columns.len();
        if names.0.len() < end {
            names.0.resize(end, String::new());
        }
        for (slot, column) in columns.into_iter().enumerate() {
            names.0[first + slot] = match qualified {
                true => format!("{alias}.{column}"),
                false => column,
            };
        }
    }
    names
}

fn collect(source: &Source, out: &mut Vec<(usize, String, Vec<String>)>) {
    match source {
        Source::One => {}
        Source::Scan(scan) => {
            let columns = scan.table.def.columns.iter();
            let names = columns.map(|c| c.name.clone()).collect();
            out.push((scan.first_slot, scan.alias.clone(), names));
        }
        Source::Values { rows, first_slot } => {
            let width = rows.first().map_or(0, Vec::len);
            let names = (1..=width).map(|n| format!("column{n}")).collect();
            out.push((*first_slot, "\"*VALUES*\"".into(), names));
        }
        Source::Function {
            function,
            first_slot,
            ..
        } => {
            let name = function.name().to_owned();
            out.push((*first_slot, name.clone(), vec![name]));
        }
        Source::System { table, first_slot } => {
            let names = table.columns().iter().map(|(name, _)| (*name).to_owned());
            out.push((*first_slot, table.name().to_owned(), names.collect()));
        }
        Source::Subquery {
            plan,
            first_slot,
            alias,
        } => {
            let visible = plan.targets[..plan.visible].iter();
            let names = visible.map(|t| t.name.clone()).collect();
            out.push((*first_slot, alias.clone(), names));
        }
        Source::Set(set) => {
            let visible = set.left.targets[..set.left.visible].iter();
            let names = visible.map(|t| t.name.clone()).collect();
            out.push((set.first_slot, "*SELECT*".into(), names));
        }
        Source::Recursive(plan) => {
            let visible = plan.base.targets[..plan.base.visible].iter();
            let names = visible.map(|t| t.name.clone()).collect();
            out.push((plan.first_slot, "*SELECT*".into(), names));
        }
        Source::Cte {
            cte,
            first_slot,
            alias,
        } => {
            let names = cte.query.columns().iter().map(|t| t.name.clone());
            out.push((*first_slot, alias.clone(), names.collect()));
        }
        Source::Work {
            columns,
            first_slot,
            alias,
            ..
        } => out.push((*first_slot, alias.clone(), columns.clone())),
        Source::Lateral { input, .. }
        | Source::Filter { input, .. }
        | Source::Analytics { input, .. } => collect(input, out),
        Source::Join(join) => {
            collect(&join.left, out);
            collect(&join.right, out);
        }
    }
}
