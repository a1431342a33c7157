//! Intervals: arithmetic with them, and their addition to dates and times.
//!
//! Months and days are added by the calendar, the rest as microseconds. For a `timestamptz`, months
//! and days are added in the session's time zone. The operators are functions of the library, named
//! after their symbols.

use super::library::{pure, stable};
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::types::TypeKind::{
    Date, Float8, Int4, Interval as Span, Text, Time as Clock, TimeTz as ZonedClock, Timestamp,
    TimestampTz, Xid,
};
use crate::types::calendar::{
    DAY_US, SECOND_US, check_finite, check_timestamp, civil_from_days, days_from_civil,
    days_in_month, timestamp_of_date,
};
use crate::types::interval::{of_difference, out_of_range};
use crate::types::{Type, to_text, zone};
use crate::value::{Interval, TimeTz, Value};
use jiff::tz::TimeZone;

type Outcome = Result<Value, SqlError>;

const DAYS_PER_MONTH: i32 = 30;
const SECONDS_PER_DAY: f64 = 86_400.0;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("+", &[Span, Span], Span, |a, _| match a {
        [Value::Interval(a), Value::Interval(b)] => plus(a, b).map(Value::Interval),
        _ => Err(mismatch("+")),
    }),
    pure("-", &[Span, Span], Span, |a, _| match a {
        [Value::Interval(a), Value::Interval(b)] => minus(a, b).map(Value::Interval),
        _ => Err(mismatch("-")),
    }),
    pure("-", &[Span], Span, |a, _| match a {
        [Value::Interval(a)] => negated(a).map(Value::Interval),
        _ => Err(mismatch("-")),
    }),
    pure("*", &[Span, Float8], Span, |a, _| match a {
        [Value::Interval(a), Value::Float8(by)] => times(a, *by).map(Value::Interval),
        _ => Err(mismatch("*")),
    }),
    pure("*", &[Float8, Span], Span, |a, _| match a {
        [Value::Float8(by), Value::Interval(a)] => times(a, *by).map(Value::Interval),
        _ => Err(mismatch("*")),
    }),
    pure("/", &[Span, Float8], Span, |a, _| match a {
        [Value::Interval(a), Value::Float8(by)] => divided(a, *by).map(Value::Interval),
        _ => Err(mismatch("/")),
    }),
    pure("+", &[Timestamp, Span], Timestamp, |a, _| shifted(a, false)),
    pure("-", &[Timestamp, Span], Timestamp, |a, _| shifted(a, true)),
    pure("+", &[Span, Timestamp], Timestamp, |a, _| shifted(&swap(a), false)),
    stable("+", &[TimestampTz, Span], TimestampTz,
        |a, cx| shifted_tz(a, false, &cx.settings.time_zone)),
    stable("-", &[TimestampTz, Span], TimestampTz,
        |a, cx| shifted_tz(a, true, &cx.settings.time_zone)),
    stable("+", &[Span, TimestampTz], TimestampTz, |a, cx| {
        shifted_tz(&swap(a), false, &cx.settings.time_zone)
    }),
    pure("-", &[Timestamp, Timestamp], Span, difference),
    pure("-", &[TimestampTz, TimestampTz], Span, difference),
    pure("+", &[Date, Span], Timestamp, |a, _| shifted(&of_date(a)?, false)),
    pure("-", &[Date, Span], Timestamp, |a, _| shifted(&of_date(a)?, true)),
    pure("+", &[Span, Date], Timestamp, |a, _| shifted(&of_date(&swap(a))?, false)),
    pure("+", &[Date, Int4], Date, |a, _| date_days(a, 1)),
    pure("-", &[Date, Int4], Date, |a, _| date_days(a, -1)),
    pure("+", &[Int4, Date], Date, |a, _| date_days(&swap(a), 1)),
    pure("+", &[Date, Clock], Timestamp, date_clock),
    pure("+", &[Clock, Date], Timestamp, |a, cx| date_clock(&swap(a), cx)),
    pure("+", &[Date, ZonedClock], TimestampTz, date_clock),
    pure("+", &[ZonedClock, Date], TimestampTz, |a, cx| date_clock(&swap(a), cx)),
    pure("+", &[Clock, Span], Clock, |a, _| clock_shifted(a, 1)),
    pure("-", &[Clock, Span], Clock, |a, _| clock_shifted(a, -1)),
    pure("+", &[Span, Clock], Clock, |a, _| clock_shifted(&swap(a), 1)),
    pure("+", &[ZonedClock, Span], ZonedClock, |a, _| clock_shifted(a, 1)),
    pure("-", &[ZonedClock, Span], ZonedClock, |a, _| clock_shifted(a, -1)),
    pure("+", &[Span, ZonedClock], ZonedClock, |a, _| clock_shifted(&swap(a), 1)),
    pure("-", &[Clock, Clock], Span, |a, _| match a {
        [Value::Time(a), Value::Time(b)] =>
            Ok(Value::Interval(Interval { us: a - b, ..Interval::default() })),
        _ => Err(mismatch("-")),
    }),
    pure("justify_hours", &[Span], Span, |a, _| Ok(Value::Interval(justify_hours(span(a)?)?))),
    pure("justify_days", &[Span], Span, |a, _| Ok(Value::Interval(justify_days(span(a)?)?))),
    pure("justify_interval", &[Span], Span,
        |a, _| Ok(Value::Interval(justify_interval(span(a)?)?))),
    pure("age", &[Timestamp, Timestamp], Span, |a, _| age(a, &TimeZone::UTC)),
    stable("age", &[TimestampTz, TimestampTz], Span, |a, cx| age(a, &cx.settings.time_zone)),
    // Rows have no transaction numbers, so each has the maximum age.
    pure("age", &[Xid], Int4, |_, _| Ok(Value::Int4(i32::MAX))),
    stable("age", &[Timestamp], Span, |a, cx| {
        age(&[Value::Timestamp(today(cx)), a[0].clone()], &TimeZone::UTC)
    }),
    stable("age", &[TimestampTz], Span, |a, cx| {
        let zone = &cx.settings.time_zone;
        age(&[Value::TimestampTz(zone::to_absolute(zone, today(cx))), a[0].clone()], zone)
    }),
    pure("make_interval", &[Int4, Int4, Int4, Int4, Int4, Int4, Float8], Span, make_interval),
    pure("timezone", &[Span, TimestampTz], Timestamp, |a, _| match a {
        [_, Value::TimestampTz(us @ (i64::MIN | i64::MAX))] => Ok(Value::Timestamp(*us)),
        [Value::Interval(by), Value::TimestampTz(us)] =>
            moved_by(*us, offset(by)?).map(Value::Timestamp),
        _ => Err(mismatch("timezone")),
    }),
    pure("timezone", &[Span, Timestamp], TimestampTz, |a, _| match a {
        [_, Value::Timestamp(us @ (i64::MIN | i64::MAX))] => Ok(Value::TimestampTz(*us)),
        [Value::Interval(by), Value::Timestamp(us)] =>
            moved_by(*us, -offset(by)?).map(Value::TimestampTz),
        _ => Err(mismatch("timezone")),
    }),
    stable("timezone", &[Text, ZonedClock], ZonedClock, |a, cx| match a {
        [Value::Text(name), Value::TimeTz(time)] => {
            let zone = super::datetime::named(name)?;
            Ok(Value::TimeTz(at_offset(time, -zone::offset_at(&zone, cx.transaction_start))))
        }
        _ => Err(mismatch("timezone")),
    }),
    pure("timezone", &[Span, ZonedClock], ZonedClock, |a, _| match a {
        [Value::Interval(by), Value::TimeTz(time)] => {
            // As in PostgreSQL, only the lowest 32 bits of a longer offset count.
            Ok(Value::TimeTz(at_offset(time, -(offset(by)? / SECOND_US) as i32)))
        }
        _ => Err(mismatch("timezone")),
    }),
    pure("date_bin", &[Span, Timestamp, Timestamp], Timestamp, date_bin),
    pure("date_bin", &[Span, TimestampTz, TimestampTz], TimestampTz, date_bin),
    pure("isfinite", &[Span], crate::types::TypeKind::Bool, |_, _| Ok(Value::Bool(true))),
];

