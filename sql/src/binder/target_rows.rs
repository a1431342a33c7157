//! Set-returning functions in a target list beside other columns: `SELECT a, unnest(b) FROM t`.
//!
//! The calls become relations in FROM, which may read the other relations, and each call in the
//! list becomes a column of them. Several calls run side by side; the shorter ones continue with
//! NULLs, as `unnest` does for arrays. A call in the arguments of another call becomes a relation
//! before it (`target_calls.rs`). A field of a row, `(f(x)).n`, is a column too.
//!
//! If PostgreSQL computes the rows after grouping, windows or DISTINCT ON, the SELECT becomes a
//! subquery in FROM that computes those. The calls are then relations beside it
//! (`target_levels.rs`).
//!
//! A record that leaves a subquery in FROM loses its field names. Therefore the fields leave it as
//! additional columns, under generated names that no query text can contain, and `(t.row).n` refers
//! to them.

use sqlparser::ast::{self, Expr as E};

use super::aggregate::kind_of;
use super::call::function_name;
use super::column_name::column_name;
use super::expr::{Clause, ExprContext};
use super::rows::gives_rows;
use super::scope::{ResolvedColumn, Scope, ScopeLeaf, UNSEEN};
use super::target_calls::Calls;
use super::{Binder, names, target_levels};
use crate::bound::{Expr, TableFunction};
use crate::catalog::CatalogView;
use crate::error::{SqlError, SqlState};
use crate::functions::rows_candidates;
use crate::stack;
use crate::walk::{Visitor, Walk};

/// The prefix of the generated relation names of target lists, and the separator between the names
/// of a row and a field. Query text cannot contain this character.
pub(super) const OWN: &str = "\0";

/// Returns whether a relation was added for a target list; `*` and unqualified names do not see it.
pub(super) fn is_own(alias: &str) -> bool {
    alias.starts_with(OWN)
}

/// Returns the name of the subquery column for this field of the row `row`.
pub(super) fn field_of(row: &str, field: &str) -> String {
    format!("{UNSEEN}{row}{OWN}{field}")
}

/// Returns the error for a set-returning function in a clause that does not allow it.
pub(super) fn set_here(name: &str, clause: Clause) -> SqlError {
    match clause {
        Clause::Select | Clause::OrderBy | Clause::GroupBy | Clause::Window => {
            SqlError::unsupported(format!("the set-returning function {name} here"))
        }
        Clause::FromFunction => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "set-returning functions must appear at top level of FROM",
        ),
        Clause::Argument => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "aggregate function calls cannot contain set-returning function calls",
        ),
        clause => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "set-returning functions are not allowed in {}",
                clause.name()
            ),
        ),
    }
}

/// A SELECT whose set-returning functions are in FROM, with its ORDER BY.
pub(super) type RewrittenSelect = (ast::Select, Vec<ast::OrderByExpr>);

