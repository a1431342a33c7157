//! The FROM clause: its relations, and the scope that they form.

use sqlparser::ast::{self, TableFactor};

use super::call::{function_name, plain_argument};
use super::join::inner;
use super::rows::gives_rows;
use super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::{Binder, names};
use crate::bound::{ColumnOrigin, Expr, From, Lateral, Leaf, LeafSource};
use crate::catalog::{ObjectKind, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser::{ROWS_FROM, parse_query};
use crate::system::SystemTable;
use crate::types::Type;

impl Binder<'_> {
    /// Binds a FROM list and adds its relations to the scope.
    pub(super) fn relations(
        &mut self,
        list: &[ast::TableWithJoins],
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        // The join tree grows to the left by one level for each item.
        crate::stack::check(self.depth + list.len())?;
        let mut from = From::Nothing;
        for item in list {
            let right = self.joined(item, scope, &[])?;
            from = match from {
                From::Nothing => right,
                left => inner(left, right, None),
            };
        }
        Ok(from)
    }

    /// Binds one relation, which may read the relations in `left`.
    pub(super) fn factor(
        &mut self,
        factor: &TableFactor,
        scope: &mut Scope,
        left: &[&Scope],
    ) -> Result<From, SqlError> {
        let called = match factor {
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => Some((name, &args.args[..], *with_ordinality, alias)),
            TableFactor::Function {
                name,
                args,
                with_ordinality,
                alias,
                ..
            } => Some((name, &args[..], *with_ordinality, alias)),
            _ => None,
        };
        if let Some((name, args, ordinality, alias)) = called {
            if names::table_name(name)? == (None, ROWS_FROM.to_owned()) {
                return self.rows_from(args, ordinality, alias.as_ref(), (scope, left));
            }
            let around = (&mut *scope, left);
            let routine = (name, args);
            if let Some(from) = self.routine_in_from(routine, ordinality, alias.as_ref(), around)? {
                return Ok(from);
            }
            let around = (&mut *scope, left);
            if let Some(from) =
                self.json_rows_in_from(routine, ordinality, alias.as_ref(), around)?
            {
                return Ok(from);
            }
        }
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                sample: None,
                ..
            } if with_hints.is_empty() && partitions.is_empty() => {
                let alias_name = alias.as_ref().map(|a| names::fold(&a.name));
                let called = alias_name.as_deref();
                if let Some((leaf, source)) = self.named_query(name, called, scope.width)? {
                    return self.leaf(leaf, source, alias.as_ref(), scope);
                }
                if let Some(rows) = self.rows_variable(name)? {
                    return self.rows_of_variable(name, rows, alias.as_ref(), scope);
                }
                if let Some(view) = self.view(name)? {
                    let of_view =
                        |binder: &mut Self| binder.expanded(&view, alias_name, scope.width);
                    let (mut leaf, select) = self.deeper(of_view)?;
                    leaf.reads = Some(self.need_view(&view));
                    let source = LeafSource::Subquery(Box::new(select));
                    return self.leaf(leaf, source, alias.as_ref(), scope);
                }
                let table = match self.table(name) {
                    Err(missing) => {
                        let Some(table) = names::system_table(name) else {
                            let (leaf, source) = self.sequence_leaf(name, alias_name, missing)?;
                            return self.leaf(
                                ScopeLeaf {
                                    first_slot: scope.width,
                                    ..leaf
                                },
                                source,
                                alias.as_ref(),
                                scope,
                            );
                        };
                        let leaf = system_leaf(table, alias_name, scope.width);
                        return self.leaf(leaf, LeafSource::System(table), alias.as_ref(), scope);
                    }
                    table => table?,
                };
                let mut leaf = table_leaf(&table, alias_name, scope.width);
                leaf.reads = Some(self.need_read(ObjectKind::Table, table.id, &table.name));
                self.leaf(leaf, LeafSource::Table(table), alias.as_ref(), scope)
            }
            TableFactor::Table {
                sample: Some(sample),
                args: None,
                ..
            } => self.sampled(factor, sample, scope),
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } => {
                let args: Vec<&ast::Expr> = array_exprs.iter().collect();
                self.rows_in_from(
                    "unnest",
                    &args,
                    *with_ordinality,
                    alias.as_ref(),
                    (scope, left),
                )
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } if gives_rows(&function_name(name)?) => {
                let args = args.args.iter().map(plain_argument);
                let args = args.collect::<Result<Vec<_>, _>>()?;
                let name = function_name(name)?;
                self.rows_in_from(
                    &name,
                    &args,
                    *with_ordinality,
                    alias.as_ref(),
                    (scope, left),
                )
            }
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality,
                alias,
            } if gives_rows(&function_name(name)?) => {
                let args = args.iter().map(plain_argument);
                let args = args.collect::<Result<Vec<_>, _>>()?;
                let name = function_name(name)?;
                self.rows_in_from(
                    &name,
                    &args,
                    *with_ordinality,
                    alias.as_ref(),
                    (scope, left),
                )
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } => self.table_function(name, &args.args, alias.as_ref(), (scope, left)),
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality: false,
                alias,
            } => self.table_function(name, args, alias.as_ref(), (scope, left)),
            TableFactor::Derived {
                sample: Some(_), ..
            } => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "syntax error at or near \"TABLESAMPLE\"",
            )),
            // The other relations with WITH ORDINALITY number their rows themselves.
            _ if let Some((name, args, true, alias)) = called => {
                let calls = [(name.clone(), args.to_vec())];
                self.side_by_side(&calls, true, alias.as_ref(), (scope, left))
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => {
                let left = lateral.then_some(left);
                self.derived(subquery, alias.as_ref(), scope, left)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    let query = all_of(table_with_joins)?;
                    return self.derived(&query, alias.as_ref(), scope, Some(left));
                }
                self.deeper(|binder| binder.joined(table_with_joins, scope, left))
            }
            _ => Err(SqlError::unsupported("this kind of FROM item")),
        }
    }

    /// Binds a subquery in FROM.
    fn derived(
        &mut self,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        scope: &mut Scope,
        left: Option<&[&Scope]>,
    ) -> Result<From, SqlError> {
        let Some(table_alias) = alias else {
            let what = match subquery.body.as_ref() {
                ast::SetExpr::Values(_) => "VALUES in FROM must have an alias",
                _ => "subquery in FROM must have an alias",
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what)
                .hint("For example, FROM (SELECT ...) [AS] foo."));
        };
        self.rows_as_fields = matches!(subquery.body.as_ref(), ast::SetExpr::Select(_));
        let bound = match left {
            None => self.query(subquery).map(|select| (select, Vec::new())),
            Some(left) => self.beside(left, |binder| binder.query(subquery)),
        };
        self.rows_as_fields = false;
        let (select, args) = bound?;
        let columns = select
            .columns()
            .iter()
            .map(|t| ScopeColumn {
                name: t.name.clone(),
                ty: t.expr.ty,
                origin: t.origin,
                hidden: false,
            })
            .collect();
        let leaf = ScopeLeaf {
            alias: names::fold(&table_alias.name),
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns,
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        };
        let source = lateral(args, LeafSource::Subquery(Box::new(select)));
        self.leaf(leaf, source, alias, scope)
    }

    /// Runs `bind` for a relation that may read the scopes in `left`. Returns its result with the
    /// outer columns that it reads.
    pub(super) fn beside<T>(
        &mut self,
        left: &[&Scope],
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, Vec<(usize, Expr)>), SqlError> {
        let mut all = Scope::default();
        for scope in left {
            all.leaves.extend(scope.leaves.iter().cloned());
            all.merged.extend(scope.merged.iter().cloned());
            all.joins.extend(scope.joins.iter().cloned());
        }
        self.within_lateral(all, bind)
    }

    /// Adds a relation to the scope; the column alias list renames its columns.
    pub(super) fn leaf(
        &mut self,
        mut leaf: ScopeLeaf,
        source: LeafSource,
        alias: Option<&ast::TableAlias>,
        scope: &mut Scope,
    ) -> Result<From, SqlError> {
        if let Some(alias) = alias {
            if alias.columns.len() > leaf.columns.len() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!(
                        "table \"{}\" has {} columns available but {} columns specified",
                        leaf.alias,
                        leaf.columns.len(),
                        alias.columns.len()
                    ),
                ));
            }
            for (column, renamed) in leaf.columns.iter_mut().zip(&alias.columns) {
                column.name = names::fold(&renamed.name);
            }
        }
        let from = From::Leaf(Leaf {
            source,
            alias: leaf.alias.clone(),
            column_names: leaf.columns.iter().map(|c| c.name.clone()).collect(),
            column_types: leaf.columns.iter().map(|c| c.ty).collect(),
            first_slot: leaf.first_slot,
        });
        scope.push(leaf)?;
        Ok(from)
    }
}

