//! Input of intervals: `1 year 2 mons -3 days 04:05:06 ago`, `1-2 3 4:05:06` and the forms of ISO
//! 8601.
//!
//! The text is split into numbers, times and words, which are processed from the last to the first.
//! A word is the unit of the number before it. A number without a unit is in seconds, in days
//! before a time, or in the type's last field.

use super::calendar::{DAY_US, SECOND_US};
use super::interval::{self, FIELDS};
use crate::error::{SqlError, SqlState};
use crate::settings::{IntervalStyle, Settings};
use crate::value::Interval;

const HOUR_US: i64 = 3600 * SECOND_US;
const MINUTE_US: i64 = 60 * SECOND_US;

enum Fault {
    Syntax,
    Range,
}

type Read<T> = Result<T, Fault>;

pub(super) fn parse(text: &str, typmod: i32, settings: &Settings) -> Result<Interval, SqlError> {
    let fault = |fault| match fault {
        Fault::Syntax => super::invalid_datetime("interval", text),
        Fault::Range => SqlError::new(
            SqlState::new(b"22015"),
            format!("interval field value out of range: \"{text}\""),
        ),
    };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if trimmed.starts_with('P')
        && let Ok(span) = iso(&trimmed[1..])
    {
        return Ok(span);
    }
    let sql = settings.interval_style == IntervalStyle::Sql;
    plain(trimmed, typmod, sql).map_err(fault)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// The interval read so far, and the units that have occurred.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    us: i64,
    seen: u32,
}

impl Sum {
    fn seen(&mut self, mask: u32) -> Read<()> {
        if self.seen & mask != 0 {
            return Err(Fault::Syntax);
        }
        self.seen |= mask;
        Ok(())
    }

    fn add_us(&mut self, us: i64) -> Read<()> {
        self.us = self.us.checked_add(us).ok_or(Fault::Range)?;
        Ok(())
    }

    fn add_days(&mut self, days: i64) -> Read<()> {
        self.days = small(self.days.checked_add(days).ok_or(Fault::Range)?)?;
        Ok(())
    }

    fn add_months(&mut self, months: i64) -> Read<()> {
        self.months = small(self.months.checked_add(months).ok_or(Fault::Range)?)?;
        Ok(())
    }

    /// Adds a fraction of a unit that has `unit_us` microseconds.
    fn fraction_us(&mut self, fraction: f64, unit_us: i64) -> Read<()> {
        self.add_us((fraction * unit_us as f64).round() as i64)
    }

    fn fraction_days(&mut self, fraction: f64, days: i64) -> Read<()> {
        let scaled = fraction * days as f64;
        let whole = scaled.trunc();
        self.add_days(whole as i64)?;
        self.fraction_us(scaled - whole, DAY_US)
    }

    fn fraction_years(&mut self, fraction: f64, years: i64) -> Read<()> {
        self.add_months((fraction * years as f64 * 12.0).round_ties_even() as i64)
    }

    fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Read<()> {
        let times = |unit_us: i64| whole.checked_mul(unit_us).ok_or(Fault::Range);
        match unit {
            Unit::Microsecond => {
                self.add_us(whole)?;
                self.fraction_us(fraction, 1)
            }
            Unit::Millisecond => {
                self.add_us(times(1000)?)?;
                self.fraction_us(fraction, 1000)
            }
            Unit::Second => {
                self.add_us(times(SECOND_US)?)?;
                self.fraction_us(fraction, SECOND_US)
            }
            Unit::Minute => {
                self.add_us(times(MINUTE_US)?)?;
                self.fraction_us(fraction, MINUTE_US)
            }
            Unit::Hour => {
                self.add_us(times(HOUR_US)?)?;
                self.fraction_us(fraction, HOUR_US)
            }
            Unit::Day => {
                self.add_days(whole)?;
                self.fraction_us(fraction, DAY_US)
            }
            Unit::Week => {
                self.add_days(times(7)?)?;
                self.fraction_days(fraction, 7)
            }
            Unit::Month => {
                self.add_months(whole)?;
                self.fraction_days(fraction, 30)
            }
            Unit::Year => self.years(whole, fraction, 1),
            Unit::Decade => self.years(whole, fraction, 10),
            Unit::Century => self.years(whole, fraction, 100),
            Unit::Millennium => self.years(whole, fraction, 1000),
        }
    }

    fn years(&mut self, whole: i64, fraction: f64, years: i64) -> Read<()> {
        self.add_months(whole.checked_mul(12 * years).ok_or(Fault::Range)?)?;
        self.fraction_years(fraction, years)
    }

