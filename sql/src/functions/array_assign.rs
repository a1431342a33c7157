//! Assignments to an element or slice of an array: `SET a[1] = …`, `SET a[2:3] = …`.
//!
//! A NULL array counts as empty. An array of one dimension grows to include the element, with NULLs
//! in between. An array of several dimensions does not grow.

use super::ScalarFunction;
use super::library::variadic;
use super::mismatch;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::Any;
use crate::types::check_bounds;
use crate::value::{Array, Dimension, Value};

/// The maximum number of elements of an array.
const ELEMENTS_MAX: i64 = (1 << 27) - 1;

/// Assigns an element. The arguments are the array, the value and the subscripts.
pub static WITH_ELEMENT: ScalarFunction = variadic("[]=", &[Any], Any, |a, _| match a {
    [array, value, places @ ..] => {
        let places = places.iter().map(place).collect::<Result<Vec<i32>, _>>()?;
        let mut array = array_of(array);
        set_element(&mut array, value, &places)?;
        Ok(array.into())
    }
    _ => Err(mismatch("an assignment to an element")),
});

/// Assigns a slice. The arguments are the array, the array of values, a bit mask of the omitted
/// bounds, and two bounds for each dimension.
pub static WITH_SLICE: ScalarFunction = variadic("[:]=", &[Any], Any, |a, _| match a {
    [array, values, Value::Int4(left_out), bounds @ ..] => {
        let mut given = Vec::with_capacity(bounds.len());
        for (bit, bound) in bounds.iter().enumerate() {
            given.push(match left_out >> bit & 1 {
                1 => None,
                _ => Some(place(bound)?),
            });
        }
        let mut array = array_of(array);
        if let Value::Array(values) = values {
            set_slice(&mut array, values, &given)?;
        }
        Ok(array.into())
    }
    _ => Err(mismatch("an assignment to a slice")),
});

fn array_of(value: &Value) -> Array {
    match value {
        Value::Array(array) => (**array).clone(),
        _ => Array::default(),
    }
}

/// Returns a subscript.
///
/// # Errors
/// 22004 for NULL.
fn place(value: &Value) -> Result<i32, SqlError> {
    match value {
        Value::Int4(place) => Ok(*place),
        _ => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "array subscript in assignment must not be null",
        )),
    }
}

/// Sets an element. On an error, the array stays unchanged.
pub fn set_element(array: &mut Array, value: &Value, places: &[i32]) -> Result<(), SqlError> {
    if array.dims.is_empty() {
        let one = |lower: &i32| Dimension {
            len: 1,
            lower: *lower,
        };
        let dims: Vec<Dimension> = places.iter().map(one).collect();
        check_bounds(&dims)?;
        array.dims = dims;
        array.values = vec![value.clone()];
        return Ok(());
    }
    if places.len() != array.dims.len() {
        return Err(wrong_number());
    }
    if let [place] = places {
        grow(array, (*place, *place))?;
    }
    let mut at = 0usize;
    for (place, dim) in places.iter().zip(&array.dims) {
        at = at * dim.len as usize + offset(dim, *place).ok_or_else(out_of_range)?;
    }
    let slot = array.values.get_mut(at).ok_or_else(out_of_range)?;
    slot.clone_from(value);
    Ok(())
}

