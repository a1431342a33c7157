//! Type modifiers: the effect of `varchar(n)`, `char(n)`, `numeric(p, s)` and `timestamp(p)` on a
//! value.

use rust_decimal::Decimal;

use super::{Type, TypeKind, interval, numeric};
use crate::error::{SqlError, SqlState};
use crate::value::{TimeTz, Value};

/// Applies the type's modifier to a value of the type's kind.
///
/// # Errors
/// 22001 for text that is too long, unless the cast is explicit or only blanks are lost.
pub fn apply_typmod(value: Value, ty: &Type, explicit: bool) -> Result<Value, SqlError> {
    match (value, ty.kind) {
        (Value::Text(text), TypeKind::BpChar) => {
            let kept = limit(&text, ty, explicit)?.trim_end_matches(' ');
            if kept.len() == text.len() {
                return Ok(Value::Text(text));
            }
            Ok(Value::text(kept))
        }
        (Value::Text(text), TypeKind::VarChar) => {
            let kept = limit(&text, ty, explicit)?;
            if kept.len() == text.len() {
                return Ok(Value::Text(text));
            }
            Ok(Value::text(kept))
        }
        (Value::Numeric(number), TypeKind::Numeric) => match ty.precision_scale() {
            Some((precision, scale)) => fit(&number, precision, scale).map(Value::Numeric),
            None => Ok(Value::Numeric(number)),
        },
        (Value::Timestamp(us), TypeKind::Timestamp) => {
            Ok(Value::Timestamp(round_fraction(us, ty.typmod)))
        }
        (Value::TimestampTz(us), TypeKind::TimestampTz) => {
            Ok(Value::TimestampTz(round_fraction(us, ty.typmod)))
        }
        (Value::Time(us), TypeKind::Time) => Ok(Value::Time(round_fraction(us, ty.typmod))),
        (Value::TimeTz(time), TypeKind::TimeTz) => Ok(Value::TimeTz(TimeTz {
            us: round_fraction(time.us, ty.typmod),
            ..time
        })),
        (Value::Interval(span), TypeKind::Interval) => {
            interval::fit(span, ty.typmod).map(Value::Interval)
        }
        (Value::Array(mut array), TypeKind::Array(element)) => {
            let ty = Type::with(element.kind(), ty.typmod);
            for value in &mut array.values {
                *value = apply_typmod(std::mem::take(value), &ty, explicit)?;
            }
            Ok(Value::Array(array))
        }
        (other, _) => Ok(other),
    }
}

fn limit<'a>(text: &'a str, ty: &Type, explicit: bool) -> Result<&'a str, SqlError> {
    let Some(length) = ty.length() else {
        return Ok(text);
    };
    // A text with at most `length` bytes has at most `length` characters.
    if text.len() <= length {
        return Ok(text);
    }
    let Some((cut, _)) = text.char_indices().nth(length) else {
        return Ok(text);
    };
    if !explicit && text[cut..].bytes().any(|b| b != b' ') {
        return Err(SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {ty}"),
        ));
    }
    Ok(&text[..cut])
}

fn fit(number: &Decimal, precision: u32, scale: u32) -> Result<Decimal, SqlError> {
    let rounded = numeric::round(number, scale as i32)?;
    let whole_digits = precision.saturating_sub(scale);
    let power = 10u128.checked_pow(precision);
    let whole = rounded.mantissa().unsigned_abs();
    if power.is_some_and(|p| whole >= p) {
        let limit = if whole_digits == 0 {
            "1".to_owned()
        } else {
            format!("10^{whole_digits}")
        };
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "numeric field overflow",
        )
        .detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value \
             less than {limit}."
        )));
    }
    Ok(rounded)
}

/// Rounds microseconds to `digits` fractional digits of a second.
pub(super) fn round_fraction(us: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) || us == i64::MIN || us == i64::MAX {
        return us;
    }
    let unit = 10i64.pow(6 - digits as u32);
    let half = unit / 2;
    if us >= 0 {
        (us.saturating_add(half)) / unit * unit
    } else {
        (us.saturating_sub(half)) / unit * unit
    }
}
