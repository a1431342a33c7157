//! Double-quoted texts, in which rows and arrays hold the texts of their elements.
//!
//! A quote inside is doubled, so each nesting level doubles the quotes of the inner levels. Thirty
//! nested rows would take gigabytes. A text that would exceed the limit is not written;
//! `is_oversized` detects this.

use crate::functions::VALUE_BYTES_MAX;
use crate::value::Value;

/// The nesting depth of rows and arrays above which no text is made. Each level has twice the
/// quotes of the next inner one, so that this many levels have some 30 MB of quotes.
const LEVELS_MAX: usize = 24;

/// Returns whether rows and arrays in `values` are nested too deeply for a text.
pub(super) fn nests_too_deep<'a>(values: impl Iterator<Item = &'a Value>) -> bool {
    any_deeper(values, LEVELS_MAX)
}

fn any_deeper<'a>(mut values: impl Iterator<Item = &'a Value>, levels: usize) -> bool {
    values.any(|value| match value {
        Value::Record(row) => levels == 0 || any_deeper(row.values.iter(), levels - 1),
        Value::Array(array) => levels == 0 || any_deeper(array.values.iter(), levels - 1),
        _ => false,
    })
}

/// Encloses the bytes of `out` from `start` on in quotes, and escapes each quote and backslash.
///
/// `escape` returns the byte to put before such a byte. A result beyond the limit is left
/// oversized.
pub(super) fn enclose(out: &mut Vec<u8>, start: usize, escape: impl Fn(u8) -> u8) {
    let text = &out[start..];
    if is_oversized(text.len()) {
        return;
    }
    let is_escaped = |b: &u8| matches!(b, b'"' | b'\\');
    let length = text.len() + 2 + text.iter().filter(|b| is_escaped(b)).count();
    if length > VALUE_BYTES_MAX {
        return oversize(out, start);
    }
    // From back to front, so that no byte is overwritten before it is moved.
    let (mut from, mut to) = (out.len(), start + length);
    out.resize(to, b'"');
    to -= 1;
    while from > start {
        from -= 1;
        to -= 1;
        out[to] = out[from];
        if is_escaped(&out[to]) {
            to -= 1;
            out[to] = escape(out[to + 1]);
        }
    }
    out[start] = b'"';
}

/// Makes the text from `start` on oversized.
pub(super) fn oversize(out: &mut Vec<u8>, start: usize) {
    let least = start + VALUE_BYTES_MAX + 1;
    out.resize(out.len().max(least), b' ');
}

/// Returns whether a text exceeds the maximum size of a value.
pub(super) fn is_oversized(text_bytes: usize) -> bool {
    text_bytes > VALUE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enclosed(text: &str) -> String {
        let mut out = format!("({text}").into_bytes();
        enclose(&mut out, 1, |b| b);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(enclosed(""), r#"(""#.to_owned() + "\"");
        assert_eq!(enclosed("a b"), r#"("a b""#);
        assert_eq!(enclosed(r#""a"\"#), r#"("""a""\\""#);
    }

    #[test]
    fn nested_quotes_stop_at_the_limit() {
        let mut out = b"a b".to_vec();
        for _ in 0..100 {
            enclose(&mut out, 0, |b| b);
        }
        assert!(is_oversized(out.len()));
        assert!(out.len() < 2 * VALUE_BYTES_MAX);
    }
}
