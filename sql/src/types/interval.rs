//! Intervals: their type modifier and their text output.
//!
//! ```text
//! typmod   fields << 16 | digits  fields: a bit for each that is kept, 7FFF all; digits: FFFF any
//! binary   microseconds (8), days (4), months (4)
//! ```

use std::fmt::{self, Write};

use super::calendar::{DAY_US, SECOND_US};
use super::integer;
use super::typmod::round_fraction;
use crate::error::{SqlError, SqlState};
use crate::settings::IntervalStyle;
use crate::value::Interval;

const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;
const ALL_FIELDS: i32 = 0x7fff;
const ANY_DIGITS: i32 = 0xffff;
const HOUR_US: i64 = 3600 * SECOND_US;
const MINUTE_US: i64 = 60 * SECOND_US;

/// The fields that an interval type can name, from the largest to the smallest.
pub const FIELDS: [&str; 6] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"];
const FIELD_BITS: [i32; 6] = [YEAR, MONTH, DAY, HOUR, MINUTE, SECOND];

/// Returns the modifier of `interval [first [to last]] [(digits)]`; `None` for an invalid
/// combination of fields.
pub fn typmod(first: Option<&str>, last: Option<&str>, digits: Option<u64>) -> Option<i32> {
    let place = |name: &str| FIELDS.iter().position(|f| name.eq_ignore_ascii_case(f));
    let fields = match (first, last) {
        (None, _) => ALL_FIELDS,
        (Some(first), None) => FIELD_BITS[place(first)?],
        (Some(first), Some(last)) => {
            let (first, last) = (place(first)?, place(last)?);
            // Years and months cannot be combined with smaller fields.
            if first >= last || (first < 2 && last > 1) {
                return None;
            }
            FIELD_BITS[first..=last].iter().sum()
        }
    };
    match digits {
        None if fields == ALL_FIELDS => Some(-1),
        None => Some(fields << 16 | ANY_DIGITS),
        Some(digits) => Some(fields << 16 | digits.min(6) as i32),
    }
}

fn fields_of(typmod: i32) -> i32 {
    match typmod {
        -1 => ALL_FIELDS,
        _ => typmod >> 16 & ALL_FIELDS,
    }
}

/// Returns the index in [`FIELDS`] of the last field that a modifier keeps; `None` if it keeps all
/// fields.
pub(super) fn last_field(typmod: i32) -> Option<usize> {
    match fields_of(typmod) {
        ALL_FIELDS => None,
        fields => FIELD_BITS.iter().rposition(|bit| fields & bit != 0),
    }
}

/// Returns whether the type is `interval minute to second`.
pub(super) fn is_minute_to_second(typmod: i32) -> bool {
    fields_of(typmod) == MINUTE | SECOND
}

/// Writes the type's name with its modifier, such as `interval day to second(3)`.
pub(super) fn write_typmod(typmod: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("interval")?;
    let fields = fields_of(typmod);
    if fields != ALL_FIELDS {
        let named = |i: &usize| fields & FIELD_BITS[*i] != 0;
        let first = (0..FIELDS.len()).find(named).unwrap_or(0);
        let last = (0..FIELDS.len()).rfind(named).unwrap_or(first);
        write!(f, " {}", FIELDS[first].to_ascii_lowercase())?;
        if last > first {
            write!(f, " to {}", FIELDS[last].to_ascii_lowercase())?;
        }
    }
    match typmod & ANY_DIGITS {
        ANY_DIGITS => Ok(()),
        digits => write!(f, "({digits})"),
    }
}

