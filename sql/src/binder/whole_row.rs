//! A relation's name, or a variable's, that stands for its row: where that is made JSON, `row_to_json(t)`, `json_agg(t)`,
//! and where rows are compared, `old IS DISTINCT FROM new`.
//!
//! There are no values that are rows: a call is written out with the columns, each behind its name, and a comparison is
//! one of the columns.

use sqlparser::ast;

use super::Binder;
use super::expr::Around;
use super::names;
use super::scope::ScopeColumn;
use crate::bound::Expr;
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
        let ident = match list.args.first() {
            Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(
                ident,
            )))) => ident,
            Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name))) => {
                match names::parts(name)?[..] {
                    [ident] => ident,
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let row = names::fold(ident);
        if !takes_rows || around.scope.unqualified(&row)?.is_some() {
            return Ok(None);
        }
        let (alias, columns) = match around.scope.leaf(None, &row) {
            Ok(leaf) => {
                let columns = leaf.columns.iter().map(|column| column.name.clone());
                (leaf.alias.clone(), columns.collect())
            }
            Err(_) => match self.fields_of(&row)? {
                Some(columns) => (row, columns),
                None => return Ok(None),
            },
        };
        let quoted = |name: &str| ast::Ident::with_quote('"', name);
        let unnamed = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
        let mut args = Vec::with_capacity(columns.len() * 2);
        for column in columns {
            args.push(unnamed(ast::Expr::CompoundIdentifier(vec![
                quoted(&alias),
                quoted(&column),
            ])));
            args.push(unnamed(ast::Expr::Value(
                ast::Value::SingleQuotedString(column).into(),
            )));
            // The name comes first.
            let last = args.len() - 1;
            args.swap(last - 1, last);
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

    /// The columns of the row that goes by a name alone, be it a relation's or a variable's; `None` where it is none.
    pub(super) fn named_row(
        &mut self,
        expr: &ast::Expr,
        around: &Around<'_>,
    ) -> Result<Option<Vec<Expr>>, SqlError> {
        let ident = match expr {
            ast::Expr::Nested(inner) => return self.named_row(inner, around),
            ast::Expr::Identifier(ident) => ident,
            _ => return Ok(None),
        };
        let row = names::fold(ident);
        if !matches!(around.scope.unqualified(&row), Ok(None)) {
            return Ok(None);
        }
        if let Ok(leaf) = around.scope.leaf(None, &row) {
            let columns = leaf.columns.iter().enumerate();
            let column =
                |(at, column): (usize, &ScopeColumn)| Expr::column(column.ty, leaf.first_slot + at);
            return Ok(Some(columns.map(column).collect()));
        }
        let name = ast::ObjectName::from(vec![ident.clone()]);
        let fields = self.row_fields(&name)?;
        Ok(fields.map(|fields| fields.into_iter().map(|(_, field)| field).collect()))
    }

    /// The names of the fields of a row variable.
    fn fields_of(&self, row: &str) -> Result<Option<Vec<String>>, SqlError> {
        let Some(variables) = self.variables else {
            return Ok(None);
        };
        let fields = variables.fields(&[row.to_owned()])?;
        Ok(fields.map(|fields| fields.into_iter().map(|(name, _)| name).collect()))
    }
}
