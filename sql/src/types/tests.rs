//! Tests of the text and binary forms of values.

use proptest::prelude::*;

use super::{Type, TypeKind, binary_in, binary_out, calendar, numeric, text_in, to_text};
use crate::settings::Settings;
use crate::value::{Array, Dimension, Interval, TimeTz, Value};

/// Generates a value of every type, with its type.
fn any_value() -> impl Strategy<Value = (Type, Value)> {
    prop_oneof![
        any::<bool>().prop_map(|v| (Type::BOOL, Value::Bool(v))),
        any::<i16>().prop_map(|v| (Type::INT2, Value::Int2(v))),
        any::<i32>().prop_map(|v| (Type::INT4, Value::Int4(v))),
        any::<i64>().prop_map(|v| (Type::INT8, Value::Int8(v))),
        any::<f32>().prop_map(|v| (Type::FLOAT4, Value::Float4(v))),
        any::<f64>().prop_map(|v| (Type::FLOAT8, Value::Float8(v))),
        (any::<bool>(), 0..=numeric::MAX_MANTISSA, 0u32..=28).prop_map(|(negative, m, scale)| {
            let number = numeric::from_parts(negative, m, scale).expect("it fits");
            (Type::NUMERIC, Value::Numeric(number))
        }),
        "[^\0]{0,40}".prop_map(|s| (Type::TEXT, Value::text(s))),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|b| (Type::BYTEA, Value::Bytea(b))),
        (calendar::DATE_MIN..=calendar::DATE_MAX).prop_map(|d| (Type::DATE, Value::Date(d))),
        (calendar::TIMESTAMP_MIN..calendar::TIMESTAMP_END)
            .prop_map(|us| (Type::TIMESTAMP, Value::Timestamp(us))),
        (calendar::TIMESTAMP_MIN..calendar::TIMESTAMP_END)
            .prop_map(|us| (Type::TIMESTAMPTZ, Value::TimestampTz(us))),
        (0..=calendar::DAY_US).prop_map(|us| (Type::TIME, Value::Time(us))),
        (0..=calendar::DAY_US, -57_599..57_600)
            .prop_map(|(us, west)| (Type::TIMETZ, Value::TimeTz(TimeTz { us, west }))),
        (any::<i32>(), any::<i32>(), -i64::MAX..i64::MAX).prop_map(|(months, days, us)| {
            let span = Interval { months, days, us };
            (Type::INTERVAL, Value::Interval(span))
        }),
        proptest::collection::vec(proptest::option::of("[^\0]{0,9}"), 0..9).prop_map(|texts| {
            let value = |text: Option<String>| text.map_or(Value::Null, Value::text);
            let array = Array::of(texts.into_iter().map(value).collect());
            (Type::TEXT.array().expect("an array type"), array.into())
        }),
        (1..4i32, 1..4i32, -2..3i32).prop_map(|(rows, columns, lower)| {
            let dim = |len| Dimension { len, lower };
            let array = Array {
                dims: vec![dim(rows), dim(columns)],
                values: (0..rows * columns).map(Value::Int4).collect(),
            };
            (Type::INT4.array().expect("an array type"), array.into())
        }),
        any::<[u8; 16]>().prop_map(|b| (Type::UUID, Value::Uuid(b))),
    ]
}

proptest! {
    #[test]
    fn text_reads_back((ty, value) in any_value()) {
        let settings = Settings::new();
        let text = to_text(&value, &ty, &settings);
        let back = text_in(&ty, &text, &settings).expect("our own text");
        prop_assert!(crate::functions::same(&value, &back), "{} {:?} {:?}", text, value, back);
    }

    #[test]
    fn binary_reads_back((ty, value) in any_value()) {
        let mut bytes = Vec::new();
        binary_out(&value, &ty, &mut bytes);
        let back = binary_in(&ty, &bytes).expect("our own bytes");
        prop_assert!(crate::functions::same(&value, &back));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..30),
        text in "[-+0-9a-zA-Z:./ {}\\\\,_]{0,30}",
    ) {
        let settings = Settings::new();
        let arrays = TypeKind::COLUMN_TYPES.into_iter().filter_map(TypeKind::array);
        for kind in TypeKind::COLUMN_TYPES.into_iter().chain(arrays) {
            let _ = binary_in(&Type::of(kind), &bytes);
            let _ = text_in(&Type::of(kind), &text, &settings);
        }
    }

    #[test]
    fn calendar_covers_all_dates(days in calendar::DATE_MIN..=calendar::DATE_MAX) {
        let (year, month, day) = calendar::civil_from_days(i64::from(days));
        prop_assert_eq!(calendar::days_from_civil(year, month, day), i64::from(days));
    }
}