/// Applies a modifier to an interval: truncates fields below the last one and rounds seconds.
pub(super) fn fit(span: Interval, typmod: i32) -> Result<Interval, SqlError> {
    let Interval { months, days, us } = span;
    let cut = match last_field(typmod).map(|i| FIELD_BITS[i]) {
        Some(YEAR) => Interval {
            months: months / 12 * 12,
            ..Interval::default()
        },
        Some(MONTH) => Interval {
            months,
            ..Interval::default()
        },
        Some(DAY) => Interval { us: 0, ..span },
        Some(HOUR) => Interval {
            us: us / HOUR_US * HOUR_US,
            ..span
        },
        Some(MINUTE) => Interval {
            us: us / MINUTE_US * MINUTE_US,
            ..span
        },
        _ => Interval { months, days, us },
    };
    let digits = typmod & ANY_DIGITS;
    Ok(Interval {
        us: round_fraction(cut.us, digits),
        ..cut
    })
}

/// Returns error 22008.
#[cold]
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

pub(super) fn from_binary(bytes: &[u8; 16]) -> Interval {
    let mut us = [0; 8];
    let mut days = [0; 4];
    let mut months = [0; 4];
    us.copy_from_slice(&bytes[..8]);
    days.copy_from_slice(&bytes[8..12]);
    months.copy_from_slice(&bytes[12..]);
    Interval {
        months: i32::from_be_bytes(months),
        days: i32::from_be_bytes(days),
        us: i64::from_be_bytes(us),
    }
}

pub(super) fn to_binary(span: &Interval, out: &mut Vec<u8>) {
    out.extend_from_slice(&span.us.to_be_bytes());
    out.extend_from_slice(&span.days.to_be_bytes());
    out.extend_from_slice(&span.months.to_be_bytes());
}

/// An interval split into the fields that are shown.
struct IntervalFields {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    us: i64,
}

impl IntervalFields {
    fn of(span: &Interval) -> IntervalFields {
        IntervalFields {
            years: i64::from(span.months / 12),
            months: i64::from(span.months % 12),
            days: i64::from(span.days),
            hours: span.us / HOUR_US,
            minutes: span.us / MINUTE_US % 60,
            seconds: span.us / SECOND_US % 60,
            us: span.us % SECOND_US,
        }
    }

    /// Writes the seconds without a sign, with two digits if `padded`.
    fn seconds(&self, padded: bool, out: &mut Vec<u8>) {
        if padded {
            two(self.seconds, out);
        } else {
            integer::format(self.seconds.abs(), out);
        }
        fraction(self.us, out);
    }
}

fn two(value: i64, out: &mut Vec<u8>) {
    if value.abs() < 10 {
        out.push(b'0');
    }
    integer::format(value.abs(), out);
}

/// Writes the fraction of a second without trailing zeros; its sign is ignored.
pub(super) fn fraction(us: i64, out: &mut Vec<u8>) {
    let mut rest = us.abs();
    if rest == 0 {
        return;
    }
    out.push(b'.');
    let mut unit = SECOND_US / 10;
    while rest != 0 {
        out.push(b'0' + (rest / unit) as u8);
        rest %= unit;
        unit /= 10;
    }
}

/// Appends an interval in the given style.
pub(super) fn format(span: &Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    let parts = IntervalFields::of(span);
    match style {
        IntervalStyle::Postgres => postgres(span, &parts, out),
        IntervalStyle::Verbose => verbose(span, &parts, out),
        IntervalStyle::Sql => sql(span, &parts, out),
        IntervalStyle::Iso => iso(span, &parts, out),
    }
}

fn postgres(span: &Interval, parts: &IntervalFields, out: &mut Vec<u8>) {
    let start = out.len();
    let mut before_negative = false;
    for (value, unit) in [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
    ] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if before_negative && value > 0 {
            out.push(b'+');
        }
        integer::format(value, out);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
        before_negative = value < 0;
    }
    if out.len() == start || span.us != 0 {
        if out.len() > start {
            out.push(b' ');
        }
        if span.us < 0 {
            out.push(b'-');
        } else if before_negative {
            out.push(b'+');
        }
        two(parts.hours, out);
        out.push(b':');
        two(parts.minutes, out);
        out.push(b':');
        parts.seconds(true, out);
    }
}

