//! numeric arithmetic with PostgreSQL's result scales.
//!
//! `rust_decimal` rounds results that do not fit, but PostgreSQL does not, so the arithmetic works
//! on the mantissas. A result with more digits than a numeric holds is error 22003, unless the
//! excess digits are trailing zeros.

use rust_decimal::Decimal;

use super::division_by_zero;
use crate::bound::ArithOp;
use crate::error::SqlError;
use crate::types::numeric::{MAX_MANTISSA, MAX_SCALE, from_parts, overflow};

/// The minimum number of significant digits of a quotient.
const MIN_SIGNIFICANT_DIGITS: i32 = 16;
/// The number of decimal digits in one of PostgreSQL's digit groups.
const GROUP_DIGITS: i32 = 4;

/// Computes `+`, `-` or `*` of two numerics, each given and returned as its digits and its number
/// of decimal places.
///
/// # Errors
/// 22003 if the result has too many digits; XX000 for other operators.
#[inline]
pub fn scaled_arith(op: ArithOp, a: (i128, u32), b: (i128, u32)) -> Result<(i128, u32), SqlError> {
    let quick = match op {
        ArithOp::Mul => Some((small_product(a.0, b.0), a.1 + b.1)),
        ArithOp::Add => Some((at_one_scale(a, b, i128::checked_add), a.1.max(b.1))),
        ArithOp::Sub => Some((at_one_scale(a, b, i128::checked_sub), a.1.max(b.1))),
        ArithOp::Div | ArithOp::Mod => None,
    };
    match quick {
        Some((Some(digits), scale))
            if digits.unsigned_abs() <= MAX_MANTISSA && scale <= MAX_SCALE =>
        {
            Ok((digits, scale))
        }
        _ => exact_arith(op, a, b),
    }
}

/// Computes as [`scaled_arith`] does, with all rules for results that do not fit.
#[cold]
fn exact_arith(op: ArithOp, a: (i128, u32), b: (i128, u32)) -> Result<(i128, u32), SqlError> {
    let decimal = |(digits, scale): (i128, u32)| {
        Decimal::try_from_i128_with_scale(digits, scale).map_err(|_| overflow())
    };
    let (a, b) = (decimal(a)?, decimal(b)?);
    let result = match op {
        ArithOp::Add => add(&a, &b),
        ArithOp::Sub => sub(&a, &b),
        ArithOp::Mul => mul(&a, &b),
        ArithOp::Div | ArithOp::Mod => return Err(super::mismatch("arithmetic")),
    }?;
    Ok((result.mantissa(), result.scale()))
}

fn small_product(a: i128, b: i128) -> Option<i128> {
    let (a, b) = (i64::try_from(a).ok()?, i64::try_from(b).ok()?);
    Some(i128::from(a) * i128::from(b))
}

#[inline]
fn at_one_scale(
    a: (i128, u32),
    b: (i128, u32),
    compute: fn(i128, i128) -> Option<i128>,
) -> Option<i128> {
    let shifted = |(digits, scale): (i128, u32), other: u32| match other.saturating_sub(scale) {
        0 => Some(digits),
        by => small_product(digits, *SMALL_POWERS.get(by as usize)?),
    };
    compute(shifted(a, b.1)?, shifted(b, a.1)?)
}

/// The powers of ten that 64 bits hold.
const SMALL_POWERS: [i128; 19] = {
    let mut powers = [1; 19];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

pub(super) fn add(a: &Decimal, b: &Decimal) -> Result<Decimal, SqlError> {
    let (a, b, scale) = aligned(a, b)?;
    let sum = a.checked_add(b).ok_or_else(overflow)?;
    from_parts(sum < 0, sum.unsigned_abs(), scale)
}

pub(super) fn sub(a: &Decimal, b: &Decimal) -> Result<Decimal, SqlError> {
    let (a, b, scale) = aligned(a, b)?;
    let difference = a.checked_sub(b).ok_or_else(overflow)?;
    from_parts(difference < 0, difference.unsigned_abs(), scale)
}

pub(super) fn mul(a: &Decimal, b: &Decimal) -> Result<Decimal, SqlError> {
    let negative = a.is_sign_negative() != b.is_sign_negative();
    let (mut x, mut y) = (a.mantissa().unsigned_abs(), b.mantissa().unsigned_abs());
    let (mut xs, mut ys) = (a.scale(), b.scale());
    let product = loop {
        if let Some(product) = x.checked_mul(y) {
            break product;
        }
        // Removing trailing zeros after the point may make the product fit.
        if xs > 0 && x % 10 == 0 {
            x /= 10;
            xs -= 1;
        } else if ys > 0 && y % 10 == 0 {
            y /= 10;
            ys -= 1;
        } else {
            return Err(overflow());
        }
    };
    from_parts(negative, product, xs + ys)
}

/// Returns the quotient, rounded half away from zero at the scale that PostgreSQL chooses.
pub(super) fn div(a: &Decimal, b: &Decimal) -> Result<Decimal, SqlError> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let scale = quotient_scale(a, b);
    // a/b at `scale` is mantissa(a) * 10^shift / mantissa(b).
    let shift = scale + b.scale() - a.scale();
    let divisor = b.mantissa().unsigned_abs();
    let dividend = a.mantissa().unsigned_abs();
    let mut quotient = dividend / divisor;
    let mut rest = dividend % divisor;
    let mut left = shift;
    while left > 0 {
        // The remainder is below 2^96, so nine digits at a time stay below 2^128.
        let step = left.min(9);
        let power = 10u128.pow(step);
        rest *= power;
        quotient = quotient
            .checked_mul(power)
            .and_then(|q| q.checked_add(rest / divisor))
            .ok_or_else(overflow)?;
        rest %= divisor;
        left -= step;
    }
    if rest * 2 >= divisor {
        quotient += 1;
    }
    let negative = a.is_sign_negative() != b.is_sign_negative();
    from_parts(negative && quotient != 0, quotient, scale)
}