/// Sets the slice between `bounds`, two for each dimension. A bound of `None` is that of the array.
fn set_slice(array: &mut Array, values: &Array, bounds: &[Option<i32>]) -> Result<(), SqlError> {
    if array.dims.is_empty() {
        *array = first_slice(values, bounds)?;
        return Ok(());
    }
    if bounds.len() / 2 > array.dims.len() {
        return Err(wrong_number());
    }
    let mut parts = Vec::with_capacity(array.dims.len());
    for (i, dim) in array.dims.iter().enumerate() {
        let bound = |at: usize| bounds.get(2 * i + at).copied().flatten();
        let (from, to) = (
            bound(0).unwrap_or(dim.lower),
            bound(1).unwrap_or(dim.upper()),
        );
        if from > to {
            return Err(subscript_error(
                "upper bound cannot be less than lower bound",
            ));
        }
        parts.push((from, to));
    }
    if let [part] = parts.as_slice() {
        grow(array, *part)?;
    }
    let mut wanted = 1usize;
    for ((from, to), dim) in parts.iter().zip(&array.dims) {
        if offset(dim, *from).is_none() || offset(dim, *to).is_none() {
            return Err(out_of_range());
        }
        wanted *= (to - from + 1) as usize;
    }
    if values.values.len() < wanted {
        return Err(subscript_error("source array too small"));
    }
    let mut source = values.values.iter();
    let mut place: Vec<i32> = parts.iter().map(|(from, _)| *from).collect();
    for _ in 0..wanted {
        let at = place
            .iter()
            .zip(&array.dims)
            .fold(0usize, |at, (place, dim)| {
                at * dim.len as usize + (place - dim.lower) as usize
            });
        if let (Some(slot), Some(value)) = (array.values.get_mut(at), source.next()) {
            slot.clone_from(value);
        }
        next(&mut place, &parts);
    }
    Ok(())
}

/// Advances to the next subscripts within the slice; the last dimension varies fastest.
fn next(place: &mut [i32], parts: &[(i32, i32)]) {
    for (at, (from, to)) in place.iter_mut().zip(parts).rev() {
        if *at < *to {
            *at += 1;
            return;
        }
        *at = *from;
    }
}

/// Creates an array that consists of the slice only.
fn first_slice(values: &Array, bounds: &[Option<i32>]) -> Result<Array, SqlError> {
    let mut dims = Vec::with_capacity(bounds.len() / 2);
    let mut wanted = 1i64;
    for pair in bounds.chunks_exact(2) {
        let [Some(from), Some(to)] = pair else {
            let error = subscript_error("array slice subscript must provide both boundaries");
            return Err(error.detail(
                "When assigning to a slice of an empty array value, slice boundaries must be \
                 fully specified.",
            ));
        };
        let len = i64::from(*to) - i64::from(*from) + 1;
        if len < 0 {
            return Err(subscript_error(
                "upper bound cannot be less than lower bound",
            ));
        }
        wanted = wanted.saturating_mul(len);
        check_size(wanted)?;
        dims.push(Dimension {
            len: len as i32,
            lower: *from,
        });
    }
    check_bounds(&dims)?;
    let wanted = wanted as usize;
    if values.values.len() < wanted {
        return Err(subscript_error("source array too small"));
    }
    if wanted == 0 {
        return Ok(Array::default());
    }
    Ok(Array {
        dims,
        values: values.values[..wanted].to_vec(),
    })
}

/// Enlarges an array of one dimension to include these subscripts.
fn grow(array: &mut Array, (from, to): (i32, i32)) -> Result<(), SqlError> {
    let [dim] = array.dims.as_mut_slice() else {
        return Ok(());
    };
    let (lower, len) = (i64::from(dim.lower), i64::from(dim.len));
    let before = (lower - i64::from(from)).max(0);
    let behind = (i64::from(to) - (lower + len - 1)).max(0);
    let grown = len + before + behind;
    check_size(grown)?;
    check_bounds(&[Dimension {
        len: grown as i32,
        lower: from.min(dim.lower),
    }])?;
    if before > 0 {
        let nulls = std::iter::repeat_n(Value::Null, before as usize);
        array.values.splice(0..0, nulls);
        dim.lower = from;
    }
    array.values.resize(grown as usize, Value::Null);
    dim.len = grown as i32;
    Ok(())
}

fn offset(dim: &Dimension, place: i32) -> Option<usize> {
    let offset = i64::from(place) - i64::from(dim.lower);
    (0..i64::from(dim.len))
        .contains(&offset)
        .then_some(offset as usize)
}

fn check_size(elements: i64) -> Result<(), SqlError> {
    match elements > ELEMENTS_MAX {
        true => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
        )),
        false => Ok(()),
    }
}

/// Returns error 2202E.
fn subscript_error(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn out_of_range() -> SqlError {
    subscript_error("array subscript out of range")
}

fn wrong_number() -> SqlError {
    subscript_error("wrong number of array subscripts")
}
