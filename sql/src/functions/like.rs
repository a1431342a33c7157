//! LIKE and ILIKE.
//!
//! The match keeps one fallback, the last `%`. One is enough: a later `%` can match everything that
//! an earlier one could still match. The time is therefore at most text × pattern.

use crate::error::{SqlError, SqlState};

/// The escape character of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeEscape(Option<char>);

impl LikeEscape {
    /// The default escape character.
    pub const BACKSLASH: LikeEscape = LikeEscape(Some('\\'));

    /// Returns the escape character of `ESCAPE 'c'`; the empty string means no escape.
    ///
    /// # Errors
    /// 22025 if the text is longer than one character.
    pub fn from_text(text: &str) -> Result<LikeEscape, SqlError> {
        let mut chars = text.chars();
        let escape = chars.next();
        if chars.next().is_some() {
            return Err(
                SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                    .hint("Escape string must be empty or one character."),
            );
        }
        Ok(LikeEscape(escape))
    }
}

/// An element of a pattern.
pub(super) enum Step {
    Any,
    One,
    Char(char),
    End,
}

/// Returns the next element of the pattern and the rest of it.
pub(super) fn step(pattern: &str, escape: LikeEscape) -> Result<(Step, &str), SqlError> {
    let mut chars = pattern.chars();
    let Some(c) = chars.next() else {
        return Ok((Step::End, ""));
    };
    if Some(c) == escape.0 {
        return match chars.next() {
            Some(literal) => Ok((Step::Char(literal), chars.as_str())),
            None => Err(SqlError::new(
                SqlState::INVALID_ESCAPE_SEQUENCE,
                "LIKE pattern must not end with escape character",
            )),
        };
    }
    let step = match c {
        '%' => Step::Any,
        '_' => Step::One,
        c => Step::Char(c),
    };
    Ok((step, chars.as_str()))
}

/// Returns whether the text matches the pattern.
pub fn like(
    text: &str,
    pattern: &str,
    escape: LikeEscape,
    insensitive: bool,
) -> Result<bool, SqlError> {
    let equal = |a: char, b: char| a == b || (insensitive && a.to_lowercase().eq(b.to_lowercase()));
    let (mut text, mut pattern) = (text, pattern);
    // The fallback after a mismatch: the text at the last `%` and the pattern after it.
    let mut fallback: Option<(&str, &str)> = None;
    loop {
        if text.is_empty() {
            // The fallback would leave even more text unmatched.
            let any = |c: char| c == '%' && escape.0 != Some('%');
            return Ok(pattern.chars().all(any));
        }
        let (next, behind) = step(pattern, escape)?;
        let mut chars = text.chars();
        let matched = match next {
            Step::Any => {
                if behind.is_empty() {
                    return Ok(true);
                }
                fallback = Some((text, behind));
                pattern = behind;
                continue;
            }
            Step::One => chars.next().is_some(),
            Step::Char(c) => chars.next().is_some_and(|t| equal(t, c)),
            Step::End => false,
        };
        if matched {
            text = chars.as_str();
            pattern = behind;
            continue;
        }
        let Some((from, behind)) = fallback else {
            return Ok(false);
        };
        let mut chars = from.chars();
        if chars.next().is_none() {
            return Ok(false);
        }
        text = chars.as_str();
        pattern = behind;
        fallback = Some((text, behind));
    }
}

/// Returns the common prefix of all texts that match a LIKE pattern, for index ranges. The flag
/// tells whether the pattern consists of that prefix only.
pub fn like_prefix(pattern: &str, escape: LikeEscape) -> (String, bool) {
    let mut prefix = String::new();
    let mut rest = pattern;
    loop {
        match step(rest, escape) {
            Ok((Step::Char(c), behind)) => {
                prefix.push(c);
                rest = behind;
            }
            Ok((Step::End, _)) => return (prefix, true),
            _ => return (prefix, false),
        }
    }
}