impl Binder<'_> {
    /// Returns the SELECT with its set-returning functions in FROM. `None` if it has none, or if
    /// one call is its whole target list.
    ///
    /// # Errors
    /// Returns PostgreSQL's error for set-returning functions in clauses that do not allow them.
    pub(super) fn with_rows_beside(
        &mut self,
        select: &ast::Select,
        order_by: &[ast::OrderByExpr],
    ) -> Result<Option<RewrittenSelect>, SqlError> {
        let as_fields = std::mem::take(&mut self.rows_as_fields);
        let known = SetFunctions::of(self.catalog);
        let mut looked = ExprSurvey::of(&known);
        Walk(&mut looked).items(&select.projection)?;
        let in_items = looked.calls.len();
        for key in sort_keys(select, order_by) {
            Walk(&mut looked).expr(key)?;
        }
        if looked.calls.is_empty() {
            return Ok(None);
        }
        // A sort key refers to the target with the same text.
        let in_keys = looked.calls[in_items..].iter().cloned();
        looked.within.extend(in_keys);
        let alone = looked.calls.len() == 1 && select.from.is_empty();
        if alone && in_items == 1 && known.is_one_call(&select.projection) {
            return Ok(None);
        }
        let found = (looked.within, looked.groups || looked.windows);
        let mut whole = ExprSurvey::of(&known);
        whole.measures = true;
        Walk(&mut whole).select(select)?;
        // Cloning a syntax tree recurses.
        stack::check(whole.deepest.max(looked.deepest))?;
        let mut from = (select.clone(), order_by.to_vec());
        if is_grouped(select) {
            let keys = group_keys(select);
            let mut grouped = ExprSurvey::of(&known);
            for key in &keys {
                Walk(&mut grouped).expr(key)?;
            }
            if !grouped.calls.is_empty() {
                let mut calls = Calls::of(&known, grouped.calls);
                calls.only_known = true;
                from = calls.beside(from, false)?;
            }
        }
        let (within, several) = found;
        let postponed = is_postponed(&known, &from)?;
        if several || postponed || is_grouped(select) || select.having.is_some() {
            from = target_levels::split(&known, from, postponed)?;
        }
        let calls = Calls::of(&known, within);
        calls.beside(from, as_fields).map(Some)
    }

    /// Returns the fields of `(t.row).*`, if the subquery `t` has such a row.
    pub(super) fn fields_of_row(row: &E, scope: &Scope) -> Option<Vec<(String, ResolvedColumn)>> {
        let path = match row {
            E::Nested(inner) => return Self::fields_of_row(inner, scope),
            E::Identifier(name) => std::slice::from_ref(name),
            E::CompoundIdentifier(path) => path.as_slice(),
            _ => return None,
        };
        let (row, of) = path.split_last()?;
        let prefix = field_of(&names::fold(row), "");
        let fields = |leaf: &ScopeLeaf| {
            let columns = leaf.columns.iter().enumerate();
            let fields = columns.filter_map(|(at, column)| {
                let name = column.name.strip_prefix(&prefix)?;
                Some((name.to_owned(), leaf.found(at)))
            });
            let fields: Vec<(String, ResolvedColumn)> = fields.collect();
            (!fields.is_empty()).then_some(fields)
        };
        match of {
            [] => scope.leaves.iter().find_map(fields),
            [alias] => fields(scope.leaf(None, &names::fold(alias)).ok()?),
            _ => None,
        }
    }

    /// Binds `(t.row).field`, if the subquery `t` has such a row.
    pub(super) fn field_of_row(
        &mut self,
        row: &E,
        dot: &ast::AccessExpr,
        around: &mut ExprContext<'_>,
    ) -> Result<Option<Expr>, SqlError> {
        let mut path = match row {
            E::Identifier(name) => vec![name.clone()],
            E::CompoundIdentifier(path) => path.clone(),
            _ => return Ok(None),
        };
        let (ast::AccessExpr::Dot(E::Identifier(field)), Some(row)) = (dot, path.pop()) else {
            return Ok(None);
        };
        let column = quoted(field_of(&names::fold(&row), &names::fold(field)));
        let column = match path.is_empty() {
            true => E::Identifier(column),
            false => {
                path.push(column);
                E::CompoundIdentifier(path)
            }
        };
        match self.expr(&column, around) {
            Ok(found) => Ok(Some(found)),
            Err(missing) if missing.sqlstate() == SqlState::UNDEFINED_COLUMN => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The shape of the rows of a set-returning function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowShape {
    /// The columns of its rows.
    pub(super) fields: Vec<String>,
    /// Whether each row is a composite value, not the value of a single column.
    pub(super) is_row: bool,
}

/// The set-returning functions of a catalog.
pub(super) struct SetFunctions<'a> {
    catalog: &'a dyn CatalogView,
}

impl<'a> SetFunctions<'a> {
    /// Returns the user-defined functions of a catalog, with the built-in ones.
    pub(super) fn of(catalog: &'a dyn CatalogView) -> SetFunctions<'a> {
        SetFunctions { catalog }
    }

    /// Returns whether one call is the whole target list and can be a relation as it is, because
    /// its rows are not composite values.
    fn is_one_call(&self, projection: &[ast::SelectItem]) -> bool {
        use ast::SelectItem as S;
        match projection {
            [
                S::UnnamedExpr(E::Function(function))
                | S::ExprWithAlias {
                    expr: E::Function(function),
                    ..
                },
            ] => self.shape(function).is_some_and(|shape| !shape.is_row),
            _ => false,
        }
    }

    /// Returns the shape of the rows of a set-returning function; `None` for other functions.
    pub(super) fn shape(&self, function: &ast::Function) -> Option<RowShape> {
        if function.over.is_some() || !matches!(function.args, ast::FunctionArguments::List(_)) {
            return None;
        }
        if let Some(shape) = self.of_users(function) {
            return Some(shape);
        }
        let name = function_name(&function.name).ok()?;
        let one = |name| RowShape {
            fields: vec![name],
            is_row: false,
        };
        if let Some(known) = rows_candidates(&name).next() {
            let named = known.columns.iter().map(|(name, _)| (*name).to_owned());
            let fields: Vec<String> = named.collect();
            let is_row = fields.len() > 1;
            return Some(RowShape { fields, is_row });
        }
        let gives = gives_rows(&name) || TableFunction::of(&name).is_some();
        gives.then(|| one(name))
    }

    fn of_users(&self, function: &ast::Function) -> Option<RowShape> {
        let (schema, name) = names::table_name(&function.name).ok()?;
        let routines = self.catalog.routines(schema.as_deref(), &name);
        let routine = routines.iter().find(|routine| routine.result.set)?;
        let columns = &routine.result.columns;
        let is_row = routine.gives_row() && !columns.is_empty();
        let fields = match columns.as_slice() {
            columns if is_row => columns.iter().map(|(name, _)| name.clone()).collect(),
            _ => vec![name],
        };
        Some(RowShape { fields, is_row })
    }

    /// Returns whether an expression calls a set-returning function, outside of its subqueries.
    pub(super) fn has_call(&self, expr: &E) -> Result<bool, SqlError> {
        let mut looked = ExprSurvey::of(self);
        Walk(&mut looked).expr(expr)?;
        Ok(!looked.calls.is_empty())
    }
}

/// The set-returning functions in some expressions, and the depth of the expressions.
struct ExprSurvey<'a> {
    known: &'a SetFunctions<'a>,
    /// The texts of the calls.
    calls: Vec<String>,
    /// The calls that are not a whole target or key.
    within: Vec<String>,
    /// Whether there are aggregate calls.
    groups: bool,
    /// Whether there are calls with OVER.
    windows: bool,
    /// Whether the depth of subqueries is measured, too.
    measures: bool,
    queries: usize,
    depth: usize,
    deepest: usize,
    /// The surrounding expressions that do not allow set-returning functions, each with its depth
    /// and the error.
    refusing: Vec<(usize, String)>,
}

impl<'a> ExprSurvey<'a> {
    fn of(known: &'a SetFunctions<'a>) -> ExprSurvey<'a> {
        ExprSurvey {
            known,
            calls: Vec::new(),
            within: Vec::new(),
            groups: false,
            windows: false,
            measures: false,
            queries: 0,
            depth: 0,
            deepest: 0,
            refusing: Vec::new(),
        }
    }

    fn refuse(&mut self, what: &str) {
        self.refusing.push((self.depth, what.to_owned()));
    }

    fn call(&mut self, function: &ast::Function) -> Result<(), SqlError> {
        if self.known.shape(function).is_some() {
            if let Some((_, what)) = self.refusing.last() {
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what.clone());
                return Err(error.hint(
                    "You might be able to move the set-returning function into a LATERAL \
                     FROM item.",
                ));
            }
            let text = function.to_string();
            if self.depth > 1 {
                self.within.push(text.clone());
            }
            self.calls.push(text);
            return Ok(());
        }
        let name = function_name(&function.name).unwrap_or_default();
        if function.over.is_some() {
            self.windows = true;
            self.refuse("window function calls cannot contain set-returning function calls");
        } else if kind_of(&name).is_some() || !function.within_group.is_empty() {
            self.groups = true;
            self.refuse("aggregate function calls cannot contain set-returning function calls");
        } else if name == "coalesce" {
            self.refuse("set-returning functions are not allowed in COALESCE");
        }
        Ok(())
    }
}

