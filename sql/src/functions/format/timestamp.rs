//! to_char of timestamps and intervals.

use jiff::tz::TimeZone;

use super::Outcome;
use super::template::{DAYS, Field, MONTHS, ROMAN, TemplateItem, parts};
use crate::error::SqlError;
use crate::functions::mismatch;
use crate::types::calendar::{
    DAY_US, EPOCH_SHIFT_SECONDS, SECOND_US, civil_from_days, days_from_civil,
};
use crate::types::zone;
use crate::value::Value;

/// The fields of a timestamp or interval.
struct TimestampFields {
    span: bool,
    /// The year; 0 is 1 BC.
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    /// Days from 2000-01-01; 0 for an interval.
    days: i64,
    zone: Option<(i32, String)>,
}

pub(super) fn to_char(value: &Value, template: &str, zone: &TimeZone) -> Outcome {
    if template.is_empty() {
        return Ok(Value::Null);
    }
    let moment = match value {
        Value::Timestamp(i64::MIN | i64::MAX) | Value::TimestampTz(i64::MIN | i64::MAX) => {
            return Ok(Value::Null);
        }
        Value::Timestamp(us) => TimestampFields::local(*us, None),
        Value::TimestampTz(us) => {
            let east = zone::offset_at(zone, *us);
            let local = us.saturating_add(i64::from(east) * SECOND_US);
            let second = us.div_euclid(SECOND_US) + EPOCH_SHIFT_SECONDS;
            let name = jiff::Timestamp::from_second(second)
                .map(|at| zone.to_offset_info(at).abbreviation().to_owned())
                .unwrap_or_default();
            TimestampFields::local(local, Some((east, name)))
        }
        Value::Interval(span) => TimestampFields {
            span: true,
            year: i64::from(span.months / 12),
            month: i64::from(span.months % 12),
            day: i64::from(span.days),
            hour: span.us / (3600 * SECOND_US),
            minute: span.us / (60 * SECOND_US) % 60,
            second: span.us / SECOND_US % 60,
            us: span.us % SECOND_US,
            days: 0,
            zone: None,
        },
        _ => return Err(mismatch("to_char")),
    };
    let mut out = String::new();
    for part in parts(template) {
        match part {
            TemplateItem::Text(text) | TemplateItem::Separator(text) => out.push_str(&text),
            TemplateItem::Field(field) => moment.field(&field, &mut out)?,
        }
    }
    Ok(Value::text(out))
}

impl TimestampFields {
    fn local(us: i64, zone: Option<(i32, String)>) -> TimestampFields {
        let days = us.div_euclid(DAY_US);
        let of_day = us.rem_euclid(DAY_US);
        let (year, month, day) = civil_from_days(days);
        TimestampFields {
            span: false,
            year: i64::from(year),
            month: i64::from(month),
            day: i64::from(day),
            hour: of_day / (3600 * SECOND_US),
            minute: of_day / (60 * SECOND_US) % 60,
            second: of_day / SECOND_US % 60,
            us: of_day % SECOND_US,
            days,
            zone,
        }
    }

    /// Returns the year as it is shown: 1 BC is 1.
    fn shown_year(&self, year: i64) -> i64 {
        match year {
            _ if self.span => year,
            ..=0 => 1 - year,
            _ => year,
        }
    }

    /// Returns the day of the week; 0 is Sunday.
    fn weekday(&self) -> i64 {
        (self.days + 6).rem_euclid(7)
    }

    fn day_of_year(&self) -> i64 {
        match self.span {
            true => self.year * 360 + self.month * 30 + self.day,
            false => self.days - days_from_civil(self.year as i32, 1, 1) + 1,
        }
    }

    /// Returns the year, week and day of the year by ISO 8601.
    fn iso(&self) -> (i64, i64, i64) {
        let monday = self.days - (self.days + 5).rem_euclid(7);
        let (year, _, _) = civil_from_days(monday + 3);
        let first = days_from_civil(year, 1, 4);
        let first_monday = first - (first + 5).rem_euclid(7);
        (
            i64::from(year),
            (monday - first_monday) / 7 + 1,
            self.days - first_monday + 1,
        )
    }