fn span(args: &[Value]) -> Result<&Interval, SqlError> {
    match args {
        [Value::Interval(span)] => Ok(span),
        _ => Err(mismatch("an interval function")),
    }
}

fn swap(args: &[Value]) -> Vec<Value> {
    args.iter().rev().cloned().collect()
}

fn of_date(args: &[Value]) -> Result<[Value; 2], SqlError> {
    match args {
        [Value::Date(days), by] => Ok([Value::Timestamp(timestamp_of_date(*days)?), by.clone()]),
        _ => Err(mismatch("date arithmetic")),
    }
}

fn date_days(args: &[Value], sign: i32) -> Outcome {
    use crate::bound::{ArithClass, ArithOp};
    let op = if sign > 0 { ArithOp::Add } else { ArithOp::Sub };
    match args {
        [date, days] => super::arith::apply(op, ArithClass::DateDays, date, days),
        _ => Err(mismatch("date arithmetic")),
    }
}

fn date_clock(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    match args {
        [Value::Date(days), Value::Time(us)] => match timestamp_of_date(*days)? {
            end @ (i64::MIN | i64::MAX) => Ok(Value::Timestamp(end)),
            day => check_timestamp(day + us).map(Value::Timestamp),
        },
        [Value::Date(days), Value::TimeTz(time)] => match timestamp_of_date(*days)? {
            end @ (i64::MIN | i64::MAX) => Ok(Value::TimestampTz(end)),
            day => check_timestamp(day + time.utc_us()).map(Value::TimestampTz),
        },
        _ => Err(mismatch("date arithmetic")),
    }
}

