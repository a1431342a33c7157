//! The binder: turns syntax trees into bound trees, resolving names, types and functions by
//! PostgreSQL's rules.
//!
//! One `Binder` binds one statement. It reads one snapshot of the catalog, infers the types of the
//! parameters, and evaluates constant expressions.
//!
//! Invariants
//! - BIN-1: the binder recurses only through `deeper`, which checks the levels and the stack in
//!   `stack` (54001). The depth of bound expressions is at most a small multiple of the depth of
//!   the syntax.
//! - BIN-2: a feature of PostgreSQL that is not supported reports 0A000 and names the feature.

mod aggregate;
mod alter_view;
mod array;
mod call;
mod coerce;
mod collation;
mod column_name;
mod column_types;
mod composite;
mod conflict;
mod copy;
mod current_of;
mod cursor;
mod ddl;
mod delete;
mod deparse;
mod did_you_mean;
mod distinct;
mod domain;
mod enums;
mod expr;
mod from;
mod group;
mod grouping_sets;
mod insert;
mod interval;
mod join;
mod json;
mod json_rows;
mod literal;
mod locking;
mod maintenance;
mod materialized;
mod merge;
mod named_args;
mod names;
mod needs;
mod operator;
mod ordered_set;
mod outer_aggregate;
mod overriding;
mod params;
mod path;
mod polymorphic;
mod polymorphic_types;
mod query;
mod references;
mod routine;
mod routine_body;
mod routine_call;
mod routine_signature;
mod row_compare;
mod rows;
mod rows_from;
mod rules;
mod sample;
mod scope;
mod search_cycle;
mod security;
mod select;
mod sequence;
mod set;
mod special;
mod stars;
mod stored;
mod subfield;
mod subquery;
mod symbol;
mod system_columns;
mod table_function;
mod target_calls;
mod target_levels;
mod target_list;
mod target_rows;
#[cfg(test)]
mod tests;
mod trigger;
mod type_name;
mod updatable;
mod update;
mod variables;
mod variadic;
mod view;
mod view_rewriting;
mod whole_row;
mod window;
mod with;

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::tokenizer::Span;

use crate::bound::{AlterTable, Changes, Explain, Statement};
use crate::catalog::CatalogView;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::parser::{self, ParsedStatement, position_of};
use crate::settings::Settings;
use crate::stack;

pub use cursor::goes_back;
pub use deparse::{DeparseContext, ObjectRename, Style, VisibleColumns};
pub use domain::domain_conditions;
pub use params::ParamTypes;
pub(crate) use path::PathView;
pub use path::{explicit_path, search_path};
pub use references::{ObjectPart, References};
pub use routine_body::{BoundBody, bind_body};
pub use rules::{index_condition, index_expression};
pub use stored::{StoredText, calling, unbound};
#[cfg(test)]
pub(crate) use tests::NoTables;
pub use type_name::{type_for, type_of};
pub use updatable::view_is_updatable;
pub use variables::{NamePriority, Variable, Variables};

/// The levels that a query adds to the depth of the tree; a query nests deeper than an expression.
const QUERY_LEVELS: usize = 25;
/// The levels that a branch of a set operation or a CTE adds.
const SIDE_LEVELS: usize = 5;
/// The levels that a row adds: its value is nested, too.
const ROW_LEVELS: usize = 50;
/// The largest number of nested views that a statement may update through.
const VIEWS_MAX: usize = 250;

/// Binds a statement. `cx` supplies the settings; its clock is not read.
pub fn bind(
    parsed: &ParsedStatement,
    catalog: &dyn CatalogView,
    params: &mut ParamTypes,
    cx: &EvalContext,
) -> Result<Statement, SqlError> {
    bind_among(parsed, catalog, (params, None), cx)
}

/// Binds a statement as [`bind`] does; the statement may refer to variables.
pub fn bind_among(
    parsed: &ParsedStatement,
    catalog: &dyn CatalogView,
    (params, variables): (&mut ParamTypes, Option<&dyn Variables>),
    cx: &EvalContext,
) -> Result<Statement, SqlError> {
    parsed.check_stack()?;
    let path = path::search_path(catalog, cx);
    let along = path::PathView {
        catalog,
        path: &path,
    };
    let catalog = match path::is_plain(&path) {
        true => catalog,
        false => &along,
    };
    let mut binder = Binder::of(&parsed.text, (catalog, &path), params, (cx, 0));
    binder.variables = variables;
    let bound = binder
        .statement(parsed.statement())
        .map_err(|e| match e.fields().position {
            Some(position) => e.at(position + parsed.offset),
            None => e,
        })?;
    binder.params.finish()?;
    binder.check_needs()?;
    Ok(bound)
}

