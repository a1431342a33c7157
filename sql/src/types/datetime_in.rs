//! Input of dates and times: ISO forms, forms in the order of `DateStyle`, month names, time zones.
//!
//! The text is split into fields from left to right. The shape of each field determines its
//! meaning, and it sets its part of `Fields`. A part that is given twice is an error.

use jiff::tz::TimeZone;

use super::calendar::{
    DATE_MAX, DATE_MIN, DAY_US, SECOND_US, TIMESTAMP_END, TIMESTAMP_MIN, days_from_civil,
    days_in_month,
};
use super::zone;
use super::zone_abbreviation::abbreviated_offset;
use crate::error::{SqlError, SqlState};
use crate::settings::{DateOrder, Settings, posix_zone};
use crate::value::TimeTz;

mod fields;

use fields::{Fault, Fields, Special, Zone};

pub(super) fn date(text: &str, settings: &Settings, now: Option<i64>) -> Result<i32, SqlError> {
    const NAME: &str = "date";
    let fields = read(text, NAME, settings)?;
    if let Some(special) = fields.special {
        return match special {
            Special::Infinity => Ok(i32::MAX),
            Special::MinusInfinity => Ok(i32::MIN),
            Special::Epoch => Ok(-super::calendar::EPOCH_SHIFT_DAYS),
            Special::Now => Ok(today(settings, now, NAME, text)?),
            Special::Day(shift) => Ok(today(settings, now, NAME, text)? + shift),
            Special::AllBalls => Err(fault(Fault::Syntax, NAME, text)),
        };
    }
    let days = days_of(&fields).map_err(|f| fault(f, NAME, text))?;
    match i32::try_from(days) {
        Ok(days) if (DATE_MIN..=DATE_MAX).contains(&days) => Ok(days),
        _ => Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date out of range: \"{text}\""),
        )),
    }
}

pub(super) fn timestamp(
    text: &str,
    settings: &Settings,
    now: Option<i64>,
) -> Result<i64, SqlError> {
    const NAME: &str = "timestamp";
    let fields = read(text, NAME, settings)?;
    if let Some(special) = fields.special {
        return match special {
            Special::Now => {
                let now = clock(now, NAME, text)?;
                Ok(zone::to_local(&settings.time_zone, now))
            }
            Special::Day(shift) => {
                let day = today(settings, now, NAME, text)? + shift;
                Ok(i64::from(day) * DAY_US + fields.time_us.unwrap_or(0))
            }
            Special::AllBalls => Err(fault(Fault::Syntax, NAME, text)),
            other => Ok(fixed_moment(other)),
        };
    }
    local(&fields, NAME, text)
}

pub(super) fn timestamptz(
    text: &str,
    settings: &Settings,
    now: Option<i64>,
) -> Result<i64, SqlError> {
    const NAME: &str = "timestamp with time zone";
    let fields = read(text, NAME, settings)?;
    let local_us = match fields.special {
        Some(Special::Now) => return clock(now, NAME, text),
        Some(Special::Day(shift)) => {
            let day = today(settings, now, NAME, text)? + shift;
            i64::from(day) * DAY_US + fields.time_us.unwrap_or(0)
        }
        Some(Special::AllBalls) => return Err(fault(Fault::Syntax, NAME, text)),
        Some(other) => return Ok(fixed_moment(other)),
        None => local(&fields, NAME, text)?,
    };
    let us = match &fields.zone {
        None => zone::to_absolute(&settings.time_zone, local_us),
        Some(Zone::Offset(seconds)) => local_us.saturating_sub(i64::from(*seconds) * SECOND_US),
        Some(Zone::Named(zone)) => zone::to_absolute(zone, local_us),
    };
    in_range(us, text)
}

/// Reads a time of day; a date or time zone in the text is ignored.
pub(super) fn time(text: &str, settings: &Settings, now: Option<i64>) -> Result<i64, SqlError> {
    const NAME: &str = "time";
    let fields = read_time(text, NAME, settings)?;
    if matches!(fields.zone, Some(Zone::Named(_))) && fields.day.is_none() {
        return Err(fault(Fault::Syntax, NAME, text));
    }
    match fields.special {
        Some(Special::Now) => {
            let local = zone::to_local(&settings.time_zone, clock(now, NAME, text)?);
            Ok(local.rem_euclid(DAY_US))
        }
        Some(Special::Day(_) | Special::AllBalls) => Ok(fields.time_us.unwrap_or(0)),
        Some(_) => Err(fault(Fault::Syntax, NAME, text)),
        None => fields
            .time_us
            .ok_or_else(|| fault(Fault::Syntax, NAME, text)),
    }
}