impl Visitor for ExprSurvey<'_> {
    // Entering each subquery once for each query around it would take time quadratic in the depth.
    fn enters_queries(&self) -> bool {
        self.measures
    }

    fn query(&mut self, _: &ast::Query) -> Result<(), SqlError> {
        self.queries += 1;
        Ok(())
    }

    fn query_end(&mut self) {
        self.queries -= 1;
    }

    fn expr(&mut self, expr: &E) -> Result<(), SqlError> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.queries > 0 {
            return Ok(());
        }
        match expr {
            E::Function(function) => self.call(function)?,
            E::Case { .. } => self.refuse("set-returning functions are not allowed in CASE"),
            _ => {}
        }
        Ok(())
    }

    fn expr_end(&mut self, _: &E) {
        self.refusing.pop_if(|(depth, _)| *depth == self.depth);
        self.depth -= 1;
    }
}

/// Returns the expressions of ORDER BY and DISTINCT ON.
fn sort_keys<'a>(
    select: &'a ast::Select,
    order_by: &'a [ast::OrderByExpr],
) -> impl Iterator<Item = &'a E> {
    let firsts: &[E] = match &select.distinct {
        Some(ast::Distinct::On(keys)) => keys,
        _ => &[],
    };
    order_by.iter().map(|key| &key.expr).chain(firsts)
}