/// Returns the query for a join with an alias: `SELECT * FROM join`.
fn all_of(join: &ast::TableWithJoins) -> Result<ast::Query, SqlError> {
    let mut query = *parse_query("SELECT * FROM x")?;
    match query.body.as_mut() {
        ast::SetExpr::Select(select) => select.from = vec![join.clone()],
        _ => return Err(SqlError::internal("a SELECT is none")),
    }
    Ok(query)
}

/// Returns a source together with the columns that it reads from relations to its left.
pub(super) fn lateral(args: Vec<(usize, Expr)>, source: LeafSource) -> LeafSource {
    match args.is_empty() {
        true => source,
        false => LeafSource::Lateral(Box::new(Lateral { args, source })),
    }
}

/// Returns the scope entry of a table.
pub(super) fn table_leaf(table: &TableDef, alias: Option<String>, first_slot: usize) -> ScopeLeaf {
    let columns = table
        .columns
        .iter()
        .map(|c| ScopeColumn {
            name: c.name.clone(),
            ty: c.ty,
            origin: Some(ColumnOrigin {
                table: table.id,
                attnum: c.attnum,
            }),
            hidden: false,
        })
        .collect();
    let key = table
        .primary_key()
        .filter(|index| index.unique)
        .map(|index| {
            index
                .columns
                .iter()
                .map(|c| first_slot + c.column)
                .collect()
        })
        .unwrap_or_default();
    ScopeLeaf {
        table_name: alias.as_ref().map(|_| table.name.clone()),
        alias: alias.unwrap_or_else(|| table.name.clone()),
        schema: Some(table.schema.clone()),
        first_slot,
        columns,
        key,
        routed: match table.is_parent() {
            true => table
                .routing_columns()
                .iter()
                .map(|c| first_slot + c)
                .collect(),
            false => Vec::new(),
        },
        reads: None,
        row: None,
        is_table: true,
    }
}

/// Returns the scope entry of a system table.
fn system_leaf(table: SystemTable, alias: Option<String>, first_slot: usize) -> ScopeLeaf {
    let oid = table.oid();
    let column = |(number, (name, ty)): (i16, &(&str, Type))| ScopeColumn {
        name: (*name).to_owned(),
        ty: *ty,
        origin: (oid != 0).then_some(ColumnOrigin {
            table: oid,
            attnum: number,
        }),
        hidden: false,
    };
    ScopeLeaf {
        table_name: alias.as_ref().map(|_| table.name().to_owned()),
        alias: alias.unwrap_or_else(|| table.name().to_owned()),
        schema: Some(table.schema().to_owned()),
        first_slot,
        columns: (1..).zip(table.columns()).map(column).collect(),
        key: Vec::new(),
        routed: Vec::new(),
        reads: None,
        row: None,
        is_table: true,
    }
}
