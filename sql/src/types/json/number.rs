//! Numbers of any length, as text.

use crate::error::{SqlError, SqlState};

/// The maximum number of digits before the decimal point.
const WHOLE_DIGITS_MAX: i64 = 131_072;
/// The maximum number of digits after the decimal point.
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// Returns a number without an exponent: whether it is negative, the digits before the point
/// without leading zeros, and the digits after the point.
pub fn plain(text: &str) -> Result<(bool, String, String), SqlError> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        None => (body, 0),
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| overflow())?),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = (whole.len() as i64)
        .checked_add(exponent)
        .ok_or_else(overflow)?;
    let scale = (fraction.len() as i64)
        .checked_sub(exponent.min(fraction.len() as i64))
        .ok_or_else(overflow)?;
    let zero = digits.bytes().all(|b| b == b'0');
    if point > WHOLE_DIGITS_MAX && !zero || scale > FRACTION_DIGITS_MAX {
        return Err(overflow());
    }
    let point = if zero { point.clamp(0, 1) } else { point };
    let (whole, fraction) = match usize::try_from(point) {
        Ok(point) if point <= digits.len() => {
            let (whole, fraction) = digits.split_at(point);
            (whole.to_owned(), fraction.to_owned())
        }
        Ok(point) => {
            let zeros = "0".repeat(point - digits.len());
            (digits + &zeros, String::new())
        }
        Err(_) => {
            let zeros = "0".repeat(point.unsigned_abs() as usize);
            (String::new(), format!("{zeros}{digits}"))
        }
    };
    let mut fraction = fraction;
    fraction.truncate(scale.max(0) as usize);
    while (fraction.len() as i64) < scale {
        fraction.push('0');
    }
    Ok((negative, whole.trim_start_matches('0').to_owned(), fraction))
}

/// Appends a number in the form of numeric.
pub(super) fn write(text: &str, out: &mut String) -> Result<(), SqlError> {
    let simple = !text.contains(['e', 'E']) && !text.starts_with("-0");
    if simple {
        out.push_str(text);
        return Ok(());
    }
    let (negative, whole, fraction) = plain(text)?;
    let zero = whole.is_empty() && fraction.bytes().all(|b| b == b'0');
    if negative && !zero {
        out.push('-');
    }
    out.push_str(if whole.is_empty() { "0" } else { &whole });
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(&fraction);
    }
    Ok(())
}

#[cold]
fn overflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
}
