//! Regular expressions: `~`, `~*` and what negates them.
//!
//! Patterns are PostgreSQL's advanced ones, put into the syntax of the crate that runs them, in time linear in the text.
//! What has no such translation, back references and looking around, answers 0A000. Compiled patterns are kept by the
//! thread that used them last.

use std::cell::RefCell;

use regex::{Regex, RegexBuilder};

use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Bool, Text};
use crate::value::Value;

/// Compiled patterns that a thread keeps.
const KEPT: usize = 32;
/// The most memory that a compiled pattern takes.
const SIZE_MAX: usize = 1 << 20;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("~", &[Text, Text], Bool, |a, _| matches(a, false, false)),
    pure("~*", &[Text, Text], Bool, |a, _| matches(a, true, false)),
    pure("!~", &[Text, Text], Bool, |a, _| matches(a, false, true)),
    pure("!~*", &[Text, Text], Bool, |a, _| matches(a, true, true)),
    pure("textregexeq", &[Text, Text], Bool, |a, _| matches(a, false, false)),
    pure("textregexne", &[Text, Text], Bool, |a, _| matches(a, false, true)),
];

fn matches(args: &[Value], any_case: bool, negated: bool) -> Result<Value, SqlError> {
    let [Value::Text(text), Value::Text(pattern)] = args else {
        return Err(mismatch("a regular expression"));
    };
    let found = with_regex(pattern, any_case, |regex| regex.is_match(text))?;
    Ok(Value::Bool(found != negated))
}

/// Runs `f` with a pattern, compiled.
pub(super) fn with_regex<T>(
    pattern: &str,
    any_case: bool,
    f: impl FnOnce(&Regex) -> T,
) -> Result<T, SqlError> {
    thread_local! {
        /// The one used last is the last.
        static COMPILED: RefCell<Vec<(String, bool, Regex)>> = const { RefCell::new(Vec::new()) };
    }
    COMPILED.with_borrow_mut(|kept| {
        let known = kept
            .iter()
            .rposition(|(of, any, _)| of == pattern && *any == any_case);
        let entry = match known {
            Some(at) => kept.remove(at),
            None => (pattern.to_owned(), any_case, compile(pattern, any_case)?),
        };
        if kept.len() == KEPT {
            kept.remove(0);
        }
        let done = f(&entry.2);
        kept.push(entry);
        Ok(done)
    })
}

fn compile(pattern: &str, any_case: bool) -> Result<Regex, SqlError> {
    let translated = translate(pattern)?;
    let mut builder = RegexBuilder::new(&translated);
    // A dot takes line breaks, too.
    builder
        .case_insensitive(any_case)
        .dot_matches_new_line(true);
    builder.size_limit(SIZE_MAX).build().map_err(|error| {
        let why = match error {
            regex::Error::CompiledTooBig(_) => "regular expression is too complex".to_owned(),
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
        };
        invalid(&why)
    })
}

fn invalid(why: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {why}"),
    )
}

/// A pattern of PostgreSQL's in the crate's syntax.
fn translate(pattern: &str) -> Result<String, SqlError> {
    if let Some(literal) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_brackets = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, in_brackets, &mut out)?,
            '[' if !in_brackets => {
                in_brackets = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // The first one is itself.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if matches!(chars.peek(), Some(':')) => class(&mut chars, &mut out)?,
            '[' if matches!(chars.peek(), Some('.' | '=')) => {
                return Err(SqlError::unsupported(
                    "a collating element in a regular expression",
                ));
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            // What means something in the crate's brackets, and nothing in PostgreSQL's.
            '[' | '&' | '~' if in_brackets => {
                out.push('\\');
                out.push(c);
            }
            '(' if !in_brackets && chars.next_if_eq(&'?').is_some() => match chars.next() {
                Some(':') => out.push_str("(?:"),
                Some('=' | '!' | '<') => {
                    return Err(SqlError::unsupported(
                        "looking around in a regular expression",
                    ));
                }
                _ => return Err(invalid("quantifier operand invalid")),
            },
            other => out.push(other),
        }
    }
    match in_brackets {
        true => Err(invalid("brackets [] not balanced")),
        false => Ok(out),
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// `[:alpha:]` and its kin, behind the bracket.
fn class(chars: &mut Chars<'_>, out: &mut String) -> Result<(), SqlError> {
    let name: String = chars.by_ref().take_while(|c| *c != ']').collect();
    let known = name
        .strip_prefix(':')
        .and_then(|name| name.strip_suffix(':'));
    const NAMES: [&str; 13] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "xdigit",
    ];
    match known {
        Some(name) if NAMES.contains(&name) => {
            out.push_str("[:");
            out.push_str(name);
            out.push_str(":]");
            Ok(())
        }
        _ => Err(invalid("invalid character class")),
    }
}

fn escape(chars: &mut Chars<'_>, in_brackets: bool, out: &mut String) -> Result<(), SqlError> {
    let Some(c) = chars.next() else {
        return Err(invalid("invalid escape \\ sequence"));
    };
    match c {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 'r' | 't' | 'f' | 'v' | 'a' => {
            out.push('\\');
            out.push(c);
        }
        'e' => out.push_str("\\x1b"),
        'b' => out.push_str("\\x08"),
        'B' => out.push_str("\\\\"),
        'm' if !in_brackets => out.push_str("\\b{start}"),
        'M' if !in_brackets => out.push_str("\\b{end}"),
        'y' if !in_brackets => out.push_str("\\b"),
        'Y' if !in_brackets => out.push_str("\\B"),
        'A' if !in_brackets => out.push_str("\\A"),
        'Z' if !in_brackets => out.push_str("\\z"),
        'u' => digits(chars, 4, out)?,
        'U' => digits(chars, 8, out)?,
        'x' => digits(chars, 2, out)?,
        '1'..='9' if !in_brackets => {
            return Err(SqlError::unsupported(
                "a back reference in a regular expression",
            ));
        }
        c if c.is_ascii_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
        c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
    }
    Ok(())
}

/// A character by its number.
fn digits(chars: &mut Chars<'_>, count: usize, out: &mut String) -> Result<(), SqlError> {
    let mut number = String::new();
    while number.len() < count
        && let Some(digit) = chars.next_if(char::is_ascii_hexdigit)
    {
        number.push(digit);
    }
    match number.is_empty() {
        true => Err(invalid("invalid escape \\ sequence")),
        false => {
            out.push_str("\\x{");
            out.push_str(&number);
            out.push('}');
            Ok(())
        }
    }
}
