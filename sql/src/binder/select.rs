//! SELECT: its clauses, grouping and ORDER BY.

use sqlparser::ast;

use super::aggregate::Aggregates;
use super::distinct::{check_first_keys, first_of_each, has_equality};
use super::expr::{Clause, ExprContext};
use super::group::Grouper;
use super::grouping_sets::{Keys, put_levels};
use super::query::{is_constant, order_key};
use super::scope::Scope;
use super::window::{WINDOW_SLOTS, named_windows};
use super::{Binder, names};
use crate::bound::{Expr, From, Grouping, Select, Target};
use crate::error::{SqlError, SqlState};
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

pub(super) fn has_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    expr.for_each_column(&mut |slot| found |= slot >= super::aggregate::AGGREGATE_SLOTS);
    found
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
