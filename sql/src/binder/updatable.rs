//! Automatically updatable views: views whose rows correspond to the rows of one table or view
//! below. The module determines which views these are, and the columns and conditions over the base
//! relation.

use std::rc::Rc;
use std::sync::Arc;

use sqlparser::ast;

use super::aggregate::Aggregates;
use super::expr::Clause;
use super::from::table_leaf;
use super::needs::Columns;
use super::scope::Scope;
use super::{Binder, ParamTypes, VIEWS_MAX, names};
use crate::bound::{Expr, From, LeafSource, Node, Select, ViewCheck};
use crate::catalog::{
    CatalogView, CheckOption, Event, Events, ObjectKind, PUBLIC_SCHEMA, TableDef, ViewDef,
};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::parser::parse_query;
use crate::stack::too_deep;

/// The error detail for a view without an updatable column.
const NO_COLUMN: &str = "Views that have no updatable columns are not automatically updatable.";

/// A view, expressed over the relation directly below.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) view: Arc<ViewDef>,
    /// The role that accesses the relation below; `None` for the current user.
    pub(super) role: Option<u32>,
    /// The relation below, as a table.
    pub(super) under: Arc<TableDef>,
    /// The relation below, if it is a view.
    below: Option<Arc<ViewDef>>,
    /// The columns, as expressions over the row of the relation below.
    pub(super) columns: Vec<Expr>,
    /// The condition, over the same row.
    filter: Option<Expr>,
    /// The attribute numbers of the columns that the view reads from the relation below.
    pub(super) reads: Vec<i16>,
}

impl Level {
    /// Returns the column of the relation below that a column is, if it is a plain column.
    pub(super) fn column(&self, at: usize) -> Option<usize> {
        match self.columns.get(at)?.node {
            Node::Column(slot) => Some(slot),
            _ => None,
        }
    }

    fn has_column(&self) -> bool {
        (0..self.columns.len()).any(|at| self.column(at).is_some())
    }
}

/// A view and the views below it, down to the base relation: a table, or a view whose INSTEAD OF
/// triggers perform the change.
#[derive(Debug)]
pub(super) struct ViewChain {
    /// The view as a table; its columns inherit properties of the base columns.
    pub(super) view_table: Arc<TableDef>,
    /// The base relation.
    pub(super) base: Arc<TableDef>,
    /// The views; the first one is the view that the statement names.
    pub(super) levels: Vec<Level>,
    /// The columns of the view, as expressions over the row of `base`.
    pub(super) columns: Vec<Expr>,
    /// All view conditions, over the same row.
    pub(super) filter: Option<Expr>,
    /// The check options that new rows must satisfy.
    pub(super) checks: Vec<ViewCheck>,
}

impl ViewChain {
    fn of(levels: Vec<Level>) -> Option<ViewChain> {
        let (first, last) = (levels.first()?, levels.last()?);
        let base = Arc::clone(&last.under);
        let mut view_table = first.view.as_table();
        // From the lowest view up: the columns and the condition of each view over the row of
        // `base`.
        let mut columns: Vec<Expr> = Vec::new();
        let mut conditions: Vec<Option<Expr>> = Vec::new();
        for (depth, level) in levels.iter().rev().enumerate() {
            let below = |slot: usize| match depth {
                0 => None,
                _ => columns.get(slot).cloned(),
            };
            let over_base = |expr: &Expr| {
                let mut expr = expr.clone();
                expr.replace_columns(&below);
                expr
            };
            conditions.push(level.filter.as_ref().map(over_base));
            columns = level.columns.iter().map(over_base).collect();
        }
        conditions.reverse();
        for (at, column) in view_table.columns.iter_mut().enumerate() {
            let mut of = Some(at);
            for level in &levels {
                let Some(place) = of else { break };
                if column.default.is_none() {
                    let mut known = level.view.more.defaults.iter();
                    let default = known.find(|(of, _)| *of == place);
                    column.default = default.map(|(_, text)| text.clone());
                }
                of = level.column(place);
            }
            if let Some(below) = of.map(|of| &base.columns[of]) {
                column.ty = below.ty;
                column.more = below.more.clone();
                let default = below.default.clone();
                column.default = column.default.take().or(default);
            }
        }
        let mut checks = Vec::new();
        let mut cascades = false;
        for (level, condition) in levels.iter().zip(&conditions) {
            let option = level.view.check_option();
            let asks = cascades || option.is_some();
            cascades |= option == Some(CheckOption::Cascaded);
            if let (true, Some(condition)) = (asks, condition) {
                checks.push(ViewCheck {
                    view: level.view.name.clone(),
                    condition: condition.clone(),
                });
            }
        }
        // The checks of the lower views come first.
        checks.reverse();
        let mut all: Vec<Expr> = conditions.into_iter().rev().flatten().collect();
        let filter = match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Expr::new(crate::types::Type::BOOL, Node::And(all))),
        };
        Some(ViewChain {
            view_table: Arc::new(view_table),
            base,
            columns,
            filter,
            checks,
            levels,
        })
    }

    /// Returns the base column that receives a value; 0A000 if the view column is not updatable.
    pub(super) fn written(&self, column: usize, event: Event) -> Result<usize, SqlError> {
        written(&self.levels, column, event)
    }

    /// Returns the base columns for which a view has a default, with the defaults.
    pub(super) fn defaults(&self) -> Result<Vec<(usize, &str)>, SqlError> {
        let mut all: Vec<(usize, &str)> = Vec::new();
        for (depth, level) in self.levels.iter().enumerate() {
            for (column, text) in &level.view.more.defaults {
                let to = written(&self.levels[depth..], *column, Event::Insert)?;
                if all.iter().all(|(known, _)| *known != to) {
                    all.push((to, text));
                }
            }
        }
        Ok(all)
    }
}