/// Returns the remainder, with the dividend's sign.
pub(super) fn modulo(a: &Decimal, b: &Decimal) -> Result<Decimal, SqlError> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let (a, b, scale) = aligned(a, b)?;
    let rest = a % b;
    from_parts(rest < 0, rest.unsigned_abs(), scale)
}

/// Returns both mantissas at the larger scale.
fn aligned(a: &Decimal, b: &Decimal) -> Result<(i128, i128, u32), SqlError> {
    let scale = a.scale().max(b.scale());
    let at_scale = |d: &Decimal| d.mantissa().checked_mul(10i128.pow(scale - d.scale()));
    match (at_scale(a), at_scale(b)) {
        (Some(a), Some(b)) => Ok((a, b, scale)),
        // Without trailing zeros, the operand that is too wide may have fewer digits after the
        // point.
        _ => shortened(a, b),
    }
}

fn shortened(a: &Decimal, b: &Decimal) -> Result<(i128, i128, u32), SqlError> {
    let (a, b) = (a.normalize(), b.normalize());
    let scale = a.scale().max(b.scale());
    let at_scale = |d: &Decimal| {
        d.mantissa()
            .checked_mul(10i128.pow(scale - d.scale()))
            .ok_or_else(overflow)
    };
    Ok((at_scale(&a)?, at_scale(&b)?, scale))
}

/// Returns the power of 10,000 of the first digit group, and that group.
fn leading_group(d: &Decimal) -> (i32, u32) {
    let mantissa = d.mantissa().unsigned_abs();
    if mantissa == 0 {
        return (0, 0);
    }
    let digits = mantissa.ilog10() as i32 + 1;
    let exponent = digits - 1 - d.scale() as i32;
    let weight = exponent.div_euclid(GROUP_DIGITS);
    let in_group = exponent.rem_euclid(GROUP_DIGITS) + 1;
    let group = if digits >= in_group {
        mantissa / 10u128.pow((digits - in_group) as u32)
    } else {
        mantissa * 10u128.pow((in_group - digits) as u32)
    };
    (weight, group as u32)
}

/// Returns the scale of a quotient: at least 16 significant digits, and at least as many digits
/// after the point as each operand.
fn quotient_scale(a: &Decimal, b: &Decimal) -> u32 {
    let (weight_a, first_a) = leading_group(a);
    let (weight_b, first_b) = leading_group(b);
    let mut weight = weight_a - weight_b;
    if first_a <= first_b {
        weight -= 1;
    }
    let scale = MIN_SIGNIFICANT_DIGITS - weight * GROUP_DIGITS;
    scale.max(a.scale() as i32).max(b.scale() as i32).max(0) as u32
}

/// Returns the square root, rounded at the scale that PostgreSQL chooses. The argument is not
/// negative.
pub(super) fn sqrt(a: &Decimal) -> Result<Decimal, SqlError> {
    let (weight, _) = leading_group(a);
    let whole_weight = (weight + 1) * GROUP_DIGITS / 2 - 1;
    let scale = (MIN_SIGNIFICANT_DIGITS - whole_weight)
        .max(a.scale() as i32)
        .max(0) as u32;
    let square = 10u128
        .checked_pow((2 * scale).saturating_sub(a.scale()))
        .and_then(|p| a.mantissa().unsigned_abs().checked_mul(p))
        .ok_or_else(overflow)?;
    let mut root = square.isqrt();
    if square - root * root > root {
        root += 1;
    }
    from_parts(false, root, scale)
}

