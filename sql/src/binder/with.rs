//! WITH: common table expressions (CTEs).

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlparser::ast;

use super::scope::{ScopeColumn, ScopeLeaf};
use super::search_cycle::{extended, name_columns, not_recursive};
use super::set::operation;
use super::{Binder, SIDE_LEVELS, names};
use crate::bound::{
    Cte, Expr, From, LeafSource, Node, Recursive, Select, SetOp, Target, Volatility,
};
use crate::error::{SqlError, SqlState};
use crate::parser::{all_names, search_cycle};
use crate::stack;
use crate::types::Type;
use crate::value::Value;

/// The name of a CTE.
pub(super) struct CteName {
    name: String,
    columns: Vec<(String, Type)>,
    stage: Stage,
    /// The number of subqueries in expressions around the query that has the WITH.
    level: usize,
    /// The same number, without the levels of lateral relations.
    depth: usize,
}

/// The binding state of a CTE.
enum Stage {
    /// It is not bound yet: the CTEs that it refers to are bound first, and one of them may refer
    /// to it, too.
    Later,
    /// The CTE is bound.
    Bound(Arc<Cte>),
    /// The recursive term is being bound. It reads the work table `work`; `used` tells whether it
    /// has done so.
    Recursive { work: usize, used: bool },
    /// It changes rows and has no RETURNING.
    Silent,
    /// The query that is being bound must not read it, for this reason.
    Forbidden(&'static str),
}

/// Returns the order in which to bind the CTEs of WITH RECURSIVE: a CTE comes after those that it
/// refers to.
/// Returns the error 42804 for a column of a recursive query whose type differs between the terms.
fn other_type(query: &str, column: usize, ty: Type, overall: Type) -> SqlError {
    let message = format!(
        "recursive query \"{query}\" column {column} has type {} in non-recursive term but \
         type {} overall",
        ty.name(),
        overall.name(),
    );
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        .hint("Cast the output of the non-recursive term to the correct type.")
}

fn in_order(tables: &[ast::Cte], names: &[String]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..tables.len()).collect();
    if tables.len() < 2 {
        return left;
    }
    let said = |cte: &ast::Cte| all_names(&cte.query.to_string());
    let said: Vec<BTreeSet<String>> = tables.iter().map(said).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let needs = |at: usize, other: usize| at != other && said[at].contains(&names[other]);
        let is_ready = |at: &usize| !left.iter().any(|other| needs(*at, *other));
        // A word may be the name of something else. CTEs that seem to need each other keep their
        // written order.
        let next = left.iter().position(is_ready).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

impl Binder<'_> {
    /// Binds the CTEs of a WITH; their names are in scope until `under` removes them.
    pub(super) fn with(&mut self, with: &ast::With) -> Result<(), SqlError> {
        let tables = &with.cte_tables;
        let names: Vec<String> = tables
            .iter()
            .map(|cte| names::fold(&cte.alias.name))
            .collect();
        for (at, (name, cte)) in names.iter().zip(tables).enumerate() {
            if names[..at].contains(name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_ALIAS,
                    format!("WITH query name \"{name}\" specified more than once"),
                )
                .or_at(self.position(cte.alias.name.span)));
            }
        }
        if !with.recursive {
            for (name, cte) in names.into_iter().zip(tables) {
                let named = self.plain(cte, name)?;
                self.named.push(named);
            }
            return Ok(());
        }
        // With RECURSIVE each CTE may refer to any other.
        let first = self.named.len();
        let (level, depth) = (self.surroundings.len(), self.levels());
        self.named.extend(names.iter().map(|name| CteName {
            name: name.clone(),
            columns: Vec::new(),
            stage: Stage::Later,
            level,
            depth,
        }));
        for at in in_order(tables, &names) {
            self.named[first + at] = self.perhaps_recursive(&tables[at], names[at].clone())?;
        }
        Ok(())
    }

    /// Runs `bind` with the CTEs of `with` in scope.
    pub(super) fn under<T>(
        &mut self,
        with: Option<&ast::With>,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let Some(with) = with else {
            return bind(self);
        };
        // If each CTE reads the previous one, the tree is as deep as the number of CTEs.
        let levels = with.cte_tables.len() * SIDE_LEVELS;
        stack::check(self.depth + levels)?;
        let names = self.named.len();
        self.depth += levels;
        let bound = self.with(with).and_then(|()| bind(self));
        self.depth -= levels;
        self.named.truncate(names);
        bound
    }

    fn plain(&mut self, cte: &ast::Cte, name: String) -> Result<CteName, SqlError> {
        if cte.from.is_some() {
            return Err(not_recursive());
        }
        let level = self.surroundings.len();
        if let ast::SetExpr::Insert(changing)
        | ast::SetExpr::Update(changing)
        | ast::SetExpr::Delete(changing) = cte.query.body.as_ref()
        {
            return self.changing(cte, name, changing);
        }
        let (query, args) = self.within(|binder| binder.query(&cte.query))?;
        self.finished(cte, name, level, query, args)
    }

    /// Binds a data-modifying CTE; its RETURNING rows can be read.
    fn changing(
        &mut self,
        cte: &ast::Cte,
        name: String,
        changing: &ast::Statement,
    ) -> Result<CteName, SqlError> {
        if self.nesting > 1 || !self.surroundings.is_empty() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "WITH clause containing a data-modifying statement must be at the top level",
            )
            .or_at(self.position(cte.alias.name.span)));
        }
        let statement = self.under(cte.query.with.as_ref(), |binder| binder.sql(changing))?;
        let target = |target: &Target| Target {
            name: target.name.clone(),
            expr: Expr::constant(target.expr.ty, Value::Null),
            origin: None,
        };
        let targets: Vec<Target> = statement.returning().iter().map(target).collect();
        let returns = !targets.is_empty();
        let query = Select::over(From::Nothing, targets);
        let level = self.surroundings.len();
        let mut named = self.finished(cte, name, level, query, Vec::new())?;
        if let Stage::Bound(bound) = &mut named.stage {
            self.changes.push((bound.id, statement));
            let kept = Cte {
                materialized: true,
                ..Cte::clone(bound)
            };
            *bound = Arc::new(kept);
        }
        if !returns {
            named.stage = Stage::Silent;
        }
        Ok(named)
    }

    fn perhaps_recursive(&mut self, cte: &ast::Cte, name: String) -> Result<CteName, SqlError> {
        let level = self.surroundings.len();
        let ast::SetExpr::SetOperation {
            op,
            set_quantifier,
            left,
            right,
        } = cte.query.body.as_ref()
        else {
            self.named.push(CteName {
                name: name.clone(),
                columns: Vec::new(),
                stage: Stage::Forbidden(
                    "does not have the form non-recursive-term UNION [ALL] recursive-term",
                ),
                level,
                depth: self.levels(),
            });
            let named = self.plain(cte, name);
            self.named.pop();
            return named;
        };
        let (op, all) = operation((op, set_quantifier))?;
        let clauses = search_cycle(cte)?;
        let forbidden = match op {
            SetOp::Union => "must not appear within its non-recursive term",
            _ => "does not have the form non-recursive-term UNION [ALL] recursive-term",
        };
        let place = self.named.len();
        self.named.push(CteName {
            name: name.clone(),
            columns: Vec::new(),
            stage: Stage::Forbidden(forbidden),
            level,
            depth: self.levels(),
        });
        let bound = self.within(|binder| {
            binder.under(cte.query.with.as_ref(), |binder| {
                let terms: (&ast::SetExpr, &ast::SetExpr) = (left, right);
                let (mut left, mut right) = (binder.set_side(left)?, terms.1);
                let more;
                if let Some(clauses) = &clauses {
                    if op != SetOp::Union {
                        return Err(not_recursive());
                    }
                    let given = cte.alias.columns.iter().map(|c| Some(names::fold(&c.name)));
                    let given = given.chain(std::iter::repeat(None));
                    let columns = left.columns().iter().zip(given);
                    let columns = columns.map(|(t, name)| name.unwrap_or(t.name.clone()));
                    let columns: Vec<String> = columns.collect();
                    more = extended(&name, clauses, &columns, terms)?;
                    left = binder.set_side(&more.0)?;
                    right = &more.1;
                }
                if op != SetOp::Union {
                    let right = binder.set_side(right)?;
                    let (left, right) = binder.matched(op, left, right)?;
                    return Ok((op, left, right, None));
                }
                let mut settled = left.clone();
                binder.settle_columns(&mut settled)?;
                let work = binder.subqueries;
                binder.subqueries += 1;
                let renamed = cte.alias.columns.iter().map(|c| Some(names::fold(&c.name)));
                let renamed = renamed.chain(std::iter::repeat(None));
                let columns = settled.columns().iter().zip(renamed);
                let columns = columns.map(|(t, name)| (name.unwrap_or(t.name.clone()), t.expr.ty));
                let columns: Vec<(String, Type)> = columns.collect();
                binder.named[place].columns = columns;
                binder.named[place].stage = Stage::Recursive { work, used: false };
                let right = binder.set_side(right)?;
                let used = matches!(
                    binder.named[place].stage,
                    Stage::Recursive { used: true, .. }
                );
                if !used && clauses.is_some() {
                    return Err(not_recursive());
                }
                if !used {
                    let (left, right) = binder.matched(op, left, right)?;
                    return Ok((op, left, right, None));
                }
                let types: Vec<Type> = settled.columns().iter().map(|t| t.expr.ty).collect();
                let (left, right) = binder.matched(op, settled, right)?;
                for (nth, (target, ty)) in left.columns().iter().zip(types).enumerate() {
                    if target.expr.ty != ty {
                        return Err(other_type(&name, nth + 1, ty, target.expr.ty));
                    }
                }
                Ok((op, left, right, Some(work)))
            })
        });
        self.named.truncate(place);
        let ((op, left, right, work), args) = bound?;
        let mut query = match work {
            Some(work) => {
                if cte.query.order_by.is_some() {
                    return Err(SqlError::unsupported("ORDER BY in a recursive query"));
                }
                if cte.query.limit_clause.is_some() || cte.query.fetch.is_some() {
                    return Err(SqlError::unsupported("LIMIT in a recursive query"));
                }
                if !cte.query.locks.is_empty() {
                    return Err(SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "FOR UPDATE/SHARE in a recursive query is not implemented",
                    ));
                }
                let recursive = Recursive {
                    work,
                    all,
                    base: left,
                    step: right,
                };
                let mut query = self.over_set(LeafSource::Recursive(Box::new(recursive)), &[])?;
                if let Some(clauses) = &clauses {
                    name_columns(clauses, &mut query);
                }
                query
            }
            None => {
                let set = crate::bound::SetOperation {
                    op,
                    all,
                    left,
                    right,
                };
                let order_by = super::query::order_keys(&cte.query)?;
                self.over_set(LeafSource::Set(Box::new(set)), order_by)?
            }
        };
        if work.is_none() {
            self.limits(&cte.query, &mut query)?;
        }
        self.finished(cte, name, level, query, args)
    }

    fn finished(
        &mut self,
        cte: &ast::Cte,
        name: String,
        level: usize,
        query: Select,
        args: Vec<(usize, Expr)>,
    ) -> Result<CteName, SqlError> {
        let mut columns: Vec<(String, Type)> = query
            .columns()
            .iter()
            .map(|t| (t.name.clone(), t.expr.ty))
            .collect();
        let given = &cte.alias.columns;
        if given.len() > columns.len() {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!(
                    "WITH query \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    given.len()
                ),
            )
            .or_at(self.position(cte.alias.name.span)));
        }
        for ((column, _), renamed) in columns.iter_mut().zip(given) {
            *column = names::fold(&renamed.name);
        }
        self.subqueries += 1;
        let bound = Cte {
            id: self.subqueries - 1,
            name: name.clone(),
            materialized: cte.materialized == Some(ast::CteAsMaterialized::Materialized),
            volatile: query.volatility() == Volatility::Volatile,
            args,
            query: Arc::new(query),
        };
        Ok(CteName {
            name,
            columns,
            stage: Stage::Bound(Arc::new(bound)),
            level,
            depth: self.levels(),
        })
    }

    /// Returns the CTE of this name as a relation; `None` if there is none.
    pub(super) fn named_query(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&str>,
        first_slot: usize,
    ) -> Result<Option<(ScopeLeaf, LeafSource)>, SqlError> {
        let (None, called) = names::table_name(name)? else {
            return Ok(None);
        };
        let Some(place) = self.named.iter().rposition(|n| n.name == called) else {
            return Ok(None);
        };
        let inner = self.levels();
        let named = &mut self.named[place];
        let (level, depth) = (named.level, named.depth);
        let recursion = |what: String| SqlError::new(SqlState::INVALID_RECURSION, what);
        let source = match &mut named.stage {
            Stage::Later => {
                let what = "mutual recursion between WITH items is not implemented";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            Stage::Bound(cte) => LeafSource::Cte(Arc::clone(cte)),
            Stage::Recursive { work, used } => {
                if inner > depth + 1 {
                    return Err(recursion(format!(
                        "recursive reference to query \"{called}\" must not appear within a \
                         subquery"
                    )));
                }
                *used = true;
                LeafSource::Work(*work)
            }
            Stage::Silent => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("WITH query \"{called}\" does not have a RETURNING clause"),
                ));
            }
            Stage::Forbidden(why) if why.starts_with("does") => {
                return Err(recursion(format!("recursive query \"{called}\" {why}")));
            }
            Stage::Forbidden(why) => {
                return Err(recursion(format!(
                    "recursive reference to query \"{called}\" {why}"
                )));
            }
        };
        let columns = named.columns.iter().map(|(name, ty)| ScopeColumn {
            name: name.clone(),
            ty: *ty,
            origin: None,
            hidden: false,
        });
        let leaf = ScopeLeaf {
            alias: alias.unwrap_or(&called).to_owned(),
            table_name: None,
            schema: None,
            first_slot,
            columns: columns.collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        };
        if let LeafSource::Cte(cte) = &source {
            // The queries between depend on the outer values that the CTE depends on.
            for (_, arg) in &cte.args {
                if matches!(arg.node, Node::Outer(_)) {
                    self.carried(level, arg.clone());
                }
            }
        }
        Ok(Some((leaf, source)))
    }

    /// Returns whether a CTE in scope has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|named| named.name == name)
    }

    /// Returns the number of subqueries in expressions around the current query, without lateral
    /// relations.
    fn levels(&self) -> usize {
        self.surroundings.iter().filter(|s| !s.lateral()).count()
    }
}