/// Returns the column below all levels that a column of the first level is; 0A000 if it is not
/// updatable.
fn written(levels: &[Level], column: usize, event: Event) -> Result<usize, SqlError> {
    let mut at = column;
    for level in levels {
        at = level.column(at).ok_or_else(|| {
            let (name, _) = &level.view.columns[at];
            let verb = match event {
                Event::Insert => "insert into",
                _ => "update",
            };
            let view = &level.view.name;
            let message = format!("cannot {verb} column \"{name}\" of view \"{view}\"");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(
                "View columns that are not columns of their base relation are not updatable.",
            )
        })?;
    }
    Ok(at)
}

impl Binder<'_> {
    /// Returns the levels of a view down to its base relation; 55000 if the view is not updatable
    /// for this event.
    pub(super) fn through(
        &mut self,
        view: &Arc<ViewDef>,
        event: Event,
    ) -> Result<ViewChain, SqlError> {
        let mut levels: Vec<Level> = Vec::new();
        let mut next = Some(Arc::clone(view));
        while let Some(view) = next {
            if levels.len() >= VIEWS_MAX {
                return Err(too_deep());
            }
            let refused = |detail: &str| not_updatable(&view, event, detail);
            let level = self.level(&view)?.map_err(refused)?;
            if event != Event::Delete && !level.has_column() {
                return Err(refused(NO_COLUMN));
            }
            let below = level.below.clone();
            next = below.filter(|below| !below.is_done_instead(event));
            levels.push(level);
        }
        ViewChain::of(levels).ok_or_else(|| SqlError::internal("a view that is none"))
    }

    /// Returns a view as a level over the relation below, or the reason why it is not updatable.
    fn level(&mut self, view: &Arc<ViewDef>) -> Result<Result<Level, &'static str>, SqlError> {
        let query = parse_query(&view.text)?;
        let before = (self.outer_slots, self.subqueries, self.needs.len());
        // The whole query is bound here for inspection only.
        let select = self.query_of(view, ObjectKind::View)?;
        (self.outer_slots, self.subqueries) = (before.0, before.1);
        self.needs.truncate(before.2);
        let view = Arc::clone(view);
        self.within_view(&Arc::clone(&view), ObjectKind::View, |binder| {
            let (of, name, alias) = match single(&query, &select) {
                Ok(single) => single,
                Err(detail) => return Ok(Err(detail)),
            };
            let below = binder.view(name)?;
            if let Some(below) = &below {
                binder.params.name_view(below);
            }
            let under = match &below {
                Some(below) => Arc::new(below.as_table()),
                None => binder.table(name)?,
            };
            let mut scope = Scope::default();
            let called = alias.map(|alias| names::fold(&alias.name));
            let mut leaf = table_leaf(&under, called, 0);
            let reads = Columns::default();
            leaf.reads = Some(Rc::clone(&reads));
            binder.leaf(
                leaf,
                LeafSource::Table(Arc::clone(&under)),
                alias,
                &mut scope,
            )?;
            let mut none = Aggregates::default();
            let items = of.projection.as_slice();
            let targets = binder.targets(items, &scope, Clause::Select, Some(&mut none), None)?;
            let filter = match &of.selection {
                Some(filter) => Some(binder.filter(filter, &scope)?),
                None => None,
            };
            let reads = reads.borrow().clone();
            Ok(Ok(Level {
                view,
                role: binder.role,
                under,
                below,
                columns: targets.into_iter().map(|target| target.expr).collect(),
                filter,
                reads,
            }))
        })
    }
}

/// Returns the reason why a view with this query is not automatically updatable; `None` if it is.
pub(super) fn why_not_updatable(query: &ast::Query, select: &Select) -> Option<&'static str> {
    if let Err(detail) = single(query, select) {
        return Some(detail);
    }
    let plain = |expr: &Expr| matches!(expr.node, Node::Column(_));
    let any = select.columns().iter().any(|target| plain(&target.expr));
    (!any).then_some(NO_COLUMN)
}

/// The parts of a query over one relation: the SELECT, the relation and its alias.
type SingleRelation<'a> = (
    &'a ast::Select,
    &'a ast::ObjectName,
    Option<&'a ast::TableAlias>,
);

