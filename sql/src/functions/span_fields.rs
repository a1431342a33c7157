//! EXTRACT, date_part and date_trunc of intervals and times of day.

use rust_decimal::Decimal;

use super::extract::as_double;
use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Float8, Interval as Span, Numeric, Text, Time, TimeTz};
use crate::types::calendar::SECOND_US;
use crate::types::numeric;
use crate::value::{Interval, Value};

type Outcome = Result<Value, SqlError>;

const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("extract", &[Text, Span], Numeric, extract),
    pure("extract", &[Text, Time], Numeric, extract),
    pure("extract", &[Text, TimeTz], Numeric, extract),
    pure("date_part", &[Text, Span], Float8, date_part),
    pure("date_part", &[Text, Time], Float8, date_part),
    pure("date_part", &[Text, TimeTz], Float8, date_part),
    pure("date_trunc", &[Text, Span], Span, date_trunc),
];

fn date_part(args: &[Value], cx: &EvalContext) -> Outcome {
    Ok(as_double(extract(args, cx)?))
}

fn refused(unit: &str, known: bool, name: &str) -> SqlError {
    let (what, state) = match known {
        true => ("not supported", SqlState::FEATURE_NOT_SUPPORTED),
        false => ("not recognized", SqlState::INVALID_PARAMETER_VALUE),
    };
    SqlError::new(state, format!("unit \"{unit}\" {what} for type {name}"))
}

/// Returns whether a unit exists, for any type.
fn is_unit(unit: &str) -> bool {
    const UNITS: [&str; 22] = [
        "microseconds",
        "milliseconds",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
        "decade",
        "century",
        "millennium",
        "dow",
        "isodow",
        "doy",
        "isoyear",
        "julian",
        "epoch",
        "timezone",
        "timezone_hour",
        "timezone_minute",
    ];
    UNITS.contains(&unit)
}

/// Returns the canonical name of a unit.
fn canonical(unit: &str) -> String {
    let lowered = unit.to_ascii_lowercase();
    let one = match lowered.as_str() {
        "microsecond" | "us" | "usec" | "usecs" | "useconds" => "microseconds",
        "millisecond" | "ms" | "msec" | "msecs" | "mseconds" => "milliseconds",
        "seconds" | "s" | "sec" | "secs" => "second",
        "minutes" | "m" | "min" | "mins" => "minute",
        "hours" | "h" | "hr" | "hrs" => "hour",
        "days" | "d" => "day",
        "weeks" | "w" => "week",
        "months" | "mon" | "mons" => "month",
        "qtr" => "quarter",
        "years" | "y" | "yr" | "yrs" => "year",
        "decades" | "dec" | "decs" => "decade",
        "centuries" | "c" | "cent" => "century",
        "millennia" | "mil" | "mils" => "millennium",
        _ => return lowered,
    };
    one.to_owned()
}

fn extract(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Text(unit), value] = args else {
        return Err(mismatch("extract"));
    };
    let name = canonical(unit);
    let lower_case = unit.to_ascii_lowercase();
    let (found, of) = match value {
        Value::Interval(span) => (of_span(&name, span), "interval"),
        Value::Time(us) => (of_clock(&name, *us, None), "time without time zone"),
        Value::TimeTz(time) => (
            of_clock(&name, time.us, Some(time.west)),
            "time with time zone",
        ),
        _ => return Err(mismatch("extract")),
    };
    match found {
        Some(value) => value.map(Value::Numeric),
        None => Err(refused(&lower_case, is_unit(&name), of)),
    }
}

type Field = Option<Result<Decimal, SqlError>>;

fn whole(v: i64) -> Field {
    Some(Ok(Decimal::from(v)))
}

fn scaled(v: i64, scale: u32) -> Field {
    Some(numeric::from_parts(
        v < 0,
        u128::from(v.unsigned_abs()),
        scale,
    ))
}

fn of_clock(unit: &str, us: i64, west: Option<i32>) -> Field {
    match (unit, west) {
        ("timezone", Some(west)) => whole(-i64::from(west)),
        ("timezone_hour", Some(west)) => whole(-i64::from(west / 3600)),
        ("timezone_minute", Some(west)) => whole(-i64::from(west / 60 % 60)),
        ("epoch", Some(west)) => scaled(us + i64::from(west) * SECOND_US, 6),
        ("epoch", None) => scaled(us, 6),
        _ => seconds(unit, us),
    }
}

fn seconds(unit: &str, us: i64) -> Field {
    match unit {
        "microseconds" => whole(us % MINUTE_US),
        "milliseconds" => scaled(us % MINUTE_US, 3),
        "second" => scaled(us % MINUTE_US, 6),
        "minute" => whole(us / MINUTE_US % 60),
        "hour" => whole(us / HOUR_US),
        _ => None,
    }
}

fn of_span(unit: &str, span: &Interval) -> Field {
    let years = i64::from(span.months / 12);
    let months = i64::from(span.months % 12);
    match unit {
        "day" => whole(i64::from(span.days)),
        "month" => whole(months),
        "quarter" => whole(months / 3 + 1),
        "year" => whole(years),
        "decade" => whole(years / 10),
        "century" => whole(years / 100),
        "millennium" => whole(years / 1000),
        "epoch" => {
            // A year has 365.25 days here and a month 30.
            let quarter_days = years * 1461 + months * 120 + i64::from(span.days) * 4;
            let us =
                i128::from(quarter_days) * i128::from(21_600 * SECOND_US) + i128::from(span.us);
            Some(numeric::from_parts(us < 0, us.unsigned_abs(), 6))
        }
        _ => seconds(unit, span.us),
    }
}

fn date_trunc(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Text(unit), Value::Interval(span)] = args else {
        return Err(mismatch("date_trunc"));
    };
    let name = canonical(unit);
    let months = |length: i32| Interval {
        months: span.months / length * length,
        ..Interval::default()
    };
    let us = |length: i64| Interval {
        us: span.us / length * length,
        ..*span
    };
    let cut = match name.as_str() {
        "millennium" => months(12_000),
        "century" => months(1200),
        "decade" => months(120),
        "year" => months(12),
        "quarter" => months(3),
        "month" => months(1),
        "day" => Interval { us: 0, ..*span },
        "hour" => us(HOUR_US),
        "minute" => us(MINUTE_US),
        "second" => us(SECOND_US),
        "milliseconds" => us(1000),
        "microseconds" => *span,
        _ => {
            let error = refused(&unit.to_ascii_lowercase(), is_unit(&name), "interval");
            return Err(match name.as_str() {
                "week" => error.detail("Months usually have fractional weeks."),
                _ => error,
            });
        }
    };
    Ok(Value::Interval(cut))
}
