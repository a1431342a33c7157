//! to_date and to_timestamp: parse a text by a template.

use super::template::{DAYS, MONTHS, ROMAN, TemplateItem, case_matters, parts};
use crate::error::{SqlError, SqlState};
use crate::types::calendar::{
    DAY_US, SECOND_US, check_date, check_timestamp, days_from_civil, days_in_month,
};

/// The fields that were read from a text.
#[derive(Default)]
pub(super) struct Read {
    text: String,
    year: Option<i64>,
    bc: bool,
    century: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    week: Option<i64>,
    hour: i64,
    twelve: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    us: i64,
    seconds_of_day: Option<i64>,
    /// The sign, the hours and the minutes of the offset from UTC.
    zone: Option<(i64, i64, i64)>,
}

/// Parses a text by a template.
pub(super) fn moment(text: &str, template: &str) -> Result<Read, SqlError> {
    let parts = parts(template);
    let mut reader = InputCursor { rest: text };
    let mut read = Read {
        text: text.to_owned(),
        ..Read::default()
    };
    for (i, part) in parts.iter().enumerate() {
        match part {
            TemplateItem::Text(text) => {
                // Skips as many characters as the template text has, whatever they are.
                reader.blanks();
                for _ in text.chars() {
                    reader.skip_one();
                }
            }
            TemplateItem::Separator(_) => reader.separators(),
            TemplateItem::Field(field) => {
                reader.blanks();
                // If no numeric field follows, a number takes all its digits.
                let alone = match parts.get(i + 1) {
                    Some(TemplateItem::Field(next)) => !is_number(next.name),
                    _ => true,
                };
                if reader.rest.is_empty() {
                    break;
                }
                read.field(field.name, field.bare || alone, &mut reader)?;
                if field.ordinal.is_some() {
                    reader.skip_one();
                    reader.skip_one();
                }
            }
        }
    }
    Ok(read)
}

fn is_number(name: &str) -> bool {
    let mut others = ["OF", "TZH"].iter();
    !case_matters(name) && !others.any(|other| name.eq_ignore_ascii_case(other))
}

#[cold]
fn invalid(message: String, detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message).detail(detail)
}

struct InputCursor<'a> {
    rest: &'a str,
}

impl<'a> InputCursor<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn skip_one(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// Skips blanks and punctuation, but not a sign before a digit.
    fn separators(&mut self) {
        let mut skipped = 0;
        while let Some(c) = self.rest.chars().next() {
            let sign = matches!(c, '-' | '+')
                && skipped > 0
                && self.rest[1..].starts_with(|c: char| c.is_ascii_digit());
            if c.is_alphanumeric() || sign {
                break;
            }
            skipped += 1;
            self.skip_one();
        }
    }

    /// Reads a number of at most `digits` digits, or of any number of digits if it stands alone.
    fn number(&mut self, name: &str, digits: usize, alone: bool) -> Result<(i64, usize), SqlError> {
        let (negative, body) = match self.rest.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, self.rest.strip_prefix('+').unwrap_or(self.rest)),
        };
        let found = body.bytes().take_while(u8::is_ascii_digit).count();
        let count = if alone { found } else { found.min(digits) };
        if count == 0 {
            let excerpt: String = self.rest.chars().take(digits).collect();
            return Err(invalid(
                format!("invalid value \"{excerpt}\" for \"{name}\""),
                "Value must be an integer.",
            ));
        }
        if !alone && found < digits && name != "Y" {
            let excerpt = &body[..found];
            return Err(invalid(
                format!("source string too short for \"{name}\" formatting field"),
                &format!("Field requires {digits} characters, but only {found} remain."),
            )
            .hint(if excerpt.is_empty() {
                ""
            } else {
                "If your source string is not fixed-width, try using the \"FM\" modifier."
            }));
        }
        let (digits, rest) = body.split_at(count);
        let value = digits.parse::<i64>().ok();
        let value = value.map(|value| if negative { -value } else { value });
        // A field has 32 bits; arithmetic of fields in 64 bits therefore cannot overflow.
        let value = value.filter(|value| i32::try_from(*value).is_ok());
        let value = value.ok_or_else(|| {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{name}\" in source string is out of range"),
            )
            .detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            ))
        })?;
        self.rest = rest;
        Ok((value, count))
    }

    /// Reads one of several words in any case; the longest match wins.
    fn word(&mut self, name: &str, words: &[&str]) -> Result<usize, SqlError> {
        let fits = |word: &str| {
            self.rest
                .get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let found = words
            .iter()
            .enumerate()
            .filter(|(_, word)| fits(word))
            .max_by_key(|(_, word)| word.len());
        match found {
            Some((i, word)) => {
                self.rest = &self.rest[word.len()..];
                Ok(i)
            }
            None => {
                let excerpt: String = self
                    .rest
                    .chars()
                    .take_while(|c| !c.is_whitespace())
                    .collect();
                Err(invalid(
                    format!("invalid value \"{excerpt}\" for \"{name}\""),
                    "The given value did not match any of the allowed values for this field.",
                ))
            }
        }
    }
}