    fn finish(self, negated: bool) -> Read<Interval> {
        let sign = if negated { -1 } else { 1 };
        let narrow = |v: i64| i32::try_from(v * sign).map_err(|_| Fault::Range);
        Ok(Interval {
            months: narrow(self.months)?,
            days: narrow(self.days)?,
            us: self.us.checked_mul(sign).ok_or(Fault::Range)?,
        })
    }
}

/// Checks that a number of months or days fits four bytes.
fn small(v: i64) -> Read<i64> {
    match i32::try_from(v) {
        Ok(_) => Ok(v),
        Err(_) => Err(Fault::Range),
    }
}

fn bit(unit: Unit) -> u32 {
    1 << unit as u32
}

const TIME_BITS: u32 = 1 << Unit::Second as u32
    | 1 << Unit::Minute as u32
    | 1 << Unit::Hour as u32
    | 1 << Unit::Millisecond as u32
    | 1 << Unit::Microsecond as u32;
const SECOND_BITS: u32 =
    1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;

/// Splits the text into numbers, times and words.
fn cut(text: &str) -> Read<Vec<&str>> {
    let bytes = text.as_bytes();
    let mut fields = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let first = bytes[at];
        let start = at;
        if first.is_ascii_digit() || first == b'.' {
            at = number_end(bytes, at);
        } else if matches!(first, b'+' | b'-') {
            at += 1;
            // Blanks after a sign are ignored; the sign is the byte at the start.
            while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
                at += 1;
            }
            match bytes.get(at) {
                Some(b) if b.is_ascii_digit() || *b == b'.' => at = number_end(bytes, at),
                _ => return Err(Fault::Syntax),
            }
        } else if first.is_ascii_alphabetic() {
            while bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
                at += 1;
            }
        } else if first.is_ascii_whitespace() || first.is_ascii_punctuation() {
            at += 1;
            continue;
        } else {
            return Err(Fault::Syntax);
        }
        fields.push(&text[start..at]);
    }
    Ok(fields)
}

/// Returns the end of a sequence of digits with `:`, `.` and, for years and months, `-`.
fn number_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b) = bytes.get(at) {
        let dash = *b == b'-' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !b.is_ascii_digit() && !matches!(b, b':' | b'.') && !dash {
            break;
        }
        at += 1;
    }
    at
}

fn plain(text: &str, typmod: i32, sql: bool) -> Read<Interval> {
    let fields = cut(text)?;
    let last_field = interval::last_field(typmod);
    let minutes_first = interval::is_minute_to_second(typmod);
    let mut sum = Sum::default();
    let mut unit = None;
    let mut ago = false;
    // In the SQL standard, one leading sign applies to the whole interval.
    let signs = fields.iter().filter(|f| f.starts_with(['-', '+'])).count();
    let all_negative = sql && signs == 1 && fields.first().is_some_and(|f| f.starts_with('-'));
    for (i, field) in fields.iter().enumerate().rev() {
        if field.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let word = field.to_ascii_lowercase();
            if word == "ago" {
                ago = true;
                unit = Some(Unit::Second);
            } else {
                unit = Some(unit_of(&word).ok_or(Fault::Syntax)?);
            }
            continue;
        }
        let negative = field.starts_with('-') || (all_negative && i > 0);
        let body = field.trim_start_matches(['-', '+', ' ', '\t']);
        let sign = if negative { -1 } else { 1 };
        if body.contains(':') {
            sum.seen(TIME_BITS)?;
            sum.add_us(sign * clock(body, minutes_first)?)?;
            unit = Some(Unit::Day);
            continue;
        }
        if let Some((years, months)) = body.split_once('-') {
            let months: i64 = months.parse().map_err(|_| Fault::Syntax)?;
            if months >= 12 {
                return Err(Fault::Range);
            }
            let years: i64 = years.parse().map_err(|_| Fault::Syntax)?;
            sum.seen(bit(Unit::Month))?;
            let total = years.checked_mul(12).and_then(|y| y.checked_add(months));
            sum.add_months(sign * total.ok_or(Fault::Range)?)?;
            unit = Some(Unit::Month);
            continue;
        }
        let this = *unit.get_or_insert(match last_field.map(|i| FIELDS[i]) {
            Some("YEAR") => Unit::Year,
            Some("MONTH") => Unit::Month,
            Some("DAY") => Unit::Day,
            Some("HOUR") => Unit::Hour,
            Some("MINUTE") => Unit::Minute,
            _ => Unit::Second,
        });
        let (whole, fraction) = number(body)?;
        sum.seen(match this {
            Unit::Second if fraction != 0.0 => SECOND_BITS,
            unit => bit(unit),
        })?;
        sum.add(this, sign * whole, sign as f64 * fraction)?;
    }
    if sum.seen == 0 {
        return Err(Fault::Syntax);
    }
    sum.finish(ago)
}

