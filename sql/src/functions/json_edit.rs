//! Changes of jsonb: `|| - #-`, `jsonb_set`, `jsonb_insert`, strip_nulls and pretty-printing.

use super::array::seeing_nulls;
use super::json::{document, of_text, refused, text_of};
use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Array as ArrayKind, Bool, Int4, Json as JsonKind, Jsonb, Text};
use crate::types::json::{self, Json, Kind, parse};
use crate::types::{Element, TypeKind};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

const TEXTS: TypeKind = ArrayKind(Element::TEXT);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("||", &[Jsonb, Jsonb], Jsonb, |a, _| concatenated(a)),
    pure("-", &[Jsonb, Text], Jsonb, |a, _| match a {
        [Value::Jsonb(text), Value::Text(key)] =>
            without(text, std::slice::from_ref(&key.as_str())),
        _ => Err(mismatch("-")),
    }),
    pure("-", &[Jsonb, TEXTS], Jsonb, |a, _| match a {
        [Value::Jsonb(text), Value::Array(keys)] => {
            let keys: Vec<&str> = keys.values.iter().filter_map(Value::as_text).collect();
            without(text, &keys)
        }
        _ => Err(mismatch("-")),
    }),
    pure("-", &[Jsonb, Int4], Jsonb, |a, _| match a {
        [Value::Jsonb(text), Value::Int4(index)] => without_element(text, *index),
        _ => Err(mismatch("-")),
    }),
    pure("#-", &[Jsonb, TEXTS], Jsonb, |a, _| edited(a, Change::Delete)),
    pure("jsonb_set", &[Jsonb, TEXTS, Jsonb], Jsonb,
        |a, _| edited(a, Change::Set { create: true })),
    pure("jsonb_set", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, |a, _| {
        edited(a, Change::Set { create: a.get(3) == Some(&Value::Bool(true)) })
    }),
    seeing_nulls("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb], Jsonb, |a, _| set_lax(a)),
    seeing_nulls("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, |a, _| set_lax(a)),
    seeing_nulls("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Bool, Text], Jsonb, |a, _| set_lax(a)),
    pure("jsonb_insert", &[Jsonb, TEXTS, Jsonb], Jsonb,
        |a, _| edited(a, Change::Insert { after: false })),
    pure("jsonb_insert", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, |a, _| {
        edited(a, Change::Insert { after: a.get(3) == Some(&Value::Bool(true)) })
    }),
    pure("jsonb_strip_nulls", &[Jsonb], Jsonb, |a, _| stripped(a)),
    pure("json_strip_nulls", &[JsonKind], JsonKind, |a, _| stripped(a)),
    pure("jsonb_pretty", &[Jsonb], Text, |a, _| {
        let mut out = String::new();
        pretty(&document(a)?, 0, &mut out);
        Ok(Value::text(out))
    }),
];

fn array(elements: &[&str]) -> Value {
    Value::Jsonb(format!("[{}]", elements.join(", ")).into())
}

/// Creates an object from keys and texts of values; the last of equal keys wins.
fn object<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Outcome {
    let mut text = String::from("{");
    for (i, (key, value)) in pairs.enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        json::quote(key, &mut text);
        text.push_str(": ");
        text.push_str(value);
    }
    text.push('}');
    Ok(Value::Jsonb(json::normal(&text)?.into()))
}

fn concatenated(args: &[Value]) -> Outcome {
    let [Value::Jsonb(a), Value::Jsonb(b)] = args else {
        return Err(mismatch("||"));
    };
    let (a, b) = (parse(a)?, parse(b)?);
    if let (Kind::Object(first), Kind::Object(second)) = (&a.is, &b.is) {
        let pairs = first.iter().chain(second);
        return object(pairs.map(|(key, value)| (&**key, value.raw)));
    }
    let mut elements = Vec::new();
    for side in [&a, &b] {
        match &side.is {
            Kind::Array(parts) => elements.extend(parts.iter().map(|part| part.raw)),
            _ => elements.push(side.raw),
        }
    }
    Ok(array(&elements))
}

fn without(text: &str, keys: &[&str]) -> Outcome {
    match &parse(text)?.is {
        Kind::Object(pairs) => {
            let kept = pairs.iter().filter(|(key, _)| !keys.contains(&&**key));
            object(kept.map(|(key, value)| (&**key, value.raw)))
        }
        Kind::Array(elements) => {
            let goes = |e: &&Json<'_>| matches!(&e.is, Kind::Text(t) if keys.contains(&&**t));
            let kept: Vec<&str> = elements
                .iter()
                .filter(|e| !goes(e))
                .map(|e| e.raw)
                .collect();
            Ok(array(&kept))
        }
        _ => Err(refused("cannot delete from scalar")),
    }
}

fn without_element(text: &str, index: i32) -> Outcome {
    match &parse(text)?.is {
        Kind::Array(elements) => {
            let place = place(i64::from(index), elements.len());
            let kept = elements.iter().enumerate().filter(|(i, _)| Ok(*i) != place);
            let kept: Vec<&str> = kept.map(|(_, e)| e.raw).collect();
            Ok(array(&kept))
        }
        Kind::Object(_) => Err(refused("cannot delete from object using integer index")),
        _ => Err(refused("cannot delete from scalar")),
    }
}

/// Returns the position for an index, which counts from the end if it is negative. The error tells
/// whether the index is beyond the end.
fn place(index: i64, len: usize) -> Result<usize, bool> {
    let at = if index < 0 { index + len as i64 } else { index };
    match usize::try_from(at) {
        Ok(at) if at < len => Ok(at),
        Ok(_) => Err(true),
        Err(_) => Err(false),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Set { create: bool },
    Insert { after: bool },
    Delete,
}

/// Evaluates jsonb_set_lax: jsonb_set with a choice of how to treat a NULL value.
fn set_lax(args: &[Value]) -> Outcome {
    let [target, path, new, rest @ ..] = args else {
        return Err(mismatch("jsonb_set_lax"));
    };
    if target.is_null() || path.is_null() || rest.first().is_some_and(Value::is_null) {
        return Ok(Value::Null);
    }
    let create = rest.first().and_then(Value::as_bool) != Some(false);
    let treatment = match rest.get(1) {
        None => "use_json_null",
        Some(treatment) => treatment.as_text().unwrap_or_default(),
    };
    let known = [
        "delete_key",
        "return_target",
        "use_json_null",
        "raise_exception",
    ];
    if !known.contains(&treatment) && (new.is_null() || treatment.is_empty()) {
        return Err(refused(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", \
             or \"raise_exception\"",
        ));
    }
    let both = [target.clone(), path.clone(), new.clone()];
    if !new.is_null() {
        return edited(&both, Change::Set { create });
    }
    match treatment {
        "delete_key" => edited(&both[..2], Change::Delete),
        "return_target" => Ok(target.clone()),
        "raise_exception" => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "JSON value must not be null",
        )
        .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
        .hint(
            "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL \
             is not passed.",
        )),
        _ => edited(&both, Change::Set { create }),
    }
}

