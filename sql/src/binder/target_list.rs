//! Target lists of SELECT and RETURNING: expressions, stars, and set-returning functions alone.

use sqlparser::ast;

use super::aggregate::Aggregates;
use super::call::{function_name, no_function, plain_argument};
use super::column_name::column_name;
use super::expr::{Clause, ExprContext};
use super::scope::{ResolvedColumn, Scope, UNSEEN};
use super::whole_row::row_of_star;
use super::{Binder, names};
use crate::bound::{Expr, Leaf, TableFunction, Target};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::Type;

impl Binder<'_> {
    /// Binds a target list or a RETURNING list.
    pub(super) fn targets(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
        clause: Clause,
        mut aggregates: Option<&mut Aggregates>,
        wanted: Option<&[Type]>,
    ) -> Result<Vec<Target>, SqlError> {
        let mut targets = Vec::with_capacity(items.len());
        for item in items {
            let (expr, name) = match item {
                ast::SelectItem::UnnamedExpr(expr) if let Some(row) = row_of_star(expr) => {
                    if let Some(fields) = Self::fields_of_row(&row, scope) {
                        targets.extend(fields.into_iter().map(named_target));
                        continue;
                    }
                    let mut around = ExprContext {
                        scope,
                        clause,
                        aggregates: aggregates.as_deref_mut(),
                    };
                    let row = self.expr(&row, &mut around)?;
                    for (name, expr) in self.all_fields(row)? {
                        targets.push(Target {
                            name,
                            expr: self.unknown_to_text(expr)?,
                            origin: None,
                        });
                    }
                    continue;
                }
                ast::SelectItem::UnnamedExpr(expr) => (expr, column_name(expr)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(alias)),
                ast::SelectItem::Wildcard(options) => {
                    check_wildcard(options)?;
                    if scope.leaves.is_empty() {
                        return Err(star_of_nothing());
                    }
                    targets.extend(scope.star().into_iter().map(named_target));
                    continue;
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    check_wildcard(options)?;
                    self.relation_star(name, scope, &mut targets)?;
                    continue;
                }
                _ => return Err(SqlError::unsupported("this kind of select item")),
            };
            let position = targets.len();
            let bound = self.expr(
                expr,
                &mut ExprContext {
                    scope,
                    clause,
                    aggregates: aggregates.as_deref_mut(),
                },
            )?;
            // A literal that is stored in a column takes the type of the column.
            let wanted_type = wanted.and_then(|types| types.get(position)).copied();
            let bound = match wanted_type {
                Some(ty) if bound.ty == Type::UNKNOWN => {
                    self.coerce(bound, Type::of(ty.kind), CastContext::Assignment)?
                }
                _ => self.unknown_to_text(bound)?,
            };
            let origin = plain_origin(expr, scope);
            targets.push(Target {
                name,
                expr: bound,
                origin,
            });
        }
        Ok(targets)
    }

    pub(super) fn relation_star(
        &mut self,
        name: &ast::ObjectName,
        scope: &Scope,
        targets: &mut Vec<Target>,
    ) -> Result<(), SqlError> {
        let (schema, alias) = names::table_name(name)?;
        if let Some(join) = scope.join_star(schema.as_deref(), &alias) {
            targets.extend(join.into_iter().map(named_target));
            return Ok(());
        }
        let found = scope.leaf(schema.as_deref(), &alias);
        if found.is_err()
            && let Some(fields) = self.row_fields(name)?
        {
            targets.extend(fields.into_iter().map(|(name, expr)| Target {
                name,
                expr,
                origin: None,
            }));
            return Ok(());
        }
        if found.is_err()
            && let Some(columns) = self.star_outside(schema.as_deref(), &alias)
        {
            targets.extend(columns);
            return Ok(());
        }
        let leaf = found.map_err(|e| {
            e.or_at(match name.0.first() {
                Some(ast::ObjectNamePart::Identifier(ident)) => self.position(ident.span),
                _ => 0,
            })
        })?;
        for (i, column) in leaf.columns.iter().enumerate() {
            if !column.name.starts_with(UNSEEN) {
                targets.push(named_target((column.name.clone(), leaf.found(i))));
            }
        }
        Ok(())
    }

    /// Returns the columns of the nearest relation of this name in an outer query.
    fn star_outside(&mut self, schema: Option<&str>, alias: &str) -> Option<Vec<Target>> {
        let around = self.surroundings.iter().enumerate().rev();
        let mut found =
            around.filter_map(|(level, s)| Some((level, s.scope.leaf(schema, alias).ok()?)));
        let (level, leaf) = found.next()?;
        let columns = leaf.columns.iter().enumerate();
        let columns = columns.filter(|(_, column)| !column.name.starts_with(UNSEEN));
        let columns: Vec<(String, Expr)> = columns
            .map(|(i, column)| (column.name.clone(), leaf.found(i).expr))
            .collect();
        let carried = columns.into_iter().map(|(name, expr)| Target {
            name,
            expr: self.carried(level, expr),
            origin: None,
        });
        Some(carried.collect())
    }

    /// Binds a single set-returning function such as `SELECT generate_series(…)` without FROM, as a
    /// FROM item.
    pub(super) fn function_target(
        &mut self,
        select: &ast::Select,
        scope: &mut Scope,
    ) -> Result<Option<(Leaf, Vec<Target>)>, SqlError> {
        let ([item], true) = (select.projection.as_slice(), select.from.is_empty()) else {
            return Ok(None);
        };
        let (expr, alias) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(names::fold(alias))),
            _ => return Ok(None),
        };
        let ast::Expr::Function(function) = expr else {
            return Ok(None);
        };
        if let Some((leaf, name)) = self.routine_target(function, scope)? {
            let target = Target {
                name: alias.unwrap_or(name),
                expr: Expr::column(leaf.column_types[0], 0),
                origin: None,
            };
            scope.width += 1;
            return Ok(Some((leaf, vec![target])));
        }
        let Ok(name) = function_name(&function.name) else {
            return Ok(None);
        };
        let ast::FunctionArguments::List(list) = &function.args else {
            return Ok(None);
        };
        let called = TableFunction::of(&name);
        if called.is_none() && !super::rows::gives_rows(&name) {
            return Ok(None);
        }
        let mut args = Vec::with_capacity(list.args.len());
        for arg in &list.args {
            args.push(self.scalar(plain_argument(arg)?, scope, Clause::FromFunction)?);
        }
        let (ty, source) = match called {
            Some(called) => self.rows_of(called, args)?,
            None => {
                let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
                let rows = self.rows_call(&name, args, (false, false))?;
                match rows.columns.as_slice() {
                    [(_, ty)] => (*ty, rows.source),
                    _ => return Err(no_function(&name, &types)),
                }
            }
        };
        let name = alias.unwrap_or(name);
        let leaf = Leaf {
            source,
            alias: name.clone(),
            column_names: vec![name.clone()],
            column_types: vec![ty],
            first_slot: 0,
        };
        let target = Target {
            name,
            expr: Expr::column(ty, 0),
            origin: None,
        };
        Ok(Some((leaf, vec![target])))
    }
}

