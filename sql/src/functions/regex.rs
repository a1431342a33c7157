//! Regular expressions: `~` and related operators, `regexp_…`, SIMILAR TO and `substring(… FROM
//! …)`.
//!
//! Patterns are PostgreSQL's advanced regular expressions. `translate` converts them for the
//! `regex-automata` crate, which processes each character a bounded number of times for any
//! pattern. Patterns with back references or lookaround are matched by backtracking (`looking`).
//!
//! The leftmost match wins, and of several leftmost matches the longest, as in POSIX. With a
//! non-greedy quantifier, the match that the pattern prefers wins.

mod compiled;
mod looking;
mod nth;
mod replace;
mod similar;
mod steps;
mod translate;

use compiled::CompiledPattern;

use super::array::seeing_nulls;
use super::library::pure;
use super::rows::RowsFunction;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Array as ArrayKind, Bool, Int4, Text};
use crate::types::{Element, TypeKind};
use crate::value::{Array, Value};

type Outcome = Result<Value, SqlError>;

const TEXTS: TypeKind = ArrayKind(Element::TEXT);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("~", &[Text, Text], Bool, |a, _| matches(a, "", false)),
    pure("~*", &[Text, Text], Bool, |a, _| matches(a, "i", false)),
    pure("!~", &[Text, Text], Bool, |a, _| matches(a, "", true)),
    pure("!~*", &[Text, Text], Bool, |a, _| matches(a, "i", true)),
    pure("like_escape", &[Text, Text], Text, |a, _| like_escaped(text(a, 0)?, text(a, 1)?)),
    pure("similar_to_escape", &[Text], Text, |a, _| {
        Ok(Value::text(similar::translated(text(a, 0)?, Some("\\"))?))
    }),
    pure("similar_to_escape", &[Text, Text], Text, |a, _| {
        Ok(Value::text(similar::translated(text(a, 0)?, Some(text(a, 1)?))?))
    }),
    pure("regexp_like", &[Text, Text], Bool, |a, _| matches(a, "", false)),
    pure("regexp_like", &[Text, Text, Text], Bool, |a, _| matches(a, text(a, 2)?, false)),
    pure("regexp_match", &[Text, Text], TEXTS, |a, _| first_match(a, "")),
    pure("regexp_match", &[Text, Text, Text], TEXTS, |a, _| first_match(a, text(a, 2)?)),
    pure("regexp_replace", &[Text, Text, Text], Text, |a, _| replace::replaced(a, None)),
    pure("regexp_replace", &[Text, Text, Text, Text], Text, |a, _| replace::replaced(a, None)),
    pure("regexp_replace", &[Text, Text, Text, Int4], Text, |a, _| replace::replaced(a, Some(1))),
    pure("regexp_replace", &[Text, Text, Text, Int4, Int4], Text,
        |a, _| replace::replaced(a, Some(1))),
    pure("regexp_replace", &[Text, Text, Text, Int4, Int4, Text], Text,
        |a, _| replace::replaced(a, Some(1))),
    pure("regexp_split_to_array", &[Text, Text], TEXTS, |a, _| split(a, "", "regexp_split_to_array()")),
    pure("regexp_split_to_array", &[Text, Text, Text], TEXTS, |a, _| split(a, text(a, 2)?, "regexp_split_to_array()")),
    pure("regexp_count", &[Text, Text], Int4, |a, _| count(a)),
    pure("regexp_count", &[Text, Text, Int4], Int4, |a, _| count(a)),
    pure("regexp_count", &[Text, Text, Int4, Text], Int4, |a, _| count(a)),
    pure("regexp_substr", &[Text, Text], Text, |a, _| part(text(a, 0)?, text(a, 1)?, false)),
    pure("regexp_substr", &[Text, Text, Int4], Text, |a, _| nth::part(a)),
    pure("regexp_substr", &[Text, Text, Int4, Int4], Text, |a, _| nth::part(a)),
    pure("regexp_substr", &[Text, Text, Int4, Int4, Text], Text, |a, _| nth::part(a)),
    pure("regexp_substr", &[Text, Text, Int4, Int4, Text, Int4], Text, |a, _| nth::part(a)),
    pure("regexp_instr", &[Text, Text], Int4, |a, _| nth::place(a)),
    pure("regexp_instr", &[Text, Text, Int4], Int4, |a, _| nth::place(a)),
    pure("regexp_instr", &[Text, Text, Int4, Int4], Int4, |a, _| nth::place(a)),
    pure("regexp_instr", &[Text, Text, Int4, Int4, Int4], Int4, |a, _| nth::place(a)),
    pure("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text], Int4, |a, _| nth::place(a)),
    pure("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text, Int4], Int4, |a, _| nth::place(a)),
    pure("substring", &[Text, Text], Text, |a, _| part(text(a, 0)?, text(a, 1)?, true)),
    seeing_nulls("similar to", &[Text, Text, Text], Bool, |a, _| match a {
        [Value::Text(input), Value::Text(pattern), Value::Text(escape)] => {
            let pattern = similar::translated(pattern, Some(escape))?;
            Ok(Value::Bool(CompiledPattern::get(&pattern, "")?.is_match(input)?))
        }
        _ => Ok(Value::Null),
    }),
    seeing_nulls("substring similar", &[Text, Text, Text], Text, |a, _| match a {
        [Value::Text(input), Value::Text(pattern), Value::Text(escape)] => {
            let pattern = similar::translated(pattern, Some(escape))?;
            part(input, &pattern, true)
        }
        _ => Ok(Value::Null),
    }),
];

#[rustfmt::skip]
pub(super) static ROWS: &[RowsFunction] = &[
    RowsFunction {
        function: pure("regexp_matches", &[Text, Text], TypeKind::Any, |a, _| all_matches(a, "")),
        columns: &[("", TEXTS)],
    },
    RowsFunction {
        function: pure("regexp_matches", &[Text, Text, Text], TypeKind::Any,
            |a, _| all_matches(a, text(a, 2)?)),
        columns: &[("", TEXTS)],
    },
    RowsFunction {
        function: pure("regexp_split_to_table", &[Text, Text], TEXTS, |a, _| split(a, "", "regexp_split_to_table()")),
        columns: &[("", Text)],
    },
    RowsFunction {
        function: pure("regexp_split_to_table", &[Text, Text, Text], TEXTS, |a, _| {
            split(a, text(a, 2)?, "regexp_split_to_table()")
        }),
        columns: &[("", Text)],
    },
];

fn text(args: &[Value], i: usize) -> Result<&str, SqlError> {
    args.get(i)
        .and_then(Value::as_text)
        .ok_or_else(|| mismatch("a regular expression function"))
}

/// Returns whether a text matches a pattern of a jsonpath.
pub(super) fn is_path_match(text: &str, pattern: &str, flags: &str) -> Result<bool, SqlError> {
    CompiledPattern::get(pattern, flags)?.is_match(text)
}

fn matches(args: &[Value], flags: &str, negated: bool) -> Outcome {
    refuse_global(flags, "regexp_like()")?;
    let found = CompiledPattern::get(text(args, 1)?, flags)?.is_match(text(args, 0)?)?;
    Ok(Value::Bool(found != negated))
}

/// Rejects the flag g in functions that return one match.
///
/// # Errors
/// 22023 if the flag is set.
fn refuse_global(flags: &str, function: &str) -> Result<(), SqlError> {
    if flags.contains('g') {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{function} does not support the \"global\" option"),
        ));
    }
    Ok(())
}