    fn field(&self, field: &Field, out: &mut String) -> Result<(), SqlError> {
        let start = out.len();
        let mut number = |value: i64, width: usize| {
            let width = if field.bare { 0 } else { width };
            out.push_str(&format!("{value:0width$}"));
        };
        let needs_date = || match self.span {
            true => Err(SqlError::new(
                crate::error::SqlState::INVALID_DATETIME_FORMAT,
                "invalid format specification for an interval value",
            )
            .hint("Intervals are not tied to specific calendar dates.")),
            false => Ok(()),
        };
        let twelve = match self.hour % 12 {
            0 => 12,
            hour => hour,
        };
        // The sign takes an extra position in these fields and no position in others.
        let clock = |value: i64| if value < 0 { 3 } else { 2 };
        let year = self.shown_year(self.year);
        match field.name {
            "HH" | "HH12" => number(twelve, clock(twelve)),
            "HH24" => number(self.hour, clock(self.hour)),
            "MI" => number(self.minute, clock(self.minute)),
            "SS" => number(self.second, clock(self.second)),
            "MS" | "FF3" => number(self.us / 1000, 3),
            "US" | "FF6" => number(self.us, 6),
            "FF1" => number(self.us / 100_000, 1),
            "FF2" => number(self.us / 10_000, 2),
            "FF4" => number(self.us / 100, 4),
            "FF5" => number(self.us / 10, 5),
            "SSSS" | "SSSSS" => number((self.hour * 60 + self.minute) * 60 + self.second, 0),
            "Y,YYY" => {
                let text = format!("{},{:03}", year / 1000, year % 1000);
                out.push_str(&text);
            }
            "YYYY" => number(year, if self.year <= -10_000 { 5 } else { 4 }),
            "YYY" => number(year % 1000, 3),
            "YY" => number(year % 100, 2),
            "Y" => number(year % 10, 1),
            "IYYY" | "IYY" | "IY" | "I" => {
                needs_date()?;
                let iso = self.shown_year(self.iso().0);
                let width = field.name.len();
                number(last_digits(iso, width), width);
            }
            "CC" => {
                let century = match self.span {
                    true => self.year / 100,
                    false if self.year > 0 => (self.year - 1) / 100 + 1,
                    false => self.year / 100 - 1,
                };
                let width = if century.abs() < 100 { 2 } else { 0 };
                number(century, width);
            }
            "MM" => number(self.month, 2),
            "DD" => number(self.day, 2),
            "DDD" => number(self.day_of_year(), 3),
            "IDDD" => {
                needs_date()?;
                number(self.iso().2, 3);
            }
            "D" => {
                needs_date()?;
                number(self.weekday() + 1, 0);
            }
            "ID" => {
                needs_date()?;
                number((self.weekday() + 6) % 7 + 1, 0);
            }
            "WW" => number((self.day_of_year() - 1) / 7 + 1, 2),
            "IW" => {
                needs_date()?;
                number(self.iso().1, 2);
            }
            "W" => number((self.day - 1) / 7 + 1, 0),
            "Q" => {
                if self.month != 0 {
                    number((self.month - 1) / 3 + 1, 0);
                }
            }
            "J" => number(self.days + 2_451_545, 0),
            name => {
                self.word(name, field, out)?;
                return Ok(());
            }
        }
        if let Some(upper) = field.ordinal {
            let suffix = ordinal(&out[start..]);
            match upper {
                true => out.push_str(&suffix.to_ascii_uppercase()),
                false => out.push_str(suffix),
            }
        }
        Ok(())
    }