fn is_grouped(select: &ast::Select) -> bool {
    match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    }
}

/// Returns the keys of GROUP BY. A key that is the name or number of a target is replaced by that
/// target.
fn group_keys(select: &ast::Select) -> Vec<&E> {
    let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return Vec::new();
    };
    let keys = keys.iter();
    keys.map(|key| item_of(select, key).unwrap_or(key))
        .collect()
}

/// Returns the target that a key refers to by name or number.
pub(super) fn item_of<'a>(select: &'a ast::Select, key: &E) -> Option<&'a E> {
    let items = &select.projection;
    match key {
        E::Value(value) => match &value.value {
            ast::Value::Number(text, _) => {
                let at = text.parse::<usize>().ok()?.checked_sub(1)?;
                items.get(at).and_then(named).map(|(expr, _)| expr)
            }
            _ => None,
        },
        E::Identifier(name) => {
            let name = names::fold(name);
            let mut all = items.iter().filter_map(named);
            all.find(|(_, known)| *known == name).map(|(expr, _)| expr)
        }
        _ => None,
    }
}

/// Returns the expression of a target and its name; `None` for `*`.
pub(super) fn named(item: &ast::SelectItem) -> Option<(&E, String)> {
    match item {
        ast::SelectItem::UnnamedExpr(expr) => Some((expr, column_name(expr))),
        ast::SelectItem::ExprWithAlias { expr, alias } => Some((expr, names::fold(alias))),
        _ => None,
    }
}

/// Returns whether DISTINCT ON is evaluated before the set-returning functions: there is an ORDER
/// BY, and neither clause reads a set-returning function.
fn is_postponed(
    known: &SetFunctions<'_>,
    (select, order_by): &RewrittenSelect,
) -> Result<bool, SqlError> {
    if !matches!(select.distinct, Some(ast::Distinct::On(_))) || order_by.is_empty() {
        return Ok(false);
    }
    for key in sort_keys(select, order_by) {
        if known.has_call(item_of(select, key).unwrap_or(key))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a quoted identifier, which is not folded.
pub(super) fn quoted(name: impl Into<String>) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}
