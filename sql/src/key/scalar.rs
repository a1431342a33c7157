//! Byte strings of single integers, floats, numbers and strings that sort as these do.

use rust_decimal::Decimal;

pub(super) fn push_i32(i: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&((i as u32) ^ (1 << 31)).to_be_bytes());
}

pub(super) fn push_i64(i: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&((i as u64) ^ (1 << 63)).to_be_bytes());
}

/// Maps a float to bits that sort as PostgreSQL sorts floats: -0 equals 0, NaN is above all others.
pub(super) fn fold_f64(f: f64) -> u64 {
    let f = if f.is_nan() {
        f64::NAN.abs()
    } else if f == 0.0 {
        0.0
    } else {
        f
    };
    let bits = f.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | (1 << 63)
    }
}

pub(super) fn fold_f32(f: f32) -> u32 {
    let f = if f.is_nan() {
        f32::NAN.abs()
    } else if f == 0.0 {
        0.0
    } else {
        f
    };
    let bits = f.to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | (1 << 31)
    }
}

pub(super) fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|b| *b == 0) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0, 0xFF]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 1]);
}

/// Encodes a number as `0.d1d2d3… × 10^e` with d1 ≠ 0, so 1.0 and 1.00 give the same bytes.
pub(super) fn push_numeric(d: &Decimal, out: &mut Vec<u8>) {
    const ZERO: u8 = 0x80;
    if d.is_zero() {
        out.push(ZERO);
        return;
    }
    let mut mantissa = d.mantissa().unsigned_abs();
    while mantissa.is_multiple_of(10) {
        mantissa /= 10;
    }
    let mut digits = [0u8; 40];
    let mut count = 0;
    let mut rest = mantissa;
    while rest > 0 {
        digits[count] = (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    digits[..count].reverse();
    let exponent = exponent_of(d);
    let negative = d.is_sign_negative();
    out.push(if negative { ZERO - 1 } else { ZERO + 1 });
    let start = out.len();
    out.push((exponent + 64) as u8);
    for pair in digits[..count + count % 2].chunks_exact(2) {
        out.push(pair[0] * 10 + pair[1] + 1);
    }
    out.push(0);
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Returns the e of `0.d1d2… × 10^e`: the number of digits before the decimal point, negative for
/// leading zeros.
fn exponent_of(d: &Decimal) -> i32 {
    let mantissa = d.mantissa().unsigned_abs();
    let digits = mantissa.checked_ilog10().map_or(0, |l| l as i32 + 1);
    digits - d.scale() as i32
}
