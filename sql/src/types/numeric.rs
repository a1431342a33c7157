//! numeric: its text and binary forms, and its limits.
//!
//! A numeric is a 96-bit mantissa and a scale of at most 28. A value that does not fit gives error
//! 22003. Digits are never dropped, except where PostgreSQL rounds, too.

use rust_decimal::Decimal;

use crate::error::{SqlError, SqlState};

/// The largest mantissa.
pub const MAX_MANTISSA: u128 = (1 << 96) - 1;
/// The largest scale.
pub const MAX_SCALE: u32 = 28;

/// Returns error 22003: the value has too many digits.
#[cold]
pub fn overflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
    .detail("Values of type numeric have at most 28 digits here.")
}

/// Creates a numeric from its parts. Trailing zeros after the point are removed if it does not fit
/// otherwise.
pub fn from_parts(negative: bool, mantissa: u128, scale: u32) -> Result<Decimal, SqlError> {
    let (mut mantissa, mut scale) = (mantissa, scale);
    while scale > 0 && (mantissa > MAX_MANTISSA || scale > MAX_SCALE) {
        if mantissa % 10 != 0 {
            return Err(overflow());
        }
        mantissa /= 10;
        scale -= 1;
    }
    if mantissa > MAX_MANTISSA {
        return Err(overflow());
    }
    let signed = mantissa as i128;
    Decimal::try_from_i128_with_scale(if negative { -signed } else { signed }, scale)
        .map_err(|_| overflow())
}

/// Reads `[+-]digits[.digits][e[+-]digits]`.
pub fn parse(text: &str) -> Result<Decimal, SqlError> {
    let bad = || super::invalid_input("numeric", text);
    let bytes = text.trim_ascii().as_bytes();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let mut mantissa: u128 = 0;
    let (mut digits, mut scale, mut at) = (0usize, 0i64, 0usize);
    let mut point = false;
    let mut too_long = false;
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => {
                digits += 1;
                scale += i64::from(point);
                match mantissa
                    .checked_mul(10)
                    .and_then(|m| m.checked_add(u128::from(b - b'0')))
                {
                    Some(m) => mantissa = m,
                    None => too_long = true,
                }
            }
            b'.' if !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if digits == 0 {
        return match text.trim_ascii().to_ascii_lowercase().as_str() {
            "nan" | "infinity" | "+infinity" | "-infinity" | "inf" | "+inf" | "-inf" => {
                Err(SqlError::unsupported("numeric NaN or infinity"))
            }
            _ => Err(bad()),
        };
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let exponent = std::str::from_utf8(&bytes[at + 1..]).map_err(|_| bad())?;
        let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let exponent: i64 = exponent.parse().map_err(|_| overflow())?;
        scale = scale.checked_sub(exponent).ok_or_else(overflow)?;
        at = bytes.len();
    }
    if at != bytes.len() {
        return Err(bad());
    }
    if too_long {
        return Err(overflow());
    }
    if scale < 0 {
        if mantissa != 0 {
            let power = u32::try_from(-scale)
                .ok()
                .and_then(|n| 10u128.checked_pow(n));
            mantissa = power
                .and_then(|p| mantissa.checked_mul(p))
                .ok_or_else(overflow)?;
        }
        scale = 0;
    }
    from_parts(
        negative,
        mantissa,
        u32::try_from(scale).map_err(|_| overflow())?,
    )
}

