//! make_time, make_timestamp and make_timestamptz.

use super::datetime::{days_of, no_date};
use super::library::{pure, stable};
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Float8, Int4, Text, Time, Timestamp, TimestampTz};
use crate::types::calendar::{DAY_US, SECOND_US, check_finite, check_timestamp};
use crate::types::zone;
use crate::value::Value;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("make_time", &[Int4, Int4, Float8], Time, |a, _| match a {
        [Value::Int4(h), Value::Int4(m), Value::Float8(s)] => clock(*h, *m, *s).map(Value::Time),
        _ => Err(mismatch("make_time")),
    }),
    pure("make_timestamp", &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamp, |a, _| {
        local(a).map(Value::Timestamp)
    }),
    stable("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8], TimestampTz, |a, cx| {
        check_finite(zone::to_absolute(&cx.settings.time_zone, local(a)?)).map(Value::TimestampTz)
    }),
    stable("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8, Text], TimestampTz,
        |a, _| match a.get(6) {
            Some(Value::Text(name)) => {
                let local = local(&a[..6])?;
                let us = match numeric_zone(name)? {
                    Some(east) => local - east * SECOND_US,
                    None => zone::to_absolute(&super::datetime::named(name)?, local),
                };
                check_finite(us).map(Value::TimestampTz)
            }
            _ => Err(mismatch("make_timestamptz")),
        }),
];

/// Returns the seconds east of UTC of a zone such as `+2`, `-0330` or `+5:45`; `None` if the zone
/// is a name.
///
/// # Errors
/// 22023 for a number without a sign, and beyond 15:59:59.
fn numeric_zone(name: &str) -> Result<Option<i64>, SqlError> {
    let refused = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(refused(message)
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let Some(body) = name.strip_prefix(['-', '+']) else {
        return Ok(None);
    };
    let parts: Vec<&str> = body.split(':').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !parts.iter().all(is_number) {
        return Ok(None);
    }
    let number = |part: &str| part.parse::<i64>().unwrap_or(i64::MAX);
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours] if hours.len() < 3 => (number(hours), 0, 0),
        [packed] => (number(packed) / 100, number(packed) % 100, 0),
        [hours, minutes] => (number(hours), number(minutes), 0),
        [hours, minutes, seconds] => (number(hours), number(minutes), number(seconds)),
        _ => return Ok(None),
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(refused(format!(
            "numeric time zone \"{name}\" out of range"
        )));
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60 + seconds)))
}

fn clock(hours: i32, minutes: i32, seconds: f64) -> Result<i64, SqlError> {
    let us = (seconds * SECOND_US as f64).round_ties_even();
    let good = (0..=24).contains(&hours)
        && (0..60).contains(&minutes)
        && (0.0..=60.0 * SECOND_US as f64).contains(&us);
    let total = (i64::from(hours) * 60 + i64::from(minutes)) * 60 * SECOND_US
        + if good { us as i64 } else { 0 };
    if !good || total > DAY_US {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!(
                "time field value out of range: {hours}:{minutes:02}:{}",
                format_seconds(seconds)
            ),
        ));
    }
    Ok(total)
}

/// Formats seconds with two digits before the point, for the error message.
fn format_seconds(seconds: f64) -> String {
    let text = seconds.to_string();
    match text.split('.').next() {
        Some(whole) if whole.len() < 2 => format!("0{text}"),
        _ => text,
    }
}

fn local(args: &[Value]) -> Result<i64, SqlError> {
    let [
        Value::Int4(year),
        Value::Int4(month),
        Value::Int4(day),
        Value::Int4(hours),
        Value::Int4(minutes),
        Value::Float8(seconds),
    ] = args
    else {
        return Err(mismatch("make_timestamp"));
    };
    let days = days_of(*year, *month, *day)?;
    let time = clock(*hours, *minutes, *seconds)?;
    let us = days
        .checked_mul(DAY_US)
        .and_then(|days| days.checked_add(time))
        .ok_or_else(|| no_date(*year, *month, *day))?;
    check_timestamp(us)
}
