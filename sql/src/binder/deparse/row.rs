//! Deparsing of `ROW(…)`, with or without the keyword.

use sqlparser::ast;

use super::super::call::plain_argument;
use super::super::whole_row::is_row_call;
use super::call_pieces::list_of;
use super::tree::{Piece, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::error::SqlError;
use crate::types::Type;

impl Deparser<'_, '_> {
    /// Returns the fields of a row constructor, with `t.*` expanded; `None` for other expressions.
    pub(super) fn row_fields(
        &self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<Option<Vec<ast::Expr>>, SqlError> {
        let function = match expr {
            ast::Expr::Nested(inner) => return self.row_fields(inner, level),
            ast::Expr::Tuple(parts) => return Ok(Some(parts.clone())),
            ast::Expr::Function(function) if is_row_call(function) => function,
            _ => return Ok(None),
        };
        let ast::FunctionArguments::List(list) = &function.args else {
            return Ok(None);
        };
        let mut fields = Vec::new();
        for arg in &list.args {
            if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) = arg {
                let leaf = level
                    .scope
                    .leaf(None, &super::super::names::table_name(name)?.1)?;
                let quoted = |name: &str| ast::Ident::with_quote('"', name);
                fields.extend(leaf.columns.iter().map(|column| {
                    let parts = vec![quoted(&leaf.alias), quoted(&column.name)];
                    ast::Expr::CompoundIdentifier(parts)
                }));
            } else {
                fields.push(plain_argument(arg)?.clone());
            }
        }
        Ok(Some(fields))
    }

    /// Deparses `ROW(…)` as an anonymous row.
    pub(super) fn anonymous_row(
        &mut self,
        fields: &[ast::Expr],
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let fields = self.exprs(fields, level)?;
        Ok(row(fields, String::new(), ty))
    }

    /// Deparses `ROW(…)::type`, with its fields cast to the types of the row type; `None` if `to`
    /// is not a composite type.
    pub(super) fn typed_row(
        &mut self,
        fields: &[ast::Expr],
        (to, level): (Type, &Level),
    ) -> Result<Option<DeparsedExpr>, SqlError> {
        let Some(of) = to.kind.as_composite() else {
            return Ok(None);
        };
        let types = &of.definition().fields;
        if types.len() != fields.len() {
            return Ok(None);
        }
        let mut deparsed = Vec::with_capacity(fields.len());
        for (field, of) in fields.iter().zip(types.iter()) {
            let field = self.expr(field, level)?;
            deparsed.push(self.coerced(field, of.ty, false)?);
        }
        let label = format!("::{}", self.type_name(to));
        Ok(Some(row(deparsed, label, to)))
    }
}

fn row(fields: Vec<DeparsedExpr>, label: String, ty: Type) -> DeparsedExpr {
    let mut pieces = vec![Piece::Text("ROW(".to_owned())];
    pieces.extend(list_of(fields));
    pieces.push(Piece::Text(format!("){label}")));
    let function = false;
    DeparsedExpr::new(Tree::Call { pieces, function }, ty)
}
