//! SIMILAR TO: conversion of SQL-standard patterns to regular expressions.

use crate::error::{SqlError, SqlState};

/// Converts a SIMILAR TO pattern to a regular expression. Without an `escape`, the backslash is the
/// escape character.
///
/// In `a#"b#"c` (with `#` as the escape), the part between `#"` is the result of substring.
pub(super) fn translated(pattern: &str, escape: Option<&str>) -> Result<String, SqlError> {
    let escape = match escape {
        None => Some('\\'),
        Some("") => None,
        Some(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => Some(c),
                _ => {
                    let state = SqlState::INVALID_ESCAPE_SEQUENCE;
                    return Err(SqlError::new(state, "invalid escape string")
                        .hint("Escape string must be empty or one character."));
                }
            }
        }
    };
    let mut out = String::from("^(?:");
    let mut after_escape = false;
    let mut in_bracket = false;
    let mut quotes = 0;
    for c in pattern.chars() {
        if after_escape {
            match c {
                '"' if !in_bracket => {
                    // The parts before and after match as little as possible, the middle as much as
                    // possible.
                    out.push_str(match quotes {
                        0 => "){1,1}?(",
                        1 => "){1,1}(?:",
                        _ => return Err(too_many_separators()),
                    });
                    quotes += 1;
                }
                c => {
                    out.push('\\');
                    out.push(c);
                }
            }
            after_escape = false;
        } else if Some(c) == escape {
            after_escape = true;
        } else if in_bracket {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_bracket = c != ']';
        } else {
            match c {
                '[' => {
                    out.push('[');
                    in_bracket = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                // Groups in these patterns capture nothing.
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn too_many_separators() -> SqlError {
    let message =
        "SQL regular expression may not contain more than two escape-double-quote separators";
    SqlError::new(SqlState::new(b"2200C"), message)
}
