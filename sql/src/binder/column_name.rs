//! The name of an output column that has no alias.

use sqlparser::ast;

use super::names;
use super::type_name::type_of;
use crate::catalog::Snapshot;

/// Returns the name by PostgreSQL's rules: the name of the column, function or type, or `?column?`.
pub(super) fn column_name(expr: &ast::Expr) -> String {
    name_of(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// Returns the name of the first target of a subquery.
fn of_query(query: &ast::Query) -> Option<(String, bool)> {
    match query.body.as_ref() {
        ast::SetExpr::Select(select) => match select.projection.first()? {
            ast::SelectItem::UnnamedExpr(expr) => name_of(expr),
            ast::SelectItem::ExprWithAlias { alias, .. } => Some((names::fold(alias), true)),
            _ => None,
        },
        ast::SetExpr::Query(inner) => of_query(inner),
        ast::SetExpr::SetOperation { left, .. } => match left.as_ref() {
            ast::SetExpr::Query(inner) => of_query(inner),
            ast::SetExpr::Select(select) => match select.projection.first()? {
                ast::SelectItem::UnnamedExpr(expr) => name_of(expr),
                ast::SelectItem::ExprWithAlias { alias, .. } => Some((names::fold(alias), true)),
                _ => None,
            },
            _ => None,
        },
        ast::SetExpr::Values(_) => Some(("column1".to_owned(), true)),
        _ => None,
    }
}

/// Returns the name, and whether it is a strong one: a name that comes from a type is weak.
fn name_of(expr: &ast::Expr) -> Option<(String, bool)> {
    use ast::Expr as E;
    let good = |name: &str| Some((name.to_owned(), true));
    match expr {
        E::Identifier(ident) => Some((names::fold(ident), true)),
        E::CompoundIdentifier(idents) => idents.last().map(|i| (names::fold(i), true)),
        E::Nested(inner) => name_of(inner),
        E::Collate { expr, .. } => name_of(expr),
        E::Function(function) => {
            let name = names::parts(&function.name).ok()?;
            name.last().map(|i| (names::fold(i), true))
        }
        E::Cast {
            expr, data_type, ..
        } => match name_of(expr) {
            Some((name, true)) => Some((name, true)),
            weak => match type_name(data_type) {
                Some(name) => Some((name, false)),
                None => weak,
            },
        },
        E::TypedString(typed) => type_name(&typed.data_type).map(|name| (name, false)),
        E::Case { else_result, .. } => match else_result.as_deref().and_then(name_of) {
            Some((name, true)) => Some((name, true)),
            _ => Some(("case".to_owned(), false)),
        },
        E::Array(_) => good("array"),
        E::Tuple(_) => good("row"),
        E::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(field) => name_of(field),
                ast::AccessExpr::Subscript(_) => None,
            });
            field.or_else(|| name_of(root))
        }
        E::Interval(_) => Some(("interval".to_owned(), false)),
        E::Extract { .. } => good("extract"),
        E::Ceil { .. } => good("ceil"),
        E::Floor { .. } => good("floor"),
        E::Position { .. } => good("position"),
        E::Substring { shorthand, .. } => good(if *shorthand { "substr" } else { "substring" }),
        E::Overlay { .. } => good("overlay"),
        E::AtTimeZone { .. } => good("timezone"),
        E::IsNormalized { negated: false, .. } => good("is_normalized"),
        E::Exists { negated: false, .. } => good("exists"),
        E::Subquery(query) => of_query(query),
        E::Trim { trim_where, .. } => good(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// Returns the name that a cast to this type gives its column. For `int[]` it is the name of the
/// element type; for a user-defined type it is the name as written.
fn type_name(written: &ast::DataType) -> Option<String> {
    if let Ok(ty) = type_of(written, &Snapshot::default()) {
        let named = match (written, ty.kind.element()) {
            (ast::DataType::Array(_), Some(element)) => element,
            _ => ty.kind,
        };
        return Some(named.catalog_name().to_owned());
    }
    match written {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) => type_name(inner),
        ast::DataType::Custom(name, _) => names::table_name(name).ok().map(|(_, name)| name),
        _ => None,
    }
}
