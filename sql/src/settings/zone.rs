//! Names of time zones: IANA names, and offsets as PostgreSQL and POSIX read them.

use jiff::tz::{Offset, TimeZone};

use crate::error::{SqlError, SqlState};

/// The maximum hours of an offset: one week minus one hour.
const HOURS_MAX: i32 = 167;

/// Returns the time zone that `SET TimeZone` or a literal names.
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
    match hours_east(trimmed) {
        Some(seconds) => Offset::from_seconds(seconds).ok().map(TimeZone::fixed),
        None => posix_zone(trimmed),
    }
    .ok_or_else(unknown)
}

/// Returns the zone of an IANA name, or of a POSIX offset, which is positive to the west: `UTC+10`,
/// `<+03>-03`, `+02:30`.
pub(crate) fn posix_zone(name: &str) -> Option<TimeZone> {
    if let Some(seconds) = posix_offset(name) {
        return Offset::from_seconds(-seconds).ok().map(TimeZone::fixed);
    }
    let zone = TimeZone::get(name).or_else(|_| TimeZone::posix(name));
    zone.ok()
}

/// Returns the seconds of a bare number of hours, which SET counts to the east.
pub(super) fn hours_east(text: &str) -> Option<i32> {
    let (sign, digits) = signed(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let hours: f64 = digits.parse().ok().filter(|_| is_number)?;
    (hours <= f64::from(HOURS_MAX)).then_some(sign * (hours * 3600.0) as i32)
}

/// Returns the text of SHOW for an offset east of UTC: `<+03:30>-03:30`.
pub(crate) fn east(seconds: i32) -> String {
    let (sign, opposite) = match seconds < 0 {
        true => ('-', '+'),
        false => ('+', '-'),
    };
    let (hours, minutes, rest) = (
        seconds.abs() / 3600,
        seconds.abs() / 60 % 60,
        seconds.abs() % 60,
    );
    let mut clock = format!("{hours:02}");
    if minutes != 0 || rest != 0 {
        clock += &format!(":{minutes:02}");
    }
    if rest != 0 {
        clock += &format!(":{rest:02}");
    }
    format!("<{sign}{clock}>{opposite}{clock}")
}

fn signed(text: &str) -> (i32, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Returns the seconds of `[+-]hh[:mm[:ss]]`, with an optional abbreviation in angle brackets
/// before it.
fn posix_offset(text: &str) -> Option<i32> {
    let offset = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => text,
    };
    clock_offset(offset)
}

/// Returns the seconds of `[+-]hh[:mm[:ss]]`.
pub(crate) fn clock_offset(text: &str) -> Option<i32> {
    let (sign, digits) = signed(text);
    let mut seconds = 0;
    for (i, part) in digits.split(':').enumerate() {
        let most = if i == 0 { HOURS_MAX } else { 59 };
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let value: i32 = part.parse().ok().filter(|v| is_number && *v <= most)?;
        seconds += value * [3600, 60, 1].get(i)?;
    }
    Some(sign * seconds)
}
