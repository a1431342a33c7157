//! The n-th match of a pattern or a group of it: `regexp_substr` and `regexp_instr`.

use super::compiled::CompiledPattern;
use super::replace::{refused, start_of};
use super::{Outcome, refuse_global, text};
use crate::error::SqlError;
use crate::value::Value;

fn number(args: &[Value], at: usize) -> Option<i32> {
    match args.get(at) {
        Some(Value::Int4(number)) => Some(*number),
        _ => None,
    }
}

/// Returns the byte range of the requested group of the requested match.
fn span(
    args: &[Value],
    (flags, group): (usize, usize),
    function: &str,
) -> Result<Option<(usize, usize)>, SqlError> {
    let (input, pattern) = (text(args, 0)?, text(args, 1)?);
    let start = number(args, 2).unwrap_or(1);
    let from = start_of(input, start)?;
    let nth = number(args, 3).unwrap_or(1);
    let nth = match usize::try_from(nth) {
        Ok(nth @ 1..) => nth,
        _ => return Err(refused("n", nth)),
    };
    let group = number(args, group).unwrap_or(0);
    let group = usize::try_from(group).map_err(|_| refused("subexpr", group))?;
    let flags = args.get(flags).and_then(Value::as_text).unwrap_or("");
    refuse_global(flags, function)?;
    let mut last = None;
    let compiled = CompiledPattern::get(pattern, flags)?;
    let count = compiled.for_each(input, from, nth, |found| {
        last = Some(found);
        Ok(())
    })?;
    let found = last.filter(|_| count == nth);
    Ok(found.and_then(|found| {
        // Without groups, group 1 is the whole match.
        let whole = group == 1 && found.spans.len() == 1;
        let group = if whole { 0 } else { group };
        found.spans.get(group).copied().flatten()
    }))
}

/// Evaluates `regexp_substr(text, pattern, start, n, flags, group)`.
pub(super) fn part(args: &[Value]) -> Outcome {
    let span = span(args, (4, 5), "regexp_substr()")?;
    let piece = span.and_then(|(start, end)| text(args, 0).ok()?.get(start..end));
    Ok(piece.map_or(Value::Null, Value::text))
}

/// Evaluates `regexp_instr(text, pattern, start, n, endoption, flags, group)`.
pub(super) fn place(args: &[Value]) -> Outcome {
    let behind = number(args, 4).unwrap_or(0);
    if behind != 0 && behind != 1 {
        return Err(refused("endoption", behind));
    }
    let span = span(args, (5, 6), "regexp_instr()")?;
    let place = span.map(|(start, end)| if behind == 1 { end } else { start });
    let before = place.and_then(|place| text(args, 0).ok()?.get(..place));
    Ok(Value::Int4(
        before.map_or(0, |before| before.chars().count() as i32 + 1),
    ))
}
