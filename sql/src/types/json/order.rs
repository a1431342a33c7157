//! The sort order of jsonb documents, by keys that sort like PostgreSQL sorts the documents.
//!
//! ```text
//! null < string < number < false < true < array < object
//! arrays and objects by number of elements, then element by element
//! ```
//! A scalar document counts as an array of one element, before real arrays.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::{Json, Kind, number, parse};

const NULL: u8 = 0;
const TEXT: u8 = 1;
const NUMBER: u8 = 2;
const BOOL: u8 = 3;
const ARRAY: u8 = 0x10;
const OBJECT: u8 = 0x11;

/// Compares two texts in the form of jsonb.
pub fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    key(a).cmp(&key(b))
}

/// Hashes a text in the form of jsonb; equal documents have equal hashes.
pub fn hash(text: &str, hasher: &mut impl Hasher) {
    key(text).hash(hasher);
}

fn key(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    push_key(text, &mut out);
    out
}

/// Appends bytes that sort as the documents do.
pub fn push_key(text: &str, out: &mut Vec<u8>) {
    // A text in the form of jsonb always parses.
    let Ok(json) = parse(text) else {
        return;
    };
    match json.is {
        Kind::Array(_) | Kind::Object(_) => part(&json, out),
        _ => {
            out.push(ARRAY);
            out.extend_from_slice(&1u32.to_be_bytes());
            out.push(0);
            part(&json, out);
        }
    }
}

fn part(json: &Json<'_>, out: &mut Vec<u8>) {
    match &json.is {
        Kind::Null => out.push(NULL),
        Kind::Bool(b) => out.extend([BOOL, u8::from(*b)]),
        Kind::Number => {
            out.push(NUMBER);
            push_number(json.raw, out);
        }
        Kind::Text(text) => {
            out.push(TEXT);
            push_text(text, out);
        }
        Kind::Array(elements) => {
            out.push(ARRAY);
            out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
            out.push(1);
            elements.iter().for_each(|element| part(element, out));
        }
        Kind::Object(pairs) => {
            out.push(OBJECT);
            out.extend_from_slice(&(pairs.len() as u32).to_be_bytes());
            for (key, value) in pairs {
                push_text(key, out);
                part(value, out);
            }
        }
    }
}

/// Appends a string. The terminator 0 is unambiguous, because the string contains no character 0.
fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends the sign, the number of digits before the point (negative for leading zeros after it),
/// and the digits.
fn push_number(text: &str, out: &mut Vec<u8>) {
    const ZERO: u8 = 0x80;
    let Ok((negative, whole, fraction)) = number::plain(text) else {
        return;
    };
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let exponent = whole.len() as i32 - (all.len() - digits.len()) as i32;
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        out.push(ZERO);
        return;
    }
    out.push(if negative { ZERO - 1 } else { ZERO + 1 });
    let start = out.len();
    out.extend_from_slice(&((exponent as u32) ^ (1 << 31)).to_be_bytes());
    out.extend_from_slice(digits.as_bytes());
    out.push(0);
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}
