//! Clocks and functions on dates and times.

use jiff::tz::{Offset, TimeZone};

use super::library::{pure, stable, volatile};
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{
    Bool, Date, Float8, Int4, Text, Time, TimeTz, Timestamp, TimestampTz,
};
use crate::types::calendar::{
    DAY_US, EPOCH_SHIFT_SECONDS, SECOND_US, check_finite, civil_from_days, date_of_timestamp,
    days_from_civil, days_in_month,
};
use crate::types::zone;
use crate::types::zone_abbreviation::abbreviated_offset;
use crate::value::{TimeTz as ZonedTime, Value};

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    stable("now", &[], TimestampTz, |_, cx| Ok(Value::TimestampTz(cx.transaction_start))),
    stable("transaction_timestamp", &[], TimestampTz,
        |_, cx| Ok(Value::TimestampTz(cx.transaction_start))),
    stable("statement_timestamp", &[], TimestampTz,
        |_, cx| Ok(Value::TimestampTz(cx.statement_start))),
    volatile("clock_timestamp", &[], TimestampTz, |_, cx| Ok(Value::TimestampTz(cx.clock_now()))),
    stable("current_timestamp", &[], TimestampTz,
        |_, cx| Ok(Value::TimestampTz(cx.transaction_start))),
    stable("current_date", &[], Date, |_, cx| {
        let local = zone::to_local(&cx.settings.time_zone, cx.transaction_start);
        Ok(Value::Date(date_of_timestamp(local)))
    }),
    stable("localtimestamp", &[], Timestamp, |_, cx| {
        Ok(Value::Timestamp(zone::to_local(&cx.settings.time_zone, cx.transaction_start)))
    }),
    stable("localtime", &[], Time, |_, cx| {
        let local = zone::to_local(&cx.settings.time_zone, cx.transaction_start);
        Ok(Value::Time(local.rem_euclid(DAY_US)))
    }),
    stable("current_time", &[], TimeTz, |_, cx| {
        let offset = zone::offset_at(&cx.settings.time_zone, cx.transaction_start);
        let local = cx.transaction_start.saturating_add(i64::from(offset) * SECOND_US);
        Ok(Value::TimeTz(ZonedTime { us: local.rem_euclid(DAY_US), west: -offset }))
    }),
    pure("date_trunc", &[Text, Timestamp], Timestamp, |a, _| match a {
        [Value::Text(unit), Value::Timestamp(us)] =>
            truncated(unit, *us, "without").map(Value::Timestamp),
        _ => Err(mismatch("date_trunc")),
    }),
    stable("date_trunc", &[Text, TimestampTz], TimestampTz, |a, cx| match a {
        [Value::Text(unit), Value::TimestampTz(us)] => {
            truncated_in(&cx.settings.time_zone, unit, *us).map(Value::TimestampTz)
        }
        _ => Err(mismatch("date_trunc")),
    }),
    stable("date_trunc", &[Text, TimestampTz, Text], TimestampTz, |a, _| match a {
        [_, Value::TimestampTz(us @ (i64::MIN | i64::MAX)), _] => Ok(Value::TimestampTz(*us)),
        [Value::Text(unit), Value::TimestampTz(us), Value::Text(name)] => {
            truncated_in(&named(name)?, unit, *us).map(Value::TimestampTz)
        }
        _ => Err(mismatch("date_trunc")),
    }),
    pure("timezone", &[Text, TimestampTz], Timestamp, |a, _| match a {
        [_, Value::TimestampTz(us @ (i64::MIN | i64::MAX))] => Ok(Value::Timestamp(*us)),
        [Value::Text(name), Value::TimestampTz(us)] => {
            check_finite(zone::to_local(&named(name)?, *us)).map(Value::Timestamp)
        }
        _ => Err(mismatch("timezone")),
    }),
    pure("timezone", &[Text, Timestamp], TimestampTz, |a, _| match a {
        [_, Value::Timestamp(us @ (i64::MIN | i64::MAX))] => Ok(Value::TimestampTz(*us)),
        [Value::Text(name), Value::Timestamp(us)] => {
            check_finite(zone::to_absolute(&named(name)?, *us)).map(Value::TimestampTz)
        }
        _ => Err(mismatch("timezone")),
    }),
    pure("to_timestamp", &[Float8], TimestampTz, to_timestamp),
    pure("make_date", &[Int4, Int4, Int4], Date, make_date),
    pure("isfinite", &[Date], Bool,
        |a, _| Ok(Value::Bool(!matches!(a, [Value::Date(i32::MIN | i32::MAX)])))),
    pure("isfinite", &[Timestamp], Bool,
        |a, _| Ok(Value::Bool(!matches!(a, [Value::Timestamp(i64::MIN | i64::MAX)])))),
    pure("isfinite", &[TimestampTz], Bool,
        |a, _| Ok(Value::Bool(!matches!(a, [Value::TimestampTz(i64::MIN | i64::MAX)])))),
];

