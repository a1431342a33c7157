//! EXTRACT and date_part: one field of a date or time.
//!
//! EXTRACT returns a numeric, date_part the same number as a double.

use rust_decimal::Decimal;

use super::library::{pure, stable};
use super::{ScalarFunction, decimal, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Date, Float8, Numeric, Text, Timestamp, TimestampTz};
use crate::types::calendar::{
    DAY_US, EPOCH_SHIFT_SECONDS, SECOND_US, civil_from_days, days_from_civil, timestamp_of_date,
};
use crate::types::{numeric, zone};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("extract", &[Text, Date], Numeric, extract),
    pure("extract", &[Text, Timestamp], Numeric, extract),
    stable("extract", &[Text, TimestampTz], Numeric, extract),
    pure("date_part", &[Text, Date], Float8, date_part),
    pure("date_part", &[Text, Timestamp], Float8, date_part),
    stable("date_part", &[Text, TimestampTz], Float8, date_part),
];

fn date_part(args: &[Value], cx: &EvalContext) -> Outcome {
    let field = match args {
        [name, Value::Date(days)] => {
            let midnight = Value::Timestamp(timestamp_of_date(*days)?);
            extract(&[name.clone(), midnight], cx)?
        }
        _ => extract(args, cx)?,
    };
    Ok(as_double(field))
}

/// Converts a result of EXTRACT to that of date_part.
pub(super) fn as_double(field: Value) -> Value {
    match field {
        Value::Numeric(v) => Value::Float8(numeric::to_f64(&v)),
        other => other,
    }
}

fn extract(args: &[Value], cx: &EvalContext) -> Outcome {
    let [Value::Text(field), moment] = args else {
        return Err(mismatch("extract"));
    };
    let field = field.to_ascii_lowercase();
    let (local, offset, name, date) = match moment {
        Value::Date(i32::MIN | i32::MAX)
        | Value::Timestamp(i64::MIN | i64::MAX)
        | Value::TimestampTz(i64::MIN | i64::MAX) => {
            return Err(SqlError::unsupported("a field of an infinite date"));
        }
        // The microseconds of the latest dates exceed 64 bits.
        Value::Date(days) => (i128::from(*days) * i128::from(DAY_US), None, "date", true),
        Value::Timestamp(us) => (i128::from(*us), None, "timestamp without time zone", false),
        Value::TimestampTz(us) => {
            let offset = zone::offset_at(&cx.settings.time_zone, *us);
            let local = i128::from(*us) + i128::from(offset) * i128::from(SECOND_US);
            (local, Some(offset), "timestamp with time zone", false)
        }
        _ => return Err(mismatch("extract")),
    };
    let unknown = |what: &str, state| {
        SqlError::new(state, format!("unit \"{field}\" {what} for type {name}"))
    };
    let found = match offset {
        Some(offset) => zone_field(&field, local, offset),
        None => None,
    }
    .or_else(|| date_field(&field, local))
    .or_else(|| match (date, field.as_str()) {
        // The epoch of a date has no fraction.
        (true, "epoch") => {
            whole(days_and_time(local).0 * (DAY_US / SECOND_US) + EPOCH_SHIFT_SECONDS)
        }
        (true, _) => None,
        (false, _) => time_field(&field, local),
    });
    match found {
        Some(value) => value.map(Value::Numeric),
        None if time_field(&field, local).is_some() || field.starts_with("timezone") => {
            Err(unknown("not supported", SqlState::FEATURE_NOT_SUPPORTED))
        }
        None => Err(unknown("not recognized", SqlState::INVALID_PARAMETER_VALUE)),
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

/// Splits a local time in microseconds into days and the microseconds of the day.
fn days_and_time(local: i128) -> (i64, i64) {
    let day = i128::from(DAY_US);
    (local.div_euclid(day) as i64, local.rem_euclid(day) as i64)
}

fn zone_field(field: &str, local: i128, offset: i32) -> Field {
    match field {
        "epoch" => epoch(local - i128::from(offset) * i128::from(SECOND_US)),
        "timezone" => whole(i64::from(offset)),
        "timezone_hour" => whole(i64::from(offset / 3600)),
        "timezone_minute" => whole(i64::from(offset / 60 % 60)),
        _ => None,
    }
}

fn epoch(us: i128) -> Field {
    let us = us + i128::from(EPOCH_SHIFT_SECONDS * SECOND_US);
    Some(Decimal::try_from_i128_with_scale(us, 6).map_err(|_| numeric::overflow()))
}

fn date_field(field: &str, local: i128) -> Field {
    let (days, of_day) = days_and_time(local);
    let (year, month, day) = civil_from_days(days);
    // The year as shown: there is no year 0, and 1 BC is -1.
    let displayed_year = i64::from(if year > 0 { year } else { year - 1 });
    let period = |length: i64| {
        if displayed_year > 0 {
            (displayed_year + length - 1) / length
        } else {
            -((length - 1 - displayed_year) / length)
        }
    };
    match field {
        "year" | "years" | "y" | "yr" | "yrs" => whole(displayed_year),
        "month" | "months" | "mon" | "mons" => whole(i64::from(month)),
        "day" | "days" | "d" => whole(i64::from(day)),
        "quarter" => whole(i64::from((month - 1) / 3 + 1)),
        // 2000-01-01 was a Saturday.
        "dow" => whole((days + 6).rem_euclid(7)),
        "isodow" => whole((days + 5).rem_euclid(7) + 1),
        "doy" => whole(days - days_from_civil(year, 1, 1) + 1),
        "julian" => julian(days, of_day),
        "week" | "weeks" | "w" => whole(iso_week(days).1),
        "isoyear" => {
            let year = iso_week(days).0;
            whole(if year > 0 { year } else { year - 1 })
        }
        "decade" | "decades" => whole(i64::from(year).div_euclid(10)),
        "century" | "centuries" | "c" => whole(period(100)),
        "millennium" | "millennia" | "mil" => whole(period(1000)),
        _ => None,
    }
}

/// Returns the day of the Julian period, with the time of day as its fraction.
fn julian(days: i64, of_day: i64) -> Field {
    const DAY_OF_2000: i64 = 2_451_545;
    let day = Decimal::from(days + DAY_OF_2000);
    if of_day == 0 {
        return Some(Ok(day));
    }
    let part = decimal::div(&Decimal::from(of_day), &Decimal::from(DAY_US));
    Some(part.and_then(|part| decimal::add(&day, &part)))
}

fn time_field(field: &str, local: i128) -> Field {
    let (_, of_day) = days_and_time(local);
    let of_minute = of_day % (60 * SECOND_US);
    match field {
        "hour" | "hours" | "h" | "hr" | "hrs" => whole(of_day / (3600 * SECOND_US)),
        "minute" | "minutes" | "m" | "min" | "mins" => whole(of_day / (60 * SECOND_US) % 60),
        "second" | "seconds" | "s" | "sec" | "secs" => scaled(of_minute, 6),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => scaled(of_minute, 3),
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => whole(of_minute),
        "epoch" => epoch(local),
        _ => None,
    }
}

/// Returns the ISO year and week of a date. Week 1 contains the year's first Thursday.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let (year, _, _) = civil_from_days(thursday);
    let first = days_from_civil(year, 1, 1);
    (i64::from(year), (thursday - first) / 7 + 1)
}
