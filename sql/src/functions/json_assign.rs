//! Assignments to a path of a jsonb value: `SET j['a'][0] = …`.
//!
//! Missing parts of the path are created: an array for a step that is a number, an object for any
//! other step. Array elements before the assigned one become null.

use super::ScalarFunction;
use super::json::refused;
use super::library::variadic;
use super::mismatch;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::Any;
use crate::types::json::{self, Json, Kind, parse};
use crate::value::Value;

/// The maximum number of elements of a jsonb array.
const ELEMENTS_MAX: usize = 33_554_431;

/// Assigns by a path. The arguments are the jsonb value, the new value and the path's integers and
/// texts.
pub static WITH_JSON: ScalarFunction = variadic("['']=", &[Any], Any, |a, _| {
    let [whole, new, steps @ ..] = a else {
        return Err(mismatch("an assignment to a part of jsonb"));
    };
    let mut path = Vec::with_capacity(steps.len());
    for step in steps {
        path.push(match step {
            Value::Text(step) => step.to_string(),
            Value::Int4(step) => step.to_string(),
            _ => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "jsonb subscript in assignment must not be null",
                ));
            }
        });
    }
    let whole = match (whole, steps.first()) {
        (Value::Jsonb(whole), _) => whole.as_str(),
        (_, Some(Value::Int4(_))) => "[]",
        _ => "{}",
    };
    let new = match new {
        Value::Jsonb(new) => new.as_str(),
        _ => "null",
    };
    let mut out = String::with_capacity(whole.len() + new.len());
    let set = Set { path: &path, new };
    set.write(&parse(whole)?, 0, &mut out)?;
    Ok(Value::Jsonb(json::normal(&out)?.into()))
});

struct Set<'a> {
    path: &'a [String],
    new: &'a str,
}

impl Set<'_> {
    /// Appends an element that is `depth` steps down the path.
    fn write(&self, json: &Json<'_>, depth: usize, out: &mut String) -> Result<(), SqlError> {
        let Some(step) = self.path.get(depth) else {
            out.push_str(self.new);
            return Ok(());
        };
        match &json.is {
            Kind::Object(pairs) => self.write_object(pairs, (step, depth), out),
            Kind::Array(elements) => self.write_array(elements, (step, depth), out),
            _ => Err(refused("cannot replace existing key")
                .detail("The path assumes key is a composite object, but it is a scalar value.")),
        }
    }

    fn write_object(
        &self,
        pairs: &[(std::borrow::Cow<'_, str>, Json<'_>)],
        (step, depth): (&str, usize),
        out: &mut String,
    ) -> Result<(), SqlError> {
        let mut done = false;
        let mut between = "{";
        for (key, value) in pairs {
            out.push_str(between);
            between = ", ";
            json::quote(key, out);
            out.push_str(": ");
            match key == step {
                true => self.write(value, depth + 1, out)?,
                false => out.push_str(value.raw),
            }
            done |= key == step;
        }
        if !done {
            out.push_str(between);
            json::quote(step, out);
            out.push_str(": ");
            self.make(depth + 1, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn write_array(
        &self,
        elements: &[Json<'_>],
        (step, depth): (&str, usize),
        out: &mut String,
    ) -> Result<(), SqlError> {
        let index: i32 = step.trim_start().parse().map_err(|_| {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!(
                    "path element at position {} is not an integer: \"{step}\"",
                    depth + 1
                ),
            )
        })?;
        let (index, len) = (i64::from(index), elements.len() as i64);
        let at = if index < 0 { len + index } else { index };
        let Ok(at) = usize::try_from(at) else {
            return Err(refused(format!(
                "path element at position {} is out of range: {index}",
                depth + 1
            )));
        };
        out.push('[');
        for (i, element) in elements.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            match i == at {
                true => self.write(element, depth + 1, out)?,
                false => out.push_str(element.raw),
            }
        }
        if at >= elements.len() {
            check_count(at)?;
            for i in elements.len()..=at {
                if i > 0 {
                    out.push_str(", ");
                }
                match i == at {
                    true => self.make(depth + 1, out)?,
                    false => out.push_str("null"),
                }
            }
        }
        out.push(']');
        Ok(())
    }

    /// Appends the new value with the missing path from `depth` on.
    fn make(&self, depth: usize, out: &mut String) -> Result<(), SqlError> {
        let mut closing = Vec::new();
        for step in self.path.iter().skip(depth) {
            match step.trim_start().parse::<i32>() {
                Ok(at) => {
                    let nulls = usize::try_from(at).unwrap_or(0);
                    check_count(nulls)?;
                    out.push('[');
                    out.push_str(&"null, ".repeat(nulls));
                    closing.push(']');
                }
                Err(_) => {
                    out.push('{');
                    json::quote(step, out);
                    out.push_str(": ");
                    closing.push('}');
                }
            }
        }
        out.push_str(self.new);
        out.extend(closing.into_iter().rev());
        Ok(())
    }
}

/// Returns error 54000 for too many elements.
fn check_count(elements: usize) -> Result<(), SqlError> {
    match elements >= ELEMENTS_MAX {
        true => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("number of jsonb array elements exceeds the maximum allowed ({ELEMENTS_MAX})"),
        )),
        false => Ok(()),
    }
}