/// Returns the time zone of an abbreviation, a name or a POSIX offset, which is positive to the
/// west.
///
/// # Errors
/// 22023 if it is none of them.
pub(super) fn named(name: &str) -> Result<TimeZone, SqlError> {
    let offset = abbreviated_offset(name).map(|seconds| Offset::from_seconds(seconds).ok());
    let zone = match offset {
        Some(offset) => offset.map(TimeZone::fixed),
        None => crate::settings::posix_zone(name),
    };
    zone.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

/// Returns the start of the unit that contains a timestamp. Units below a day keep the UTC offset
/// of the timestamp, which distinguishes two equal local times.
fn truncated_in(zone: &TimeZone, unit: &str, us: i64) -> Result<i64, SqlError> {
    if us == i64::MIN || us == i64::MAX {
        return Ok(us);
    }
    let local = zone::to_local(zone, us);
    let start = truncated(unit, local, "with")?;
    let below_a_day = [
        "microsecond",
        "u",
        "millisecond",
        "m",
        "second",
        "sec",
        "minute",
        "min",
        "hour",
    ];
    let lowered = unit.to_ascii_lowercase();
    check_finite(match below_a_day.contains(&lowered.trim_end_matches('s')) {
        true => us.saturating_add(start.saturating_sub(local)),
        false => zone::to_absolute(zone, start),
    })
}

/// Returns the start of the unit that contains a local time. The error for an unknown unit names
/// the type `timestamp {zone} time zone`.
fn truncated(unit: &str, us: i64, zone: &str) -> Result<i64, SqlError> {
    if us == i64::MIN || us == i64::MAX {
        return Ok(us);
    }
    let days = us.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(days);
    let month_start = |year: i32, month: u32| days_from_civil(year, month, 1) * DAY_US;
    // The calendar's year 0 is 1 BC.
    let years = |length: i32| (year - 1).div_euclid(length) * length + 1;
    let lowered = unit.to_ascii_lowercase();
    let unit_us = match lowered.trim_end_matches('s') {
        "microsecond" | "u" => 1,
        "millisecond" | "m" => 1000,
        "second" | "sec" => SECOND_US,
        "minute" | "min" => 60 * SECOND_US,
        "hour" => 3600 * SECOND_US,
        "day" => DAY_US,
        // 2000-01-03 was a Monday.
        "week" => return check_finite((days - (days - 2).rem_euclid(7)) * DAY_US),
        "month" | "mon" => return check_finite(month_start(year, month)),
        "quarter" => return check_finite(month_start(year, (month - 1) / 3 * 3 + 1)),
        "year" => return check_finite(month_start(year, 1)),
        "decade" => return check_finite(month_start(year.div_euclid(10) * 10, 1)),
        "century" | "centurie" => return check_finite(month_start(years(100), 1)),
        "millennium" | "millennia" => return check_finite(month_start(years(1000), 1)),
        _ => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unit \"{lowered}\" not recognized for type timestamp {zone} time zone"),
            ));
        }
    };
    check_finite(us - us.rem_euclid(unit_us))
}

fn to_timestamp(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Float8(seconds)] = args else {
        return Err(mismatch("to_timestamp"));
    };
    if seconds.is_infinite() {
        let end = if *seconds > 0.0 { i64::MAX } else { i64::MIN };
        return Ok(Value::TimestampTz(end));
    }
    let us = ((seconds - EPOCH_SHIFT_SECONDS as f64) * SECOND_US as f64).round_ties_even();
    let out_of_range = || {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{seconds}\""),
        )
    };
    if us.is_nan() || us.abs() >= 9.2e18 {
        return Err(out_of_range());
    }
    crate::types::calendar::check_timestamp(us as i64)
        .map(Value::TimestampTz)
        .map_err(|_| out_of_range())
}

/// Returns error 22008: the date does not exist.
#[cold]
pub(super) fn no_date(year: i32, month: i32, day: i32) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date field value out of range: {year}-{month:02}-{day:02}"),
    )
}

/// Returns the days from 2000-01-01 to a date.
///
/// # Errors
/// 22008 if the date does not exist.
pub(super) fn days_of(year: i32, month: i32, day: i32) -> Result<i64, SqlError> {
    let refused = || no_date(year, month, day);
    // A negative year is BC; there is no year 0.
    let civil = match year {
        0 => return Err(refused()),
        y if y < 0 => y.checked_add(1).ok_or_else(refused)?,
        y => y,
    };
    let of_month = u32::try_from(month).ok().filter(|m| (1..=12).contains(m));
    let of_month = of_month.ok_or_else(refused)?;
    let of_day = u32::try_from(day).ok();
    let of_day = of_day.filter(|d| (1..=days_in_month(civil, of_month)).contains(d));
    Ok(days_from_civil(
        civil,
        of_month,
        of_day.ok_or_else(refused)?,
    ))
}

fn make_date(args: &[Value], _: &EvalContext) -> Outcome {
    let [Value::Int4(year), Value::Int4(month), Value::Int4(day)] = args else {
        return Err(mismatch("make_date"));
    };
    let days = days_of(*year, *month, *day)?;
    let days = i32::try_from(days).map_err(|_| no_date(*year, *month, *day))?;
    crate::types::calendar::check_date(days, "").map(Value::Date)
}
