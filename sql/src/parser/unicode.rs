//! Literals and names with Unicode escapes: `U&'d\0061t'`, `U&"d!0061t" UESCAPE '!'`. sqlparser
//! reads neither such names nor UESCAPE. Each is replaced by its form without escapes, which is
//! never longer.

use std::ops::Range;

use super::lexer::{Kind, Token, position};
use crate::error::{SqlError, SqlState};

/// Returns the byte ranges to replace and their replacements.
pub(super) fn literals(
    text: &str,
    tokens: &[Token],
) -> Result<Vec<(Range<usize>, String)>, SqlError> {
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let Some(inner) = escaped(token, text) else {
            continue;
        };
        let said = tokens.get(i + 1).filter(|next| next.is(text, "uescape"));
        let (escape, end) = match said {
            Some(_) => escape_character(text, tokens.get(i + 2))?,
            None => ('\\', token.end),
        };
        let quote = if token.kind == Kind::QuotedIdent {
            '"'
        } else {
            '\''
        };
        let plain = decoded(text, inner, (quote, escape))?;
        found.push((token.start..end, format!("{quote}{plain}{quote}")));
    }
    Ok(found)
}

/// Returns the byte range between the quotes of such a token.
fn escaped(token: &Token, text: &str) -> Option<Range<usize>> {
    let is_such = matches!(token.kind, Kind::OtherString | Kind::QuotedIdent)
        && matches!(token.text(text).as_bytes(), [b'u' | b'U', b'&', ..]);
    is_such.then(|| token.start + 3..token.end - 1)
}

/// Returns the character after UESCAPE and the end of its literal.
fn escape_character(text: &str, token: Option<&Token>) -> Result<(char, usize), SqlError> {
    let Some(token) = token.filter(|t| t.kind == Kind::String) else {
        let near = token.map_or("", |t| t.text(text));
        let at = token.map_or(text.len(), |t| t.start);
        let what = "UESCAPE must be followed by a simple string literal";
        return Err(refused(text, at, format!("{what} at or near \"{near}\"")));
    };
    let mut inner = text[token.start + 1..token.end - 1].chars();
    let serves = |c: &char| {
        c.is_ascii()
            && !c.is_ascii_hexdigit()
            && !matches!(c, '+' | '\'' | '"')
            && !c.is_ascii_whitespace()
    };
    match (inner.next().filter(serves), inner.next()) {
        (Some(escape), None) => Ok((escape, token.end)),
        _ => {
            let near = token.text(text);
            let what = format!("invalid Unicode escape character at or near \"{near}\"");
            Err(refused(text, token.start, what))
        }
    }
}

fn refused(text: &str, at: usize, what: String) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, what).at(position(text, at))
}

/// Decodes the text between the quotes; quotes in it stay doubled.
fn decoded(
    text: &str,
    inner: Range<usize>,
    (quote, escape): (char, char),
) -> Result<String, SqlError> {
    let mut out = String::with_capacity(inner.len());
    // The first half of a surrogate pair.
    let mut first: Option<u32> = None;
    let mut at = inner.start;
    while let Some(c) = text[at..inner.end].chars().next() {
        let rest = &text[at + c.len_utf8()..inner.end];
        let unpaired = || refused(text, at, "invalid Unicode surrogate pair".into());
        if c != escape || rest.starts_with(escape) {
            if first.is_some() {
                return Err(unpaired());
            }
            out.push(c);
            at += c.len_utf8() * if c == escape { 2 } else { 1 };
            continue;
        }
        let (digits, skipped) = match rest.strip_prefix('+') {
            Some(behind) => (behind.get(..6), 7),
            None => (rest.get(..4), 4),
        };
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|d| u32::from_str_radix(d, 16).ok()) else {
            let hint = "Unicode escapes must be \\XXXX or \\+XXXXXX.";
            return Err(refused(text, at, "invalid Unicode escape".into()).hint(hint));
        };
        let code = match (first.take(), code) {
            (None, 0xd800..0xdc00) => {
                first = Some(code);
                at += c.len_utf8() + skipped;
                continue;
            }
            (Some(high), 0xdc00..0xe000) => 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) | (None, 0xdc00..0xe000) => return Err(unpaired()),
            (None, code) => code,
        };
        let Some(decoded) = char::from_u32(code).filter(|c| *c != '\0') else {
            return Err(refused(text, at, "invalid Unicode escape value".into()));
        };
        out.push(decoded);
        if decoded == quote {
            out.push(quote);
        }
        at += c.len_utf8() + skipped;
    }
    match first {
        None => Ok(out),
        Some(_) => Err(refused(text, at, "invalid Unicode surrogate pair".into())),
    }
}
