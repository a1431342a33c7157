//! INSERT.

use std::rc::Rc;
use std::sync::Arc;

use sqlparser::ast;

use super::expr::Clause;
use super::from::table_leaf;
use super::needs::Columns;
use super::overriding::{Overriding, takes_given};
use super::rules::Change;
use super::scope::Scope;
use super::subfield::{ColumnPath, no_default};
use super::target_rows::SetFunctions;
use super::whole_row::{is_star, item_of_value};
use super::{Binder, names};
use crate::bound::{Expr, Insert, InsertSource, Integrity, OnConflict, Statement, Target};
use crate::catalog::acl::Privileges;
use crate::catalog::{ColumnDef, Event, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser::parse_query;
use crate::types::{Domain, Type};
use crate::value::Value;

impl Binder<'_> {
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<Statement, SqlError> {
        if insert.or.is_some()
            || insert.ignore
            || insert.overwrite
            || insert.replace_into
            || insert.partitioned.is_some()
            || !insert.assignments.is_empty()
            || insert.output.is_some()
            || insert.multi_table_insert_type.is_some()
        {
            return Err(SqlError::unsupported("this form of INSERT"));
        }
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into what is not a table"));
        };
        let changing = self.changing_target(name, Event::Insert)?;
        let (table, through) = (changing.table, changing.through);
        let alias = insert.table_alias.as_ref().map(|a| names::fold(&a.alias));
        let places = self.insert_places(&table, &insert.columns)?;
        let columns: Vec<usize> = places.iter().map(|place| place.column).collect();
        let reads = self.need_change(&table, Privileges::INSERT);
        self.need_columns(&table, Privileges::INSERT, &columns);
        let explicit = !insert.columns.is_empty();
        let source = match &insert.source {
            None => InsertSource::Values(vec![self.default_row(&table, &[])?]),
            Some(query) => match (plain_values(query), self.values_as_query(query)?) {
                (_, Some(query)) => self.insert_select(&table, &places, explicit, &query)?,
                (Some(values), None) => self.insert_values(&table, &places, explicit, values)?,
                (None, None) => self.insert_select(&table, &places, explicit, query)?,
            },
        };
        let on_conflict = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(conflict)) => {
                let into = (&*table, through.as_ref());
                Some(self.conflict(into, (alias.as_deref(), &reads), conflict)?)
            }
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
        };
        let updates = on_conflict.iter().flat_map(|on: &OnConflict| &on.update);
        let updates: Vec<usize> = updates
            .flat_map(|update| update.assignments.iter().map(|a| a.column))
            .collect();
        if !updates.is_empty() {
            self.need_columns(&table, Privileges::UPDATE, &updates);
        }
        let change = Change {
            inserts: true,
            deletes: false,
            updates: &updates,
        };
        let integrity = match through {
            None => self.integrity(&table, change)?,
            Some(_) => Integrity::default(),
        };
        let read = Rc::clone(&reads);
        let has_xmax = through.is_none() && !table.is_view() && !table.is_parent();
        let of = (alias, reads, has_xmax);
        let returning = self.returning(&table, of, insert.returning.as_deref())?;
        let given = match &source {
            InsertSource::Values(_) => insert
                .source
                .as_deref()
                .and_then(plain_values)
                .map_or(0, width),
            InsertSource::Select { select, .. } => select.visible,
        };
        let bound = Insert {
            table,
            source,
            on_conflict,
            integrity,
            returning,
        };
        match through {
            None => Ok(Statement::Insert(Box::new(bound))),
            Some(through) => self.insert_through(through, (&read, &columns[..given]), bound),
        }
    }

    /// Returns the target of each value of the source, in the order of the source.
    pub(super) fn insert_places(
        &self,
        table: &TableDef,
        list: &[ast::ObjectName],
    ) -> Result<Vec<ColumnPath>, SqlError> {
        if list.is_empty() {
            let whole = |column| ColumnPath {
                column,
                path: Vec::new(),
            };
            return Ok((0..table.columns.len()).map(whole).collect());
        }
        let mut places: Vec<ColumnPath> = Vec::with_capacity(list.len());
        for name in list {
            let parts = names::parts(name)?;
            let [ident, path @ ..] = parts.as_slice() else {
                return Err(SqlError::internal("a column without a name"));
            };
            let path: Vec<ast::Ident> = path.iter().map(|part| (*part).clone()).collect();
            let column = self.column_of(table, ident)?;
            let same = |place: &&ColumnPath| place.column == column;
            let in_parts = |place: &ColumnPath| !place.path.is_empty() && !path.is_empty();
            if places
                .iter()
                .find(same)
                .is_some_and(|place| !in_parts(place))
            {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", names::fold(ident)),
                )
                .or_at(self.position(ident.span)));
            }
            places.push(ColumnPath { column, path });
        }
        Ok(places)
    }

    fn insert_values(
        &mut self,
        table: &Arc<TableDef>,
        places: &[ColumnPath],
        explicit: bool,
        values: &ast::Values,
    ) -> Result<InsertSource, SqlError> {
        let scope = Scope::default();
        let width = width(values);
        // Read once: it lexes the text of the statement.
        let overriding = self.overriding();
        let mut defaults = ColumnDefaults::default();
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            let to = (places, explicit, overriding);
            rows.push(self.insert_row(table, to, (&row.content, &mut defaults), &scope)?);
        }
        Ok(InsertSource::Values(rows))
    }

    /// Returns a complete row from the values for `places`, and from the defaults of the other
    /// columns. Rows of one statement share `defaults`.
    pub(super) fn insert_row(
        &mut self,
        table: &Arc<TableDef>,
        (places, explicit, overriding): (&[ColumnPath], bool, Overriding),
        (values, defaults): (&[ast::Expr], &mut ColumnDefaults),
        scope: &Scope,
    ) -> Result<Vec<Expr>, SqlError> {
        check_count(values.len(), places.len(), explicit)?;
        let mut whole: Vec<Option<Expr>> = vec![None; table.columns.len()];
        for (place, expr) in places.iter().zip(values) {
            let column = &table.columns[place.column];
            if is_default(expr) {
                match place.path.is_empty() {
                    true => continue,
                    false => return Err(no_default(&place.path)?),
                }
            }
            let given = takes_given(column, overriding)?;
            let bound = self.scalar(expr, scope, Clause::Values)?;
            let before = whole[place.column].take();
            let bound = self
                .placed(before, (column, place), bound, scope)
                .map_err(|e| e.or_at(self.position_near(expr)))?;
            whole[place.column] = Some(bound).filter(|_| given);
        }
        self.filled(table, whole, defaults)
    }

    /// Returns the new value of a column after an assignment to the column or to a part of it.
    fn placed(
        &mut self,
        before: Option<Expr>,
        (column, place): (&ColumnDef, &ColumnPath),
        value: Expr,
        scope: &Scope,
    ) -> Result<Expr, SqlError> {
        if place.path.is_empty() {
            return self.assign(value, column);
        }
        let before = before.unwrap_or_else(|| Expr::constant(column.ty, Value::Null));
        self.with_part(before, (column, &place.path), value, scope)
    }

    /// Returns VALUES as a query if an expression in it returns several values or rows. A single
    /// row becomes a SELECT.
    fn values_as_query(&self, query: &ast::Query) -> Result<Option<ast::Query>, SqlError> {
        let Some(values) = plain_values(query) else {
            return Ok(None);
        };
        if !star_or_rows(&SetFunctions::of(self.catalog), values)? {
            return Ok(None);
        }
        let mut changed = query.clone();
        if let [row] = values.rows.as_slice() {
            let mut select = parse_query("SELECT a")?;
            if let ast::SetExpr::Select(select) = select.body.as_mut() {
                select.projection = row.content.iter().map(item_of_value).collect();
            }
            changed.body = select.body;
        }
        Ok(Some(changed))
    }

    fn insert_select(
        &mut self,
        table: &Arc<TableDef>,
        places: &[ColumnPath],
        explicit: bool,
        query: &ast::Query,
    ) -> Result<InsertSource, SqlError> {
        let mut wanted: Vec<Type> = Vec::with_capacity(places.len());
        for place in places {
            wanted.push(self.place_type(&table.columns[place.column], &place.path)?);
        }
        let select = self.query_for(query, Some(&wanted))?;
        check_count(select.visible, places.len(), explicit)?;
        let mut whole: Vec<Option<Expr>> = vec![None; table.columns.len()];
        let overriding = self.overriding();
        let scope = Scope::default();
        for (slot, (place, target)) in places.iter().zip(select.columns()).enumerate() {
            let column = &table.columns[place.column];
            if !takes_given(column, overriding)? {
                continue;
            }
            let value = Expr::column(target.expr.ty, slot);
            let before = whole[place.column].take();
            let placed = self.placed(before, (column, place), value, &scope)?;
            whole[place.column] = Some(placed);
        }
        let row = self.filled(table, whole, &mut ColumnDefaults::default())?;
        Ok(InsertSource::Select {
            select: Box::new(select),
            row,
        })
    }

    /// Returns the defaults of all columns except `given`.
    pub(super) fn default_row(
        &mut self,
        table: &TableDef,
        given: &[usize],
    ) -> Result<Vec<Expr>, SqlError> {
        let mut row = Vec::with_capacity(table.columns.len());
        for (i, column) in table.columns.iter().enumerate() {
            row.push(match given.contains(&i) {
                true => Expr::constant(column.ty, Value::Null),
                false => self.default_of(column)?,
            });
        }
        Ok(row)
    }

    fn filled(
        &mut self,
        table: &TableDef,
        whole: Vec<Option<Expr>>,
        defaults: &mut ColumnDefaults,
    ) -> Result<Vec<Expr>, SqlError> {
        defaults.bound.resize(table.columns.len(), None);
        let mut row = Vec::with_capacity(whole.len());
        for (at, value) in whole.into_iter().enumerate() {
            row.push(match (value, &mut defaults.bound[at]) {
                (Some(value), _) => value,
                (None, Some(bound)) => bound.clone(),
                (None, unbound) => unbound.insert(self.default_of(&table.columns[at])?).clone(),
            });
        }
        Ok(row)
    }

    /// Returns the DEFAULT of a column; NULL without one.
    pub(super) fn default_of(&mut self, column: &ColumnDef) -> Result<Expr, SqlError> {
        let of_domain = column.more.domain.and_then(Domain::default);
        let Some(text) = column.default.as_deref().or(of_domain) else {
            return Ok(Expr::constant(column.ty, Value::Null));
        };
        let parsed = crate::parser::parse_expression(text)?;
        let needs = self.needs.len();
        let bound = self.unnoted(|of| of.scalar(&parsed, &Scope::default(), Clause::Default))?;
        if column.more.identity.is_some() {
            // The sequence belongs to the identity column, so no privilege on it is needed.
            self.needs.truncate(needs);
        }
        self.guard_needs(needs);
        self.unnoted(|of| of.assign(bound, column))
    }

    /// Binds RETURNING over the rows of one table. `has_xmax` tells whether the row has xmax, which
    /// shows whether the row existed before.
    fn returning(
        &mut self,
        table: &TableDef,
        (alias, reads, has_xmax): (Option<String>, Columns, bool),
        items: Option<&[ast::SelectItem]>,
    ) -> Result<Vec<Target>, SqlError> {
        let Some(items) = items else {
            return Ok(Vec::new());
        };
        let mut scope = Scope::default();
        let mut leaf = table_leaf(table, alias, 0);
        leaf.reads = Some(reads);
        if has_xmax {
            leaf.push_xmax();
        }
        scope.push(leaf)?;
        self.targets(items, &scope, Clause::Returning, None, None)
    }
}

