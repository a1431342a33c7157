//! Functions that create arrays, take them apart and describe their dimensions.

use super::library::{Body, pure};
use super::long::{VALUE_BYTES_MAX, too_long};
use super::{ScalarFunction, compare, mismatch};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Any, AnyArray, AnyElement, Array as ArrayKind, Int4, Text};
use crate::types::{DIMENSIONS_MAX, Element, check_bounds, too_many_dimensions};
use crate::value::{Array, Dimension, Value};

type Outcome = Result<Value, SqlError>;

/// The maximum number of elements of a function's result.
const ELEMENTS_MAX: usize = (1 << 27) - 1;

/// Defines a function that is called for NULL arguments, too.
pub(super) const fn seeing_nulls(
    name: &'static str,
    args: &'static [crate::types::TypeKind],
    result: crate::types::TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        strict: false,
        ..pure(name, args, result, eval)
    }
}

const fn constructor(name: &'static str, eval: Body) -> ScalarFunction {
    ScalarFunction {
        name,
        args: &[Any],
        variadic: true,
        result: AnyArray,
        strict: false,
        volatility: Volatility::Immutable,
        eval,
        wait: None,
    }
}

/// `ARRAY[a, b, …]`
pub static ARRAY_OF: ScalarFunction = constructor("ARRAY", |a, _| Ok(Array::of(a.to_vec()).into()));

/// Converts an array of `char(n)` to an array of text, each padded with blanks to the length `n`.
pub static PADDED_ELEMENTS: ScalarFunction = constructor("padded", |a, _| match a {
    [Value::Array(array), Value::Int4(length)] => {
        let mut array = Array::clone(array);
        let length = usize::try_from(*length).unwrap_or(0);
        if array.values.len().saturating_mul(length) > VALUE_BYTES_MAX {
            return Err(too_long());
        }
        for value in &mut array.values {
            if let Value::Text(text) = value {
                let missing = length.saturating_sub(text.chars().count());
                *value = Value::text(format!("{text}{}", " ".repeat(missing)));
            }
        }
        Ok(array.into())
    }
    _ => Ok(Value::Null),
});

/// `ARRAY[a, b, …]` of arrays
pub static ARRAY_OF_ARRAYS: ScalarFunction = constructor("ARRAY", |a, _| stacked(a));

/// `array[i][j]…`: the element, or NULL if there is none.
pub static SUBSCRIPT: ScalarFunction = constructor("[]", |a, _| subscript(a));

/// `array[l:u]…`. The arguments are the array, a bit mask of the omitted bounds, and two bounds for
/// each dimension.
pub static SLICE: ScalarFunction = constructor("[:]", |a, _| slice(a));

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("array_ndims", &[AnyArray], Int4, |a, _| {
        let array = array(a, 0)?;
        Ok(if array.dims.is_empty() { Value::Null } else { Value::Int4(array.dims.len() as i32) })
    }),
    pure("array_dims", &[AnyArray], Text, |a, _| {
        let array = array(a, 0)?;
        let bounds = |d: &Dimension| format!("[{}:{}]", d.lower, d.upper());
        Ok(match array.dims.is_empty() {
            true => Value::Null,
            false => Value::text(array.dims.iter().map(bounds).collect::<String>()),
        })
    }),
    pure("array_length", &[AnyArray, Int4], Int4, |a, _| dimension(a, |d| d.len)),
    pure("array_lower", &[AnyArray, Int4], Int4, |a, _| dimension(a, |d| d.lower)),
    pure("array_upper", &[AnyArray, Int4], Int4, |a, _| dimension(a, Dimension::upper)),
    pure("cardinality", &[AnyArray], Int4,
        |a, _| Ok(Value::Int4(array(a, 0)?.values.len() as i32))),
    seeing_nulls("array_append", &[AnyArray, AnyElement], AnyArray, |a, _| match a {
        [to, value] => extended(to, value, false),
        _ => Err(mismatch("array_append")),
    }),
    seeing_nulls("array_prepend", &[AnyElement, AnyArray], AnyArray, |a, _| match a {
        [value, to] => extended(to, value, true),
        _ => Err(mismatch("array_prepend")),
    }),
    seeing_nulls("array_cat", &[AnyArray, AnyArray], AnyArray, |a, _| match a {
        [Value::Null, other] | [other, Value::Null] => Ok(other.clone()),
        [Value::Array(a), Value::Array(b)] => joined(a, b),
        _ => Err(mismatch("array_cat")),
    }),
    seeing_nulls("array_fill", &[AnyElement, ArrayKind(Element::INT4)], AnyArray, filled),
    seeing_nulls("array_fill", &[AnyElement, ArrayKind(Element::INT4), ArrayKind(Element::INT4)],
        AnyArray, filled),
    pure("trim_array", &[AnyArray, Int4], AnyArray, trimmed),
];