/// Returns the groups of a match, or the whole match if there are none.
fn groups(input: &str, found: &compiled::Match) -> Value {
    let piece = |span: &Option<(usize, usize)>| match span {
        Some((start, end)) => input.get(*start..*end).map_or(Value::Null, Value::text),
        None => Value::Null,
    };
    let spans = &found.spans;
    let groups = if spans.len() > 1 {
        &spans[1..]
    } else {
        &spans[..]
    };
    Array::of(groups.iter().map(piece).collect()).into()
}

fn first_match(args: &[Value], flags: &str) -> Outcome {
    if flags.contains('g') {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_match() does not support the \"global\" option",
        )
        .hint("Use the regexp_matches function instead."));
    }
    let input = text(args, 0)?;
    let found = CompiledPattern::get(text(args, 1)?, flags)?.find(input, 0)?;
    Ok(found.map_or(Value::Null, |found| groups(input, &found)))
}

fn all_matches(args: &[Value], flags: &str) -> Outcome {
    let input = text(args, 0)?;
    let compiled = CompiledPattern::get(text(args, 1)?, flags)?;
    let limit = if flags.contains('g') { usize::MAX } else { 1 };
    let mut all = Vec::new();
    compiled.for_each(input, 0, limit, |found| {
        all.push(groups(input, &found));
        Ok(())
    })?;
    Ok(Array::of(all).into())
}

fn split(args: &[Value], flags: &str, name: &str) -> Outcome {
    refuse_global(flags, name)?;
    let input = text(args, 0)?;
    let compiled = CompiledPattern::get(text(args, 1)?, flags)?;
    let mut pieces = Vec::new();
    let mut from = 0;
    compiled.for_each(input, 0, usize::MAX, |found| {
        let (start, end) = found.whole();
        // A match at the end, or one that ends no later than the previous match, is not a
        // separator.
        if start < input.len() && end > from {
            pieces.push(Value::text(&input[from..start]));
            from = end;
        }
        Ok(())
    })?;
    pieces.push(Value::text(&input[from..]));
    Ok(Array::of(pieces).into())
}

fn count(args: &[Value]) -> Outcome {
    let input = text(args, 0)?;
    let from = match args.get(2) {
        Some(Value::Int4(start)) => replace::start_of(input, *start)?,
        _ => 0,
    };
    let flags = args.get(3).and_then(Value::as_text).unwrap_or("");
    refuse_global(flags, "regexp_count()")?;
    let compiled = CompiledPattern::get(text(args, 1)?, flags)?;
    let count = compiled.for_each(input, from, usize::MAX, |_| Ok(()))?;
    Ok(Value::Int4(count as i32))
}

/// Returns the match of a pattern, or its first group if `group` is set and it has one.
fn part(input: &str, pattern: &str, group: bool) -> Outcome {
    let Some(found) = CompiledPattern::get(pattern, "")?.find(input, 0)? else {
        return Ok(Value::Null);
    };
    let span = match found.spans.get(1) {
        Some(first) if group => *first,
        _ => Some(found.whole()),
    };
    let piece = span.and_then(|(start, end)| input.get(start..end));
    Ok(piece.map_or(Value::Null, Value::text))
}

/// Converts a LIKE pattern with another escape character to one that uses the backslash.
fn like_escaped(pattern: &str, escape: &str) -> Outcome {
    let mut letters = escape.chars();
    let escape = letters.next();
    if letters.next().is_some() {
        return Err(
            SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                .hint("Escape string must be empty or one character."),
        );
    }
    if escape == Some('\\') {
        return Ok(Value::text(pattern));
    }
    let mut made = String::with_capacity(pattern.len());
    let mut escaped = false;
    for letter in pattern.chars() {
        if Some(letter) == escape && !escaped {
            made.push('\\');
            escaped = true;
            continue;
        }
        if letter == '\\' && !escaped {
            made.push('\\');
        }
        made.push(letter);
        escaped = false;
    }
    Ok(Value::text(made))
}
