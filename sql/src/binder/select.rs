//! SELECT: target lists, grouping and ORDER BY.

use sqlparser::ast;

use super::aggregate::Aggregates;
use super::call::{function_name, no_function, plain_argument};
use super::column_name::column_name;
use super::distinct::{check_first_keys, first_of_each, has_equality};
use super::expr::{Clause, ExprContext};
use super::group::Grouper;
use super::grouping_sets::{Keys, put_levels};
use super::query::{is_constant, order_key};
use super::scope::{ResolvedColumn, Scope, UNSEEN};
use super::whole_row::row_of_star;
use super::window::{WINDOW_SLOTS, named_windows};
use super::{Binder, names};
use crate::bound::{Expr, From, Grouping, Leaf, Select, TableFunction, Target};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::Type;

impl Binder<'_> {
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        order_by: &[ast::OrderByExpr],
        wanted: Option<&[Type]>,
    ) -> Result<Select, SqlError> {
        let first_of = matches!(select.distinct, Some(ast::Distinct::On(_)));
        let unsettled = std::mem::take(&mut self.unsettled) && !first_of;
        check_supported(select)?;
        let beside = self.with_rows_beside(select, order_by)?;
        let (select, order_by) = match &beside {
            Some((select, order_by)) => (select, order_by.as_slice()),
            None => (select, order_by),
        };
        let everything = [ast::SelectItem::Wildcard(
            ast::WildcardAdditionalOptions::default(),
        )];
        let projection: &[ast::SelectItem] = match select.flavor {
            // `TABLE t` selects all columns.
            ast::SelectFlavor::FromFirstNoSelect => &everything,
            _ => &select.projection,
        };
        let mut scope = Scope::default();
        let mut from = self.relations(&select.from, &mut scope)?;
        if let Some(stars) = &mut self.stars {
            stars.note(projection, &scope);
        }
        let unknown = match unsettled {
            true => vec![Type::UNKNOWN; select.projection.len() + scope.width],
            false => Vec::new(),
        };
        let wanted = if unsettled {
            Some(unknown.as_slice())
        } else {
            wanted
        };
        let mut aggregates = Aggregates {
            named: named_windows(&select.named_window)?,
            ..Aggregates::default()
        };
        let mut targets = match self.function_target(select, &mut scope)? {
            Some((leaf, targets)) => {
                from = From::Leaf(leaf);
                targets
            }
            None => self.targets(
                projection,
                &scope,
                Clause::Select,
                Some(&mut aggregates),
                wanted,
            )?,
        };
        let visible = targets.len();
        let filter = match &select.selection {
            Some(filter) => Some(self.filter(filter, &scope)?),
            None => None,
        };
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => false,
        };
        let keys = self.group_keys(&select.group_by, &scope, &targets)?;
        keys.iter()
            .flat_map(|(keys, _)| keys)
            .try_for_each(|key| has_equality(&key.ty))?;
        let mut having = match &select.having {
            Some(having) => Some(self.having(having, &scope, &mut aggregates)?),
            None => None,
        };
        let mut order = Vec::with_capacity(order_by.len());
        for key in order_by {
            let target = self.order_target(
                key,
                &scope,
                &mut aggregates,
                &mut targets,
                visible,
                distinct,
            )?;
            order.push(order_key(key, target));
        }
        let mut firsts = Vec::new();
        if let Some(ast::Distinct::On(keys)) = &select.distinct {
            firsts = self.first_keys(keys, &scope, &mut aggregates, (&mut targets, visible))?;
            check_first_keys(&firsts, &order)?;
        }
        self.check_windows(&scope, &mut aggregates)?;
        let compared = match distinct {
            true => &targets[..visible],
            false => &[],
        };
        let compared = compared
            .iter()
            .chain(firsts.iter().map(|first| &targets[*first]));
        compared
            .map(|target| &target.expr.ty)
            .try_for_each(has_equality)?;
        let mut windows = std::mem::take(&mut aggregates.windows);
        let grouped = keys.is_some()
            || having.is_some()
            || !aggregates.list.is_empty()
            || !aggregates.levels.is_empty();
        let grouping = match grouped {
            false => None,
            true => {
                let (keys, sets) = keys.unwrap_or_default();
                let mut grouper = Grouper {
                    scope: &scope,
                    keys,
                    by_sets: !sets.is_empty(),
                };
                let levels = grouper.levels(&aggregates.levels, &sets)?;
                grouper.check_direct(&aggregates.list)?;
                let mut exprs: Vec<&mut Expr> = targets
                    .iter_mut()
                    .map(|t| &mut t.expr)
                    .chain(&mut having)
                    .collect();
                for call in &mut windows {
                    grouper.rewrite_window(call)?;
                }
                for expr in &mut exprs {
                    grouper.rewrite(expr)?;
                }
                for expr in exprs {
                    put_levels(expr, &levels);
                    grouper.place(expr);
                }
                for call in &mut windows {
                    call.for_each_expr_mut(&mut |expr| {
                        put_levels(expr, &levels);
                        grouper.place(expr);
                    });
                }
                Some(Grouping {
                    keys: grouper.keys,
                    sets,
                    aggregates: aggregates.list,
                })
            }
        };
        let width = match &grouping {
            None => from.width(),
            Some(grouping) => grouping.keys.len() + grouping.aggregates.len(),
        };
        for target in &mut targets {
            target
                .expr
                .remap_columns(&mut |slot| match slot.checked_sub(WINDOW_SLOTS) {
                    Some(call) => width + call,
                    None => slot,
                });
        }
        let bound = Select {
            from,
            filter,
            grouping,
            having,
            windows,
            targets,
            visible,
            distinct,
            distinct_on: Vec::new(),
            order_by: order,
            limit: None,
            offset: None,
            with_ties: false,
            gives_skipped: false,
            locking: None,
            places: false,
            view: None,
        };
        match &select.distinct {
            Some(ast::Distinct::On(_)) => Ok(first_of_each(bound, firsts)),
            _ => Ok(bound),
        }
    }

    /// Binds a WHERE condition.
    pub(super) fn filter(&mut self, filter: &ast::Expr, scope: &Scope) -> Result<Expr, SqlError> {
        let bound = self.scalar(filter, scope, Clause::Where)?;
        self.condition(bound, "WHERE")
            .map_err(|e| e.or_at(self.position_near(filter)))
    }

    fn having(
        &mut self,
        having: &ast::Expr,
        scope: &Scope,
        aggregates: &mut Aggregates,
    ) -> Result<Expr, SqlError> {
        let bound = self.expr(
            having,
            &mut ExprContext {
                scope,
                clause: Clause::Having,
                aggregates: Some(aggregates),
            },
        )?;
        self.condition(bound, "HAVING")
    }

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
    fn function_target(
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

    /// Binds the GROUP BY keys; `None` without the clause.
    fn group_keys(
        &mut self,
        group_by: &ast::GroupByExpr,
        scope: &Scope,
        targets: &[Target],
    ) -> Result<Option<Keys>, SqlError> {
        let ast::GroupByExpr::Expressions(items, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("GROUP BY with modifiers"));
        }
        if items.is_empty() {
            return Ok(None);
        }
        if super::grouping_sets::are_sets(items) {
            return self.grouping_sets(items, scope, targets).map(Some);
        }
        let mut keys: Vec<Expr> = Vec::with_capacity(items.len());
        for item in super::grouping_sets::flattened(items) {
            let key = self.group_key(item, scope, targets)?;
            if !is_constant(&key) && !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(Some((keys, Vec::new())))
    }

    /// Binds one key: a column of the input, else a target by name or number, else an expression.
    pub(super) fn group_key(
        &mut self,
        item: &ast::Expr,
        scope: &Scope,
        targets: &[Target],
    ) -> Result<Expr, SqlError> {
        let input_first = match item {
            ast::Expr::Identifier(ident) => {
                matches!(scope.unqualified(&names::fold(ident)), Ok(Some(_)) | Err(_))
            }
            _ => false,
        };
        if !input_first && let Some(target) = self.group_reference(item, targets)? {
            let expr = targets[target].expr.clone();
            if has_aggregate(&expr) {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed in GROUP BY",
                ));
            }
            return Ok(expr);
        }
        let key = self.scalar(item, scope, Clause::GroupBy)?;
        self.unknown_to_text(key)
    }

    fn group_reference(
        &self,
        item: &ast::Expr,
        targets: &[Target],
    ) -> Result<Option<usize>, SqlError> {
        self.output_reference(item, targets).map_err(|e| {
            let message = e.message().replacen("ORDER BY", "GROUP BY", 1);
            SqlError::new(e.sqlstate(), message).or_at(e.fields().position.unwrap_or(0))
        })
    }

    /// Returns the target that an ORDER BY key sorts by. A key that is not in the target list is
    /// added as a hidden target.
    fn order_target(
        &mut self,
        key: &ast::OrderByExpr,
        scope: &Scope,
        aggregates: &mut Aggregates,
        targets: &mut Vec<Target>,
        visible: usize,
        distinct: bool,
    ) -> Result<usize, SqlError> {
        if let Some(target) = self.output_reference(&key.expr, &targets[..visible])? {
            return Ok(target);
        }
        let bound = self.expr(
            &key.expr,
            &mut ExprContext {
                scope,
                clause: Clause::OrderBy,
                aggregates: Some(aggregates),
            },
        )?;
        let bound = self.unknown_to_text(bound)?;
        if let Some(target) = targets.iter().position(|t| t.expr == bound) {
            return Ok(target);
        }
        if distinct {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            )
            .or_at(self.position_near(&key.expr)));
        }
        targets.push(Target {
            name: String::new(),
            expr: bound,
            origin: None,
        });
        Ok(targets.len() - 1)
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

pub(super) fn has_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    expr.for_each_column(&mut |slot| found |= slot >= super::aggregate::AGGREGATE_SLOTS);
    found
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

/// Refuses the clauses of other SQL dialects with 0A000.
fn check_supported(select: &ast::Select) -> Result<(), SqlError> {
    if select.into.is_some() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "SELECT ... INTO is not allowed here",
        ));
    }
    let refused = if select.top.is_some()
        || select.exclude.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.qualify.is_some()
        || select.value_table_mode.is_some()
        || select.select_modifiers.is_some()
    {
        "this clause of SELECT"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(refused))
}

/// Returns the error 42601 for `*` without FROM.
fn star_of_nothing() -> SqlError {
    SqlError::new(
        SqlState::SYNTAX_ERROR,
        "SELECT * with no tables specified is not valid",
    )
}
