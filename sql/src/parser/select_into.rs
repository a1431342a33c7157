//! `SELECT … INTO t FROM …`, which means `CREATE TABLE t AS SELECT … FROM …`.

use sqlparser::ast::{self, SetExpr, helpers::stmt_create_table::CreateTableBuilder};

/// Converts a query with INTO to a CREATE TABLE AS; returns other statements unchanged.
pub(super) fn made(statement: ast::Statement) -> ast::Statement {
    let ast::Statement::Query(mut query) = statement else {
        return statement;
    };
    match into_of(&mut query.body) {
        None => ast::Statement::Query(query),
        Some(into) => ast::Statement::CreateTable(
            CreateTableBuilder::new(into.name)
                .temporary(into.temporary)
                .query(Some(query))
                .build(),
        ),
    }
}

/// Removes the INTO from the first SELECT and returns it.
fn into_of(body: &mut SetExpr) -> Option<ast::SelectInto> {
    match body {
        SetExpr::Select(select) => select.into.take(),
        SetExpr::Query(query) => into_of(&mut query.body),
        SetExpr::SetOperation { left, .. } => into_of(left),
        _ => None,
    }
}