fn clock_shifted(args: &[Value], sign: i64) -> Outcome {
    let by = |span: &Interval| sign * (span.us % DAY_US);
    match args {
        [Value::Time(us), Value::Interval(span)] => {
            Ok(Value::Time((us + by(span)).rem_euclid(DAY_US)))
        }
        [Value::TimeTz(time), Value::Interval(span)] => Ok(Value::TimeTz(TimeTz {
            us: (time.us + by(span)).rem_euclid(DAY_US),
            ..*time
        })),
        _ => Err(mismatch("time arithmetic")),
    }
}

/// Converts a timetz to another UTC offset, in seconds west.
fn at_offset(time: &TimeTz, west: i32) -> TimeTz {
    let local = time.utc_us() - i64::from(west) * SECOND_US;
    TimeTz {
        us: local.rem_euclid(DAY_US),
        west,
    }
}

/// Returns the sum of two intervals.
pub(super) fn plus(a: &Interval, b: &Interval) -> Result<Interval, SqlError> {
    let sum = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            us: a.us.checked_add(b.us)?,
        })
    };
    sum().ok_or_else(out_of_range)
}

/// Returns the difference of two intervals.
pub(super) fn minus(a: &Interval, b: &Interval) -> Result<Interval, SqlError> {
    let difference = || {
        Some(Interval {
            months: a.months.checked_sub(b.months)?,
            days: a.days.checked_sub(b.days)?,
            us: a.us.checked_sub(b.us)?,
        })
    };
    difference().ok_or_else(out_of_range)
}

pub(super) fn negated(a: &Interval) -> Result<Interval, SqlError> {
    minus(&Interval::default(), a)
}

