//! Queries: their bodies, VALUES, and the clauses around them. ORDER BY is bound with the target
//! list.

use std::borrow::Cow;

use sqlparser::ast;

use super::distinct::has_order;
use super::expr::Clause;
use super::locking::{lock_rows, locked_relations};
use super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::whole_row::{is_star, item_of_value};
use super::{Binder, QUERY_LEVELS};
use crate::bound::{Expr, From, Leaf, LeafSource, Node, OrderKey, Select, Target};
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::types::Type;

impl Binder<'_> {
    /// Binds a query.
    pub(super) fn query(&mut self, query: &ast::Query) -> Result<Select, SqlError> {
        self.query_for(query, None)
    }

    /// Binds a query; its VALUES and literals may take the types of the columns that they are
    /// stored in.
    pub(super) fn query_for(
        &mut self,
        query: &ast::Query,
        wanted: Option<&[Type]>,
    ) -> Result<Select, SqlError> {
        self.deeper_by(QUERY_LEVELS, |binder| binder.query_here(query, wanted))
    }

    fn query_here(
        &mut self,
        query: &ast::Query,
        wanted: Option<&[Type]>,
    ) -> Result<Select, SqlError> {
        let unsettled = std::mem::take(&mut self.unsettled);
        self.under(query.with.as_ref(), |binder| {
            binder.query_under(query, wanted, unsettled)
        })
    }

    fn query_under(
        &mut self,
        query: &ast::Query,
        wanted: Option<&[Type]>,
        unsettled: bool,
    ) -> Result<Select, SqlError> {
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(SqlError::unsupported("this clause of a query"));
        }
        let order_by = order_keys(query)?;
        let needs = self.needs.len();
        let mut select = match query.body.as_ref() {
            ast::SetExpr::Select(select) => {
                self.unsettled = unsettled;
                self.select(select, order_by, wanted)?
            }
            ast::SetExpr::Values(values) => self.values(values, order_by)?,
            ast::SetExpr::Query(inner) => {
                return self.query_for(joined(query, inner)?.as_ref(), wanted);
            }
            ast::SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => self.set_operation((op, set_quantifier), left, right, order_by)?,
            _ => return Err(SqlError::unsupported("this kind of query")),
        };
        let keys = select.order_by.iter();
        keys.map(|key| &select.targets[key.target].expr.ty)
            .try_for_each(has_order)?;
        self.limits(query, &mut select)?;
        for clause in &query.locks {
            lock_rows(clause, &mut select)?;
        }
        if !query.locks.is_empty() {
            self.need_locks(&locked_relations(&select), needs);
        }
        Ok(select)
    }

    /// Returns a query of all columns of one relation.
    pub(super) fn over_leaf(
        &mut self,
        leaf: Leaf,
        targets: Vec<Target>,
        order_by: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        let mut select = Select::over(From::Leaf(leaf), targets);
        for key in order_by {
            let target = match self.output_reference(&key.expr, &select.targets)? {
                Some(target) => target,
                None => {
                    let target = self.over_key(&key.expr, &select)?;
                    select.targets.push(target);
                    select.targets.len() - 1
                }
            };
            select.order_by.push(order_key(key, target));
        }
        Ok(select)
    }

    /// Binds an ORDER BY expression over one relation that is not a column of it.
    fn over_key(&mut self, key: &ast::Expr, select: &Select) -> Result<Target, SqlError> {
        let From::Leaf(leaf) = &select.from else {
            return Err(SqlError::internal("a relation that is none"));
        };
        let column = |(name, ty): (&String, &Type)| ScopeColumn {
            name: name.clone(),
            ty: *ty,
            origin: None,
            hidden: false,
        };
        let mut scope = Scope::default();
        scope.push(ScopeLeaf {
            alias: leaf.alias.clone(),
            table_name: None,
            schema: None,
            first_slot: 0,
            columns: leaf
                .column_names
                .iter()
                .zip(&leaf.column_types)
                .map(column)
                .collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        })?;
        let bound = self.scalar(key, &scope, Clause::OrderBy)?;
        if matches!(leaf.source, LeafSource::Set(_)) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            )
            .detail("Only result column names can be used, not expressions or functions.")
            .hint(
                "Add the expression/function to every SELECT, or move the UNION into a \
                 FROM clause.",
            )
            .or_at(self.position_near(key)));
        }
        Ok(Target {
            name: String::new(),
            expr: self.unknown_to_text(bound)?,
            origin: None,
        })
    }

    /// Binds VALUES as a query; its columns are named column1, column2 and so on.
    pub(super) fn values(
        &mut self,
        values: &ast::Values,
        order_by: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        let scope = Scope::default();
        let mut columns: Vec<Vec<Expr>> = Vec::new();
        for (at, row) in values.rows.iter().enumerate() {
            let mut bound = Vec::with_capacity(row.content.len());
            for expr in &row.content {
                match is_star(expr) {
                    true => self.stars_of_values(expr, &mut bound)?,
                    false => bound.push(self.scalar(expr, &scope, Clause::Values)?),
                }
            }
            if at == 0 {
                columns = vec![Vec::with_capacity(values.rows.len()); bound.len()];
            }
            if bound.len() != columns.len() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            for (column, expr) in columns.iter_mut().zip(bound) {
                column.push(expr);
            }
        }
        let mut rows: Vec<Vec<Expr>> = vec![Vec::with_capacity(columns.len()); values.rows.len()];
        let mut types = Vec::with_capacity(columns.len());
        for column in columns {
            let (ty, column) = self.unify(column, "VALUES")?;
            types.push(ty);
            for (row, expr) in rows.iter_mut().zip(column) {
                row.push(expr);
            }
        }
        let targets: Vec<Target> = types
            .iter()
            .enumerate()
            .map(|(slot, ty)| Target {
                name: format!("column{}", slot + 1),
                expr: Expr::column(*ty, slot),
                origin: None,
            })
            .collect();
        let leaf = Leaf {
            source: LeafSource::Values(rows),
            alias: "*VALUES*".to_owned(),
            column_names: targets.iter().map(|t| t.name.clone()).collect(),
            column_types: types,
            first_slot: 0,
        };
        self.over_leaf(leaf, targets, order_by)
    }

    /// Adds the values of `t.*` or `(row).*` in VALUES.
    fn stars_of_values(&mut self, expr: &ast::Expr, out: &mut Vec<Expr>) -> Result<(), SqlError> {
        let items = [item_of_value(expr)];
        let scope = Scope::default();
        let targets = self.targets(&items, &scope, Clause::Values, None, None)?;
        out.extend(targets.into_iter().map(|target| target.expr));
        Ok(())
    }

    pub(super) fn limits(
        &mut self,
        query: &ast::Query,
        select: &mut Select,
    ) -> Result<(), SqlError> {
        let (limit, offset) = limits_of(query)?;
        let offset = offset.map(|offset| &offset.value);
        select.offset = match offset {
            Some(offset) => Some(self.row_count(offset, "OFFSET")?),
            None => None,
        };
        select.limit = match (limit, &query.fetch) {
            (Some(limit), _) => Some(self.row_count(limit, "LIMIT")?),
            (None, Some(fetch)) => {
                if fetch.percent {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "syntax error: FETCH counts rows",
                    ));
                }
                if fetch.with_ties && select.order_by.is_empty() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "WITH TIES cannot be specified without ORDER BY clause",
                    ));
                }
                if fetch.with_ties && !query.locks.is_empty() {
                    return Err(SqlError::unsupported("WITH TIES with FOR UPDATE"));
                }
                select.with_ties = fetch.with_ties;
                Some(match &fetch.quantity {
                    Some(quantity) => self.row_count(quantity, "LIMIT")?,
                    None => Expr::constant(Type::INT8, crate::value::Value::Int8(1)),
                })
            }
            (None, None) => None,
        };
        Ok(())
    }

    fn row_count(&mut self, count: &ast::Expr, what: &str) -> Result<Expr, SqlError> {
        if let ast::Expr::Identifier(ident) = count
            && ident.quote_style.is_none()
            && ident.value.eq_ignore_ascii_case("all")
        {
            return Ok(Expr::constant(Type::INT8, crate::value::Value::Null));
        }
        let bound = self.scalar(count, &Scope::default(), Clause::Limit)?;
        let ty = bound.ty;
        self.coerce(bound, Type::INT8, CastContext::Assignment)
            .map_err(|e| match e.sqlstate() == SqlState::CANNOT_COERCE {
                true => SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "argument of {what} must be type bigint, not type {}",
                        ty.kind
                    ),
                ),
                false => e,
            })
    }

    /// Returns the target that an ORDER BY or GROUP BY item refers to by number or by name.
    pub(super) fn output_reference(
        &self,
        expr: &ast::Expr,
        targets: &[Target],
    ) -> Result<Option<usize>, SqlError> {
        match expr {
            ast::Expr::Nested(inner) => self.output_reference(inner, targets),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(text, _) => {
                    let position = text
                        .parse::<usize>()
                        .ok()
                        .and_then(|n| n.checked_sub(1))
                        .filter(|n| *n < targets.len());
                    match position {
                        Some(target) => Ok(Some(target)),
                        None => Err(SqlError::new(
                            SqlState::INVALID_COLUMN_REFERENCE,
                            format!("ORDER BY position {text} is not in select list"),
                        )
                        .or_at(self.position(value.span))),
                    }
                }
                _ => Ok(None),
            },
            ast::Expr::Identifier(ident) => {
                let name = super::names::fold(ident);
                let mut found: Option<usize> = None;
                for (i, target) in targets.iter().enumerate() {
                    if target.name != name {
                        continue;
                    }
                    match found {
                        Some(first) if targets[first].expr != target.expr => {
                            return Err(SqlError::new(
                                SqlState::AMBIGUOUS_COLUMN,
                                format!("ORDER BY \"{name}\" is ambiguous"),
                            )
                            .or_at(self.position(ident.span)));
                        }
                        Some(_) => {}
                        None => found = Some(i),
                    }
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }
}

/// Returns the query for `(inner) ORDER BY … LIMIT …`. The parentheses have no meaning, so the
/// clauses after them apply to the inner query. 42601 if the inner query has the same clause.
fn joined<'q>(outer: &ast::Query, inner: &'q ast::Query) -> Result<Cow<'q, ast::Query>, SqlError> {
    let twice = |what: &str| {
        let message = format!("multiple {what} clauses not allowed");
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    };
    if outer.with.is_some() && inner.with.is_some() {
        return twice("WITH");
    }
    let has_limits = outer.limit_clause.is_some() || outer.fetch.is_some();
    if outer.order_by.is_none() && !has_limits && outer.locks.is_empty() {
        return Ok(Cow::Borrowed(inner));
    }
    let mut query = inner.clone();
    if outer.order_by.is_some() {
        if query.order_by.is_some() {
            return twice("ORDER BY");
        }
        query.order_by.clone_from(&outer.order_by);
    }
    let (limit, offset) = limits_of(outer)?;
    let (own_limit, own_offset) = limits_of(&query)?;
    let limited = limit.is_some() || outer.fetch.is_some();
    if limited && (own_limit.is_some() || query.fetch.is_some()) {
        return twice("LIMIT");
    }
    if offset.is_some() && own_offset.is_some() {
        return twice("OFFSET");
    }
    let (limit, offset) = (limit.or(own_limit), offset.or(own_offset));
    if limit.is_some() || offset.is_some() {
        query.limit_clause = Some(ast::LimitClause::LimitOffset {
            limit: limit.cloned(),
            offset: offset.cloned(),
            limit_by: Vec::new(),
        });
    }
    if outer.fetch.is_some() {
        query.fetch.clone_from(&outer.fetch);
    }
    query.locks.extend(outer.locks.iter().cloned());
    Ok(Cow::Owned(query))
}