/// Returns the square root, rounded at this scale, which is at least half of the argument's scale.
///
/// Each step takes two digits of the argument and gives one digit of the root, so intermediate
/// values stay as short as the root.
pub(super) fn sqrt_at(a: &Decimal, scale: u32) -> Result<Decimal, SqlError> {
    let zeros = (2 * scale).saturating_sub(a.scale()) as usize;
    let mut digits = a.mantissa().unsigned_abs().to_string();
    digits.extend(std::iter::repeat_n('0', zeros));
    if digits.len() % 2 == 1 {
        digits.insert(0, '0');
    }
    let (mut root, mut rest) = (0u128, 0u128);
    for pair in digits.as_bytes().chunks_exact(2) {
        if root > MAX_MANTISSA {
            return Err(overflow());
        }
        let next = u128::from(pair[0] - b'0') * 10 + u128::from(pair[1] - b'0');
        rest = rest.checked_mul(100).ok_or_else(overflow)? + next;
        let digit = (1..=9)
            .rev()
            .find(|d| (root * 20 + d) * d <= rest)
            .unwrap_or(0);
        rest -= (root * 20 + digit) * digit;
        root = root.checked_mul(10).ok_or_else(overflow)? + digit;
    }
    if rest > root {
        root += 1;
    }
    from_parts(false, root, scale)
}

/// Returns an integer power, at the scale that PostgreSQL chooses.
pub(super) fn power(base: &Decimal, exponent: &Decimal) -> Result<Decimal, SqlError> {
    let whole = exponent.normalize();
    if whole.scale() != 0 {
        return Err(SqlError::unsupported(
            "power of a numeric with a fractional exponent",
        ));
    }
    let count = i32::try_from(whole.mantissa()).map_err(|_| overflow())?;
    if base.is_zero() && count < 0 {
        return Err(SqlError::new(
            crate::error::SqlState::INVALID_ARGUMENT_FOR_POWER,
            "zero raised to a negative power is undefined",
        ));
    }
    let magnitude = if base.is_zero() {
        0.0
    } else {
        f64::from(count) * crate::types::numeric::to_f64(base).abs().log10()
    };
    let scale = (MIN_SIGNIFICANT_DIGITS - magnitude as i32)
        .max(base.scale() as i32)
        .max(exponent.scale() as i32)
        .max(0);
    let mut result = Decimal::ONE;
    let mut square = base.normalize();
    let mut left = count.unsigned_abs();
    while left > 0 {
        if left & 1 == 1 {
            result = mul(&result, &square)?.normalize();
        }
        left >>= 1;
        if left > 0 {
            square = mul(&square, &square)?.normalize();
        }
    }
    if count >= 0 {
        return crate::types::numeric::round(&result, scale);
    }
    let quotient = div(&Decimal::ONE, &result)?;
    if (quotient.scale() as i32) < scale && mul(&quotient, &result)? != Decimal::ONE {
        return Err(overflow());
    }
    crate::types::numeric::round(&quotient, scale)
}

/// A sum that is not yet limited to the range of numeric. It is exact until it overflows 128 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    mantissa: i128,
    scale: u32,
}

impl Sum {
    pub(super) fn add_int(&mut self, value: i64) -> Result<(), SqlError> {
        self.add(&Decimal::from(value))
    }

    pub(super) fn add(&mut self, value: &Decimal) -> Result<(), SqlError> {
        self.add_parts(value.mantissa(), value.scale())
    }

    /// Returns the mantissa and scale, for [`Sum::add_parts`].
    pub(super) fn parts(&self) -> (i128, u32) {
        (self.mantissa, self.scale)
    }

    /// Adds `mantissa` with `digits` digits after the decimal point.
    pub(super) fn add_parts(&mut self, mantissa: i128, digits: u32) -> Result<(), SqlError> {
        if digits == self.scale {
            self.mantissa = self.mantissa.checked_add(mantissa).ok_or_else(overflow)?;
            return Ok(());
        }
        let scale = self.scale.max(digits);
        let shifted = |mantissa: i128, by: u32| {
            let power = 10i128.checked_pow(by);
            power.and_then(|power| mantissa.checked_mul(power))
        };
        let own = shifted(self.mantissa, scale - self.scale).ok_or_else(overflow)?;
        let other = shifted(mantissa, scale - digits).ok_or_else(overflow)?;
        self.mantissa = own.checked_add(other).ok_or_else(overflow)?;
        self.scale = scale;
        Ok(())
    }

    pub(super) fn total(&self) -> Result<Decimal, SqlError> {
        from_parts(self.mantissa < 0, self.mantissa.unsigned_abs(), self.scale)
    }

    /// Returns the mean.
    ///
    /// # Errors
    /// 22003 if the total is not a valid numeric.
    pub(super) fn mean(&self, count: i64) -> Result<Decimal, SqlError> {
        div(&self.total()?, &Decimal::from(count))
    }
}

const _: () = assert!(MAX_MANTISSA < u128::MAX / 1_000_000_000);