fn verbose(span: &Interval, parts: &IntervalFields, out: &mut Vec<u8>) {
    out.push(b'@');
    let start = out.len();
    // All signs are relative to that of the first field.
    let mut ago = None;
    let mut append_field = |value: i64, unit: &str, out: &mut Vec<u8>| {
        if value == 0 {
            return;
        }
        let ago = *ago.get_or_insert(value < 0);
        out.push(b' ');
        integer::format(if ago { -value } else { value }, out);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value.abs() != 1 || (ago && value == 1) {
            out.push(b's');
        }
    };
    append_field(parts.years, "year", out);
    append_field(parts.months, "mon", out);
    append_field(parts.days, "day", out);
    append_field(parts.hours, "hour", out);
    append_field(parts.minutes, "min", out);
    if parts.seconds != 0 || parts.us != 0 {
        let negative = parts.seconds < 0 || parts.us < 0;
        let ago = *ago.get_or_insert(negative);
        out.push(b' ');
        if negative != ago {
            out.push(b'-');
        }
        parts.seconds(false, out);
        out.extend_from_slice(b" sec");
        if parts.seconds.abs() != 1 || parts.us != 0 {
            out.push(b's');
        }
    }
    if out.len() == start {
        out.extend_from_slice(b" 0");
    }
    if ago == Some(true) {
        out.extend_from_slice(b" ago");
    }
    debug_assert!(out.len() > start || *span == Interval::default());
}

fn sql(span: &Interval, parts: &IntervalFields, out: &mut Vec<u8>) {
    let signs = [
        i64::from(span.months).signum(),
        i64::from(span.days).signum(),
        span.us.signum(),
    ];
    let negative = signs.contains(&-1);
    let positive = signs.contains(&1);
    let year_month = span.months != 0;
    let day = span.days != 0;
    let day_time = day || span.us != 0;
    let mut text = String::new();
    let clock = |text: &mut String| {
        let _ = write!(text, "{}:{:02}:", parts.hours.abs(), parts.minutes.abs());
        let mut seconds = Vec::new();
        parts.seconds(true, &mut seconds);
        text.push_str(std::str::from_utf8(&seconds).unwrap_or_default());
    };
    let sign = |negative: bool| if negative { '-' } else { '+' };
    if !negative && !positive {
        text.push('0');
    } else if (negative && positive) || (year_month && day_time) {
        // Unlike the SQL standard, this shows all fields, each with its sign.
        let _ = write!(
            text,
            "{}{}-{} {}{} {}",
            sign(span.months < 0),
            parts.years.abs(),
            parts.months.abs(),
            sign(span.days < 0),
            parts.days.abs(),
            sign(span.us < 0),
        );
        clock(&mut text);
    } else {
        if negative {
            text.push('-');
        }
        if year_month {
            let _ = write!(text, "{}-{}", parts.years.abs(), parts.months.abs());
        } else {
            if day {
                let _ = write!(text, "{} ", parts.days.abs());
            }
            clock(&mut text);
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn iso(span: &Interval, parts: &IntervalFields, out: &mut Vec<u8>) {
    if *span == Interval::default() {
        out.extend_from_slice(b"PT0S");
        return;
    }
    out.push(b'P');
    let append_field = |value: i64, unit: u8, out: &mut Vec<u8>| {
        if value != 0 {
            integer::format(value, out);
            out.push(unit);
        }
    };
    append_field(parts.years, b'Y', out);
    append_field(parts.months, b'M', out);
    append_field(parts.days, b'D', out);
    if span.us != 0 {
        out.push(b'T');
    }
    append_field(parts.hours, b'H', out);
    append_field(parts.minutes, b'M', out);
    if parts.seconds != 0 || parts.us != 0 {
        if parts.seconds < 0 || parts.us < 0 {
            out.push(b'-');
        }
        parts.seconds(false, out);
        out.push(b'S');
    }
}

/// Splits microseconds into days and the rest: the result of `timestamp - timestamp`.
pub fn of_difference(us: i64) -> Interval {
    Interval {
        months: 0,
        days: (us / DAY_US) as i32,
        us: us % DAY_US,
    }
}
