//! Names of time zones: IANA names, and offsets as PostgreSQL and POSIX read them.

use jiff::tz::{Offset, TimeZone};

use crate::error::{SqlError, SqlState};

/// The zone that `SET TimeZone` or a literal names.
pub fn parse_zone(name: &str) -> Result<TimeZone, SqlError> {
    let unknown = || {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for parameter \"TimeZone\": \"{name}\""),
        )
    };
    let trimmed = name.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "utc" | "gmt" | "z" | "zulu" | "uct" | "etc/utc" | "default" => return Ok(TimeZone::UTC),
        "localtime" => return Err(unknown()),
        _ => {}
    }
    if let Some(seconds) = numeric_offset(trimmed) {
        return Offset::from_seconds(seconds)
            .map(TimeZone::fixed)
            .map_err(|_| unknown());
    }
    // `UTC+10` is, as in POSIX, ten hours west.
    let zone = TimeZone::get(trimmed).or_else(|_| TimeZone::posix(trimmed));
    zone.map_err(|_| unknown())
}

/// A bare number is hours east; `<+03>-03` is how SHOW writes it back.
fn numeric_offset(text: &str) -> Option<i32> {
    if let Some(rest) = text.strip_prefix('<') {
        let (sign_name, _) = rest.split_once('>')?;
        return clock_offset(sign_name);
    }
    let first = text.chars().next()?;
    if first.is_ascii_digit() || ((first == '+' || first == '-') && text.len() > 1) {
        return clock_offset(text);
    }
    None
}

/// `[+-]hh[:mm[:ss]]` or hours with a fraction, in seconds east.
fn clock_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Ok(hours) = digits.parse::<f64>() {
        if !(0.0..=168.0).contains(&hours) {
            return None;
        }
        return Some(sign * (hours * 3600.0) as i32);
    }
    let mut seconds = 0;
    for (i, part) in digits.split(':').enumerate() {
        let value: i32 = part.parse().ok().filter(|v| (0..=60 * 3).contains(v))?;
        seconds += value * [3600, 60, 1].get(i)?;
    }
    Some(sign * seconds)
}