/// Reads digits with an optional fraction.
fn number(body: &str) -> Read<(i64, f64)> {
    let (whole, fraction) = match body.split_once('.') {
        None => (body, ""),
        Some((whole, fraction)) => (whole, fraction),
    };
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(Fault::Syntax);
    }
    let whole = match whole {
        "" => 0,
        digits => digits.parse().map_err(|_| Fault::Range)?,
    };
    let fraction = match fraction {
        "" => 0.0,
        digits => format!("0.{digits}").parse().map_err(|_| Fault::Syntax)?,
    };
    Ok((whole, fraction))
}

/// Reads `hh:mm`, `hh:mm:ss[.f]` or `mm:ss.f`.
fn clock(body: &str, minutes_first: bool) -> Read<i64> {
    let parts: Vec<&str> = body.split(':').collect();
    let whole = |text: &str| text.parse::<i64>().map_err(|_| Fault::Syntax);
    let (hours, minutes, seconds) = match parts.as_slice() {
        // Two parts are minutes and seconds if there is a fraction, or if the type is `interval
        // minute to second`.
        [minutes, seconds] if seconds.contains('.') => (0, whole(minutes)?, number(seconds)?),
        [minutes, seconds] if minutes_first => (0, whole(minutes)?, number(seconds)?),
        [hours, minutes] => (whole(hours)?, whole(minutes)?, (0, 0.0)),
        [hours, minutes, seconds] => (whole(hours)?, whole(minutes)?, number(seconds)?),
        _ => return Err(Fault::Syntax),
    };
    let within = |part: i64, most: i64| match part {
        ..0 if i32::try_from(part).is_ok() => Err(Fault::Syntax),
        part if (0..=most).contains(&part) => Ok(()),
        _ => Err(Fault::Range),
    };
    within(minutes, 59)?;
    within(seconds.0, 60)?;
    let us = hours.checked_mul(HOUR_US).ok_or(Fault::Range)?;
    let rest = minutes * MINUTE_US
        + seconds.0 * SECOND_US
        + (seconds.1 * SECOND_US as f64).round_ties_even() as i64;
    us.checked_add(rest).ok_or(Fault::Range)
}

fn unit_of(word: &str) -> Option<Unit> {
    Some(match word {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" | "microsecond"
        | "microseconds" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" | "millisecond"
        | "milliseconds" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    })
}

/// Reads the text after the P: `1Y2M3DT4H5M6.7S` or `0001-02-03T04:05:06`.
fn iso(text: &str) -> Read<Interval> {
    let (date, time) = match text.split_once('T') {
        None => (text, None),
        Some((date, time)) => (date, Some(time)),
    };
    let mut sum = Sum::default();
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Err(Fault::Syntax);
    }
    let basic = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_ascii_alphabetic());
    if basic(date) {
        let parts: Vec<&str> = date.split('-').collect();
        let [years, months, days] = parts.as_slice() else {
            return Err(Fault::Syntax);
        };
        for (unit, text) in [
            (Unit::Year, years),
            (Unit::Month, months),
            (Unit::Day, days),
        ] {
            sum.add(unit, text.parse().map_err(|_| Fault::Syntax)?, 0.0)?;
        }
    } else {
        designated(date, &mut sum, |letter| match letter {
            'Y' => Some(Unit::Year),
            'M' => Some(Unit::Month),
            'W' => Some(Unit::Week),
            'D' => Some(Unit::Day),
            _ => None,
        })?;
    }
    match time {
        Some(time) if basic(time) => sum.add_us(clock(time, false)?)?,
        Some(time) => designated(time, &mut sum, |letter| match letter {
            'H' => Some(Unit::Hour),
            'M' => Some(Unit::Minute),
            'S' => Some(Unit::Second),
            _ => None,
        })?,
        None => {}
    }
    sum.finish(false)
}

/// Reads numbers that are each followed by a letter.
fn designated(text: &str, sum: &mut Sum, unit: impl Fn(char) -> Option<Unit>) -> Read<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest
            .find(|c: char| c.is_ascii_alphabetic())
            .ok_or(Fault::Syntax)?;
        let letter = rest[at..].chars().next().ok_or(Fault::Syntax)?;
        let unit = unit(letter).ok_or(Fault::Syntax)?;
        let negative = rest.starts_with('-');
        let body = rest[..at].trim_start_matches(['-', '+']);
        let (whole, fraction) = number(body)?;
        let sign = if negative { -1 } else { 1 };
        sum.add(unit, sign * whole, sign as f64 * fraction)?;
        rest = &rest[at + 1..];
    }
    Ok(())
}
