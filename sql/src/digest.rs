//! Digests of rows. Rows that a client cannot distinguish have equal digests; other rows have
//! different digests, except by chance.
//!
//! SQL equality does not suffice: `1.0` and `1.00`, or the floats `0` and `-0`, are equal but are
//! displayed differently.

use std::hash::{Hash, Hasher};

use crate::value::{TimeTz, Value};

/// Adds a row to a digest.
pub fn digest_row(row: &[Value], digest: &mut impl Hasher) {
    digest.write_usize(row.len());
    for value in row {
        digest_value(value, digest);
    }
}

fn digest_value(value: &Value, digest: &mut impl Hasher) {
    std::mem::discriminant(value).hash(digest);
    match value {
        Value::Null => {}
        Value::Bool(v) => v.hash(digest),
        Value::Int2(v) => v.hash(digest),
        Value::Int4(v) | Value::Date(v) => v.hash(digest),
        Value::Int8(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            v.hash(digest);
        }
        Value::Oid(v) => v.hash(digest),
        Value::Float4(v) => v.to_bits().hash(digest),
        Value::Float8(v) => v.to_bits().hash(digest),
        Value::Numeric(v) => v.serialize().hash(digest),
        Value::Text(v) | Value::Citext(v) | Value::Json(v) | Value::Jsonb(v) => v.hash(digest),
        Value::Bytea(v) => v.hash(digest),
        Value::TimeTz(TimeTz { us, west }) => (us, west).hash(digest),
        Value::Interval(v) => (v.months, v.days, v.us).hash(digest),
        Value::Uuid(v) => v.hash(digest),
        Value::Inet(v) => v.hash(digest),
        Value::MacAddr(v) => v.hash(digest),
        Value::Enum(v) => v.name().hash(digest),
        Value::Object(v) => (v.oid, &v.name).hash(digest),
        Value::Array(v) => {
            v.dims.hash(digest);
            digest_row(&v.values, digest);
        }
        Value::Record(v) => digest_row(&v.values, digest),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hasher};

    use foldhash::quality::FixedState;
    use rust_decimal::Decimal;

    use super::digest_row;
    use crate::value::{Array, Value};

    fn digest(row: &[Value]) -> u64 {
        let mut hasher = FixedState::with_seed(1).build_hasher();
        digest_row(row, &mut hasher);
        hasher.finish()
    }

    #[test]
    fn equal_values_that_are_shown_differently_differ() {
        let decimal = |text: &str| Value::Numeric(text.parse::<Decimal>().unwrap());
        assert_ne!(digest(&[decimal("1.0")]), digest(&[decimal("1.00")]));
        assert_eq!(digest(&[decimal("1.0")]), digest(&[decimal("1.0")]));
        assert_ne!(
            digest(&[Value::Float8(0.0)]),
            digest(&[Value::Float8(-0.0)])
        );
    }

    #[test]
    fn digest_depends_on_value_boundaries() {
        let ab = [Value::text("a"), Value::text("b")];
        let a_b = [Value::text("ab"), Value::text("")];
        assert_ne!(digest(&ab), digest(&a_b));
        let array = Value::from(Array::of(ab.to_vec()));
        assert_ne!(digest(&[array]), digest(&ab));
        assert_ne!(digest(&[Value::Int4(1)]), digest(&[Value::Int8(1)]));
        assert_ne!(digest(&[Value::Null]), digest(&[]));
    }
}