/// Returns the only relation of a query, or the reason why its rows are not the rows of one
/// relation.
fn single<'a>(query: &'a ast::Query, select: &Select) -> Result<SingleRelation<'a>, &'static str> {
    const ONE: &str =
        "Views that do not select from a single table or view are not automatically updatable.";
    let of = match query.body.as_ref() {
        ast::SetExpr::Select(of) => &**of,
        ast::SetExpr::Query(inner) => {
            let mut whole = None;
            if has_ends(query) {
                whole = Some("Views containing LIMIT or OFFSET are not automatically updatable.");
            }
            return match (query.with.is_some(), whole) {
                (true, _) => Err("Views containing WITH are not automatically updatable."),
                (_, Some(detail)) => Err(detail),
                _ => single(inner, select),
            };
        }
        ast::SetExpr::SetOperation { .. } => {
            return Err(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
        _ => return Err(ONE),
    };
    let grouped = match &of.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    let distinct = !matches!(of.distinct, None | Some(ast::Distinct::All));
    let alone = match of.from.as_slice() {
        [only] if only.joins.is_empty() => match &only.relation {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => Some((name, alias.as_ref())),
            _ => None,
        },
        _ => None,
    };
    let of_one = match &select.from {
        From::Leaf(leaf) => match &leaf.source {
            LeafSource::Table(table) => Some(table.materialized.is_none()),
            LeafSource::Subquery(_) => Some(true),
            _ => Some(false),
        },
        _ => None,
    };
    let no = |what: bool, detail: &'static str| match what {
        true => Err(detail),
        false => Ok(()),
    };
    no(
        distinct,
        "Views containing DISTINCT are not automatically updatable.",
    )?;
    no(
        grouped,
        "Views containing GROUP BY are not automatically updatable.",
    )?;
    no(
        of.having.is_some(),
        "Views containing HAVING are not automatically updatable.",
    )?;
    no(
        query.with.is_some(),
        "Views containing WITH are not automatically updatable.",
    )?;
    no(
        has_ends(query),
        "Views containing LIMIT or OFFSET are not automatically updatable.",
    )?;
    no(
        select.grouping.is_some(),
        "Views that return aggregate functions are not automatically updatable.",
    )?;
    no(
        !select.windows.is_empty(),
        "Views that return window functions are not automatically updatable.",
    )?;
    no(
        alone.is_some() && of_one.is_none(),
        "Views that return set-returning functions are not automatically updatable.",
    )?;
    match alone {
        Some((name, alias)) if of_one == Some(true) => Ok((of, name, alias)),
        _ => Err(ONE),
    }
}

fn has_ends(query: &ast::Query) -> bool {
    query.limit_clause.is_some() || query.fetch.is_some()
}

/// Returns the error 55000 for a view that is not updatable.
fn not_updatable(view: &ViewDef, event: Event, detail: &str) -> SqlError {
    let (verb, doing, name) = match event {
        Event::Insert => ("insert into", "inserting into", "INSERT"),
        Event::Delete => ("delete from", "deleting from", "DELETE"),
        _ => ("update", "updating", "UPDATE"),
    };
    let message = format!("cannot {verb} view \"{}\"", view.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .detail(detail)
        .hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {name} trigger or an unconditional \
             ON {name} DO INSTEAD rule."
        ))
}

/// Returns the events that a view supports, and which of its columns are updatable. INSTEAD OF
/// triggers count if `with_triggers` is set.
pub fn view_is_updatable(
    view: &Arc<ViewDef>,
    catalog: &dyn CatalogView,
    with_triggers: bool,
) -> (Events, Vec<bool>) {
    let cx = EvalContext::new(Arc::default(), 0, 0);
    let mut none = ParamTypes::new();
    let path = [PUBLIC_SCHEMA.to_owned()];
    let mut binder = Binder::of("", (catalog, &path), &mut none, (&cx, 0));
    let mut columns = vec![true; view.columns.len()];
    let mut all = Events::default();
    let changes = [Event::Insert, Event::Delete, Event::Update];
    let mut next = Some(Arc::clone(view));
    let mut places: Vec<Option<usize>> = (0..columns.len()).map(Some).collect();
    // The events that all views so far support.
    let mut left = Events::default();
    for event in changes {
        left.add(event);
    }
    for _ in 0..VIEWS_MAX {
        let Some(view) = next.take() else { break };
        let instead = view.instead();
        if with_triggers {
            for event in changes {
                if left.has(event) && instead.has(event) {
                    all.add(event);
                }
            }
            if changes.iter().all(|event| instead.has(*event)) {
                return (all, columns);
            }
        }
        let Ok(Ok(level)) = binder.level(&view) else {
            return (all, vec![false; columns.len()]);
        };
        for (place, column) in places.iter_mut().zip(&mut columns) {
            *place = place.and_then(|at| level.column(at));
            *column = place.is_some();
        }
        if !level.has_column() {
            let mut only = Events::default();
            if left.has(Event::Delete) {
                only.add(Event::Delete);
            }
            left = only;
        }
        next = level.below;
        if next.is_none() {
            left.all().for_each(|event| {
                all.add(event);
            });
        }
    }
    (all, columns)
}
