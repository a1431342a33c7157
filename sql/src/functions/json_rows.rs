//! Rows from JSON objects: `json_populate_record`, `json_to_recordset` and similar functions.
//!
//! A field takes the value of the key with its name, converted by way of text. An object or an
//! array becomes a document, a row or an array, depending on the field's type; a string becomes its
//! contents. If the key is missing, the field keeps its value in the given row, or is NULL.

use super::json::{refused, text_of};
use super::library::variadic;
use super::{ScalarFunction, check_domain, mismatch};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{self, Any};
use crate::types::json::{Json, Kind, parse};
use crate::types::{DIMENSIONS_MAX, Fields, Type, text_in, too_many_dimensions};
use crate::value::{Array, Dimension, Record, Value};

type Outcome = Result<Value, SqlError>;

/// Converts an object to a row. The arguments are a row that determines the type, a row of default
/// values or NULL, the object, and the function's name for messages.
pub static JSON_RECORD: ScalarFunction = stable("json record", |a, cx| match a {
    [Value::Record(_), base, Value::Null, Value::Text(_)] => Ok(base.clone()),
    [Value::Record(shape), base, json, Value::Text(name)] => {
        let of = CallContext { name, cx };
        of.row(&shape.fields, base, &parse(text_of(Some(json))?.0)?)
    }
    _ => Err(mismatch("a row of JSON")),
});

/// Converts an array of objects to an array of rows; NULL gives none.
pub static JSON_RECORDS: ScalarFunction = stable("json records", |a, cx| match a {
    [Value::Record(_), _, Value::Null, Value::Text(_)] => Ok(Array::default().into()),
    [Value::Record(shape), base, json, Value::Text(name)] => {
        let (text, binary) = text_of(Some(json))?;
        let json = parse(text)?;
        let Kind::Array(elements) = &json.is else {
            return Err(refused(match (&json.is, binary) {
                (_, true) => format!("cannot call {name} on a non-array"),
                (Kind::Object(_), false) => format!("cannot call {name} on an object"),
                (_, false) => format!("cannot call {name} on a scalar"),
            }));
        };
        let of = CallContext { name, cx };
        let mut rows = Vec::with_capacity(elements.len());
        for element in elements {
            if !matches!(element.is, Kind::Object(_)) {
                return Err(refused(format!(
                    "argument of {name} must be an array of objects"
                )));
            }
            rows.push(of.row(&shape.fields, base, element)?);
        }
        Ok(Array::of(rows).into())
    }
    _ => Err(mismatch("rows of JSON")),
});

const fn stable(name: &'static str, eval: super::library::Body) -> ScalarFunction {
    ScalarFunction {
        volatility: Volatility::Stable,
        ..variadic(name, &[Any], Any, eval)
    }
}

/// The conversion context of one call.
struct CallContext<'a> {
    /// The name of the function.
    name: &'a str,
    cx: &'a EvalContext,
}

/// An array under construction. Its number of dimensions is known once an element is not an array.
struct ArrayBuilder<'a> {
    key: &'a str,
    element: Type,
    dims: Vec<Option<usize>>,
    depth: Option<usize>,
    values: Vec<Value>,
}

impl CallContext<'_> {
    fn row(&self, fields: &Fields, base: &Value, json: &Json<'_>) -> Outcome {
        let what = match json.is {
            Kind::Object(_) => None,
            Kind::Array(_) => Some("an array"),
            _ => Some("a scalar"),
        };
        if let Some(what) = what {
            return Err(refused(format!("cannot call {} on {what}", self.name)));
        }
        let given = match base {
            Value::Record(row) => Some(row),
            _ => None,
        };
        let mut values = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            let before = given.map_or(&Value::Null, |row| row.get(at));
            values.push(match json.get(&field.name) {
                None if given.is_some() => before.clone(),
                None => self.null(field.ty)?,
                Some(json) => self.value(field.ty, before, json, &field.name)?,
            });
        }
        Ok(Record::new(fields.clone(), values).into())
    }

    /// Returns NULL after checking the domain's constraints.
    fn null(&self, ty: Type) -> Outcome {
        if let TypeKind::Domain(domain) = ty.kind {
            check_domain(domain, &Value::Null, self.cx)?;
        }
        Ok(Value::Null)
    }

    fn value(&self, ty: Type, before: &Value, json: &Json<'_>, key: &str) -> Outcome {
        if let TypeKind::Domain(domain) = ty.kind {
            let value = self.value(domain.root(), before, json, key)?;
            check_domain(domain, &value, self.cx)?;
            return Ok(value);
        }
        match (&json.is, ty.kind) {
            (Kind::Null, _) => Ok(Value::Null),
            (_, TypeKind::Json | TypeKind::Jsonb) => text_in(&ty, json.raw, &self.cx.settings),
            (Kind::Text(text), _) => text_in(&ty, text, &self.cx.settings),
            (_, TypeKind::Composite(of)) => self.row(&Fields::Named(of), before, json),
            (_, TypeKind::Array(_)) => self.array(ty, json, key),
            _ => text_in(&ty, json.raw, &self.cx.settings),
        }
    }

    fn array(&self, ty: Type, json: &Json<'_>, key: &str) -> Outcome {
        let mut gathered = ArrayBuilder {
            key,
            element: ty.element().unwrap_or(Type::TEXT),
            dims: Vec::new(),
            depth: None,
            values: Vec::new(),
        };
        self.gather(&mut gathered, json, &mut Vec::new())?;
        if gathered.values.is_empty() {
            return Ok(Array::default().into());
        }
        let dim = |len: &Option<usize>| Dimension {
            len: len.unwrap_or(0) as i32,
            lower: 1,
        };
        Ok(Array {
            dims: gathered.dims.iter().map(dim).collect(),
            values: gathered.values,
        }
        .into())
    }

    /// Adds the elements of an array. `path` is its position in the enclosing arrays.
    fn gather(
        &self,
        to: &mut ArrayBuilder<'_>,
        json: &Json<'_>,
        path: &mut Vec<usize>,
    ) -> Result<(), SqlError> {
        let Kind::Array(elements) = &json.is else {
            return Err(no_array(to.key, path));
        };
        let level = path.len();
        if level >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(level + 1));
        }
        if to.dims.len() <= level {
            to.dims.push(None);
        }
        let deeper = elements
            .first()
            .is_some_and(|first| matches!(first.is, Kind::Array(_)));
        if !deeper {
            to.depth.get_or_insert(level + 1);
        }
        for (i, element) in elements.iter().enumerate() {
            if to.depth == Some(level + 1) {
                let value = self.value(to.element, &Value::Null, element, to.key)?;
                to.values.push(value);
                continue;
            }
            path.push(i);
            self.gather(to, element, path)?;
            path.pop();
        }
        match &mut to.dims[level] {
            Some(known) if *known != elements.len() => Err(SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                "malformed JSON array",
            )
            .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")),
            known => {
                *known = Some(elements.len());
                Ok(())
            }
        }
    }
}

/// Returns error 22P02.
fn no_array(key: &str, path: &[usize]) -> SqlError {
    let error = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array");
    let places: String = path.iter().map(|at| format!("[{at}]")).collect();
    error.hint(match places.is_empty() {
        true => format!("See the value of key \"{key}\"."),
        false => format!("See the array element {places} of key \"{key}\"."),
    })
}