fn narrow(v: f64) -> Result<i32, SqlError> {
    if v.is_nan() || v > f64::from(i32::MAX) || v < f64::from(i32::MIN) {
        return Err(out_of_range());
    }
    Ok(v as i32)
}

/// Rounds to microseconds, to hide floating-point errors.
fn steady(v: f64) -> f64 {
    (v * 1e6).round_ties_even() / 1e6
}

fn scaled(span: &Interval, scale: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
    let months = narrow(scale(f64::from(span.months)))?;
    let days = narrow(scale(f64::from(span.days)))?;
    // The fraction of a month becomes days, the fraction of a day becomes time.
    let left_of_month = scale(f64::from(span.months)) - f64::from(months);
    let month_days = steady(left_of_month * f64::from(DAYS_PER_MONTH));
    let left_of_days = scale(f64::from(span.days)) - f64::from(days) + month_days.fract();
    let mut seconds = steady(left_of_days * SECONDS_PER_DAY);
    let mut more_days = month_days.trunc();
    if seconds.abs() >= SECONDS_PER_DAY {
        let whole = (seconds / SECONDS_PER_DAY).trunc();
        more_days += whole;
        seconds -= whole * SECONDS_PER_DAY;
    }
    let days = narrow(f64::from(days) + more_days)?;
    let us = (scale(span.us as f64) + seconds * SECOND_US as f64).round_ties_even();
    if us.is_nan() || us.abs() >= 9_223_372_036_854_775_807.0 {
        return Err(out_of_range());
    }
    Ok(Interval {
        months,
        days,
        us: us as i64,
    })
}

/// Multiplies an interval by a number.
pub(super) fn times(span: &Interval, by: f64) -> Result<Interval, SqlError> {
    scaled(span, |v| v * by)
}

/// Divides an interval by a number, which must not be 0.
pub(super) fn divided(span: &Interval, by: f64) -> Result<Interval, SqlError> {
    if by == 0.0 {
        return Err(super::division_by_zero());
    }
    scaled(span, |v| v / by)
}

/// Adds an interval to a local timestamp.
pub(super) fn add_local(us: i64, by: &Interval) -> Result<i64, SqlError> {
    if us == i64::MIN || us == i64::MAX {
        return Ok(us);
    }
    let beyond = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let mut days = us.div_euclid(DAY_US);
    if by.months != 0 {
        let (year, month, day) = civil_from_days(days);
        let months = i64::from(year) * 12 + i64::from(month) - 1 + i64::from(by.months);
        let year = i32::try_from(months.div_euclid(12)).map_err(|_| beyond())?;
        let month = months.rem_euclid(12) as u32 + 1;
        days = days_from_civil(year, month, day.min(days_in_month(year, month)));
    }
    let moved = (days + i64::from(by.days))
        .checked_mul(DAY_US)
        .and_then(|day| day.checked_add(us.rem_euclid(DAY_US)))
        .and_then(|moved| moved.checked_add(by.us))
        .ok_or_else(beyond)?;
    check_finite(moved)
}

/// Adds an interval to a timestamptz, by the calendar of a time zone.
pub(super) fn add_zoned(us: i64, by: &Interval, zone: &TimeZone) -> Result<i64, SqlError> {
    if us == i64::MIN || us == i64::MAX {
        return Ok(us);
    }
    let mut moved = us;
    if by.months != 0 || by.days != 0 {
        let calendar = Interval { us: 0, ..*by };
        let local = add_local(zone::to_local(zone, us), &calendar)?;
        moved = zone::to_absolute(zone, local);
    }
    moved_by(moved, by.us)
}

fn moved_by(us: i64, by: i64) -> Result<i64, SqlError> {
    check_finite(us.checked_add(by).unwrap_or(i64::MAX))
}

