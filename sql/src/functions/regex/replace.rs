//! regexp_replace.

use super::compiled::{CompiledPattern, Match};
use super::{Outcome, text};
use crate::error::{SqlError, SqlState};
use crate::functions::long::{VALUE_BYTES_MAX, too_long};
use crate::value::Value;

/// Returns the byte offset of the `start`-th character.
pub(super) fn start_of(input: &str, start: i32) -> Result<usize, SqlError> {
    match usize::try_from(start) {
        Ok(nth @ 1..) => Ok(input.char_indices().nth(nth - 1).map_or(
            input.len() + usize::from(nth > input.chars().count() + 1),
            |(at, _)| at,
        )),
        _ => Err(refused("start", start)),
    }
}

pub(super) fn refused(what: &str, value: i32) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{what}\": {value}"),
    )
}

/// Evaluates regexp_replace. The arguments are text, pattern, replacement and flags. With an `nth`,
/// they are text, pattern, replacement, start, the number of the match, and flags.
pub(super) fn replaced(args: &[Value], nth: Option<usize>) -> Outcome {
    let (input, pattern, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let (flags, from, nth) = match nth {
        None => {
            let flags = args.get(3).and_then(Value::as_text).unwrap_or("");
            if flags.starts_with(|c: char| c.is_ascii_digit()) {
                let first = flags.chars().next().unwrap_or_default();
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid regular expression option: \"{first}\""),
                )
                .hint(
                    "If you meant to use regexp_replace() with a start parameter, cast the \
                     fourth argument to integer explicitly.",
                ));
            }
            let nth = if flags.contains('g') { 0 } else { 1 };
            (flags, 0, nth)
        }
        Some(_) => {
            let from = match args.get(3) {
                Some(Value::Int4(start)) => start_of(input, *start)?,
                _ => 0,
            };
            let flags = args.get(5).and_then(Value::as_text).unwrap_or("");
            let nth = match args.get(4) {
                Some(Value::Int4(nth)) => usize::try_from(*nth).map_err(|_| refused("n", *nth))?,
                _ if flags.contains('g') => 0,
                _ => 1,
            };
            (flags, from, nth)
        }
    };
    let compiled = CompiledPattern::get(pattern, flags)?;
    let limit = if nth == 0 { usize::MAX } else { nth };
    let mut out = String::with_capacity(input.len());
    let mut copied = 0;
    let mut count = 0;
    compiled.for_each(input, from, limit, |found| {
        count += 1;
        if nth != 0 && count != nth {
            return Ok(());
        }
        let (start, end) = found.whole();
        out.push_str(&input[copied..start]);
        filled(new, input, &found, &mut out);
        copied = end;
        match out.len() > VALUE_BYTES_MAX {
            true => Err(too_long()),
            false => Ok(()),
        }
    })?;
    out.push_str(&input[copied..]);
    Ok(Value::text(out))
}

/// Appends a replacement: `\1` is the first group, `\&` the match, `\\` a backslash.
fn filled(new: &str, input: &str, found: &Match, out: &mut String) {
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.next() {
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('&') => 0,
            Some('\\') | None => {
                out.push('\\');
                continue;
            }
            Some(other) => {
                out.push('\\');
                out.push(other);
                continue;
            }
        };
        if let Some(Some((start, end))) = found.spans.get(group) {
            out.push_str(&input[*start..*end]);
        }
    }
}
