//! LIKE and ILIKE.
//!
//! The match keeps one fallback, the last `%`, which is enough: what an earlier `%` could still take,
//! the later one can too. So the time is at most text × pattern.

use crate::error::{SqlError, SqlState};

/// The escape character of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeEscape(Option<char>);

impl LikeEscape {
    /// The default.
    pub const BACKSLASH: LikeEscape = LikeEscape(Some('\\'));

    /// From `ESCAPE 'c'`; the empty string means no escape.
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

/// One step of a pattern.
enum Step {
    Any,
    One,
    Char(char),
    End,
}

/// The next step of the pattern and what is left of it.
fn step(pattern: &str, escape: LikeEscape) -> Result<(Step, &str), SqlError> {
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

/// Does the text match the pattern?
pub fn like(
    text: &str,
    pattern: &str,
    escape: LikeEscape,
    insensitive: bool,
) -> Result<bool, SqlError> {
    let equal = |a: char, b: char| a == b || (insensitive && a.to_lowercase().eq(b.to_lowercase()));
    let (mut text, mut pattern) = (text, pattern);
    // Where to go on when the match fails: the text at the last `%` and the pattern behind it.
    let mut fallback: Option<(&str, &str)> = None;
    loop {
        if text.is_empty() {
            // Going back could only leave more text unmatched.
            return Ok(pattern.bytes().all(|b| b == b'%'));
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

/// The text that everything a LIKE pattern matches starts with; for index ranges. The flag tells that
/// the pattern is that text and nothing else.
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