/// Returns the UTC offset that an interval means as a time zone, in microseconds.
fn offset(by: &Interval) -> Result<i64, SqlError> {
    if by.months != 0 || by.days != 0 {
        let value = Value::Interval(*by);
        let text = to_text(&value, &Type::INTERVAL, &Settings::new());
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("interval time zone \"{text}\" must not include months or days"),
        ));
    }
    Ok(by.us / SECOND_US * SECOND_US)
}

fn signed(by: &Interval, negative: bool) -> Result<Interval, SqlError> {
    if negative { negated(by) } else { Ok(*by) }
}

fn shifted(args: &[Value], negative: bool) -> Outcome {
    match args {
        [Value::Timestamp(us), Value::Interval(by)] => {
            add_local(*us, &signed(by, negative)?).map(Value::Timestamp)
        }
        _ => Err(mismatch("timestamp arithmetic")),
    }
}

fn shifted_tz(args: &[Value], negative: bool, zone: &TimeZone) -> Outcome {
    match args {
        [Value::TimestampTz(us), Value::Interval(by)] => {
            add_zoned(*us, &signed(by, negative)?, zone).map(Value::TimestampTz)
        }
        _ => Err(mismatch("timestamp arithmetic")),
    }
}

fn difference(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    match args {
        [Value::Timestamp(a), Value::Timestamp(b)]
        | [Value::TimestampTz(a), Value::TimestampTz(b)] => {
            let infinite = |us: &i64| matches!(*us, i64::MIN | i64::MAX);
            if infinite(a) || infinite(b) {
                return Err(SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "cannot subtract infinite timestamps",
                ));
            }
            let us = a.checked_sub(*b).ok_or_else(out_of_range)?;
            Ok(Value::Interval(of_difference(us)))
        }
        _ => Err(mismatch("timestamp arithmetic")),
    }
}

fn justify_hours(span: &Interval) -> Result<Interval, SqlError> {
    let whole = (span.us / DAY_US) as i32;
    let mut us = span.us % DAY_US;
    let mut days = span.days.checked_add(whole).ok_or_else(out_of_range)?;
    if days > 0 && us < 0 {
        us += DAY_US;
        days -= 1;
    } else if days < 0 && us > 0 {
        us -= DAY_US;
        days += 1;
    }
    Ok(Interval { us, days, ..*span })
}

fn justify_days(span: &Interval) -> Result<Interval, SqlError> {
    let whole = span.days / DAYS_PER_MONTH;
    let mut days = span.days % DAYS_PER_MONTH;
    let mut months = span.months.checked_add(whole).ok_or_else(out_of_range)?;
    if months > 0 && days < 0 {
        days += DAYS_PER_MONTH;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= DAYS_PER_MONTH;
        months += 1;
    }
    Ok(Interval {
        months,
        days,
        ..*span
    })
}

fn justify_interval(span: &Interval) -> Result<Interval, SqlError> {
    let whole_days = span.us / DAY_US;
    let mut us = span.us % DAY_US;
    let all_days = i64::from(span.days) + whole_days;
    let whole_months = all_days / i64::from(DAYS_PER_MONTH);
    let mut days = (all_days % i64::from(DAYS_PER_MONTH)) as i32;
    let mut months =
        i32::try_from(i64::from(span.months) + whole_months).map_err(|_| out_of_range())?;
    if months > 0 && (days < 0 || (days == 0 && us < 0)) {
        days += DAYS_PER_MONTH;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && us > 0)) {
        days -= DAYS_PER_MONTH;
        months += 1;
    }
    if days > 0 && us < 0 {
        us += DAY_US;
        days -= 1;
    } else if days < 0 && us > 0 {
        us -= DAY_US;
        days += 1;
    }
    Ok(Interval { months, days, us })
}

/// Returns midnight of the current day in the session's time zone, as a local time.
fn today(cx: &crate::context::EvalContext) -> i64 {
    let local = zone::to_local(&cx.settings.time_zone, cx.transaction_start);
    local.div_euclid(DAY_US) * DAY_US
}

