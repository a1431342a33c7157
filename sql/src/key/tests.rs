//! Tests that keys sort as the values do, whatever the type.

use rust_decimal::Decimal;

use super::*;
use crate::types::{Fields, Type};
use crate::value::{Interval, TimeTz};

fn key(value: &Value, desc: bool, nulls_first: bool) -> Vec<u8> {
    let column = KeyColumn {
        column: 0,
        desc,
        nulls_first,
        marked: true,
        blank_padded: false,
    };
    let mut out = Vec::new();
    column.encode(value, &mut out);
    out
}

fn ascending(values: &[Value]) {
    for pair in values.windows(2) {
        assert!(
            key(&pair[0], false, false) < key(&pair[1], false, false),
            "{pair:?}"
        );
        assert!(
            key(&pair[0], true, true) > key(&pair[1], true, true),
            "{pair:?}"
        );
    }
}

#[test]
fn rows_are_in_order_field_by_field_and_a_further_field_changes_no_key() {
    let row = |fields: &[Option<i32>]| {
        let values = fields.iter().map(|of| of.map_or(Value::Null, Value::Int4));
        let shape = Fields::numbered(fields.iter().map(|_| Type::INT4));
        Value::from(Record::new(shape, values.collect()))
    };
    ascending(&[
        row(&[Some(1), Some(2)]),
        row(&[Some(1), Some(3)]),
        row(&[Some(1), None]),
        row(&[Some(2), Some(0)]),
        row(&[None, Some(1)]),
        row(&[None, None]),
    ]);
    for fields in [
        vec![Some(1), Some(2)],
        vec![Some(1), None],
        vec![None, Some(1)],
    ] {
        let mut wider = fields.clone();
        wider.push(None);
        let same = key(&row(&fields), false, false) == key(&row(&wider), false, false);
        assert!(same, "{fields:?}");
    }
}

fn numeric(s: &str) -> Value {
    Value::Numeric(s.parse().expect("a decimal"))
}

#[test]
fn integers_and_floats_sort() {
    ascending(&[i32::MIN, -7, -1, 0, 1, 256, i32::MAX].map(Value::Int4));
    ascending(&[i64::MIN, -1, 0, 1, i64::MAX].map(Value::Int8));
    ascending(&[i16::MIN, -1, 0, 1, i16::MAX].map(Value::Int2));
    let floats = [
        f64::NEG_INFINITY,
        -1.5,
        -1e-300,
        0.0,
        1e-300,
        2.0,
        f64::INFINITY,
        f64::NAN,
    ];
    ascending(&floats.map(Value::Float8));
    assert_eq!(
        key(&Value::Float8(-0.0), false, false),
        key(&Value::Float8(0.0), false, false)
    );
}

#[test]
fn numerics_sort_and_ignore_scale() {
    let values = [
        "-79228162514264337593543950335",
        "-100.01",
        "-100",
        "-99.9",
        "-1",
        "-0.5",
        "-0.05",
        "-0.0001",
        "0",
        "0.0001",
        "0.0010",
        "0.05",
        "0.5",
        "0.51",
        "1",
        "1.01",
        "9",
        "10",
        "10.5",
        "99",
        "100",
        "1234567890.123456789",
    ];
    ascending(&values.map(numeric));
    for (a, b) in [
        ("1.0", "1.000"),
        ("100", "100.00"),
        ("0", "0.00"),
        ("-0.50", "-0.5"),
    ] {
        assert_eq!(
            key(&numeric(a), false, false),
            key(&numeric(b), false, false)
        );
    }
}