/// Returns the LIMIT and OFFSET of a query.
fn limits_of(query: &ast::Query) -> Result<(Option<&ast::Expr>, Option<&ast::Offset>), SqlError> {
    match &query.limit_clause {
        None => Ok((None, None)),
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => Ok((limit.as_ref(), offset.as_ref())),
        Some(_) => Err(SqlError::unsupported("this form of LIMIT")),
    }
}

/// Returns the sort keys of a query.
pub(super) fn order_keys(query: &ast::Query) -> Result<&[ast::OrderByExpr], SqlError> {
    let Some(order_by) = &query.order_by else {
        return Ok(&[]);
    };
    match &order_by.kind {
        ast::OrderByKind::Expressions(keys) if order_by.interpolate.is_none() => Ok(keys),
        _ => Err(SqlError::unsupported("this form of ORDER BY")),
    }
}

/// Returns the sort key of a target, with its options. Without NULLS FIRST or LAST, NULL counts as
/// larger than every value.
pub(super) fn order_key(key: &ast::OrderByExpr, target: usize) -> OrderKey {
    let desc = key.options.asc == Some(false);
    OrderKey {
        target,
        desc,
        nulls_first: key.options.nulls_first.unwrap_or(desc),
    }
}

/// Returns whether the expression is a constant.
pub(super) fn is_constant(expr: &Expr) -> bool {
    matches!(expr.node, Node::Const(_))
}
