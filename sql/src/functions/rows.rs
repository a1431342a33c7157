//! Set-returning functions.
//!
//! Such a function is a scalar function that returns an array: of its values, or of its rows if it
//! has several columns. The executor splits the array into rows (`TableFunction::Rows`).

use super::array::array;
use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::types::TypeKind::{self, AnyArray, Bool, Int4, Text};
use crate::value::{Array, Dimension, Value};

/// A set-returning function.
pub struct RowsFunction {
    /// The function that returns the rows as an array.
    pub function: ScalarFunction,
    /// The columns. An empty name stands for the name of the function or its alias.
    pub columns: &'static [(&'static str, TypeKind)],
}

const fn one(
    function: ScalarFunction,
    column: &'static [(&'static str, TypeKind)],
) -> RowsFunction {
    RowsFunction {
        function,
        columns: column,
    }
}

#[rustfmt::skip]
static FUNCTIONS: &[RowsFunction] = &[
    one(pure("generate_subscripts", &[AnyArray, Int4], Int4, |a, _| subscripts(a, false)),
        &[("", Int4)]),
    one(pure("generate_subscripts", &[AnyArray, Int4, Bool], Int4, |a, _| {
        subscripts(&a[..2], a.get(2).and_then(Value::as_bool) == Some(true))
    }), &[("", Int4)]),
    one(super::array::seeing_nulls("string_to_table", &[Text, Text], Text,
        |a, _| super::array_search::pieces(a)), &[("", Text)]),
    one(super::array::seeing_nulls("string_to_table", &[Text, Text, Text], Text,
        |a, _| super::array_search::pieces(a)), &[("", Text)]),
];

static TABLES: [&[RowsFunction]; 6] = [
    FUNCTIONS,
    super::json::ROWS,
    super::jsonpath::ROWS,
    super::regex::ROWS,
    super::catalog_rows::ROWS,
    super::notify::ROWS,
];

/// Returns all set-returning functions with a name.
pub fn rows_candidates(name: &str) -> impl Iterator<Item = &'static RowsFunction> {
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .filter(move |f| f.function.name == name)
}

/// Creates an array of two dimensions from rows.
pub(super) fn of_rows(width: usize, values: Vec<Value>) -> Value {
    let rows = values.len() / width.max(1);
    if rows == 0 {
        return Array::default().into();
    }
    let dim = |len: usize| Dimension {
        len: len as i32,
        lower: 1,
    };
    Array {
        dims: vec![dim(rows), dim(width)],
        values,
    }
    .into()
}

fn subscripts(args: &[Value], reverse: bool) -> Result<Value, crate::error::SqlError> {
    let [_, Value::Int4(nth)] = args else {
        return Err(mismatch("generate_subscripts"));
    };
    let dim = usize::try_from(*nth).ok().and_then(|n| n.checked_sub(1));
    let dim = dim.and_then(|n| array(args, 0).ok()?.dims.get(n).copied());
    let Some(dim) = dim else {
        return Ok(Array::default().into());
    };
    let mut found: Vec<Value> = (0..dim.len).map(|i| Value::Int4(dim.lower + i)).collect();
    if reverse {
        found.reverse();
    }
    Ok(Array::of(found).into())
}
