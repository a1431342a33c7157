//! Conversions between dates of the proleptic Gregorian calendar and days or microseconds from
//! 2000-01-01.

use crate::error::{SqlError, SqlState};

/// Microseconds per day.
pub const DAY_US: i64 = 86_400_000_000;
/// Microseconds per second.
pub const SECOND_US: i64 = 1_000_000;
/// Seconds from 1970-01-01 to 2000-01-01.
pub const EPOCH_SHIFT_SECONDS: i64 = 946_684_800;
/// Days from 1970-01-01 to 2000-01-01.
pub const EPOCH_SHIFT_DAYS: i32 = 10_957;

/// The first valid date: 4714-11-24 BC.
pub const DATE_MIN: i32 = -2_451_545;
/// The last valid date: 5874897-12-31.
pub const DATE_MAX: i32 = 2_145_031_948;
/// The first valid timestamp: 4714-11-24 BC 00:00.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The first timestamp that is too late: 294277-01-01 00:00.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Returns the days from 2000-01-01 to a date; year 0 is 1 BC. The month is 1 to 12.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 730_425
}

/// Returns the year (0 is 1 BC), month and day of a date.
pub fn civil_from_days(days: i64) -> (i32, u32, u32) {
    let shifted = days + 730_425;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month, day)
}

/// Returns the number of days of a month.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns midnight of a date; infinite dates become infinite timestamps.
pub fn timestamp_of_date(days: i32) -> Result<i64, SqlError> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => i64::from(days)
            .checked_mul(DAY_US)
            .filter(|us| (TIMESTAMP_MIN..TIMESTAMP_END).contains(us))
            .ok_or_else(|| {
                SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "date out of range for timestamp",
                )
            }),
    }
}

/// Returns the date of a timestamp; infinite timestamps become infinite dates.
pub fn date_of_timestamp(us: i64) -> i32 {
    match us {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        _ => us.div_euclid(DAY_US) as i32,
    }
}

/// Checks that a computed timestamp is in range; the largest and the smallest numbers stand for
/// infinite timestamps and are out of range, too.
///
/// # Errors
/// 22008 if it is out of range.
pub fn check_finite(us: i64) -> Result<i64, SqlError> {
    match us {
        i64::MIN | i64::MAX => check_timestamp(TIMESTAMP_END),
        us => check_timestamp(us),
    }
}

/// Checks that a date is in range or infinite.
///
/// # Errors
/// 22008 if it is out of range; `text` is the input for the message, if it is not empty.
pub fn check_date(days: i32, text: &str) -> Result<i32, SqlError> {
    if days == i32::MIN || days == i32::MAX || (DATE_MIN..=DATE_MAX).contains(&days) {
        return Ok(days);
    }
    let message = match text {
        "" => "date out of range".to_owned(),
        _ => format!("date out of range: \"{text}\""),
    };
    Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message))
}

/// Checks that a timestamp is in range or infinite.
///
/// # Errors
/// 22008 if it is out of range.
pub fn check_timestamp(us: i64) -> Result<i64, SqlError> {
    if us == i64::MIN || us == i64::MAX || (TIMESTAMP_MIN..TIMESTAMP_END).contains(&us) {
        return Ok(us);
    }
    Err(SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        "timestamp out of range",
    ))
}
