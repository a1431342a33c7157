//! Output of dates and times in the styles of `DateStyle`.
//!
//! ```text
//!           date                        timestamp with its zone
//! ISO       1997-12-17                  1997-12-17 07:37:16-08
//! SQL       12/17/1997   17/12/1997     12/17/1997 07:37:16 PST
//! Postgres  12-17-1997   17-12-1997     Wed Dec 17 07:37:16 1997 PST   Wed 17 Dec …
//! German    17.12.1997                  17.12.1997 07:37:16 PST
//! ```
//! The second form is that of the order DMY.

use super::calendar::{DAY_US, SECOND_US, civil_from_days};
use super::{integer, zone};
use crate::settings::{DateOrder, DateStyle, Settings};

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

pub(super) fn date(days: i32, settings: &Settings, out: &mut Vec<u8>) {
    match days {
        i32::MIN => out.extend_from_slice(b"-infinity"),
        i32::MAX => out.extend_from_slice(b"infinity"),
        _ => {
            let day = Day::of(i64::from(days));
            day.write(settings, out);
            day.era(out);
        }
    }
}

pub(super) fn timestamp(us: i64, settings: &Settings, out: &mut Vec<u8>) {
    if !infinite(us, out) {
        local(us, settings, out).era(out);
    }
}

pub(super) fn timestamptz(us: i64, settings: &Settings, out: &mut Vec<u8>) {
    if infinite(us, out) {
        return;
    }
    let zone = &settings.time_zone;
    let offset = zone::offset_at(zone, us);
    let local_us = us.saturating_add(i64::from(offset) * SECOND_US);
    let day = local(local_us, settings, out);
    match settings.date_style {
        DateStyle::Iso => displacement(offset, out),
        _ => {
            out.push(b' ');
            out.extend_from_slice(zone::abbreviation_at(zone, us).as_bytes());
        }
    }
    day.era(out);
}

fn displacement(offset: i32, out: &mut Vec<u8>) {
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
}

fn infinite(us: i64, out: &mut Vec<u8>) -> bool {
    match us {
        i64::MIN => out.extend_from_slice(b"-infinity"),
        i64::MAX => out.extend_from_slice(b"infinity"),
        _ => return false,
    }
    true
}

/// Writes date and time of day. Returns the day, whose era the caller writes at the end.
fn local(us: i64, settings: &Settings, out: &mut Vec<u8>) -> Day {
    let days = us.div_euclid(DAY_US);
    let day = Day::of(days);
    let of_day = us.rem_euclid(DAY_US);
    if settings.date_style == DateStyle::Postgres {
        // 2000-01-01 was a Saturday.
        let name = DAYS[(days + 6).rem_euclid(7) as usize];
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        let month = MONTHS[day.month as usize - 1].as_bytes();
        match settings.date_order {
            DateOrder::Dmy => {
                two(day.day, out);
                out.push(b' ');
                out.extend_from_slice(month);
            }
            DateOrder::Mdy | DateOrder::Ymd => {
                out.extend_from_slice(month);
                out.push(b' ');
                two(day.day, out);
            }
        }
        out.push(b' ');
        time(of_day, out);
        out.push(b' ');
        day.year(out);
    } else {
        day.write(settings, out);
        out.push(b' ');
        time(of_day, out);
    }
    day
}

fn time(of_day: i64, out: &mut Vec<u8>) {
    let seconds = (of_day / SECOND_US) as u32;
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
}

/// A day of the calendar.
#[derive(Clone, Copy)]
struct Day {
    /// The year as it is shown: from 1, both BC and AD.
    year: i32,
    bc: bool,
    month: u32,
    day: u32,
}

impl Day {
    fn of(days: i64) -> Day {
        let (year, month, day) = civil_from_days(days);
        let bc = year <= 0;
        Day {
            year: if bc { 1 - year } else { year },
            bc,
            month,
            day,
        }
    }

    fn write(self, settings: &Settings, out: &mut Vec<u8>) {
        let day_first = settings.date_order == DateOrder::Dmy;
        let (mark, day_first) = match settings.date_style {
            DateStyle::Iso => {
                self.year(out);
                for part in [self.month, self.day] {
                    out.push(b'-');
                    two(part, out);
                }
                return;
            }
            DateStyle::Sql => (b'/', day_first),
            DateStyle::Postgres => (b'-', day_first),
            DateStyle::German => (b'.', true),
        };
        let parts = match day_first {
            true => [self.day, self.month],
            false => [self.month, self.day],
        };
        for part in parts {
            two(part, out);
            out.push(mark);
        }
        self.year(out);
    }

    fn year(self, out: &mut Vec<u8>) {
        for least in [1000, 100, 10] {
            if self.year < least {
                out.push(b'0');
            }
        }
        integer::format(i64::from(self.year), out);
    }

    fn era(self, out: &mut Vec<u8>) {
        if self.bc {
            out.extend_from_slice(b" BC");
        }
    }
}

fn two(value: u32, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10 % 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}