#[test]
fn text_sorts_by_bytes_with_zero_bytes_inside() {
    let texts = ["", "\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "é"];
    ascending(&texts.map(|t| Value::Text(t.into())));
    ascending(&texts.map(|t| Value::Bytea(t.as_bytes().to_vec())));
}

#[test]
fn nulls_go_where_asked() {
    let one = Value::Int4(1);
    assert!(key(&Value::Null, false, true) < key(&one, false, true));
    assert!(key(&Value::Null, false, false) > key(&one, false, false));
    assert!(key(&Value::Null, true, true) < key(&one, true, true));
    assert!(key(&Value::Null, true, false) > key(&one, true, false));
}

/// Returns a random value of one type. Values are often equal or adjacent.
fn random_value(kind: usize, next: &mut impl FnMut() -> u64) -> Value {
    let small = |n: u64| (n % 7) as i64 - 3;
    let n = next();
    let wide = if n.is_multiple_of(3) {
        small(next())
    } else {
        next() as i64
    };
    match kind {
        15 => {
            let letters = (0..next() % 5).map(|_| ['\0', 'a', 'A', 'É', 'é'][next() as usize % 5]);
            Value::Citext(letters.collect::<String>().into())
        }
        0 => Value::Int2(wide as i16),
        1 => Value::Int4(wide as i32),
        2 => Value::Int8(wide),
        3 => Value::Float8([0.0, -0.0, f64::NAN, f64::INFINITY, 1.5, -1.5][n as usize % 6]),
        4 => Value::Float8(f64::from_bits(next())),
        5 => Value::Float4(f32::from_bits(next() as u32)),
        6 => Value::Numeric(Decimal::new(wide, (next() % 20) as u32)),
        7 => {
            let letters = (0..next() % 5).map(|_| ['\0', 'a', 'b', '\u{e9}'][next() as usize % 4]);
            Value::Text(letters.collect::<String>().into())
        }
        8 => Value::Bytea(
            (0..next() % 4)
                .map(|_| [0, 1, 255][next() as usize % 3])
                .collect(),
        ),
        9 => Value::Bool(n.is_multiple_of(2)),
        10 => Value::Date(wide as i32),
        11 => Value::Interval(Interval {
            months: small(n) as i32,
            days: small(next()) as i32 * 30,
            us: small(next()) * 86_400_000_000,
        }),
        13 => {
            let element = |next: &mut dyn FnMut() -> u64| match next() % 4 {
                0 => Value::Null,
                n => Value::Text(["", "\0", "a"][n as usize - 1].into()),
            };
            let values = (0..next() % 4).map(|_| element(next)).collect();
            Array::of(values).into()
        }
        14 => Value::Jsonb(
            [
                "null",
                "true",
                "1",
                "1.0",
                "-2.5",
                "10",
                "\"a\"",
                "[]",
                "[1]",
                "[1, 2]",
                "{}",
                "{\"a\": 1}",
                "{\"b\": 1}",
                "0.05",
                "\"\"",
            ][n as usize % 15]
                .into(),
        ),
        12 => Value::TimeTz(TimeTz {
            us: (3 + small(n)) * 3_600_000_000,
            west: small(next()) as i32 * 3600,
        }),
        _ => Value::Null,
    }
}

#[test]
fn keys_sort_as_the_values_compare() {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for round in 0..20_000 {
        let kind = round % 16;
        let pick = |next: &mut dyn FnMut() -> u64| match next() % 10 {
            0 => Value::Null,
            _ => random_value(kind, &mut &mut *next),
        };
        let (a, b) = (pick(&mut next), pick(&mut next));
        for (desc, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
            let by_value = crate::functions::sort_compare(&a, &b, desc, nulls_first);
            let by_key = key(&a, desc, nulls_first).cmp(&key(&b, desc, nulls_first));
            assert_eq!(
                by_value, by_key,
                "{a:?} {b:?} desc {desc} nulls first {nulls_first}"
            );
        }
    }
}

#[test]
fn blanks_at_the_end_of_char_do_not_count() {
    let mut a = Vec::new();
    let mut b = Vec::new();
    encode_plain(&Value::Text("ab  ".into()), true, &mut a);
    encode_plain(&Value::Text("ab".into()), true, &mut b);
    assert_eq!(a, b);
}

#[test]
fn successor_is_past_every_key_with_the_prefix() {
    let mut prefix = vec![1, 0xFF, 0xFF];
    assert!(successor(&mut prefix));
    assert_eq!(prefix, [2]);
    let mut all = vec![0xFF];
    assert!(!successor(&mut all));
}