/// The bound DEFAULTs of the columns of a table, as far as a row has needed them.
#[derive(Default)]
pub(super) struct ColumnDefaults {
    bound: Vec<Option<Expr>>,
}

/// Returns whether an expression of VALUES returns several values, or several rows in a single row.
/// Returns false for lists with DEFAULT.
fn star_or_rows(known: &SetFunctions<'_>, values: &ast::Values) -> Result<bool, SqlError> {
    let single = values.rows.len() == 1;
    let mut found = false;
    for expr in values.rows.iter().flat_map(|row| &row.content) {
        if is_default(expr) {
            return Ok(false);
        }
        found = found || is_star(expr) || (single && known.has_call(expr)?);
    }
    Ok(found)
}

/// Returns the number of values in each row.
fn width(values: &ast::Values) -> usize {
    values.rows.first().map_or(0, |row| row.content.len())
}

/// Returns the rows of a query that consists of VALUES only.
fn plain_values(query: &ast::Query) -> Option<&ast::Values> {
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    match query.body.as_ref() {
        ast::SetExpr::Values(values) if plain => Some(values),
        _ => None,
    }
}

pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Checks that there are as many values as columns; 42601 otherwise. Without a column list there
/// may be fewer values.
fn check_count(values: usize, columns: usize, explicit: bool) -> Result<(), SqlError> {
    if values > columns {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "INSERT has more expressions than target columns",
        ));
    }
    if explicit && values < columns {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "INSERT has more target columns than expressions",
        ));
    }
    Ok(())
}