/// Appends the plain decimal form with the number's scale.
pub fn format(value: &Decimal, out: &mut Vec<u8>) {
    let mut mantissa = value.mantissa().unsigned_abs();
    if value.is_sign_negative() && mantissa != 0 {
        out.push(b'-');
    }
    let scale = value.scale() as usize;
    let mut digits = [b'0'; 40];
    let mut at = digits.len();
    let mut written = 0;
    while mantissa != 0 || written <= scale {
        at -= 1;
        digits[at] = b'0' + (mantissa % 10) as u8;
        mantissa /= 10;
        written += 1;
        if written == scale {
            at -= 1;
            digits[at] = b'.';
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends PostgreSQL's binary form: digits in base 10,000.
pub fn to_binary(value: &Decimal, out: &mut Vec<u8>) {
    let scale = value.scale();
    let mantissa = value.mantissa().unsigned_abs();
    // Groups of four digits must be aligned with the decimal point.
    let missing = (4 - scale % 4) % 4;
    let (whole, fraction) = split(mantissa, scale);
    let mut groups = [0i16; 20];
    let mut count = 0;
    let mut rest = fraction * 10u128.pow(missing);
    for _ in 0..(scale + missing) / 4 {
        groups[count] = (rest % 10_000) as i16;
        rest /= 10_000;
        count += 1;
    }
    let below = count as i16;
    let mut rest = whole;
    while rest != 0 {
        groups[count] = (rest % 10_000) as i16;
        rest /= 10_000;
        count += 1;
    }
    let mut digits = &groups[..count];
    let mut weight = count as i16 - below - 1;
    while let [head @ .., 0] = digits {
        digits = head;
        weight -= 1;
    }
    while let [0, tail @ ..] = digits {
        digits = tail;
    }
    if digits.is_empty() {
        weight = 0;
    }
    let sign: u16 = if value.is_sign_negative() && mantissa != 0 {
        0x4000
    } else {
        0
    };
    out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    for group in digits.iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

/// Returns the digits before and after the decimal point.
fn split(mantissa: u128, scale: u32) -> (u128, u128) {
    let power = 10u128.pow(scale);
    (mantissa / power, mantissa % power)
}

/// Reads PostgreSQL's binary form.
pub fn from_binary(bytes: &[u8]) -> Result<Decimal, SqlError> {
    let bad = |what: &str| {
        SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            format!("invalid {what} in external \"numeric\" value"),
        )
    };
    let word = |i: usize| {
        bytes
            .get(2 * i..2 * i + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let (Some(count), Some(weight), Some(sign), Some(scale)) = (word(0), word(1), word(2), word(3))
    else {
        return Err(bad("length"));
    };
    if bytes.len() != 8 + 2 * count as usize {
        return Err(bad("length"));
    }
    let weight = i64::from(weight as i16);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        0xC000 | 0xD000 | 0xF000 => return Err(SqlError::unsupported("numeric NaN or infinity")),
        _ => return Err(bad("sign")),
    };
    if scale > 0x3fff {
        return Err(bad("scale"));
    }
    let scale = i64::from(scale);
    let mut mantissa: u128 = 0;
    for i in 0..count as usize {
        let group = word(4 + i).ok_or_else(|| bad("length"))?;
        if group > 9999 {
            return Err(bad("digit"));
        }
        mantissa = mantissa
            .checked_mul(10_000)
            .and_then(|m| m.checked_add(u128::from(group)))
            .ok_or_else(overflow)?;
    }
    // The number of digits after the decimal point in the mantissa so far.
    let have = (i64::from(count) - 1 - weight) * 4;
    if mantissa == 0 {
        return from_parts(false, 0, scale.min(i64::from(MAX_SCALE)) as u32);
    }
    if have < scale {
        let power = u32::try_from(scale - have)
            .ok()
            .and_then(|n| 10u128.checked_pow(n));
        mantissa = power
            .and_then(|p| mantissa.checked_mul(p))
            .ok_or_else(overflow)?;
    }
    // Digits beyond the declared scale are truncated, as in PostgreSQL.
    for _ in scale..have {
        mantissa /= 10;
    }
    from_parts(negative, mantissa, scale as u32)
}

/// Rounds half away from zero to `scale` digits after the decimal point, and pads with zeros. A
/// negative scale rounds before the point.
pub fn round(value: &Decimal, scale: i32) -> Result<Decimal, SqlError> {
    rescale(value, scale, true)
}

/// Truncates to `scale` digits after the decimal point, and pads with zeros.
pub fn trunc(value: &Decimal, scale: i32) -> Result<Decimal, SqlError> {
    rescale(value, scale, false)
}

fn rescale(value: &Decimal, scale: i32, rounding: bool) -> Result<Decimal, SqlError> {
    let negative = value.is_sign_negative();
    let mantissa = value.mantissa().unsigned_abs();
    let have = value.scale() as i32;
    if scale >= have {
        let wanted = u32::try_from(scale.min(MAX_SCALE as i32)).unwrap_or(0);
        let power = 10u128.pow(wanted - value.scale());
        return match mantissa.checked_mul(power) {
            Some(m) => from_parts(negative, m, wanted),
            None => Ok(*value),
        };
    }
    let Some(power) = 10u128.checked_pow((have - scale.max(-60)) as u32) else {
        return Ok(Decimal::ZERO);
    };
    let mut whole = mantissa / power;
    if rounding && mantissa % power >= power - power / 2 {
        whole += 1;
    }
    if scale >= 0 {
        return from_parts(negative, whole, scale as u32);
    }
    let back = 10u128
        .checked_pow(scale.unsigned_abs())
        .and_then(|p| whole.checked_mul(p))
        .ok_or_else(overflow)?;
    from_parts(negative, back, 0)
}

/// Returns the nearest integer, halves rounded away from zero; `None` if it does not fit an i64.
pub fn to_i64(value: &Decimal) -> Option<i64> {
    let power = 10i128.pow(value.scale());
    let mantissa = value.mantissa();
    let rest = (mantissa % power).abs();
    let mut whole = mantissa / power;
    if rest * 2 >= power {
        whole += mantissa.signum();
    }
    i64::try_from(whole).ok()
}

/// Returns the nearest double.
pub fn to_f64(value: &Decimal) -> f64 {
    let mut text = Vec::with_capacity(32);
    format(value, &mut text);
    std::str::from_utf8(&text)
        .ok()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0.0)
}

/// Converts a double to a numeric of `digits` significant digits (15 for double precision, 6 for
/// real).
pub fn from_f64(value: f64, digits: usize) -> Result<Decimal, SqlError> {
    if !value.is_finite() {
        return Err(SqlError::unsupported("numeric NaN or infinity"));
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let trimmed = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    parse(&format!("{trimmed}e{exponent}"))
}