impl Read {
    fn field(
        &mut self,
        name: &str,
        alone: bool,
        reader: &mut InputCursor<'_>,
    ) -> Result<(), SqlError> {
        let mut number = |digits| reader.number(name, digits, alone).map(|(v, _)| v);
        match name {
            "HH" | "HH12" => {
                self.hour = number(2)?;
                self.twelve = true;
            }
            "HH24" => self.hour = number(2)?,
            "MI" => self.minute = number(2)?,
            "SS" => self.second = number(2)?,
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = match name {
                    "MS" => 3,
                    "US" => 6,
                    other => other[2..].parse().unwrap_or(6),
                };
                // The digits are those of a fraction: 12 is 120 thousandths.
                let (value, count) = reader.number(name, digits, true)?;
                if count > digits {
                    return Err(SqlError::new(
                        SqlState::DATETIME_FIELD_OVERFLOW,
                        format!("date/time field value out of range: \"{}\"", self.text),
                    ));
                }
                self.us += value * 10i64.pow(6 - count.min(6) as u32);
            }
            "SSSS" | "SSSSS" => self.seconds_of_day = Some(number(5)?),
            "YYYY" => self.year = Some(number(4)?),
            "Y,YYY" => {
                let thousands = reader.number(name, 4, true)?.0;
                reader.skip_one();
                self.year = Some(thousands * 1000 + reader.number(name, 3, true)?.0);
            }
            "YYY" | "YY" | "Y" => {
                let (value, count) = reader.number(name, name.len(), alone)?;
                self.year = Some(near(value, count));
            }
            "CC" => self.century = Some(number(2)?),
            "MM" => self.month = Some(number(2)?),
            "DD" => self.day = Some(number(2)?),
            "DDD" => self.day_of_year = Some(number(3)?),
            "J" => self.julian = Some(number(7)?),
            "WW" => self.week = Some(number(2)?),
            "D" | "ID" | "W" | "Q" => {
                number(1)?;
            }
            "OF" | "TZH" => {
                let negative = reader.rest.starts_with('-');
                let (hours, _) = reader.number(name, 2, false)?;
                let minutes = match reader.rest.strip_prefix(':') {
                    Some(tail) if name == "OF" => {
                        reader.rest = tail;
                        reader.number(name, 2, false)?.0
                    }
                    _ => 0,
                };
                let sign = if negative { -1 } else { 1 };
                self.zone = Some((sign, hours.abs(), minutes));
            }
            "TZM" => {
                let minutes = number(2)?;
                let (sign, hours, _) = self.zone.unwrap_or((1, 0, 0));
                self.zone = Some((sign, hours, minutes));
            }
            _ => self.word(name, reader)?,
        }
        Ok(())
    }

    fn word(&mut self, name: &str, reader: &mut InputCursor<'_>) -> Result<(), SqlError> {
        let short = |names: &[&'static str]| names.iter().map(|n| &n[..3]).collect::<Vec<_>>();
        match name.to_ascii_uppercase().as_str() {
            "AM" | "PM" => self.afternoon = Some(reader.word(name, &["AM", "PM"])? == 1),
            "A.M." | "P.M." => self.afternoon = Some(reader.word(name, &["A.M.", "P.M."])? == 1),
            "AD" | "BC" => self.bc = reader.word(name, &["AD", "BC"])? == 1,
            "A.D." | "B.C." => self.bc = reader.word(name, &["A.D.", "B.C."])? == 1,
            "MONTH" => self.month = Some(reader.word(name, &MONTHS)? as i64 + 1),
            "MON" => self.month = Some(reader.word(name, &short(&MONTHS))? as i64 + 1),
            "DAY" => drop(reader.word(name, &DAYS)?),
            "DY" => drop(reader.word(name, &short(&DAYS))?),
            "RM" => self.month = Some(reader.word(name, &ROMAN)? as i64 + 1),
            _ => {
                return Err(SqlError::unsupported(format!(
                    "formatting field \"{name}\" in a text that is read"
                )));
            }
        }
        Ok(())
    }

    #[cold]
    fn out_of_range(&self) -> SqlError {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{}\"", self.text),
        )
    }

    fn days(&self) -> Result<i64, SqlError> {
        if let Some(julian) = self.julian {
            return Ok(julian - 2_451_545);
        }
        let year = match (self.year, self.century) {
            (Some(year), Some(century)) if year.abs() < 100 => (century - 1) * 100 + year,
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            // A missing year is 1 BC.
            (None, None) => 0,
        };
        let year = match (self.bc, year) {
            (true, 1..) => 1 - year,
            (true, _) | (false, 0..) => year,
            (false, _) => year + 1,
        };
        let year = i32::try_from(year)
            .ok()
            .filter(|y| y.abs() < 6_000_000)
            .ok_or_else(|| self.out_of_range())?;
        if let Some(nth) = self.day_of_year {
            let length = days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1);
            if !(1..=length).contains(&nth) {
                return Err(self.out_of_range());
            }
            return Ok(days_from_civil(year, 1, 1) + nth - 1);
        }
        if let Some(week) = self.week {
            if !(1..=53).contains(&week) {
                return Err(self.out_of_range());
            }
            return Ok(days_from_civil(year, 1, 1) + (week - 1) * 7);
        }
        let month = u32::try_from(self.month.unwrap_or(1))
            .ok()
            .filter(|m| (1..=12).contains(m))
            .ok_or_else(|| self.out_of_range())?;
        let day = u32::try_from(self.day.unwrap_or(1))
            .ok()
            .filter(|d| (1..=days_in_month(year, month)).contains(d))
            .ok_or_else(|| self.out_of_range())?;
        Ok(days_from_civil(year, month, day))
    }

    /// Returns the date.
    pub(super) fn date(&self) -> Result<i32, SqlError> {
        let days = i32::try_from(self.days()?).map_err(|_| self.out_of_range())?;
        self.offset()?;
        check_date(days, &self.text)
    }

    /// Returns the local time, in microseconds.
    pub(super) fn local(&self) -> Result<i64, SqlError> {
        let mut hour = self.hour;
        if self.twelve || self.afternoon.is_some() {
            if !(1..=12).contains(&hour) && (self.twelve && hour != 0 || hour > 12) {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.afternoon {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let seconds = match self.seconds_of_day {
            Some(seconds) => seconds,
            None => {
                let good = (0..24).contains(&hour)
                    && (0..60).contains(&self.minute)
                    && (0..60).contains(&self.second);
                if !good {
                    return Err(self.out_of_range());
                }
                (hour * 60 + self.minute) * 60 + self.second
            }
        };
        if !(0..=86_400).contains(&seconds) {
            return Err(self.out_of_range());
        }
        let day = self.days()?.checked_mul(DAY_US);
        let us = day.and_then(|day| day.checked_add(seconds * SECOND_US + self.us));
        check_timestamp(us.ok_or_else(|| self.out_of_range())?)
    }

    /// Returns the offset from UTC in seconds, positive to the east; `None` if the text has none.
    pub(super) fn offset(&self) -> Result<Option<i64>, SqlError> {
        let Some((sign, hours, minutes)) = self.zone else {
            return Ok(None);
        };
        if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
            return Err(SqlError::new(
                SqlState::new(b"22009"),
                format!("time zone displacement out of range: \"{}\"", self.text),
            ));
        }
        Ok(Some(sign * (hours * 3600 + minutes * 60)))
    }
}

/// Completes a year of fewer than four digits to the nearest year to 2020.
fn near(value: i64, digits: usize) -> i64 {
    match (digits, value) {
        (0..=2, 0..=69) => value + 2000,
        (0..=2, 70..=99) => value + 1900,
        (3, 100..=519) => value + 2000,
        (3, 520..=999) => value + 1000,
        _ => value,
    }
}
