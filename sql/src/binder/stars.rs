//! Expands `*` in the query of a view: columns that are added later to its relations do not belong
//! to the view.
//!
//! ```text
//! number ──► bind the query, which records the columns of each numbered star ──► write_out
//! ```
//! The number of a star is the position of its token, which a copy of the query keeps. A star that
//! is not bound is not expanded.

use std::collections::HashMap;

use sqlparser::ast::{self, helpers::attached_token::AttachedToken};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::names;
use super::scope::{Scope, ScopeLeaf, UNSEEN};
use crate::error::SqlError;
use crate::walk::{TreeMut, VisitorMut};

/// The line number of numbered stars, which no text contains.
const LINE: u64 = u64::MAX;

/// The columns of each star, by the number of the star.
#[derive(Debug, Default)]
pub(super) struct StarColumns(HashMap<u64, Vec<ast::SelectItem>>);

/// Gives each star of a query a number; `TABLE t` becomes `SELECT * FROM t`.
///
/// # Errors
/// 54001 if the query is nested too deeply.
pub(super) fn number(query: &mut ast::Query) -> Result<(), SqlError> {
    query.walk_mut(&mut Numbering(0))
}

struct Numbering(u64);

impl VisitorMut for Numbering {
    fn select(&mut self, select: &mut ast::Select) {
        if let ast::SelectFlavor::FromFirstNoSelect = select.flavor {
            let all = ast::WildcardAdditionalOptions::default();
            select.flavor = ast::SelectFlavor::Standard;
            select.projection = vec![ast::SelectItem::Wildcard(all)];
        }
        for item in &mut select.projection {
            if let ast::SelectItem::Wildcard(star) | ast::SelectItem::QualifiedWildcard(_, star) =
                item
            {
                self.0 += 1;
                let place = Location::new(LINE, self.0);
                let token = TokenWithSpan::new(Token::Mul, Span::new(place, place));
                star.wildcard_token = AttachedToken(token);
            }
        }
    }
}

impl StarColumns {
    /// Records the columns that the stars of a target list expand to.
    pub(super) fn note(&mut self, projection: &[ast::SelectItem], scope: &Scope) {
        for item in projection {
            if let Some(number) = number_of(item)
                && let Some(columns) = columns(item, scope)
            {
                self.0.insert(number, columns);
            }
        }
    }

    /// Replaces the stars by their columns.
    ///
    /// # Errors
    /// 54001 if the query is nested too deeply.
    pub(super) fn write_out(self, query: &mut ast::Query) -> Result<(), SqlError> {
        query.walk_mut(&mut StarExpander(self))
    }
}

struct StarExpander(StarColumns);

impl VisitorMut for StarExpander {
    fn select(&mut self, select: &mut ast::Select) {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            let known = number_of(&item).and_then(|number| self.0.0.get(&number));
            match known {
                Some(columns) => select.projection.extend_from_slice(columns),
                None => select.projection.push(item),
            }
        }
    }
}

fn number_of(item: &ast::SelectItem) -> Option<u64> {
    let (ast::SelectItem::Wildcard(star) | ast::SelectItem::QualifiedWildcard(_, star)) = item
    else {
        return None;
    };
    let place = star.wildcard_token.0.span.start;
    (place.line == LINE).then_some(place.column)
}

/// Returns the columns of `*` or `t.*`, if `t` is a relation of this scope.
fn columns(item: &ast::SelectItem, scope: &Scope) -> Option<Vec<ast::SelectItem>> {
    let mut items = Vec::new();
    match item {
        ast::SelectItem::Wildcard(_) => {
            for merged in &scope.merged {
                let column = ast::Expr::Identifier(quoted(&merged.name));
                items.push(ast::SelectItem::UnnamedExpr(column));
            }
            for leaf in &scope.leaves {
                columns_of(leaf, &mut items, |hidden| !hidden);
            }
        }
        ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(name),
            _,
        ) => {
            let (schema, name) = names::table_name(name).ok()?;
            match scope.join_called(schema.as_deref(), &name) {
                Some(join) => {
                    let names = join.columns.iter().map(|column| &column.name);
                    items.extend(names.map(|name| qualified(&join.alias, name)));
                }
                None => {
                    let leaf = scope.leaf(schema.as_deref(), &name).ok()?;
                    columns_of(leaf, &mut items, |_| true);
                }
            }
        }
        _ => return None,
    }
    Some(items)
}

/// Adds the columns of a relation for which `wanted` is true, given whether USING hides them.
fn columns_of(leaf: &ScopeLeaf, items: &mut Vec<ast::SelectItem>, wanted: fn(bool) -> bool) {
    let columns = leaf.columns.iter().filter(|column| wanted(column.hidden));
    let names = columns.map(|column| &column.name);
    let seen = names.filter(|name| !name.starts_with(UNSEEN));
    items.extend(seen.map(|name| qualified(&leaf.alias, name)));
}

fn qualified(relation: &str, column: &str) -> ast::SelectItem {
    let parts = vec![quoted(relation), quoted(column)];
    ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(parts))
}

fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}
