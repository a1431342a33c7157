//! A relation's name where a row is made JSON: `row_to_json(t)`, `json_agg(t)`.
//!
//! There are no values that are rows; the call is written out with the columns, each behind its name.

use sqlparser::ast;

use super::Binder;
use super::expr::Around;
use super::names;
use crate::error::SqlError;

/// The function that makes the object; no name that a client writes without quotes.
pub(super) const ROW_AS_JSON: &str = "row as json";

impl Binder<'_> {
    /// The call with the columns instead of the row, if its argument is a row.
    pub(super) fn written_out(
        &self,
        name: &str,
        function: &ast::Function,
        around: &Around<'_>,
    ) -> Result<Option<ast::Function>, SqlError> {
        let takes_rows = matches!(
            name,
            "row_to_json" | "to_json" | "to_jsonb" | "json_agg" | "jsonb_agg"
        );
        let ast::FunctionArguments::List(list) = &function.args else {
            return Ok(None);
        };
        let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(
            ident,
        )))) = list.args.first()
        else {
            return Ok(None);
        };
        let row = names::fold(ident);
        if !takes_rows || around.scope.unqualified(&row)?.is_some() {
            return Ok(None);
        }
        let Ok(leaf) = around.scope.leaf(None, &row) else {
            return Ok(None);
        };
        let quoted = |name: &str| ast::Ident::with_quote('"', name);
        let unnamed = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
        let mut args = Vec::with_capacity(leaf.columns.len() * 2);
        for column in &leaf.columns {
            args.push(unnamed(ast::Expr::Value(
                ast::Value::SingleQuotedString(column.name.clone()).into(),
            )));
            args.push(unnamed(ast::Expr::CompoundIdentifier(vec![
                quoted(&leaf.alias),
                quoted(&column.name),
            ])));
        }
        let object = ast::Function {
            name: ast::ObjectName::from(vec![quoted(ROW_AS_JSON)]),
            args: ast::FunctionArguments::List(ast::FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses: Vec::new(),
            }),
            filter: None,
            ..function.clone()
        };
        let mut outer = function.clone();
        if let ast::FunctionArguments::List(list) = &mut outer.args
            && let Some(first) = list.args.first_mut()
        {
            *first = unnamed(ast::Expr::Function(object));
        }
        Ok(Some(outer))
    }
}