#[test]
fn numeric_binary_is_postgresqls() {
    for (text, expected) in [
        // ndigits, weight, sign, dscale, digits: from PostgreSQL's numeric_send.
        ("0", "0000000000000000"),
        ("0.00", "0000000000000002"),
        ("1", "00010000000000000001"),
        ("-12345.678", "0003000140000003000109291a7c"),
        ("0.0001", "0001ffff000000040001"),
        ("10000", "00010001000000000001"),
        ("1.5", "000200000000000100011388"),
    ] {
        let mut bytes = Vec::new();
        numeric::to_binary(&numeric::parse(text).expect("a number"), &mut bytes);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, expected, "{text}");
    }
}

#[test]
fn lengths_are_kept() {
    let settings = Settings::new();
    let read = |ty: Type, text: &str| text_in(&ty, text, &settings);
    assert_eq!(read(Type::char(3), "a  "), Ok(Value::text("a")));
    assert_eq!(to_text(&Value::text("a"), &Type::char(3), &settings), "a  ");
    assert_eq!(read(Type::varchar(3), "abc   "), Ok(Value::text("abc")));
    let error = read(Type::varchar(3), "abcd").expect_err("too long");
    assert_eq!(error.sqlstate().as_str(), "22001");
    assert_eq!(
        error.message(),
        "value too long for type character varying(3)"
    );
    let error = read(Type::numeric(5, 2), "999.995").expect_err("too wide");
    assert_eq!(error.message(), "numeric field overflow");
    let error = read(Type::NUMERIC, "123456789012345678901234567890").expect_err("too long");
    assert_eq!(error.sqlstate().as_str(), "22003");
}

/// The expected bytes are those of PostgreSQL's send functions.
#[test]
fn binary_formats_match_postgresql() {
    let array = |ty: Type| ty.array().expect("an array type");
    let known = [
        (
            Type::INTERVAL,
            "1 year 2 mons -3 days 04:05:06.789",
            "000000036c97ca88fffffffd0000000e",
        ),
        (Type::TIME, "12:34:56.5", "0000000a8be1bd20"),
        (Type::TIMETZ, "12:34:56.5+05:30", "0000000a8be1bd20ffffb2a8"),
        (
            array(Type::INT4),
            "{{1,NULL},{3,4}}",
            "000000020000000100000017000000020000000100000002000000010000000400000001ffffffff00000004000000030000000400000004",
        ),
        (
            array(Type::TEXT),
            "[0:1]={ab,\"\"}",
            "000000010000000000000019000000020000000000000002616200000000",
        ),
        (array(Type::TEXT), "{}", "000000000000000000000019"),
        (
            array(Type::INTERVAL),
            "{1 day}",
            "0000000100000000000004a200000001000000010000001000000000000000000000000100000000",
        ),
        (
            Type::JSONB,
            "{\"b\": 1, \"a\": [true, null]}",
            "017b2261223a205b747275652c206e756c6c5d2c202262223a20317d",
        ),
        (Type::JSON, "{\"b\": 1}", "7b2262223a20317d"),
    ];
    for (ty, text, hex) in known {
        let value = text_in(&ty, text, &Settings::new()).expect(text);
        let mut bytes = Vec::new();
        binary_out(&value, &ty, &mut bytes);
        let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digits, hex, "{text}");
        assert_eq!(binary_in(&ty, &bytes).expect(text), value, "{text}");
    }
}