/// Returns an array argument.
pub(super) fn array(args: &[Value], i: usize) -> Result<&Array, SqlError> {
    match args.get(i) {
        Some(Value::Array(array)) => Ok(array),
        _ => Err(mismatch("an array function")),
    }
}

fn dimension(args: &[Value], of: impl Fn(&Dimension) -> i32) -> Outcome {
    let [Value::Array(array), Value::Int4(nth)] = args else {
        return Err(mismatch("an array function"));
    };
    let dim = usize::try_from(*nth).ok().and_then(|n| n.checked_sub(1));
    let dim = dim.and_then(|n| array.dims.get(n));
    Ok(dim.map_or(Value::Null, |dim| Value::Int4(of(dim))))
}

/// Stacks arrays of equal dimensions into an array with one more dimension.
pub(super) fn stacked(parts: &[Value]) -> Outcome {
    const MISMATCH: &str =
        "multidimensional arrays must have array expressions with matching dimensions";
    let different = || SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, MISMATCH);
    let mut dims: Option<&[Dimension]> = None;
    let mut values = Vec::new();
    let mut rows = 0i32;
    for part in parts {
        // NULL and empty arrays have no dimensions.
        let (shape, elements): (&[Dimension], &[Value]) = match part {
            Value::Array(array) => (&array.dims, &array.values),
            _ => (&[], &[]),
        };
        match dims {
            None => dims = Some(shape),
            Some(dims) if *dims != *shape => return Err(different()),
            Some(_) => {}
        }
        rows += 1;
        values.extend_from_slice(elements);
    }
    let inner = dims.unwrap_or(&[]);
    if values.is_empty() {
        return Ok(Array::default().into());
    }
    if inner.len() + 1 > DIMENSIONS_MAX {
        return Err(too_many_dimensions(inner.len() + 1));
    }
    let mut dims = vec![Dimension {
        len: rows,
        lower: 1,
    }];
    dims.extend_from_slice(inner);
    Ok(Array { dims, values }.into())
}

fn subscript(args: &[Value]) -> Outcome {
    let Some((Value::Array(array), places)) = args.split_first() else {
        return Ok(Value::Null);
    };
    if places.len() != array.dims.len() {
        return Ok(Value::Null);
    }
    let mut at = 0;
    for (dim, place) in array.dims.iter().zip(places) {
        let Value::Int4(place) = place else {
            return Ok(Value::Null);
        };
        let offset = i64::from(*place) - i64::from(dim.lower);
        if !(0..i64::from(dim.len)).contains(&offset) {
            return Ok(Value::Null);
        }
        at = at * dim.len as usize + offset as usize;
    }
    Ok(array.values.get(at).cloned().unwrap_or(Value::Null))
}

fn slice(args: &[Value]) -> Outcome {
    let [Value::Array(array), Value::Int4(left_out), bounds @ ..] = args else {
        return Ok(Value::Null);
    };
    let mut given = bounds.chunks_exact(2).enumerate();
    let mut dims = Vec::with_capacity(array.dims.len());
    let mut first = Vec::with_capacity(array.dims.len());
    let empty = || Ok(Array::default().into());
    let bound = |value: &Value, bit: usize, otherwise: i32| match value {
        _ if left_out >> bit & 1 == 1 => Some(otherwise),
        Value::Int4(v) => Some(*v),
        _ => None,
    };
    if bounds.len() / 2 > array.dims.len() {
        return match bounds
            .iter()
            .enumerate()
            .all(|(i, b)| bound(b, i, 0).is_some())
        {
            true => empty(),
            false => Ok(Value::Null),
        };
    }
    for dim in &array.dims {
        let (from, to) = match given.next() {
            None => (dim.lower, dim.upper()),
            Some((i, pair)) => {
                let from = bound(&pair[0], 2 * i, dim.lower);
                let to = bound(&pair[1], 2 * i + 1, dim.upper());
                match (from, to) {
                    (Some(from), Some(to)) => (from, to),
                    _ => return Ok(Value::Null),
                }
            }
        };
        let (from, to) = (from.max(dim.lower), to.min(dim.upper()));
        if from > to {
            return empty();
        }
        first.push((from - dim.lower) as usize);
        dims.push(Dimension {
            len: to - from + 1,
            lower: 1,
        });
    }
    if dims.is_empty() {
        return empty();
    }
    let mut values = Vec::new();
    collect(array, &dims, &first, 0, 0, &mut values);
    Ok(Array { dims, values }.into())
}

fn collect(
    array: &Array,
    dims: &[Dimension],
    first: &[usize],
    depth: usize,
    at: usize,
    out: &mut Vec<Value>,
) {
    let Some(dim) = dims.get(depth) else {
        out.extend(array.values.get(at).cloned());
        return;
    };
    let whole = array.dims[depth].len as usize;
    for i in 0..dim.len as usize {
        collect(
            array,
            dims,
            first,
            depth + 1,
            at * whole + first[depth] + i,
            out,
        );
    }
}

