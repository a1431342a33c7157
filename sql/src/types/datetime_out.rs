//! Dates and times in ISO form.

use jiff::tz::TimeZone;

use super::calendar::{DAY_US, SECOND_US, civil_from_days};
use super::{integer, zone};

pub(super) fn date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MIN => out.extend_from_slice(b"-infinity"),
        i32::MAX => out.extend_from_slice(b"infinity"),
        _ => {
            if civil(i64::from(days), out) {
                out.extend_from_slice(b" BC");
            }
        }
    }
}

pub(super) fn timestamp(us: i64, out: &mut Vec<u8>) {
    if infinite(us, out) {
        return;
    }
    if local(us, out) {
        out.extend_from_slice(b" BC");
    }
}

pub(super) fn timestamptz(us: i64, zone: &TimeZone, out: &mut Vec<u8>) {
    if infinite(us, out) {
        return;
    }
    let offset = zone::offset_at(zone, us);
    let bc = local(us.saturating_add(i64::from(offset) * SECOND_US), out);
    out.push(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.unsigned_abs();
    two(seconds / 3600, out);
    if !seconds.is_multiple_of(3600) {
        out.push(b':');
        two(seconds / 60 % 60, out);
        if !seconds.is_multiple_of(60) {
            out.push(b':');
            two(seconds % 60, out);
        }
    }
    if bc {
        out.extend_from_slice(b" BC");
    }
}

fn infinite(us: i64, out: &mut Vec<u8>) -> bool {
    match us {
        i64::MIN => out.extend_from_slice(b"-infinity"),
        i64::MAX => out.extend_from_slice(b"infinity"),
        _ => return false,
    }
    true
}

/// Date and time of day; true for a year BC.
fn local(us: i64, out: &mut Vec<u8>) -> bool {
    let bc = civil(us.div_euclid(DAY_US), out);
    let of_day = us.rem_euclid(DAY_US);
    let seconds = (of_day / SECOND_US) as u32;
    out.push(b' ');
    two(seconds / 3600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    let mut fraction = of_day % SECOND_US;
    if fraction != 0 {
        out.push(b'.');
        let mut unit = SECOND_US / 10;
        while fraction != 0 {
            out.push(b'0' + (fraction / unit) as u8);
            fraction %= unit;
            unit /= 10;
        }
    }
    bc
}

/// The date; true for a year BC.
fn civil(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let bc = year <= 0;
    let shown = if bc { 1 - year } else { year };
    for least in [1000, 100, 10] {
        if shown < least {
            out.push(b'0');
        }
    }
    integer::format(i64::from(shown), out);
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
    bc
}

fn two(value: u32, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10 % 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}