/// Reads a time of day with its UTC offset, by default that of the session's time zone.
pub(super) fn timetz(
    text: &str,
    settings: &Settings,
    now: Option<i64>,
) -> Result<TimeTz, SqlError> {
    const NAME: &str = "time with time zone";
    let fields = read_time(text, NAME, settings)?;
    let syntax = || fault(Fault::Syntax, NAME, text);
    let us = match fields.special {
        Some(Special::Now) => {
            let local = zone::to_local(&settings.time_zone, clock(now, NAME, text)?);
            local.rem_euclid(DAY_US)
        }
        Some(Special::Day(_)) => fields.time_us.unwrap_or(0),
        Some(Special::AllBalls) => return Ok(TimeTz { us: 0, west: 0 }),
        Some(_) => return Err(syntax()),
        None => fields.time_us.ok_or_else(syntax)?,
    };
    let offset_there = |zone: &TimeZone| {
        let day = match days_of(&fields) {
            Ok(days) => days * DAY_US,
            Err(_) => zone::to_local(zone, now.unwrap_or(0)).div_euclid(DAY_US) * DAY_US,
        };
        zone::offset_at_local(zone, day.saturating_add(us))
    };
    let east = match &fields.zone {
        Some(Zone::Offset(seconds)) => *seconds,
        // The offset of a named zone, such as its daylight-saving time, needs a date.
        Some(Zone::Named(_)) if fields.day.is_none() => return Err(syntax()),
        Some(Zone::Named(zone)) => offset_there(zone),
        None => offset_there(&settings.time_zone),
    };
    Ok(TimeTz { us, west: -east })
}

fn read_time(text: &str, name: &str, settings: &Settings) -> Result<Fields, SqlError> {
    Fields::read_time(text, settings.date_order).map_err(|f| fault(f, name, text))
}

fn fixed_moment(special: Special) -> i64 {
    match special {
        Special::Infinity => i64::MAX,
        Special::MinusInfinity => i64::MIN,
        _ => -super::calendar::EPOCH_SHIFT_SECONDS * SECOND_US,
    }
}

/// Returns the local time of the fields.
fn local(fields: &Fields, name: &str, text: &str) -> Result<i64, SqlError> {
    let days = days_of(fields).map_err(|f| fault(f, name, text))?;
    let us = days
        .checked_mul(DAY_US)
        .and_then(|us| us.checked_add(fields.time_us.unwrap_or(0)))
        .unwrap_or(i64::MAX);
    in_range(us, text)
}

fn in_range(us: i64, text: &str) -> Result<i64, SqlError> {
    if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&us) {
        return Ok(us);
    }
    Err(SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("timestamp out of range: \"{text}\""),
    ))
}

fn clock(now: Option<i64>, name: &str, text: &str) -> Result<i64, SqlError> {
    now.ok_or_else(|| fault(Fault::NoClock, name, text))
}

fn today(settings: &Settings, now: Option<i64>, name: &str, text: &str) -> Result<i32, SqlError> {
    let now = clock(now, name, text)?;
    let local = zone::to_local(&settings.time_zone, now);
    Ok(super::calendar::date_of_timestamp(local))
}

fn read(text: &str, name: &str, settings: &Settings) -> Result<Fields, SqlError> {
    Fields::read(text, settings.date_order).map_err(|f| fault(f, name, text))
}

fn fault(fault: Fault, name: &str, text: &str) -> SqlError {
    match fault {
        Fault::Syntax => super::invalid_datetime(name, text),
        Fault::Range => SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ),
        Fault::MonthRange => SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
        .hint("Perhaps you need a different \"datestyle\" setting."),
        Fault::ZoneRange => SqlError::new(
            SqlState::new(b"22009"),
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Fault::UnknownZone(zone) => SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{}\" not recognized", zone.to_ascii_lowercase()),
        ),
        Fault::NoClock => SqlError::unsupported(format!("\"{text}\" without a clock")),
    }
}

/// Returns the days from 2000-01-01 to the date of the fields.
///
/// # Errors
/// The date must exist in the calendar.
fn days_of(fields: &Fields) -> Result<i64, Fault> {
    let (Some(year), Some(month), Some(day)) = (fields.year, fields.month, fields.day) else {
        return Err(Fault::Syntax);
    };
    let year = match (fields.bc, year) {
        (false, y @ 0..70) if fields.two_digits => y + 2000,
        (false, y) if fields.two_digits => y + 1900,
        (_, 0) => return Err(Fault::Range),
        (true, y) => 1 - y,
        (false, y) => y,
    };
    if !(1..=12).contains(&month) {
        return Err(Fault::MonthRange);
    }
    if !(1..=31).contains(&day) {
        return Err(Fault::MonthRange);
    }
    if day > days_in_month(year, month) {
        return Err(Fault::Range);
    }
    Ok(days_from_civil(year, month, day))
}

/// Returns the time zone of a name, an abbreviation or a POSIX offset.
fn named_zone(word: &str) -> Option<Zone> {
    match abbreviated_offset(word) {
        Some(offset) => Some(Zone::Offset(offset)),
        None => posix_zone(word).map(Zone::Named),
    }
}

/// Returns the order of three numbers of a date; a first number of three or more digits is the
/// year.
fn order_of(first_digits: usize, order: DateOrder) -> DateOrder {
    if first_digits >= 3 {
        DateOrder::Ymd
    } else {
        order
    }
}