struct Binder<'a> {
    text: &'a str,
    catalog: &'a dyn CatalogView,
    /// The search path.
    path: &'a [String],
    params: &'a mut ParamTypes,
    /// The variables that a name may refer to if it is not a column.
    variables: Option<&'a dyn Variables>,
    cx: &'a EvalContext,
    depth: usize,
    /// The number of active calls of `deeper`.
    nesting: usize,
    /// The queries that surround the current query, the outermost first.
    surroundings: Vec<subquery::OuterQuery>,
    /// The CTEs that are in scope, the innermost last.
    named: Vec<with::CteName>,
    /// The data-modifying CTEs.
    changes: Vec<(usize, Statement)>,
    /// Whether the next target list leaves literals of unknown type unresolved.
    unsettled: bool,
    /// Whether rows in the next target list are expanded to one column for each field.
    rows_as_fields: bool,
    /// The number of outer slots.
    outer_slots: usize,
    /// The number of subqueries in expressions.
    subqueries: usize,
    /// The privileges that the statement requires.
    needs: Vec<needs::Need>,
    /// The role whose privileges are checked; `None` for the current user.
    role: Option<u32>,
    /// The user that invokes the statement, if another role runs it.
    asker: Option<u32>,
    /// Whether the statement refreshes a materialized view, which no other statement may change.
    refreshes: bool,
    /// The objects that the text refers to, if the caller asks for them.
    references: Option<references::ObjectUses>,
    /// The columns of each star, if the caller asks for them.
    stars: Option<stars::StarColumns>,
    /// The settings for date and time literals that are read once, during binding.
    literal_settings: Option<Arc<Settings>>,
}

impl<'a> Binder<'a> {
    /// Returns a binder for a separate text at this depth.
    fn of(
        text: &'a str,
        (catalog, path): (&'a dyn CatalogView, &'a [String]),
        params: &'a mut ParamTypes,
        (cx, depth): (&'a EvalContext, usize),
    ) -> Binder<'a> {
        Binder {
            text,
            catalog,
            path,
            params,
            variables: None,
            cx,
            depth,
            nesting: depth,
            surroundings: Vec::new(),
            named: Vec::new(),
            unsettled: false,
            rows_as_fields: false,
            changes: Vec::new(),
            outer_slots: 0,
            subqueries: 0,
            needs: Vec::new(),
            role: None,
            asker: None,
            refreshes: false,
            references: None,
            stars: None,
            literal_settings: None,
        }
    }
}