    /// Formats the fields that are words, and those of the time zone.
    fn word(&self, name: &str, field: &Field, out: &mut String) -> Result<(), SqlError> {
        let afternoon = self.hour.rem_euclid(24) >= 12;
        let choose = |no: &str, yes: &str, which: bool| {
            let text = if which { yes } else { no };
            match name.starts_with(|c: char| c.is_ascii_lowercase()) {
                true => text.to_ascii_lowercase(),
                false => text.to_owned(),
            }
        };
        let mut padded = |text: &str, width: usize| {
            out.push_str(text);
            if !field.bare {
                let short = width.saturating_sub(text.len());
                out.extend(std::iter::repeat_n(' ', short));
            }
        };
        let cased = |text: &str| match name {
            _ if name.starts_with(|c: char| c.is_ascii_lowercase()) => text.to_ascii_lowercase(),
            _ if name.ends_with(|c: char| c.is_ascii_lowercase()) => text.to_owned(),
            _ => text.to_ascii_uppercase(),
        };
        let month = usize::try_from(self.month)
            .ok()
            .and_then(|m| m.checked_sub(1));
        let span_has_none = || {
            SqlError::new(
                crate::error::SqlState::INVALID_DATETIME_FORMAT,
                "invalid format specification for an interval value",
            )
            .hint("Intervals are not tied to specific calendar dates.")
        };
        let lowered = name.to_ascii_lowercase();
        match lowered.as_str() {
            "am" | "pm" => padded(&choose("AM", "PM", afternoon), 0),
            "a.m." | "p.m." => padded(&choose("A.M.", "P.M.", afternoon), 0),
            "ad" | "bc" if self.span => return Err(span_has_none()),
            "a.d." | "b.c." if self.span => return Err(span_has_none()),
            "ad" | "bc" => padded(&choose("AD", "BC", self.year <= 0), 0),
            "a.d." | "b.c." => padded(&choose("A.D.", "B.C.", self.year <= 0), 0),
            "month" | "mon" | "day" | "dy" if self.span => return Err(span_has_none()),
            "month" => padded(&cased(MONTHS[month.unwrap_or(0)]), 9),
            "mon" => padded(&cased(&MONTHS[month.unwrap_or(0)][..3]), 0),
            "day" => padded(&cased(DAYS[self.weekday() as usize]), 9),
            "dy" => padded(&cased(&DAYS[self.weekday() as usize][..3]), 0),
            "rm" => {
                if let Some(roman) = month.and_then(|m| ROMAN.get(m)) {
                    padded(&choose(roman, roman, true), 4);
                }
            }
            "tz" | "tzh" | "tzm" | "of" if self.span => return Err(span_has_none()),
            "tz" => {
                if let Some((_, zone)) = &self.zone {
                    padded(&choose(zone, zone, true), 0);
                }
            }
            _ => {
                let east = self.zone.as_ref().map_or(0, |(east, _)| *east);
                let sign = if east < 0 { '-' } else { '+' };
                let (hours, minutes) = (east.abs() / 3600, east.abs() / 60 % 60);
                let text = match lowered.as_str() {
                    "tzh" => format!("{sign}{hours:02}"),
                    "tzm" => format!("{minutes:02}"),
                    _ if minutes != 0 => format!("{sign}{hours:02}:{minutes:02}"),
                    _ => format!("{sign}{hours:02}"),
                };
                padded(&text, 0);
            }
        }
        Ok(())
    }
}

/// Returns the suffix `st`, `nd`, `rd` or `th` for a number.
pub(super) fn ordinal(digits: &str) -> &'static str {
    let last = |n: usize| {
        digits
            .len()
            .checked_sub(n)
            .map_or(digits, |at| &digits[at..])
    };
    if digits.len() > 1 && last(2).starts_with('1') {
        return "th";
    }
    match last(1) {
        "1" => "st",
        "2" => "nd",
        "3" => "rd",
        _ => "th",
    }
}

/// Returns the last digits of a year; four digits are the whole year.
fn last_digits(year: i64, width: usize) -> i64 {
    match width {
        1..4 => year % 10i64.pow(width as u32),
        _ => year,
    }
}