fn edited(args: &[Value], change: Change) -> Outcome {
    let [Value::Jsonb(target), Value::Array(path), rest @ ..] = args else {
        return Err(mismatch("a change of jsonb"));
    };
    let new = match rest.first() {
        Some(Value::Jsonb(new)) => new.as_str(),
        _ => "null",
    };
    if path.dims.len() > 1 {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        ));
    }
    let json = parse(target)?;
    if !matches!(json.is, Kind::Array(_) | Kind::Object(_)) {
        return Err(refused(match change {
            Change::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    if path.values.is_empty() {
        return Ok(Value::Jsonb(target.clone()));
    }
    let mut steps = Vec::with_capacity(path.values.len());
    for (i, step) in path.values.iter().enumerate() {
        match step {
            Value::Text(step) => steps.push(step.as_str()),
            _ => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    format!("path element at position {} is null", i + 1),
                ));
            }
        }
    }
    let mut out = String::with_capacity(target.len() + new.len());
    let edit = Edit {
        steps: &steps,
        new,
        change,
    };
    edit.write(&json, 0, &mut out)?;
    Ok(Value::Jsonb(json::normal(&out)?.into()))
}

struct Edit<'a> {
    steps: &'a [&'a str],
    new: &'a str,
    change: Change,
}

impl Edit<'_> {
    /// Appends an element that is `depth` steps down the path.
    fn write(&self, json: &Json<'_>, depth: usize, out: &mut String) -> Result<(), SqlError> {
        let Some(step) = self.steps.get(depth) else {
            out.push_str(json.raw);
            return Ok(());
        };
        let last = depth + 1 == self.steps.len();
        match &json.is {
            Kind::Object(pairs) => {
                let mut parts = Vec::with_capacity(pairs.len() + 1);
                let known = json.get(step).is_some();
                if known && last && matches!(self.change, Change::Insert { .. }) {
                    return Err(refused("cannot replace existing key")
                        .hint("Try using the function jsonb_set to replace key value."));
                }
                for (key, value) in pairs {
                    let mut text = String::new();
                    if key == step {
                        if last && self.change == Change::Delete {
                            continue;
                        }
                        match last {
                            true => text.push_str(self.new),
                            false => self.write(value, depth + 1, &mut text)?,
                        }
                    } else {
                        text.push_str(value.raw);
                    }
                    let mut part = String::new();
                    json::quote(key, &mut part);
                    parts.push(format!("{part}: {text}"));
                }
                let adds = !matches!(self.change, Change::Delete | Change::Set { create: false });
                if !known && last && adds {
                    let mut part = String::new();
                    json::quote(step, &mut part);
                    parts.push(format!("{part}: {}", self.new));
                }
                out.push_str(&format!("{{{}}}", parts.join(", ")));
            }
            Kind::Array(elements) => {
                let index: i32 = step.trim_start().parse().map_err(|_| {
                    SqlError::new(
                        SqlState::INVALID_TEXT_REPRESENTATION,
                        format!(
                            "path element at position {} is not an integer: \"{step}\"",
                            depth + 1
                        ),
                    )
                })?;
                let at = place(i64::from(index), elements.len());
                let mut parts: Vec<String> = elements.iter().map(|e| e.raw.to_owned()).collect();
                match (at, last, self.change) {
                    (Ok(at), false, _) => {
                        parts[at].clear();
                        self.write(&elements[at], depth + 1, &mut parts[at])?;
                    }
                    (Err(_), false, _) => {}
                    (Ok(at), true, Change::Delete) => {
                        parts.remove(at);
                    }
                    (Ok(at), true, Change::Set { .. }) => self.new.clone_into(&mut parts[at]),
                    (Ok(at), true, Change::Insert { after }) => {
                        parts.insert(at + usize::from(after), self.new.to_owned());
                    }
                    (Err(_), true, Change::Delete | Change::Set { create: false }) => {}
                    (Err(true), true, _) => parts.push(self.new.to_owned()),
                    (Err(false), true, _) => parts.insert(0, self.new.to_owned()),
                }
                out.push_str(&format!("[{}]", parts.join(", ")));
            }
            _ => out.push_str(json.raw),
        }
        Ok(())
    }
}

