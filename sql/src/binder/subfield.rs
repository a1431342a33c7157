//! Assignments to parts of columns: `UPDATE t SET c.f = 1`, `SET a[1] = 1`,
//! `INSERT INTO t (c.f) VALUES (1)`.
//!
//! The column keeps its value, except that one part of it is replaced. The part is a field of a
//! row, an element or a slice of an array, or the value at a path in jsonb. Parts may be nested:
//! `SET a[1].f = 1`.

use sqlparser::ast;

use super::expr::{Clause, ExprContext};
use super::scope::Scope;
use super::whole_row::field_at;
use super::{Binder, names};
use crate::bound::{Expr, Node};
use crate::catalog::ColumnDef;
use crate::error::{SqlError, SqlState};
use crate::functions::{
    CastContext, ScalarFunction, WITH_ELEMENT, WITH_FIELD, WITH_JSON, WITH_SLICE, cast_context,
};
use crate::parser::subscripts_of;
use crate::types::{Fields, Type, TypeKind};
use crate::value::{Record, Value};

/// The target of an assignment: a column, or the part of it at the end of a path. The path consists
/// of field names and subscripts; the parser represents subscripts as names.
#[derive(Clone, Debug)]
pub(super) struct ColumnPath {
    pub(super) column: usize,
    pub(super) path: Vec<ast::Ident>,
}

/// The column that a value is assigned to.
struct TargetColumn<'a> {
    column: &'a ColumnDef,
    /// The name in messages: the column, or the innermost field.
    name: String,
}

