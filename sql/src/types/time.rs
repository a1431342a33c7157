//! Times of day, with and without an offset from UTC.

use super::calendar::{DAY_US, SECOND_US};
use super::interval::fraction;
use crate::error::{SqlError, SqlState};
use crate::value::TimeTz;

/// The exclusive limit of a UTC offset, in seconds: 16 hours.
const OFFSET_LIMIT: i32 = 16 * 3600;

/// Checks that a time of day is in range.
///
/// # Errors
/// 22008 if it is not.
pub(super) fn check(us: i64) -> Result<i64, SqlError> {
    match us {
        0..=DAY_US => Ok(us),
        _ => Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "time out of range",
        )),
    }
}

pub(super) fn from_binary(bytes: &[u8; 12]) -> Result<TimeTz, SqlError> {
    let mut us = [0; 8];
    let mut west = [0; 4];
    us.copy_from_slice(&bytes[..8]);
    west.copy_from_slice(&bytes[8..]);
    let west = i32::from_be_bytes(west);
    if west.unsigned_abs() >= OFFSET_LIMIT as u32 {
        return Err(SqlError::new(
            SqlState::new(b"22009"),
            "time zone displacement out of range",
        ));
    }
    Ok(TimeTz {
        us: check(i64::from_be_bytes(us))?,
        west,
    })
}

pub(super) fn to_binary(time: &TimeTz, out: &mut Vec<u8>) {
    out.extend_from_slice(&time.us.to_be_bytes());
    out.extend_from_slice(&time.west.to_be_bytes());
}

/// Appends `hh:mm:ss[.ffffff]`.
pub(super) fn format(us: i64, out: &mut Vec<u8>) {
    let seconds = (us / SECOND_US) as u32;
    two(seconds / 3600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    fraction(us % SECOND_US, out);
}

/// Appends `hh:mm:ss[.ffffff]±hh[:mm[:ss]]`.
pub(super) fn format_tz(time: &TimeTz, out: &mut Vec<u8>) {
    format(time.us, out);
    out.push(if time.west > 0 { b'-' } else { b'+' });
    let seconds = time.west.unsigned_abs();
    two(seconds / 3600, out);
    if !seconds.is_multiple_of(3600) {
        out.push(b':');
        two(seconds / 60 % 60, out);
        if !seconds.is_multiple_of(60) {
            out.push(b':');
            two(seconds % 60, out);
        }
    }
}

fn two(value: u32, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10 % 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}