fn stripped(args: &[Value]) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let mut out = String::with_capacity(text.len());
    strip(&parse(text)?, binary, &mut out);
    Ok(of_text(&out, binary))
}

/// Appends a document without the keys whose values are null.
fn strip(json: &Json<'_>, binary: bool, out: &mut String) {
    let (comma, colon) = if binary { (", ", ": ") } else { (",", ":") };
    match &json.is {
        Kind::Object(pairs) => {
            out.push('{');
            let kept = pairs.iter().filter(|(_, v)| !matches!(v.is, Kind::Null));
            for (i, (key, value)) in kept.enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                json::quote(key, out);
                out.push_str(colon);
                strip(value, binary, out);
            }
            out.push('}');
        }
        Kind::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                strip(element, binary, out);
            }
            out.push(']');
        }
        _ => out.push_str(json.raw),
    }
}

/// Appends a document with each element on its own line.
fn pretty(json: &Json<'_>, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&"    ".repeat(depth));
    };
    match &json.is {
        Kind::Object(pairs) => {
            out.push('{');
            for (i, (key, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(depth + 1, out);
                json::quote(key, out);
                out.push_str(": ");
                pretty(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        Kind::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(depth + 1, out);
                pretty(element, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        _ => out.push_str(json.raw),
    }
}
