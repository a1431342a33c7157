//! Conversions between local and absolute time in a time zone.
//!
//! A local time that a zone skips uses the offset before the change. A local time that occurs twice
//! means the later one, as in PostgreSQL.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::calendar::{DAY_US, EPOCH_SHIFT_SECONDS, SECOND_US, civil_from_days};

/// Returns the offset in seconds east of UTC at an absolute time.
pub fn offset_at(zone: &TimeZone, us: i64) -> i32 {
    moment(us).map_or(0, |moment| zone.to_offset(moment).seconds())
}

/// Returns a zone's abbreviation at an absolute time: `PST`, or `+03` if it has no name.
pub fn abbreviation_at(zone: &TimeZone, us: i64) -> String {
    let Some(moment) = moment(us) else {
        return String::new();
    };
    zone.to_offset_info(moment).abbreviation().to_owned()
}

fn moment(us: i64) -> Option<Timestamp> {
    let seconds = us
        .div_euclid(SECOND_US)
        .saturating_add(EPOCH_SHIFT_SECONDS)
        .clamp(
            Timestamp::MIN.as_second() + 1,
            Timestamp::MAX.as_second() - 1,
        );
    Timestamp::from_second(seconds).ok()
}

/// Returns the offset in seconds east of UTC at a local time in microseconds.
pub fn offset_at_local(zone: &TimeZone, local_us: i64) -> i32 {
    let (year, month, day) = civil_from_days(local_us.div_euclid(DAY_US));
    let seconds = local_us.rem_euclid(DAY_US) / SECOND_US;
    // Outside the range of jiff, zones stay as they are in the last supported year.
    let known = year.clamp(-9998, 9998);
    let day = if known == year { day } else { day.min(28) };
    let local = DateTime::new(
        known as i16,
        month as i8,
        day as i8,
        (seconds / 3600) as i8,
        (seconds / 60 % 60) as i8,
        (seconds % 60) as i8,
        0,
    );
    match local {
        Ok(local) => match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        },
        Err(_) => 0,
    }
}

/// Converts an absolute time to local time.
pub fn to_local(zone: &TimeZone, us: i64) -> i64 {
    match us {
        i64::MIN | i64::MAX => us,
        _ => us.saturating_add(i64::from(offset_at(zone, us)) * SECOND_US),
    }
}

/// Converts a local time to absolute time.
pub fn to_absolute(zone: &TimeZone, local_us: i64) -> i64 {
    match local_us {
        i64::MIN | i64::MAX => local_us,
        _ => local_us.saturating_sub(i64::from(offset_at_local(zone, local_us)) * SECOND_US),
    }
}