impl Binder<'_> {
    fn statement(&mut self, statement: &parser::Statement) -> Result<Statement, SqlError> {
        let bound = self.statement_as_written(statement)?;
        if !bound.takes_parameters() {
            self.params.check_none()?;
        }
        Ok(bound)
    }

    fn statement_as_written(
        &mut self,
        statement: &parser::Statement,
    ) -> Result<Statement, SqlError> {
        match statement {
            parser::Statement::Ready(ready) => self.ready(ready),
            parser::Statement::Copy(copy) => {
                let main = self.copy(copy)?;
                self.with_changes(main)
            }
            parser::Statement::Identity(syntax) => self.alter_identity(syntax),
            parser::Statement::Keeping(syntax) => self.alter_keeping(syntax),
            parser::Statement::ConstraintAction(syntax) => self.constraint_action(syntax),
            parser::Statement::Passes { first, later } => match self.statement(first)? {
                Statement::AlterTable(alter) => Ok(Statement::AlterTable(AlterTable {
                    later: later.clone(),
                    ..alter
                })),
                _ => Err(SqlError::unsupported("these actions in one ALTER TABLE")),
            },
            parser::Statement::Partition(syntax) => self.alter_partition(syntax),
            parser::Statement::Declare {
                name,
                options,
                query,
            } => self.declare(name, *options, query),
            parser::Statement::Routine(syntax) => self.routine(syntax),
            parser::Statement::Domain(syntax) => self.domain(syntax),
            parser::Statement::Composite(syntax) => self.composite(syntax),
            parser::Statement::Trigger(syntax) => self.trigger(syntax),
            parser::Statement::View(syntax) => self.alter_view(syntax),
            parser::Statement::Security(syntax) => self.security(syntax),
            parser::Statement::Maintenance(syntax) => self.maintenance(syntax),
            parser::Statement::Refresh(syntax) => self.refresh(syntax),
            parser::Statement::Prepare(prepare) => self.prepare(prepare),
            parser::Statement::Explain { options, statement } => Ok(Statement::Explain(Explain {
                options: *options,
                statement: Box::new(self.statement(statement)?),
            })),
            parser::Statement::Sql(sql) => {
                self.check_databases(sql)?;
                let main = self.sql(sql)?;
                self.with_changes(main)
            }
        }
    }

    /// Combines the statement with its data-modifying CTEs.
    fn with_changes(&mut self, main: Statement) -> Result<Statement, SqlError> {
        let first = std::mem::take(&mut self.changes);
        if first.is_empty() {
            return Ok(main);
        }
        match &main {
            Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
            | Statement::Copy(_) => Ok(Statement::With(Box::new(Changes { first, main }))),
            _ => Err(SqlError::unsupported(
                "a WITH that changes rows, in a statement that is none of rows,",
            )),
        }
    }

    fn sql(&mut self, statement: &ast::Statement) -> Result<Statement, SqlError> {
        match statement {
            ast::Statement::Query(query) => match query.body.as_ref() {
                ast::SetExpr::Insert(changing)
                | ast::SetExpr::Update(changing)
                | ast::SetExpr::Delete(changing)
                | ast::SetExpr::Merge(changing) => {
                    self.under(query.with.as_ref(), |binder| binder.sql(changing))
                }
                _ => Ok(Statement::Select(Box::new(self.query(query)?))),
            },
            ast::Statement::Insert(insert) => self.insert(insert),
            ast::Statement::Update(update) => self.update(update),
            ast::Statement::Delete(delete) => self.delete(delete),
            ast::Statement::Merge(merge) => self.merge_into(merge),
            ast::Statement::CreateTable(create) => self.create_table(create),
            ast::Statement::CreateView(create) => self.create_view(create),
            ast::Statement::CreateIndex(create) => self.create_index(create),
            ast::Statement::AlterTable(alter) => self.alter_table(alter),
            ast::Statement::AlterIndex { name, operation } => self.alter_index(name, operation),
            ast::Statement::Truncate(truncate) => self.truncate(truncate),
            ast::Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                ..
            } => self.drop(object_type, *if_exists, names, *cascade),
            ast::Statement::Execute {
                name: Some(name),
                parameters,
                ..
            } => self.execute(name, parameters),
            other => Err(unsupported_statement(other)),
        }
    }

    fn prepare(&mut self, prepare: &parser::PrepareSyntax) -> Result<Statement, SqlError> {
        let types = prepare.types.iter().map(|ty| self.type_of(ty));
        Ok(Statement::Prepare {
            name: prepare.name.clone(),
            param_types: types.collect::<Result<_, _>>()?,
            text: prepare.text.clone(),
        })
    }

    fn execute(
        &mut self,
        name: &ast::ObjectName,
        parameters: &[ast::Expr],
    ) -> Result<Statement, SqlError> {
        let (_, name) = names::table_name(name)?;
        let scope = scope::Scope::default();
        let mut args = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            args.push(self.scalar(parameter, &scope, expr::Clause::Execute)?);
        }
        Ok(Statement::Execute { name, args })
    }

    /// Returns the position of a span in the text of the statement.
    fn position(&self, span: Span) -> u32 {
        position_of(self.text, span.start.line, span.start.column)
    }

    /// Runs `f` one level deeper.
    fn deeper<T>(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.deeper_by(1, f)
    }

    /// Runs `f` deeper by the number of levels that the tree grows.
    fn deeper_by<T>(
        &mut self,
        levels: usize,
        f: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        stack::check(self.depth + levels)?;
        self.depth += levels;
        self.nesting += 1;
        let result = stack::enough(|| f(self));
        self.nesting -= 1;
        self.depth -= levels;
        result
    }
}

/// Returns the error 0A000 with the first two words of the statement.
fn unsupported_statement(statement: &ast::Statement) -> SqlError {
    let text = statement.to_string();
    let words: Vec<&str> = text
        .split_whitespace()
        .take(2)
        .take_while(|w| w.bytes().all(|b| b.is_ascii_uppercase()))
        .collect();
    SqlError::unsupported(match words.is_empty() {
        true => "this statement".to_owned(),
        false => words.join(" "),
    })
}
