//! Moves a SELECT into a subquery below the set-returning functions of its target list.
//!
//! ```text
//!   SELECT max(a) + f(b) FROM t GROUP BY b ORDER BY b
//!   SELECT o.c1 + f(o.c2)
//!     FROM (SELECT NULL, max(a), b FROM t GROUP BY b) AS o(c0, c1, c2) ORDER BY o.c2
//! ```
//! The subquery has one target for each target of the list, because GROUP BY may refer to their
//! numbers and names. The other expressions that the target list and the sort keys read follow,
//! then the columns of `*`.

use sqlparser::ast::{self, Expr as E};

use super::scope::UNSEEN;
use super::target_calls::{alias, own};
use super::target_rows::{RewrittenSelect, SetFunctions, item_of, named, quoted};
use super::whole_row::row_of_star;
use crate::error::SqlError;
use crate::parser::parse_query;
use crate::walk::{TreeMut, VisitorMut};

/// Moves a SELECT into a subquery, without its set-returning functions, DISTINCT and ORDER BY. With
/// `first`, DISTINCT ON moves into the subquery, too.
///
/// # Errors
/// 0A000 for more than one `*`.
pub(super) fn split(
    known: &SetFunctions<'_>,
    (select, order_by): RewrittenSelect,
    first: bool,
) -> Result<RewrittenSelect, SqlError> {
    let mut below = SubqueryTargets {
        known,
        items: Vec::new(),
        texts: Vec::new(),
        chains: Vec::new(),
        queries: 0,
    };
    for item in &select.projection {
        below.reserve(item)?;
    }
    let (mut star, mut projection) = (None, Vec::with_capacity(select.projection.len()));
    for item in &select.projection {
        match named(item) {
            Some((expr, name)) => projection.push(below.item(expr, name)?),
            None if star.is_some() => {
                return Err(SqlError::unsupported(
                    "several * with set-returning functions over groups or windows",
                ));
            }
            None => {
                star = Some(item.clone());
                projection.push(every_column());
            }
        }
    }
    let mut outer_order = order_by.clone();
    for key in &mut outer_order {
        below.key(&select, &mut key.expr)?;
    }
    let mut distinct = select.distinct.clone();
    if let Some(ast::Distinct::On(keys)) = &mut distinct {
        for key in keys {
            below.key(&select, key)?;
        }
    }
    let mut inner = select.clone();
    inner.projection = below.items;
    if inner.projection.is_empty() {
        inner.projection.push(ast::SelectItem::UnnamedExpr(null()));
    }
    let columns = (0..inner.projection.len()).map(column_name);
    let alias = alias(&own(0), columns);
    inner.projection.extend(star);
    let mut query = parse_query("SELECT a")?;
    if first {
        distinct = None;
        query.order_by = Some(ast::OrderBy {
            kind: ast::OrderByKind::Expressions(order_by),
            interpolate: None,
        });
    } else {
        inner.distinct = None;
    }
    *query.body = ast::SetExpr::Select(Box::new(inner));
    let derived = ast::TableFactor::Derived {
        lateral: false,
        subquery: query,
        alias: Some(alias),
        sample: None,
    };
    let outer = ast::Select {
        distinct,
        projection,
        from: vec![ast::TableWithJoins {
            relation: derived,
            joins: Vec::new(),
        }],
        selection: None,
        group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        ..select
    };
    Ok((outer, outer_order))
}

/// The targets of the subquery.
struct SubqueryTargets<'a> {
    known: &'a SetFunctions<'a>,
    items: Vec<ast::SelectItem>,
    /// The texts of the targets; `None` for targets that the outer query does not read.
    texts: Vec<Option<String>>,
    /// The field accesses around the visited row expression, the outermost first.
    chains: Vec<Vec<ast::AccessExpr>>,
    queries: usize,
}

impl SubqueryTargets<'_> {
    /// Adds the target that has the position of a target of the list.
    fn reserve(&mut self, item: &ast::SelectItem) -> Result<(), SqlError> {
        let Some((expr, _)) = named(item) else {
            return Ok(());
        };
        let above = matches!(expr, E::Value(_)) || row_of_star(expr).is_some();
        match above || self.known.has_call(expr)? {
            true => self.push(ast::SelectItem::UnnamedExpr(null()), None),
            false => self.push(item.clone(), Some(expr.to_string())),
        }
        Ok(())
    }

    fn push(&mut self, item: ast::SelectItem, text: Option<String>) {
        self.items.push(item);
        self.texts.push(text);
    }

    /// Returns a target of the list, rewritten over the subquery.
    fn item(&mut self, expr: &E, name: String) -> Result<ast::SelectItem, SqlError> {
        let mut expr = expr.clone();
        let is_star = row_of_star(&expr).is_some();
        expr.walk_mut(self)?;
        Ok(match is_star {
            true => ast::SelectItem::UnnamedExpr(expr),
            false => ast::SelectItem::ExprWithAlias {
                expr,
                alias: quoted(name),
            },
        })
    }

    /// Rewrites a key of ORDER BY or DISTINCT ON, unless it refers to a target of the list.
    fn key(&mut self, select: &ast::Select, key: &mut E) -> Result<(), SqlError> {
        match item_of(select, key) {
            Some(_) => Ok(()),
            None => key.walk_mut(self),
        }
    }

    /// Returns the column of the subquery that an expression is.
    fn column(&mut self, expr: &E) -> E {
        let mut bare = expr;
        while let E::Nested(inner) = bare {
            bare = inner;
        }
        let text = bare.to_string();
        let known = self
            .texts
            .iter()
            .position(|known| known.as_ref() == Some(&text));
        let at = known.unwrap_or_else(|| {
            self.push(ast::SelectItem::UnnamedExpr(bare.clone()), Some(text));
            self.items.len() - 1
        });
        E::CompoundIdentifier(vec![quoted(own(0)), quoted(column_name(at))])
    }
}

impl VisitorMut for SubqueryTargets<'_> {
    fn query(&mut self, _: &mut ast::Query) -> Result<(), SqlError> {
        self.queries += 1;
        Ok(())
    }

    fn query_end(&mut self) {
        self.queries -= 1;
    }

    fn expr(&mut self, expr: &mut E) -> Result<(), SqlError> {
        if self.queries > 0 || matches!(expr, E::Value(_)) {
            return Ok(());
        }
        if row_of_star(expr).is_none() && !self.known.has_call(expr)? {
            *expr = self.column(expr);
            return Ok(());
        }
        // Field names are not expressions.
        if let E::CompoundFieldAccess { access_chain, .. } = expr {
            for access in access_chain.iter_mut() {
                if let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access {
                    index.walk_mut(self)?;
                }
            }
            self.chains.push(std::mem::take(access_chain));
        }
        Ok(())
    }

    fn expr_end(&mut self, expr: &mut E) {
        if self.queries == 0
            && let E::CompoundFieldAccess { access_chain, .. } = expr
            && access_chain.is_empty()
            && let Some(chain) = self.chains.pop()
        {
            *access_chain = chain;
        }
    }
}

fn column_name(at: usize) -> String {
    format!("{UNSEEN}c{at}")
}

fn null() -> E {
    E::value(ast::Value::Null)
}

/// Returns `*` of the subquery, which omits the columns with generated names.
fn every_column() -> ast::SelectItem {
    let name = ast::ObjectName::from(vec![quoted(own(0))]);
    ast::SelectItem::QualifiedWildcard(
        ast::SelectItemQualifiedWildcardKind::ObjectName(name),
        ast::WildcardAdditionalOptions::default(),
    )
}
