//! Deparsing of queries, clause by clause.

use sqlparser::ast;

use super::super::aggregate::Aggregates;
use super::super::column_name::column_name;
use super::super::expr::Clause;
use super::super::locking::{clause_name, relations_of};
use super::super::names;
use super::super::query::order_keys;
use super::super::scope::Scope;
use super::super::set::operation;
use super::super::subquery::OuterQuery;
use super::super::window::named_windows;
use super::call_pieces::suffix;
use super::expr::words;
use super::tree::{Body, CteText, Query, Select, Set, Side, SortBy, SortKey, Target, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::{Expr, SetOp};
use crate::error::SqlError;
use crate::functions::quote_ident as quoted;
use crate::parser::search_cycle;
use crate::stack;
use crate::types::Type;

impl Deparser<'_, '_> {
    /// Runs `deparse` for a subquery in an expression of the query of `level`.
    pub(super) fn inside<T>(
        &mut self,
        level: &Level,
        deparse: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.levels.push(level.clone());
        let mut surroundings = OuterQuery::new(level.scope.clone(), level.clause);
        surroundings.aggregates = level.aggregates.then(Aggregates::default);
        self.binder.surroundings.push(surroundings);
        let deparsed = deparse(self);
        self.binder.surroundings.pop();
        self.levels.pop();
        deparsed
    }

    /// Deparses a query; its literals may take the types of the columns that they are stored in.
    pub(super) fn query(
        &mut self,
        query: &ast::Query,
        wanted: Option<&[Type]>,
    ) -> Result<Query, SqlError> {
        let named = self.binder.named.len();
        let deparsed = stack::enough(|| self.query_here(query, wanted));
        self.binder.named.truncate(named);
        deparsed
    }

    fn query_here(
        &mut self,
        query: &ast::Query,
        wanted: Option<&[Type]>,
    ) -> Result<Query, SqlError> {
        let mut types: Vec<Type> = wanted.map(<[Type]>::to_vec).unwrap_or_default();
        if wanted.is_none() && matches!(*query.body, ast::SetExpr::SetOperation { .. }) {
            let select = self.binder.query(query)?;
            types = select.columns().iter().map(|t| t.expr.ty).collect();
        }
        let mut with = Vec::new();
        if let Some(written) = &query.with {
            self.binder.with(written)?;
            // The names of relations inside a CTE must differ from those of the main query.
            let mut around = Level::default();
            if let ast::SetExpr::Select(select) = &*query.body {
                let mut scope = Scope::default();
                self.binder.relations(&select.from, &mut scope)?;
                around.names = self.names_for(&scope);
            }
            self.levels.push(around);
            let deparsed = self.with(written);
            self.levels.pop();
            with = deparsed?;
        }
        let order = order_keys(query)?;
        let mut deparsed = Query {
            recursive: query.with.as_ref().is_some_and(|with| with.recursive),
            with,
            body: Body::Values(Vec::new()),
            order: Vec::new(),
            limit: None,
            ties: false,
            offset: None,
            locks: Vec::new(),
        };
        match &*query.body {
            ast::SetExpr::Select(select) => {
                let (select, keys, locks) = self.select(select, order, &query.locks, &types)?;
                deparsed.body = Body::Select(Box::new(select));
                (deparsed.order, deparsed.locks) = (keys, locks);
            }
            ast::SetExpr::Values(values) => {
                deparsed.body = Body::Values(self.values(values)?);
                let width = values.rows.first().map_or(0, |row| row.content.len());
                let names: Vec<String> = (1..=width).map(|n| format!("column{n}")).collect();
                deparsed.order = numbered(order, &names)?;
            }
            ast::SetExpr::Query(inner)
                if order.is_empty() && query.limit_clause.is_none() && deparsed.with.is_empty() =>
            {
                return self.query(inner, wanted);
            }
            ast::SetExpr::SetOperation { .. } => {
                let Side::Set(set) = self.side(&query.body, &types)? else {
                    return Err(SqlError::internal("a set operation that is none"));
                };
                deparsed.order = numbered(order, &set.names())?;
                deparsed.body = Body::Set(set);
            }
            _ => return Err(SqlError::unsupported("this kind of query")),
        }
        self.limits(query, &mut deparsed)?;
        Ok(deparsed)
    }

    fn with(&mut self, with: &ast::With) -> Result<Vec<CteText>, SqlError> {
        let mut all = Vec::new();
        for cte in &with.cte_tables {
            let mut name = quoted(&names::fold(&cte.alias.name));
            let columns = cte.alias.columns.iter();
            let columns: Vec<String> = columns.map(|c| quoted(&names::fold(&c.name))).collect();
            if !columns.is_empty() {
                name += &format!("({})", columns.join(", "));
            }
            all.push(CteText {
                name,
                materialized: match cte.materialized {
                    Some(ast::CteAsMaterialized::Materialized) => "MATERIALIZED ",
                    Some(ast::CteAsMaterialized::NotMaterialized) => "NOT MATERIALIZED ",
                    None => "",
                },
                query: self.query(&cte.query, None)?,
                clauses: clauses_of(cte)?,
            });
        }
        Ok(all)
    }

    /// Deparses one side of a set operation, whose columns have these types.
    fn side(&mut self, side: &ast::SetExpr, types: &[Type]) -> Result<Side, SqlError> {
        match side {
            ast::SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => {
                let (op, all) = operation((op, set_quantifier))?;
                let word = match op {
                    SetOp::Union => "UNION",
                    SetOp::Intersect => "INTERSECT",
                    SetOp::Except => "EXCEPT",
                };
                let words = if all {
                    format!("{word} ALL")
                } else {
                    word.to_owned()
                };
                Ok(Side::Set(Box::new(Set {
                    words,
                    left: stack::enough(|| self.side(left, types))?,
                    right: self.side(right, types)?,
                })))
            }
            ast::SetExpr::Query(query) => {
                let bare = query.with.is_none()
                    && query.order_by.is_none()
                    && query.limit_clause.is_none()
                    && query.fetch.is_none()
                    && query.locks.is_empty();
                match bare {
                    true => self.side(&query.body, types),
                    false => Ok(Side::Query(Box::new(self.query(query, Some(types))?))),
                }
            }
            ast::SetExpr::Select(select) => {
                let (select, ..) = self.select(select, &[], &[], types)?;
                Ok(Side::Query(Box::new(plain(Body::Select(Box::new(select))))))
            }
            ast::SetExpr::Values(values) => Ok(Side::Query(Box::new(plain(Body::Values(
                self.values(values)?,
            ))))),
            _ => Err(SqlError::unsupported("this kind of query")),
        }
    }

    fn values(&mut self, values: &ast::Values) -> Result<Vec<Vec<Tree>>, SqlError> {
        let level = Level::default();
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows: Vec<Vec<Tree>> = vec![Vec::new(); values.rows.len()];
        for column in 0..width {
            let column = values.rows.iter().filter_map(|row| row.content.get(column));
            let column = self.exprs(column, &level)?;
            let (_, column) = self.unified(column)?;
            for (row, deparsed) in rows.iter_mut().zip(column) {
                row.push(deparsed.tree);
            }
        }
        Ok(rows)
    }

    fn limits(&mut self, query: &ast::Query, deparsed: &mut Query) -> Result<(), SqlError> {
        let level = Level {
            clause: Clause::Limit,
            ..Level::default()
        };
        let mut count = |expr: &ast::Expr| {
            let is_all = |ident: &ast::Ident| ident.value.eq_ignore_ascii_case("all");
            if matches!(expr, ast::Expr::Identifier(ident) if is_all(ident)) {
                return Ok(words("ALL".to_owned()));
            }
            let deparsed = self.expr(expr, &level)?;
            Ok::<Tree, SqlError>(self.coerced(deparsed, Type::INT8, false)?.tree)
        };
        if let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            deparsed.limit = limit.as_ref().map(&mut count).transpose()?;
            let offset = offset.as_ref().map(|offset| count(&offset.value));
            deparsed.offset = offset.transpose()?;
        }
        if let Some(fetch) = &query.fetch {
            deparsed.ties = fetch.with_ties;
            deparsed.limit = Some(match &fetch.quantity {
                Some(quantity) => count(quantity)?,
                None => words("1".to_owned()),
            });
        }
        Ok(())
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        locks: &[ast::LockClause],
        types: &[Type],
    ) -> Result<(Select, Vec<SortKey>, Vec<String>), SqlError> {
        let mut scope = Scope::default();
        self.binder.relations(&select.from, &mut scope)?;
        let level = Level {
            names: self.names_for(&scope),
            windows: named_windows(&select.named_window)?,
            clause: Clause::Select,
            aggregates: true,
            domain: false,
            scope,
        };
        let from = self.from(&select.from, &level)?;
        let targets = self.targets(select, types, &level)?;
        let filter = match &select.selection {
            Some(filter) => Some(self.condition(filter, &level)?),
            None => None,
        };
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => None,
            Some(ast::Distinct::Distinct) => Some(Vec::new()),
            Some(ast::Distinct::On(keys)) => {
                let keys = keys.iter();
                let keys = keys.map(|key| self.key(key, "", (&targets, &level), false));
                Some(keys.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let groups = self.groups(&select.group_by, &targets, &level)?;
        let having = match &select.having {
            Some(having) => Some(self.condition(having, &level)?),
            None => None,
        };
        let mut windows = Vec::new();
        for (name, spec) in &level.windows {
            windows.push((quoted(name), self.window(spec, &level)?));
        }
        let keys = order.iter();
        let keys = keys.map(|key| self.key(&key.expr, suffix(key), (&targets, &level), false));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut locked = Vec::new();
        for lock in locks {
            locked.extend(self.locked(lock, select, &level)?);
        }
        let deparsed = Select {
            distinct,
            targets: targets.into_iter().map(|(target, _)| target).collect(),
            from,
            filter,
            groups,
            having,
            windows,
        };
        Ok((deparsed, keys, locked))
    }

    /// Deparses the target list, with `*` expanded.
    fn targets(
        &mut self,
        select: &ast::Select,
        types: &[Type],
        level: &Level,
    ) -> Result<Vec<(Target, Type)>, SqlError> {
        let everything = [ast::SelectItem::Wildcard(
            ast::WildcardAdditionalOptions::default(),
        )];
        let items: &[ast::SelectItem] = match select.flavor {
            ast::SelectFlavor::FromFirstNoSelect => &everything,
            _ => &select.projection,
        };
        let mut targets = Vec::new();
        for item in items {
            let (expr, name) = match item {
                ast::SelectItem::UnnamedExpr(expr) => (expr, column_name(expr)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(alias)),
                ast::SelectItem::Wildcard(_) => {
                    for (name, found) in level.scope.star() {
                        targets.push(self.star(&found.expr, name, level)?);
                    }
                    continue;
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let (schema, alias) = names::table_name(name)?;
                    let leaf = level.scope.leaf(schema.as_deref(), &alias)?;
                    for (at, column) in leaf.columns.iter().enumerate() {
                        targets.push(self.star(
                            &leaf.found(at).expr,
                            column.name.clone(),
                            level,
                        )?);
                    }
                    continue;
                }
                _ => return Err(SqlError::unsupported("this kind of select item")),
            };
            let deparsed = self.expr(expr, level)?;
            let deparsed = match types.get(targets.len()) {
                Some(ty) if deparsed.ty == Type::UNKNOWN => {
                    self.coerced(deparsed, Type::of(ty.kind), false)?
                }
                _ => self.as_known(deparsed)?,
            };
            targets.push(target(deparsed, name));
        }
        Ok(targets)
    }

    fn star(&self, expr: &Expr, name: String, level: &Level) -> Result<(Target, Type), SqlError> {
        let tree = self.named(expr, &name, level)?;
        Ok(target(DeparsedExpr::new(tree, expr.ty), name))
    }

    /// Deparses a key of GROUP BY.
    pub(super) fn group_key(
        &mut self,
        key: &ast::Expr,
        around: (&[(Target, Type)], &Level),
    ) -> Result<SortKey, SqlError> {
        self.key(key, "", around, true)
    }

    /// Deparses a key, which may be the number or the name of a target. With `input`, a column of
    /// the input has precedence over a target of the same name.
    fn key(
        &mut self,
        key: &ast::Expr,
        suffix: &'static str,
        (targets, level): (&[(Target, Type)], &Level),
        input: bool,
    ) -> Result<SortKey, SqlError> {
        let found = match key {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => {
                    let at = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    at.and_then(|at| targets.get(at))
                }
                _ => None,
            },
            ast::Expr::Identifier(ident) => {
                let name = names::fold(ident);
                let hidden =
                    input && matches!(level.scope.unqualified(&name), Ok(Some(_)) | Err(_));
                targets
                    .iter()
                    .find(|(target, _)| !hidden && target.name == name)
            }
            ast::Expr::Nested(inner) => return self.key(inner, suffix, (targets, level), input),
            _ => None,
        };
        let tree = match found {
            Some((target, _)) => target.tree.clone(),
            None => self.settled(key, level)?.tree,
        };
        let by = SortBy::Tree(tree);
        Ok(SortKey { by, suffix })
    }

    /// Returns ` FOR UPDATE OF t` for each relation.
    fn locked(
        &mut self,
        lock: &ast::LockClause,
        select: &ast::Select,
        level: &Level,
    ) -> Result<Vec<String>, SqlError> {
        let of = relations_of(lock);
        let of: Vec<String> = of
            .iter()
            .filter_map(|part| part.as_ident().map(names::fold))
            .collect();
        if of.is_empty() && select.from.iter().any(has_more_than_tables) {
            return Err(SqlError::unsupported("locks of what is no table"));
        }
        let mut all = Vec::new();
        for (leaf, name) in level.scope.leaves.iter().zip(&level.names) {
            if !of.is_empty() && !of.contains(&leaf.alias) {
                continue;
            }
            let name = name.as_deref().unwrap_or(&leaf.alias);
            let mut text = format!(" {} OF {}", clause_name(lock), quoted(name));
            if let Some(wait) = &lock.nonblock {
                text += &format!(" {wait}");
            }
            all.push(text);
        }
        Ok(all)
    }

    /// Returns a unique name for each relation of a scope, which no outer query uses either.
    pub(super) fn names_for(&self, scope: &Scope) -> Vec<Option<String>> {
        let mut names: Vec<Option<String>> = Vec::new();
        for leaf in &scope.leaves {
            let taken = |name: &String, names: &[Option<String>]| {
                let around = self.levels.iter().flat_map(|level| &level.names);
                around.chain(names).flatten().any(|other| other == name)
            };
            let alias = self.new_name(leaf).unwrap_or(&leaf.alias);
            let mut name = alias.to_owned();
            let mut number = 0;
            while taken(&name, &names) {
                number += 1;
                name = format!("{alias}_{number}");
            }
            names.push(Some(name));
        }
        names
    }
}

fn has_more_than_tables(item: &ast::TableWithJoins) -> bool {
    let is_table =
        |factor: &ast::TableFactor| matches!(factor, ast::TableFactor::Table { args: None, .. });
    !is_table(&item.relation) || !item.joins.iter().all(|join| is_table(&join.relation))
}

fn target(deparsed: DeparsedExpr, name: String) -> (Target, Type) {
    // The column name of `t.a` is `a`.
    let column = match &deparsed.tree {
        Tree::Var(text) => Some(last_part(text)),
        _ => None,
    };
    let target = Target {
        tree: deparsed.tree,
        name,
        column,
    };
    (target, deparsed.ty)
}

/// Returns the column of `relation.column`, without quotes.
fn last_part(text: &str) -> String {
    match text.strip_suffix('"') {
        Some(rest) => {
            let start = rest
                .rfind(".\"")
                .map(|at| at + 2)
                .or_else(|| rest.strip_prefix('"').map(|_| 1));
            rest[start.unwrap_or(0)..].replace("\"\"", "\"")
        }
        None => text.rsplit('.').next().unwrap_or(text).to_owned(),
    }
}

fn plain(body: Body) -> Query {
    Query {
        recursive: false,
        with: Vec::new(),
        body,
        order: Vec::new(),
        limit: None,
        ties: false,
        offset: None,
        locks: Vec::new(),
    }
}

/// Returns the sort keys as the numbers of the columns that they name.
fn numbered(order: &[ast::OrderByExpr], columns: &[String]) -> Result<Vec<SortKey>, SqlError> {
    let mut keys = Vec::new();
    for key in order {
        let number = match &key.expr {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => number.parse().ok(),
                _ => None,
            },
            ast::Expr::Identifier(ident) => {
                let name = names::fold(ident);
                columns
                    .iter()
                    .position(|column| *column == name)
                    .map(|at| at + 1)
            }
            _ => None,
        };
        let number = number.ok_or_else(|| SqlError::unsupported("this key"))?;
        keys.push(SortKey {
            by: SortBy::Number(number),
            suffix: suffix(key),
        });
    }
    Ok(keys)
}

