//! `numeric` in PostgreSQL's binary form.
//!
//! ```text
//! digits | weight | sign | scale | digit | digit | ...     16 bits each
//! ```
//!
//! A digit is a number below ten thousand; the first one has the weight 10000^weight.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use rust_decimal::Decimal;

const BASE: u128 = 10_000;
const BASE_DIGITS: u32 = 4;
const NEGATIVE: u16 = 0x4000;
/// The maximal number of decimal places of a [`Decimal`].
const MOST_SCALE: u32 = 28;

/// Appends a number.
pub(super) fn encode(value: Decimal, out: &mut BytesMut) {
    let scale = value.scale();
    // A base-10000 digit must not extend across the decimal point.
    let fill = (BASE_DIGITS - scale % BASE_DIGITS) % BASE_DIGITS;
    // 96 bits, and at most three more decimal digits.
    let mut rest = value.mantissa().unsigned_abs() * 10u128.pow(fill);
    let mut digits = Vec::new();
    while rest > 0 {
        digits.push((rest % BASE) as u16);
        rest /= BASE;
    }
    let after_point = ((scale + fill) / BASE_DIGITS) as i16;
    out.put_u16(digits.len() as u16);
    out.put_i16(digits.len() as i16 - 1 - after_point);
    out.put_u16(if value.is_sign_negative() {
        NEGATIVE
    } else {
        0
    });
    out.put_u16(scale as u16);
    digits.iter().rev().for_each(|digit| out.put_u16(*digit));
}

/// Decodes a number.
///
/// # Errors
/// Data that is not a number, or has more digits than a [`Decimal`].
pub(super) fn decode(raw: &[u8]) -> Result<Decimal, Box<dyn Error + Sync + Send>> {
    let mut words = raw
        .chunks_exact(2)
        .map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut next = || words.next().ok_or("a numeric that is cut off");
    let (count, weight, sign, scale) = (next()?, next()? as i16, next()?, u32::from(next()?));
    if sign & !NEGATIVE != 0 || scale > MOST_SCALE {
        return Err("a numeric that is no number, or too long".into());
    }
    let too_long = "a numeric that is too long";
    let mut mantissa: i128 = 0;
    for _ in 0..count {
        mantissa = mantissa
            .checked_mul(BASE as i128)
            .and_then(|all| all.checked_add(next().ok()?.into()))
            .ok_or(too_long)?;
    }
    // The digits represent mantissa × 10000^(weight - count + 1); the scale is the number of
    // decimal places that are shown.
    let power = (i32::from(weight) - i32::from(count) + 1) * BASE_DIGITS as i32 + scale as i32;
    let ten = |power: u32| 10i128.checked_pow(power).ok_or(too_long);
    let magnitude = match u32::try_from(power) {
        Ok(power) => mantissa.checked_mul(ten(power)?).ok_or(too_long)?,
        Err(_) => mantissa / ten(power.unsigned_abs())?,
    };
    let signed = if sign == NEGATIVE {
        -magnitude
    } else {
        magnitude
    };
    Ok(Decimal::try_from_i128_with_scale(signed, scale)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_round_trips() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "0.05",
            "123.45",
            "-10.00",
            "9999",
            "10000",
            "10000.0001",
            "0.1234",
            "300000.00",
            "99999999999999.99",
            "-0.0001",
            "12345678901234567890.123456",
        ] {
            let value: Decimal = text.parse().expect("a number");
            let mut raw = BytesMut::new();
            encode(value, &mut raw);
            let back = decode(&raw).expect("a number");
            assert_eq!(back.to_string(), text);
        }
    }

    #[test]
    fn numeric_bytes_match_postgresql() {
        // SELECT numeric_send(-12345.67) and numeric_send(100.00): trailing zero digits are
        // omitted.
        let sent = [0, 3, 0, 1, 0x40, 0, 0, 2, 0, 1, 0x09, 0x29, 0x1a, 0x2c];
        let mut raw = BytesMut::new();
        encode("-12345.67".parse().expect("a number"), &mut raw);
        assert_eq!(raw[..], sent);
        let sent = [0, 1, 0, 0, 0, 0, 0, 2, 0, 100];
        assert_eq!(decode(&sent).expect("a number").to_string(), "100.00");
        assert!(decode(&[0, 0, 0, 0, 0xc0, 0, 0, 0]).is_err(), "NaN");
        assert!(decode(&sent[..9]).is_err());
    }
}
