//! The hex and escape forms of bytea.

use crate::error::{SqlError, SqlState};
use crate::settings::ByteaOutput;

pub(super) fn parse(text: &str) -> Result<Vec<u8>, SqlError> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex(hex),
        None => parse_escape(text),
    }
}

fn parse_hex(hex: &str) -> Result<Vec<u8>, SqlError> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(hex.len() / 2);
    let mut high = None;
    for c in hex.chars() {
        // Blanks are allowed between bytes.
        if high.is_none() && matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = c
            .to_digit(16)
            .ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(h) => out.push((h << 4 | digit) as u8),
        }
    }
    match high {
        None => Ok(out),
        Some(_) => Err(invalid(
            "invalid hexadecimal data: odd number of digits".to_owned(),
        )),
    }
}

fn parse_escape(text: &str) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Ok(out),
            [b'\\', b'\\', tail @ ..] => {
                out.push(b'\\');
                rest = tail;
            }
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                tail @ ..,
            ] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            [b'\\', ..] => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            [b, tail @ ..] => {
                out.push(*b);
                rest = tail;
            }
        }
    }
}

pub(super) fn format(bytes: &[u8], form: ByteaOutput, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match form {
        ByteaOutput::Hex => {
            out.reserve(2 + 2 * bytes.len());
            out.extend_from_slice(b"\\x");
            for b in bytes {
                out.push(HEX[usize::from(b >> 4)]);
                out.push(HEX[usize::from(b & 15)]);
            }
        }
        ByteaOutput::Escape => {
            for b in bytes {
                match b {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    0x20..=0x7e => out.push(*b),
                    _ => out.extend_from_slice(&[
                        b'\\',
                        b'0' + (b >> 6),
                        b'0' + (b >> 3 & 7),
                        b'0' + (b & 7),
                    ]),
                }
            }
        }
    }
}
