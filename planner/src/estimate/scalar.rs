//! Positions of values between two others, for interpolation within a group of a histogram.

use fencepost_sql::types::numeric::to_f64;
use fencepost_sql::value::Value;

/// The number of bytes of a text that count.
const TEXT_BYTES: usize = 8;

/// Returns the position of `value` between `low` and `high`, from 0 to 1; one half if the type has
/// no distances.
pub(super) fn position(value: &Value, low: &Value, high: &Value) -> f64 {
    const MIDDLE: f64 = 0.5;
    let skip = common_bytes(low, high);
    let [Some(value), Some(low), Some(high)] = [value, low, high].map(|of| number(of, skip)) else {
        return MIDDLE;
    };
    if high <= low {
        return MIDDLE;
    }
    ((value - low) / (high - low)).clamp(0.0, 1.0)
}

/// Returns the number of leading bytes that two texts have in common.
fn common_bytes(low: &Value, high: &Value) -> usize {
    match (low.as_text(), high.as_text()) {
        (Some(low), Some(high)) => {
            let pairs = low.bytes().zip(high.bytes());
            pairs.take_while(|(low, high)| low == high).count()
        }
        _ => 0,
    }
}

/// Returns a number whose order and distances are about those of the values. A text counts from
/// the byte `skip` on.
fn number(value: &Value, skip: usize) -> Option<f64> {
    if let Some(text) = value.as_text() {
        let bytes = text.bytes().skip(skip).chain(std::iter::repeat(0));
        return Some(
            bytes
                .take(TEXT_BYTES)
                .fold(0.0, |sum, byte| sum * 256.0 + f64::from(byte)),
        );
    }
    if let Some(int) = value.as_int() {
        return Some(int as f64);
    }
    Some(match value {
        Value::Float4(value) => f64::from(*value),
        Value::Float8(value) => *value,
        Value::Numeric(value) => to_f64(value),
        Value::Date(days) => f64::from(*days),
        Value::Timestamp(us) | Value::TimestampTz(us) | Value::Time(us) => *us as f64,
        Value::Interval(interval) => interval.span() as f64,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Oid(oid) => f64::from(*oid),
        _ => return None,
    })
    .filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_placed_by_distance() {
        let [low, high] = [Value::Int4(0), Value::Int4(10)];
        assert_eq!(position(&Value::Int4(3), &low, &high), 0.3);
        assert_eq!(position(&Value::Int4(30), &low, &high), 1.0);
    }

    #[test]
    fn texts_are_placed_behind_their_common_bytes() {
        let [low, high] = ["Customer#1000", "Customer#5000"].map(Value::text);
        let place = position(&Value::text("Customer#2000"), &low, &high);
        assert!((0.2..0.3).contains(&place), "{place}");
    }

    #[test]
    fn values_without_distances_are_in_the_middle() {
        let uuid = |byte| Value::Uuid([byte; 16]);
        assert_eq!(position(&uuid(1), &uuid(0), &uuid(9)), 0.5);
    }
}