/// Adds an element at the end or the beginning of an array.
fn extended(to: &Value, value: &Value, in_front: bool) -> Outcome {
    let mut array = match to {
        Value::Array(array) => Array::clone(array),
        _ => Array::default(),
    };
    match array.dims.as_mut_slice() {
        [] => return Ok(Array::of(vec![value.clone()]).into()),
        [dim] => {
            let overflow =
                || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
            // The new element gets the subscript before the first one. The lower bound is kept.
            let (at, lower) = if in_front {
                (0, dim.lower.checked_sub(1).ok_or_else(overflow)?)
            } else {
                (array.values.len(), dim.lower)
            };
            let len = dim.len + 1;
            check_bounds(&[Dimension { len, lower }])?;
            array.values.insert(at, value.clone());
            dim.len = len;
        }
        _ => {
            return Err(SqlError::new(
                SqlState::new(b"22000"),
                "argument must be empty or one-dimensional array",
            ));
        }
    }
    Ok(array.into())
}

fn joined(a: &Array, b: &Array) -> Outcome {
    if b.dims.is_empty() {
        return Ok(a.clone().into());
    }
    if a.dims.is_empty() {
        return Ok(b.clone().into());
    }
    let incompatible = |detail: &str| {
        SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "cannot concatenate incompatible arrays",
        )
        .detail(detail)
    };
    const DIFFERENT: &str =
        "Arrays with differing element dimensions are not compatible for concatenation.";
    let dims = match a.dims.len() as i64 - b.dims.len() as i64 {
        0 if a.dims[1..] == b.dims[1..] => {
            let mut dims = a.dims.clone();
            dims[0].len = dims[0].len.saturating_add(b.dims[0].len);
            dims
        }
        // Appends one row.
        1 if a.dims[1..] == b.dims => {
            let mut dims = a.dims.clone();
            dims[0].len += 1;
            dims
        }
        -1 if a.dims == b.dims[1..] => {
            let mut dims = b.dims.clone();
            dims[0].len += 1;
            dims
        }
        -1..=1 => return Err(incompatible(DIFFERENT)),
        _ => {
            return Err(incompatible(&format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                a.dims.len(),
                b.dims.len()
            )));
        }
    };
    check_bounds(&dims)?;
    let values = a.values.iter().chain(&b.values).cloned().collect();
    Ok(Array { dims, values }.into())
}

fn filled(args: &[Value], _: &EvalContext) -> Outcome {
    let null = || {
        SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "dimension array or low bound array cannot be null",
        )
    };
    let numbers = |value: &Value| match value {
        Value::Array(array) if array.dims.len() > 1 => Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        )
        .detail("Dimension array must be one dimensional.")),
        Value::Array(array) => array
            .values
            .iter()
            .map(|v| match v {
                Value::Int4(v) => Ok(*v),
                _ => Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "dimension values cannot be null",
                )),
            })
            .collect::<Result<Vec<i32>, SqlError>>(),
        _ => Err(null()),
    };
    let (Some(value), Some(lens)) = (args.first(), args.get(1)) else {
        return Err(mismatch("array_fill"));
    };
    let lens = numbers(lens)?;
    let lowers = match args.get(2) {
        None => vec![1; lens.len()],
        Some(lowers) => numbers(lowers)?,
    };
    if lens.len() > DIMENSIONS_MAX {
        return Err(too_many_dimensions(lens.len()));
    }
    if lowers.len() != lens.len() {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        )
        .detail("Low bound array has different size than dimensions array."));
    }
    let too_large = || {
        SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
        )
    };
    let mut count = 1usize;
    for len in &lens {
        let len = usize::try_from(*len).map_err(|_| too_large())?;
        count = count
            .checked_mul(len)
            .filter(|n| *n <= ELEMENTS_MAX)
            .ok_or_else(too_large)?;
    }
    if lens.is_empty() || count == 0 {
        return Ok(Array::default().into());
    }
    let dims = lens.iter().zip(&lowers);
    let dims: Vec<Dimension> = dims
        .map(|(len, lower)| Dimension {
            len: *len,
            lower: *lower,
        })
        .collect();
    check_bounds(&dims)?;
    let values = vec![value.clone(); count];
    Ok(Array { dims, values }.into())
}

fn trimmed(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Array(array), Value::Int4(count)] = args else {
        return Err(mismatch("trim_array"));
    };
    let len = array.dims.first().map_or(0, |d| d.len);
    if !(0..=len).contains(count) {
        return Err(SqlError::new(
            SqlState::new(b"2202E"),
            format!("number of elements to trim must be between 0 and {len}"),
        ));
    }
    if *count == len {
        return Ok(Array::default().into());
    }
    let mut kept = Array::clone(array);
    let row = kept.values.len() / len as usize;
    kept.dims[0].len -= count;
    for dim in &mut kept.dims {
        dim.lower = 1;
    }
    kept.values.truncate(row * (len - count) as usize);
    Ok(kept.into())
}

/// Returns whether two elements are equal; NULLs are equal to each other.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    compare(a, b).is_eq()
}
