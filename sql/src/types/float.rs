//! The text form of real and double precision.
//!
//! Output is the shortest text that reads back as the same number, formatted like C's `%g`: without
//! an exponent between 1e-5 and 1e15 (1e6 for real), otherwise with an exponent of at least two
//! digits.

use std::io::Write;

use crate::error::{SqlError, SqlState};

const DIGITS4: i32 = 6;
const DIGITS8: i32 = 15;

pub(super) fn parse8(text: &str) -> Result<f64, SqlError> {
    const NAME: &str = "double precision";
    let trimmed = check(text, NAME)?;
    let value: f64 = trimmed
        .parse()
        .map_err(|_| super::invalid_input(NAME, text))?;
    if is_lost(trimmed, value) {
        return Err(out_of_range(trimmed, NAME));
    }
    Ok(value)
}

pub(super) fn parse4(text: &str) -> Result<f32, SqlError> {
    const NAME: &str = "real";
    let trimmed = check(text, NAME)?;
    let value: f32 = trimmed
        .parse()
        .map_err(|_| super::invalid_input(NAME, text))?;
    if is_lost(trimmed, f64::from(value)) {
        return Err(out_of_range(trimmed, NAME));
    }
    Ok(value)
}

fn check<'a>(text: &'a str, name: &str) -> Result<&'a str, SqlError> {
    let trimmed = text.trim_ascii();
    match trimmed.bytes().next() {
        None => Err(super::invalid_input(name, text)),
        Some(_) => Ok(trimmed),
    }
}

/// Returns whether a finite text became infinite, or a non-zero text became zero.
fn is_lost(text: &str, value: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    if value.is_infinite() {
        return mantissa.bytes().any(|b| b.is_ascii_digit());
    }
    value == 0.0 && mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'))
}

#[cold]
fn out_of_range(text: &str, name: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {name}"),
    )
}

pub(super) fn format8(value: f64, extra_digits: i32, out: &mut Vec<u8>) {
    if special(value, out) {
        return;
    }
    let mut buffer = Buffer::new();
    if extra_digits > 0 {
        buffer.write(format_args!("{value:e}"));
        lay_out(buffer.bytes(), DIGITS8, out);
    } else {
        let digits = (DIGITS8 + extra_digits).max(1);
        buffer.write(format_args!("{value:.*e}", digits as usize - 1));
        lay_out(buffer.bytes(), digits, out);
    }
}

pub(super) fn format4(value: f32, extra_digits: i32, out: &mut Vec<u8>) {
    if special(f64::from(value), out) {
        return;
    }
    let mut buffer = Buffer::new();
    if extra_digits > 0 {
        buffer.write(format_args!("{value:e}"));
        lay_out(buffer.bytes(), DIGITS4, out);
    } else {
        let digits = (DIGITS4 + extra_digits).max(1);
        buffer.write(format_args!("{value:.*e}", digits as usize - 1));
        lay_out(buffer.bytes(), digits, out);
    }
}

fn special(value: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value == f64::INFINITY {
        b"Infinity"
    } else if value == f64::NEG_INFINITY {
        b"-Infinity"
    } else {
        return false;
    };
    out.extend_from_slice(text);
    true
}

/// Converts Rust's `-d.ddde-x` to the format of `%g`; `precision` is the exponent at which plain
/// notation ends.
fn lay_out(scientific: &[u8], precision: i32, out: &mut Vec<u8>) {
    let split = scientific
        .iter()
        .position(|b| *b == b'e')
        .unwrap_or(scientific.len());
    let exponent: i32 = scientific
        .get(split + 1..)
        .and_then(|e| std::str::from_utf8(e).ok())
        .and_then(|e| e.parse().ok())
        .unwrap_or(0);
    let mut digits = [0u8; 32];
    let mut count = 0;
    for b in &scientific[..split] {
        match b {
            b'-' => out.push(b'-'),
            b'0'..=b'9' if count < digits.len() => {
                digits[count] = *b;
                count += 1;
            }
            _ => {}
        }
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    let digits = &digits[..count];
    if exponent < -4 || exponent >= precision {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        let magnitude = exponent.unsigned_abs();
        if magnitude < 10 {
            out.push(b'0');
        }
        super::integer::format(i64::from(magnitude), out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        } else {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

/// A stack buffer for one number in scientific notation.
struct Buffer {
    bytes: [u8; 64],
    len: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer {
            bytes: [0; 64],
            len: 0,
        }
    }

    fn write(&mut self, args: std::fmt::Arguments<'_>) {
        let mut rest = &mut self.bytes[..];
        // 64 bytes are enough for 17 digits and an exponent.
        let _ = rest.write_fmt(args);
        self.len = 64 - rest.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
