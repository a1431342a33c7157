//! Functions that create rows, extract fields and check rows.

use super::library::variadic;
use super::rows::of_rows;
use super::{ScalarFunction, cast, check_domain, mismatch};
use crate::bound::{Expr, Node};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Any, Bool};
use crate::types::composites::Field;
use crate::types::{Composite, Fields, Type, TypeKind};
use crate::value::{Record, Value};

/// `ROW(a, b, …)`. The arguments are an empty row that determines the fields, and the values.
pub static ROW: ScalarFunction = variadic("ROW", &[Any], TypeKind::Record, |a, _| match a {
    [Value::Record(shape), values @ ..] => {
        Ok(Record::new(shape.fields.clone(), values.to_vec()).into())
    }
    _ => Err(mismatch("ROW")),
});

/// `(row).field`, by its position.
pub static FIELD: ScalarFunction = variadic("field", &[Any], Any, |a, _| match a {
    [Value::Record(row), Value::Int4(at)] => {
        Ok(usize::try_from(*at).map_or(Value::Null, |at| row.get(at).clone()))
    }
    [Value::Null, _] => Ok(Value::Null),
    _ => Err(mismatch("a field of a row")),
});

/// `row IS [NOT] NULL`: true if all fields are NULL, or all are not NULL.
pub static ROW_IS_NULL: ScalarFunction = variadic("row is null", &[Any], Bool, |a, _| match a {
    [Value::Record(row), Value::Bool(negated)] => {
        let mut all = (0..row.fields.len()).map(|at| row.get(at).is_null() != *negated);
        Ok(Value::Bool(all.all(|holds| holds)))
    }
    [value, Value::Bool(negated)] => Ok(Value::Bool(value.is_null() != *negated)),
    _ => Err(mismatch("IS NULL of a row")),
});

/// Returns a row with another value in one field, given by its position. A NULL row counts as a row
/// of NULLs.
pub static WITH_FIELD: ScalarFunction = variadic("with field", &[Any], Any, |a, _| match a {
    [Value::Record(shape), row, Value::Int4(at), value] => {
        let mut values: Vec<Value> = match row {
            Value::Record(row) => (0..shape.fields.len())
                .map(|at| row.get(at).clone())
                .collect(),
            _ => vec![Value::Null; shape.fields.len()],
        };
        if let Some(field) = usize::try_from(*at).ok().and_then(|at| values.get_mut(at)) {
            field.clone_from(value);
        }
        Ok(Record::new(shape.fields.clone(), values).into())
    }
    _ => Err(mismatch("an assignment to a field")),
});

/// Returns the fields of all rows of an array, concatenated. The second argument is the number of
/// fields of a row.
pub static FIELDS_OF_ALL: ScalarFunction = variadic("fields", &[Any], Any, |a, _| match a {
    [Value::Array(rows), Value::Int4(width)] => {
        let width = usize::try_from(*width).unwrap_or(0);
        let fields = |row: &Value| match row {
            Value::Record(row) => (0..width).map(|at| row.get(at).clone()).collect(),
            _ => vec![Value::Null; width],
        };
        Ok(of_rows(
            width,
            rows.values.iter().flat_map(fields).collect(),
        ))
    }
    [Value::Null, _] => Ok(Value::Null),
    _ => Err(mismatch("unnest of rows")),
});

/// Returns error 42703.
#[cold]
pub(crate) fn no_field(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("could not identify column \"{name}\" in record data type"),
    )
}

/// Returns an expression that creates a row of these values.
pub fn row_of(fields: Fields, values: Vec<Expr>) -> Expr {
    let ty = Type::of(fields.kind());
    let shape = Expr::constant(ty, Record::new(fields, Vec::new()).into());
    let args = std::iter::once(shape).chain(values).collect();
    let function = &ROW;
    Expr::new(ty, Node::Call { function, args })
}

/// Returns the fields and values of an expression that creates a row; `None` for others.
pub fn parts_of(expr: &Expr) -> Option<(&Fields, &[Expr])> {
    let Node::Call { function, args } = &expr.node else {
        return None;
    };
    match args.as_slice() {
        [shape, values @ ..] if std::ptr::eq(*function, &ROW) => match &shape.node {
            Node::Const(Value::Record(shape)) => Some((&shape.fields, values)),
            _ => None,
        },
        _ => None,
    }
}

/// Converts a row to a composite type, field by field.
pub(super) fn converted(
    row: Record,
    to: Composite,
    explicit: bool,
    cx: &EvalContext,
) -> Result<Value, SqlError> {
    let wanted = &to.definition().fields;
    if row.fields.len() != wanted.len() {
        return Err(wrong_width(row.fields.len(), &Fields::Named(to), None));
    }
    let mut values = Vec::with_capacity(wanted.len());
    for ((value, from), field) in row.typed().zip(wanted) {
        values.push(cast(value.clone(), &from, &field.ty, explicit, cx)?);
    }
    Ok(Record::new(Fields::Named(to), values).into())
}

/// Returns error 42846: the row has another number of fields.
#[cold]
pub(crate) fn wrong_width(given: usize, wanted: &Fields, from: Option<TypeKind>) -> SqlError {
    let few = match given < wanted.len() {
        true => "few",
        false => "many",
    };
    let from = from.unwrap_or(TypeKind::Record);
    let message = format!("cannot cast type {from} to {}", wanted.kind());
    SqlError::new(SqlState::CANNOT_COERCE, message).detail(format!("Input has too {few} columns."))
}

/// Checks the domain constraints of the fields in a value that came from a client.
static CHECKED: ScalarFunction = variadic("checked", &[Any], Any, |a, cx| match a {
    [value] => {
        let rows = match value {
            Value::Array(rows) => &rows.values[..],
            one => std::slice::from_ref(one),
        };
        for row in rows {
            if let Value::Record(row) = row {
                check_fields(row, cx)?;
            }
        }
        Ok(value.clone())
    }
    _ => Err(mismatch("a check of a row")),
});

/// Wraps a parameter in a check of domain constraints, if its type has fields of domains.
pub fn checked(param: Expr) -> Expr {
    let kind = param.ty.kind;
    let of = kind.element().unwrap_or(kind).as_composite();
    if !of.is_some_and(has_domains) {
        return param;
    }
    let function = &CHECKED;
    let args = vec![param];
    Expr::new(Type::of(kind), Node::Call { function, args })
}

fn has_domains(of: Composite) -> bool {
    let mut fields = of.definition().fields.iter();
    fields.any(|field| match field.ty.kind {
        TypeKind::Domain(_) => true,
        kind => kind.as_composite().is_some_and(has_domains),
    })
}

/// Checks the domain constraints of the fields of a row that was read.
pub fn check_fields(row: &Record, cx: &EvalContext) -> Result<(), SqlError> {
    for (at, Field { ty, .. }) in row.fields.iter().enumerate() {
        match (ty.kind, row.get(at)) {
            (TypeKind::Domain(domain), value) => check_domain(domain, value, cx)?,
            (TypeKind::Composite(_), Value::Record(inner)) => check_fields(inner, cx)?,
            _ => {}
        }
    }
    Ok(())
}