impl Set {
    /// Returns the column names, which are those of the first query.
    fn names(&self) -> Vec<String> {
        match &self.left {
            Side::Set(set) => set.names(),
            Side::Query(query) => match &query.body {
                Body::Select(select) => select.targets.iter().map(|t| t.name.clone()).collect(),
                Body::Set(set) => set.names(),
                Body::Values(rows) => {
                    let width = rows.first().map_or(0, Vec::len);
                    (1..=width).map(|n| format!("column{n}")).collect()
                }
            },
        }
    }
}

/// Deparses SEARCH and CYCLE of a CTE.
fn clauses_of(cte: &ast::Cte) -> Result<String, SqlError> {
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        names.join(", ")
    };
    let mut text = String::new();
    let Some(of) = search_cycle(cte)? else {
        return Ok(text);
    };
    if let Some(search) = &of.search {
        let order = if search.depth { "DEPTH" } else { "BREADTH" };
        let (columns, sequence) = (list(&search.columns), quoted(&search.sequence));
        text += &format!(" SEARCH {order} FIRST BY {columns} SET {sequence}");
    }
    if let Some(cycle) = &of.cycle {
        if cycle.values.is_some() {
            return Err(SqlError::unsupported("CYCLE with values in this place"));
        }
        let (columns, mark, path) = (
            list(&cycle.columns),
            quoted(&cycle.mark),
            quoted(&cycle.path),
        );
        text += &format!(" CYCLE {columns} SET {mark} USING {path}");
    }
    Ok(text)
}
