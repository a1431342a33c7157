//! The text form of smallint, integer and bigint.

use crate::error::{SqlError, SqlState};

/// An integer type and its name in messages.
pub(super) trait Integer: TryFrom<i64> {
    const NAME: &'static str;
}

impl Integer for i16 {
    const NAME: &'static str = "smallint";
}
impl Integer for i32 {
    const NAME: &'static str = "integer";
}
impl Integer for i64 {
    const NAME: &'static str = "bigint";
}

pub(super) fn parse<T: Integer>(text: &str) -> Result<T, SqlError> {
    let trimmed = text.trim_ascii();
    let (negative, digits) = match trimmed.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(super::invalid_input(T::NAME, text));
    }
    let mut value: i64 = 0;
    for digit in digits {
        // The value is accumulated as a negative number, because the smallest value has no positive
        // counterpart.
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_sub(i64::from(digit - b'0')))
            .ok_or_else(|| out_of_range::<T>(text))?;
    }
    if !negative {
        value = value.checked_neg().ok_or_else(|| out_of_range::<T>(text))?;
    }
    T::try_from(value).map_err(|_| out_of_range::<T>(text))
}

#[cold]
fn out_of_range<T: Integer>(text: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", T::NAME),
    )
}

pub(super) fn format(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}