impl Binder<'_> {
    /// Returns `before`, the value of a column, with `value` in the part at the end of a path.
    pub(super) fn with_part(
        &mut self,
        before: Expr,
        (column, path): (&ColumnDef, &[ast::Ident]),
        value: Expr,
        scope: &Scope,
    ) -> Result<Expr, SqlError> {
        let of = TargetColumn {
            column,
            name: column.name.clone(),
        };
        self.with_part_of((before, column.ty), (&of, path), value, scope)
    }

    fn with_part_of(
        &mut self,
        (before, ty): (Expr, Type),
        (of, path): (&TargetColumn<'_>, &[ast::Ident]),
        value: Expr,
        scope: &Scope,
    ) -> Result<Expr, SqlError> {
        let Some((ident, rest)) = path.split_first() else {
            return self.coerce(value, ty, CastContext::Assignment);
        };
        if let Some(subscripts) = subscripts_of(ident)? {
            let around = (of, rest, scope);
            return self.with_subscripts((before, ty), &subscripts, around, value);
        }
        let (fields, at) = self.subfield(of.column, ty, ident)?;
        let field = &fields[at];
        let value = match rest {
            [] => self.part_value(value, field.ty, || format!("subfield \"{}\"", field.name))?,
            rest => {
                let inner = field_at(before.clone(), &fields, at);
                let of = TargetColumn {
                    column: of.column,
                    name: field.name.clone(),
                };
                let part = self.with_part_of((inner, field.ty), (&of, rest), value, scope)?;
                self.coerce(part, field.ty, CastContext::Assignment)?
            }
        };
        let ty = Type::of(fields.kind());
        let shape = Expr::constant(ty, Record::new(fields, Vec::new()).into());
        let at = Value::Int4(i32::try_from(at).unwrap_or(i32::MAX));
        let args = vec![shape, before, Expr::constant(Type::INT4, at), value];
        Ok(changed(ty, &WITH_FIELD, args))
    }

    /// Returns an array or a jsonb with another value at these subscripts.
    fn with_subscripts(
        &mut self,
        (before, whole): (Expr, Type),
        subscripts: &[ast::Subscript],
        (of, rest, scope): (&TargetColumn<'_>, &[ast::Ident], &Scope),
        value: Expr,
    ) -> Result<Expr, SqlError> {
        let around = &mut ExprContext {
            scope,
            clause: Clause::Set,
            aggregates: None,
        };
        let ty = whole.plain();
        let target = || format!("subscripted assignment to \"{}\"", of.name);
        let subscripts: Vec<&ast::Subscript> = subscripts.iter().collect();
        if ty.kind == TypeKind::Jsonb {
            let steps = self.json_steps(&subscripts, around)?;
            if let Some(field) = rest.first() {
                return Err(self.no_row((of.column, ty), field));
            }
            let value = self.part_value(value, ty, target)?;
            let args = [before, value].into_iter().chain(steps).collect();
            return Ok(changed(ty, &WITH_JSON, args));
        }
        let Some(element) = ty.element() else {
            return Err(super::array::not_subscriptable(ty));
        };
        if is_sliced(&subscripts) {
            if let Some(field) = rest.first() {
                return Err(self.no_row((of.column, ty), field));
            }
            let (left_out, bounds) = self.slice_bounds(&subscripts, around)?;
            let value = self.part_value(value, ty, target)?;
            let args = [before, value, left_out]
                .into_iter()
                .chain(bounds)
                .collect();
            return Ok(changed(ty, &WITH_SLICE, args));
        }
        let places = self.places(&subscripts, around)?;
        let value = match rest {
            [] => self.part_value(value, element, target)?,
            rest => {
                let old = self.element_at(before.clone(), element, places.clone());
                self.with_part_of((old, element), (of, rest), value, scope)?
            }
        };
        let args = [before, value].into_iter().chain(places).collect();
        Ok(changed(ty, &WITH_ELEMENT, args))
    }

    /// Converts a value to the type of a part; 42804 if there is no assignment cast.
    fn part_value(
        &mut self,
        value: Expr,
        to: Type,
        target: impl FnOnce() -> String,
    ) -> Result<Expr, SqlError> {
        let from = value.ty.kind;
        let fits = from == TypeKind::Unknown
            || (from == TypeKind::Record && to.plain().kind.is_row())
            || cast_context(from, to.kind).is_some_and(|needed| needed <= CastContext::Assignment);
        if !fits {
            let target = target();
            let wants = match target.starts_with("subfield") {
                true => "is of",
                false => "requires",
            };
            let message = format!(
                "{target} {wants} type {} but expression is of type {from}",
                to.kind
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .hint("You will need to rewrite or cast the expression."));
        }
        self.coerce(value, to, CastContext::Assignment)
    }

    /// Returns the fields of a column or of a field, and the position of the named one.
    fn subfield(
        &self,
        column: &ColumnDef,
        ty: Type,
        ident: &ast::Ident,
    ) -> Result<(Fields, usize), SqlError> {
        let kind = ty.plain().kind;
        let Some(fields) = kind.as_composite().map(Fields::Named) else {
            return Err(self.no_row((column, ty), ident));
        };
        let name = names::fold(ident);
        fields
            .position(&name)
            .map(|at| (fields, at))
            .ok_or_else(|| {
                let message = format!(
                    "cannot assign to field \"{name}\" of column \"{}\" because there is no such \
                     column in data type {kind}",
                    column.name
                );
                SqlError::new(SqlState::UNDEFINED_COLUMN, message).or_at(self.position(ident.span))
            })
    }

    /// Returns the error 42804 for a type without fields.
    fn no_row(&self, (column, ty): (&ColumnDef, Type), ident: &ast::Ident) -> SqlError {
        let message = format!(
            "cannot assign to field \"{}\" of column \"{}\" because its type {} is not a \
             composite type",
            names::fold(ident),
            column.name,
            ty.plain().kind
        );
        SqlError::new(SqlState::DATATYPE_MISMATCH, message).or_at(self.position(ident.span))
    }

    /// Returns the type of the part at the end of a path.
    pub(super) fn place_type(
        &self,
        column: &ColumnDef,
        path: &[ast::Ident],
    ) -> Result<Type, SqlError> {
        let mut ty = column.ty;
        for ident in path {
            ty = match subscripts_of(ident)? {
                None => {
                    let (fields, at) = self.subfield(column, ty, ident)?;
                    fields[at].ty.plain()
                }
                Some(_) if ty.plain().kind == TypeKind::Jsonb => ty,
                Some(subscripts) if is_sliced(&subscripts.iter().collect::<Vec<_>>()) => ty,
                Some(_) => match ty.plain().element() {
                    Some(element) => element,
                    None => return Err(super::array::not_subscriptable(ty)),
                },
            };
        }
        Ok(ty)
    }
}

pub(super) fn is_sliced(subscripts: &[&ast::Subscript]) -> bool {
    let mut all = subscripts.iter();
    all.any(|subscript| matches!(subscript, ast::Subscript::Slice { .. }))
}

/// Returns the error 0A000 for DEFAULT assigned to a part of a column.
pub(super) fn no_default(path: &[ast::Ident]) -> Result<SqlError, SqlError> {
    let last = match path.last() {
        Some(last) => subscripts_of(last)?,
        None => None,
    };
    let what = match last {
        Some(_) => "cannot set an array element to DEFAULT",
        None => "cannot set a subfield to DEFAULT",
    };
    Ok(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what))
}

fn changed(ty: Type, function: &'static ScalarFunction, args: Vec<Expr>) -> Expr {
    Expr::new(ty, Node::Call { function, args })
}