fn named_target((name, found): (String, ResolvedColumn)) -> Target {
    Target {
        name,
        expr: found.expr,
        origin: found.origin,
    }
}

/// Returns the table column that a target is, if the target is a plain column reference.
fn plain_origin(expr: &ast::Expr, scope: &Scope) -> Option<crate::bound::ColumnOrigin> {
    let found = match expr {
        ast::Expr::Nested(inner) => return plain_origin(inner, scope),
        ast::Expr::Identifier(ident) => scope.unqualified(&names::fold(ident)).ok()?,
        ast::Expr::CompoundIdentifier(idents) => match idents.as_slice() {
            [alias, column] => scope
                .qualified(None, &names::fold(alias), &names::fold(column))
                .ok(),
            [schema, table, column] => scope
                .qualified(
                    Some(&names::fold(schema)),
                    &names::fold(table),
                    &names::fold(column),
                )
                .ok(),
            _ => None,
        },
        _ => None,
    };
    found.and_then(|f| f.origin)
}

fn check_wildcard(options: &ast::WildcardAdditionalOptions) -> Result<(), SqlError> {
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none();
    match plain {
        true => Ok(()),
        false => Err(SqlError::unsupported("a wildcard with options")),
    }
}

/// Returns the error 42601 for `*` without FROM.
fn star_of_nothing() -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        "SELECT * with no tables specified is not valid",
    )
}
