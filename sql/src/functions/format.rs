//! to_char, to_date, to_timestamp and to_number: conversions by a template.

mod number;
mod number_in;
mod read;
mod template;
mod timestamp;

use super::library::stable;
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind::{
    Date, Float4, Float8, Int4, Int8, Interval, Numeric, Text, Timestamp, TimestampTz,
};
use crate::types::calendar::{SECOND_US, check_timestamp};
use crate::types::{numeric, zone};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    stable("to_char", &[Timestamp, Text], Text,
        |a, cx| timestamp::to_char(&a[0], text(a, 1)?, &cx.settings.time_zone)),
    stable("to_char", &[TimestampTz, Text], Text,
        |a, cx| timestamp::to_char(&a[0], text(a, 1)?, &cx.settings.time_zone)),
    stable("to_char", &[Interval, Text], Text,
        |a, cx| timestamp::to_char(&a[0], text(a, 1)?, &cx.settings.time_zone)),
    stable("to_char", &[Int4, Text], Text, |a, _| of_number(a)),
    stable("to_char", &[Int8, Text], Text, |a, _| of_number(a)),
    stable("to_char", &[Numeric, Text], Text, |a, _| of_number(a)),
    stable("to_char", &[Float4, Text], Text, |a, _| of_number(a)),
    stable("to_char", &[Float8, Text], Text, |a, _| of_number(a)),
    stable("to_date", &[Text, Text], Date,
        |a, _| read::moment(text(a, 0)?, text(a, 1)?)?.date().map(Value::Date)),
    stable("to_timestamp", &[Text, Text], TimestampTz, |a, cx| {
        let read = read::moment(text(a, 0)?, text(a, 1)?)?;
        let local = read.local()?;
        let us = match read.offset()? {
            Some(east) => local - east * SECOND_US,
            None => zone::to_absolute(&cx.settings.time_zone, local),
        };
        check_timestamp(us).map(Value::TimestampTz)
    }),
    stable("to_number", &[Text, Text], Numeric,
        |a, _| match text(a, 1)? {
        "" => Ok(Value::Null),
        template => number_in::to_number(text(a, 0)?, template),
    }),
];

fn text(args: &[Value], i: usize) -> Result<&str, SqlError> {
    args.get(i)
        .and_then(Value::as_text)
        .ok_or_else(|| mismatch("a formatting function"))
}

/// Formats a timestamp like C's `ctime`, with microseconds and the time zone.
pub(super) fn time_of_day(moment: &Value, cx: &EvalContext) -> Outcome {
    const TEMPLATE: &str = "Dy Mon DD HH24:MI:SS.US YYYY TZ";
    timestamp::to_char(moment, TEMPLATE, &cx.settings.time_zone)
}

fn of_number(args: &[Value]) -> Outcome {
    let value = match &args[0] {
        Value::Numeric(v) => *v,
        Value::Float4(v) if v.is_finite() => numeric::from_f64(f64::from(*v), 6)?,
        Value::Float8(v) if v.is_finite() => numeric::from_f64(*v, 15)?,
        Value::Float4(_) | Value::Float8(_) => {
            return Err(SqlError::unsupported(
                "to_char of an infinite number or NaN",
            ));
        }
        value => value
            .as_int()
            .map(rust_decimal::Decimal::from)
            .ok_or_else(|| mismatch("to_char"))?,
    };
    number::to_char(
        &value,
        text(args, 1)?,
        !matches!(args[0], Value::Numeric(_)),
    )
}