/// Returns the years, months, days and time from the second argument to the first.
fn age(args: &[Value], zone: &TimeZone) -> Outcome {
    let local = |value: &Value| match value {
        Value::Timestamp(us) => Ok(*us),
        Value::TimestampTz(us) => Ok(zone::to_local(zone, *us)),
        _ => Err(mismatch("age")),
    };
    let [a, b] = args else {
        return Err(mismatch("age"));
    };
    let (a, b) = (local(a)?, local(b)?);
    if [a, b].iter().any(|us| matches!(*us, i64::MIN | i64::MAX)) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "timestamp out of range",
        ));
    }
    let (late, early, sign) = if a < b { (b, a, -1) } else { (a, b, 1) };
    let (late_year, late_month, late_day) = civil_from_days(late.div_euclid(DAY_US));
    let (early_year, early_month, early_day) = civil_from_days(early.div_euclid(DAY_US));
    let mut months = (late_year - early_year) * 12 + late_month as i32 - early_month as i32;
    let mut days = late_day as i32 - early_day as i32;
    let mut us = late.rem_euclid(DAY_US) - early.rem_euclid(DAY_US);
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    // A borrowed month has the length of the month in which it begins.
    while days < 0 {
        days += days_in_month(early_year, early_month) as i32;
        months -= 1;
    }
    Ok(Value::Interval(Interval {
        months: months * sign,
        days: days * sign,
        us: us * i64::from(sign),
    }))
}

fn make_interval(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    let [
        Value::Int4(years),
        Value::Int4(months),
        Value::Int4(weeks),
        Value::Int4(days),
        Value::Int4(hours),
        Value::Int4(minutes),
        Value::Float8(seconds),
    ] = args
    else {
        return Err(mismatch("make_interval"));
    };
    let made = || {
        let us = (seconds * SECOND_US as f64).round_ties_even();
        if !us.is_finite() || us.abs() >= 9.2e18 {
            return None;
        }
        let clock = (i64::from(*hours) * 60 + i64::from(*minutes)) * 60 * SECOND_US;
        Some(Interval {
            months: years.checked_mul(12)?.checked_add(*months)?,
            days: weeks.checked_mul(7)?.checked_add(*days)?,
            us: clock.checked_add(us as i64)?,
        })
    };
    made().map(Value::Interval).ok_or_else(out_of_range)
}

/// Returns the length of a stride of date_bin in microseconds.
fn stride_us(stride: &Interval) -> Result<i64, SqlError> {
    if stride.months != 0 {
        return Err(SqlError::unsupported(
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let length = i64::try_from(stride.span()).map_err(|_| out_of_range())?;
    if length <= 0 {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "stride must be greater than zero",
        ));
    }
    Ok(length)
}

/// Returns the start of the stride that contains a timestamp, counted from the origin.
fn date_bin(args: &[Value], _: &crate::context::EvalContext) -> Outcome {
    let [Value::Interval(stride), at, origin] = args else {
        return Err(mismatch("date_bin"));
    };
    let bin = |at: i64, origin: i64| match at {
        i64::MIN | i64::MAX => Ok(at),
        _ if matches!(origin, i64::MIN | i64::MAX) => Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "origin out of range",
        )),
        _ => {
            let length = i128::from(stride_us(stride)?);
            let since = i128::from(at.checked_sub(origin).ok_or_else(out_of_range)?);
            let start = i128::from(origin) + since.div_euclid(length) * length;
            check_finite(i64::try_from(start).unwrap_or(i64::MIN))
        }
    };
    match (at, origin) {
        (Value::Timestamp(at), Value::Timestamp(origin)) => bin(*at, *origin).map(Value::Timestamp),
        (Value::TimestampTz(at), Value::TimestampTz(origin)) => {
            bin(*at, *origin).map(Value::TimestampTz)
        }
        _ => Err(mismatch("date_bin")),
    }
}
