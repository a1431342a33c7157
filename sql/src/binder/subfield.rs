//! Assignments to fields of columns: `UPDATE t SET c.f = 1`, `INSERT INTO t (c.f) VALUES (1)`.

use sqlparser::ast;

use super::whole_row::field_at;
use super::{Binder, names};
use crate::bound::{Expr, Node};
use crate::catalog::ColumnDef;
use crate::error::{SqlError, SqlState};
use crate::functions::{CastContext, WITH_FIELD, cast_context};
use crate::types::{Fields, Type, TypeKind};
use crate::value::{Record, Value};

/// A column that is assigned to, or the field of it that the path leads to.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) column: usize,
    pub(super) path: Vec<ast::Ident>,
}

impl Binder<'_> {
    /// The value of a column that is `before`, with another one at the end of a path.
    pub(super) fn with_field(
        &mut self,
        before: Expr,
        (column, path): (&ColumnDef, &[ast::Ident]),
        value: Expr,
    ) -> Result<Expr, SqlError> {
        self.with_field_of((before, column.ty), (column, path), value)
    }

    fn with_field_of(
        &mut self,
        (before, ty): (Expr, Type),
        (column, path): (&ColumnDef, &[ast::Ident]),
        value: Expr,
    ) -> Result<Expr, SqlError> {
        let Some((ident, rest)) = path.split_first() else {
            return self.coerce(value, ty, CastContext::Assignment);
        };
        let (fields, at) = self.subfield(column, ty, ident)?;
        let field = &fields[at];
        let value = match rest {
            [] => {
                let from = value.ty.kind;
                let fits = from == TypeKind::Unknown
                    || (from == TypeKind::Record && field.ty.plain().kind.is_row())
                    || cast_context(from, field.ty.kind)
                        .is_some_and(|needed| needed <= CastContext::Assignment);
                if !fits {
                    let message = format!(
                        "subfield \"{}\" is of type {} but expression is of type {from}",
                        field.name, field.ty.kind
                    );
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                        .hint("You will need to rewrite or cast the expression."));
                }
                self.coerce(value, field.ty, CastContext::Assignment)?
            }
            rest => {
                let inner = field_at(before.clone(), &fields, at);
                self.with_field_of((inner, field.ty), (column, rest), value)?
            }
        };
        let ty = Type::of(fields.kind());
        let shape = Expr::constant(ty, Record::new(fields, Vec::new()).into());
        let at = Value::Int4(i32::try_from(at).unwrap_or(i32::MAX));
        let args = vec![shape, before, Expr::constant(Type::INT4, at), value];
        let function = &WITH_FIELD;
        Ok(Expr::new(ty, Node::Call { function, args }))
    }

    /// What is in a column, or in a field of it, and which part of that is meant.
    fn subfield(
        &self,
        column: &ColumnDef,
        ty: Type,
        ident: &ast::Ident,
    ) -> Result<(Fields, usize), SqlError> {
        let name = names::fold(ident);
        let start = format!(
            "cannot assign to field \"{name}\" of column \"{}\" because",
            column.name
        );
        let kind = ty.plain().kind;
        let error = match kind.as_composite().map(Fields::Named) {
            Some(fields) => match fields.position(&name) {
                Some(at) => return Ok((fields, at)),
                None => SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("{start} there is no such column in data type {kind}"),
                ),
            },
            None => SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("{start} its type {kind} is not a composite type"),
            ),
        };
        Err(error.or_at(self.position(ident.span)))
    }

    /// The type of what is at a place of a table's row.
    pub(super) fn place_type(
        &self,
        column: &ColumnDef,
        path: &[ast::Ident],
    ) -> Result<Type, SqlError> {
        let mut ty = column.ty;
        for ident in path {
            let (fields, at) = self.subfield(column, ty, ident)?;
            ty = fields[at].ty.plain();
        }
        Ok(ty)
    }
}
