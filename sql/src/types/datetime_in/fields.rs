//! The splitting of a date or time text into fields.

use jiff::tz::TimeZone;

use super::{named_zone, order_of};
use crate::settings::DateOrder;
use crate::types::calendar::{DAY_US, SECOND_US, civil_from_days, days_from_civil};

/// The Julian day number of 2000-01-01.
const JULIAN_EPOCH: i64 = 2_451_545;

/// The fields that were read from a text.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) year: Option<i32>,
    pub(super) month: Option<u32>,
    pub(super) day: Option<u32>,
    pub(super) time_us: Option<i64>,
    pub(super) zone: Option<Zone>,
    pub(super) bc: bool,
    /// Whether the year had two digits: without BC it means the nearest such year.
    pub(super) two_digits: bool,
    pub(super) special: Option<Special>,
    /// Whether a time is read, so that the date is optional.
    time_only: bool,
}

/// A word that stands for a whole timestamp.
#[derive(Clone, Copy)]
pub(super) enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
    /// Midnight UTC (`allballs`).
    AllBalls,
    /// A number of days from today.
    Day(i32),
}

/// A time zone in the text.
pub(super) enum Zone {
    /// Seconds east of UTC.
    Offset(i32),
    Named(TimeZone),
}

/// The error in a text.
pub(super) enum Fault {
    Syntax,
    Range,
    MonthRange,
    ZoneRange,
    UnknownZone(String),
    NoClock,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

impl Fields {
    pub(super) fn read(text: &str, order: DateOrder) -> Result<Fields, Fault> {
        Fields::default().fill(text, order)
    }

    /// Reads a time of day, optionally after a date.
    pub(super) fn read_time(text: &str, order: DateOrder) -> Result<Fields, Fault> {
        let fields = Fields {
            time_only: true,
            ..Fields::default()
        };
        fields.fill(text, order)
    }

    fn fill(mut self, text: &str, order: DateOrder) -> Result<Fields, Fault> {
        let fields = &mut self;
        let mut rest = text;
        let mut numbers: Vec<&str> = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
            let Some(first) = rest.bytes().next() else {
                break;
            };
            rest = match first {
                b'0'..=b'9' => fields.numeric(rest, order, &mut numbers)?,
                b'+' | b'-' => fields.signed(rest)?,
                b if b.is_ascii_alphabetic() => fields.word(rest, order, &numbers)?,
                _ => return Err(Fault::Syntax),
            };
        }
        fields.place(&numbers, order)?;
        if fields.special.is_none() && fields.day.is_none() && !fields.time_only {
            return Err(Fault::Syntax);
        }
        Ok(self)
    }

    /// Reads a field that starts with a digit: a time, a date, or a number whose meaning is found
    /// later.
    fn numeric<'a>(
        &mut self,
        text: &'a str,
        order: DateOrder,
        numbers: &mut Vec<&'a str>,
    ) -> Result<&'a str, Fault> {
        let digits = count(text, |b| b.is_ascii_digit());
        let (number, rest) = text.split_at(digits);
        let date_known = self.day.is_some();
        match rest.bytes().next() {
            Some(b':') => return self.time(text),
            Some(separator @ (b'-' | b'/' | b'.')) if !date_known => {
                let next = rest[1..].bytes().next().unwrap_or(b' ');
                if next.is_ascii_alphanumeric() && numbers.is_empty() && self.month.is_none() {
                    return self.dated(text, separator as char, order);
                }
            }
            _ => {}
        }
        match number.len() {
            6 | 4 if self.time_only && self.time_us.is_none() => {
                return self.packed_time(text, number);
            }
            8 if !date_known && numbers.is_empty() && self.month.is_none() => {
                self.packed_date(number, 4)?;
            }
            6 if !date_known && numbers.is_empty() && self.month.is_none() => {
                self.packed_date(number, 2)?;
            }
            6 | 4 if date_known && self.time_us.is_none() => return self.packed_time(text, number),
            _ if date_known => return Err(Fault::Syntax),
            _ => numbers.push(number),
        }
        Ok(rest)
    }

    /// Reads `yyyymmdd` or `yymmdd`.
    fn packed_date(&mut self, number: &str, year_digits: usize) -> Result<(), Fault> {
        let (year, rest) = number.split_at(year_digits);
        let (month, day) = rest.split_at(2);
        self.set_year(year)?;
        self.month = Some(parse(month)?);
        self.day = Some(parse(day)?);
        Ok(())
    }

    /// Reads `hhmmss` or `hhmm` after a date.
    fn packed_time<'a>(&mut self, text: &'a str, number: &str) -> Result<&'a str, Fault> {
        let part = |i: usize| number.get(i..i + 2).map_or(Ok(0), parse::<i64>);
        let seconds = clock(part(0)?, part(2)?, part(4)?)?;
        let (fraction, rest) = fraction(&text[number.len()..])?;
        self.time_us = Some(seconds * SECOND_US + fraction);
        Ok(rest)
    }

    /// Reads three parts with a separator, one of which can be a month name.
    fn dated<'a>(
        &mut self,
        text: &'a str,
        separator: char,
        order: DateOrder,
    ) -> Result<&'a str, Fault> {
        let mut parts: [&str; 3] = [""; 3];
        let mut rest = text;
        for i in 0..3 {
            let alphabetic = rest.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
            let length = if alphabetic {
                count(rest, |b| b.is_ascii_alphabetic())
            } else {
                count(rest, |b| b.is_ascii_digit())
            };
            if length == 0 {
                return Err(Fault::Syntax);
            }
            (parts[i], rest) = rest.split_at(length);
            if i < 2 {
                let behind = rest.strip_prefix(separator);
                if i == 1 && behind.is_none() && parts[1].len() == 3 {
                    self.day_of_year(parts[0], parts[1])?;
                    return Ok(rest);
                }
                rest = behind.ok_or(Fault::Syntax)?;
            }
        }
        let named: Vec<usize> = (0..3)
            .filter(|i| month_number(parts[*i]).is_some())
            .collect();
        match named.as_slice() {
            [] => self.three(parts, order)?,
            // A month name cannot be the last part.
            [at @ (0 | 1)] => {
                self.month = month_number(parts[*at]);
                self.two(parts[1 - at], parts[2], order)?;
            }
            _ => return Err(Fault::Syntax),
        }
        Ok(rest)
    }

    fn three(&mut self, parts: [&str; 3], order: DateOrder) -> Result<(), Fault> {
        let [year, month, day] = match order_of(parts[0].len(), order) {
            DateOrder::Ymd => parts,
            DateOrder::Mdy => [parts[2], parts[0], parts[1]],
            DateOrder::Dmy => [parts[2], parts[1], parts[0]],
        };
        self.set_year(year)?;
        self.month = Some(parse(month)?);
        self.day = Some(parse(day)?);
        Ok(())
    }

    /// Reads `yyyy.ddd`.
    fn day_of_year(&mut self, year: &str, day: &str) -> Result<(), Fault> {
        if year.len() < 3 || !year.bytes().chain(day.bytes()).all(|b| b.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        let first = days_from_civil(parse(year)?, 1, 1);
        match parse(day)? {
            day @ 1..=366 => self.set_day(first + day - 1),
            _ => Err(Fault::Syntax),
        }
    }

    fn set_day(&mut self, days: i64) -> Result<(), Fault> {
        if self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return Err(Fault::Syntax);
        }
        let (year, month, day) = civil_from_days(days);
        self.bc = year <= 0;
        self.year = Some(if self.bc { 1 - year } else { year });
        (self.month, self.day) = (Some(month), Some(day));
        Ok(())
    }

    /// Sets day and year next to a named month.
    fn two(&mut self, first: &str, second: &str, order: DateOrder) -> Result<(), Fault> {
        let year_first = order == DateOrder::Ymd && second.len() < 3;
        let (day, year) = if first.len() > 2 || year_first {
            (second, first)
        } else {
            (first, second)
        };
        self.day = Some(parse(day)?);
        self.set_year(year)
    }

    /// Assigns meanings to separate numbers: next to a month name they are day and year.
    fn place(&mut self, numbers: &[&str], order: DateOrder) -> Result<(), Fault> {
        match (numbers, self.month) {
            ([], _) => Ok(()),
            ([first, second], Some(_)) if self.day.is_none() => self.two(first, second, order),
            ([a, b, c], None) => self.three([a, b, c], order),
            _ => Err(Fault::Syntax),
        }
    }

    fn set_year(&mut self, text: &str) -> Result<(), Fault> {
        if self.year.is_some() {
            return Err(Fault::Syntax);
        }
        self.year = Some(text.parse().map_err(|_| Fault::Range)?);
        self.two_digits = text.len() <= 2;
        Ok(())
    }

    /// Reads `hh:mm[:ss[.ffffff]]`.
    fn time<'a>(&mut self, text: &'a str) -> Result<&'a str, Fault> {
        if self.time_us.is_some() {
            return Err(Fault::Syntax);
        }
        let mut parts = [0i64; 3];
        let mut rest = text;
        for (i, part) in parts.iter_mut().enumerate() {
            let length = count(rest, |b| b.is_ascii_digit());
            if length == 0 {
                return Err(Fault::Syntax);
            }
            *part = parse(&rest[..length])?;
            rest = &rest[length..];
            match rest.strip_prefix(':') {
                Some(tail) if i < 2 => rest = tail,
                _ => break,
            }
        }
        let seconds = clock(parts[0], parts[1], parts[2])?;
        let (fraction, rest) = fraction(rest)?;
        let us = seconds * SECOND_US + fraction;
        if us > DAY_US {
            return Err(Fault::Range);
        }
        self.time_us = Some(us);
        Ok(rest)
    }

    /// Reads a field with a sign: a UTC offset or an infinity.
    fn signed<'a>(&mut self, text: &'a str) -> Result<&'a str, Fault> {
        let (sign, body) = match text.strip_prefix('-') {
            Some(body) => (-1, body),
            None => (1, &text[1..]),
        };
        let letters = count(body, |b| b.is_ascii_alphabetic());
        if letters > 0 {
            return match (body[..letters].to_ascii_lowercase().as_str(), sign) {
                ("infinity" | "inf", 1) => self.set_special(Special::Infinity, &body[letters..]),
                ("infinity" | "inf", _) => {
                    self.set_special(Special::MinusInfinity, &body[letters..])
                }
                _ => Err(Fault::Syntax),
            };
        }
        if self.zone.is_some() || (self.time_us.is_none() && self.day.is_none()) {
            return Err(Fault::Syntax);
        }
        let length = count(body, |b| b.is_ascii_digit() || b == b':');
        let (offset, rest) = body.split_at(length);
        let mut parts = [0i32; 3];
        if offset.contains(':') {
            for (i, part) in offset.split(':').enumerate() {
                *parts.get_mut(i).ok_or(Fault::Syntax)? = zone_part(part)?;
            }
        } else {
            let number = zone_part(offset)?;
            match offset.len() {
                1 | 2 => parts[0] = number,
                _ => (parts[0], parts[1]) = (number / 100, number % 100),
            }
        }
        if parts[0] > 15 || parts[1] > 59 || parts[2] > 59 {
            return Err(Fault::ZoneRange);
        }
        self.zone = Some(Zone::Offset(
            sign * (parts[0] * 3600 + parts[1] * 60 + parts[2]),
        ));
        Ok(rest)
    }

    /// Reads a word. `numbers` are the numbers before it whose meanings are unknown.
    fn word<'a>(
        &mut self,
        text: &'a str,
        order: DateOrder,
        numbers: &[&str],
    ) -> Result<&'a str, Fault> {
        let letters = count(text, |b| b.is_ascii_alphabetic());
        let (plain, rest) = text.split_at(letters);
        let lowered = plain.to_ascii_lowercase();
        let mut behind = rest.chars();
        if let (Some(separator @ ('-' | '/' | '.')), Some('0'..='9')) =
            (behind.next(), behind.next())
            && month_number(&lowered).is_some()
            && self.day.is_none()
            && numbers.is_empty()
        {
            return self.dated(text, separator, order);
        }
        if ["j", "jd", "julian"].contains(&lowered.as_str()) && rest.starts_with(is_digit) {
            let (day, rest) = rest.split_at(count(rest, |b| b.is_ascii_digit()));
            self.set_day(parse::<i64>(day)? - JULIAN_EPOCH)?;
            return Ok(rest);
        }
        // The T between date and time.
        if lowered == "t"
            && self.day.is_some()
            && rest.bytes().next().is_some_and(|b| b.is_ascii_digit())
        {
            return Ok(rest);
        }
        let special = match lowered.as_str() {
            "epoch" => Some(Special::Epoch),
            "infinity" | "inf" => Some(Special::Infinity),
            "now" => Some(Special::Now),
            "allballs" => Some(Special::AllBalls),
            "today" => Some(Special::Day(0)),
            "tomorrow" => Some(Special::Day(1)),
            "yesterday" => Some(Special::Day(-1)),
            _ => None,
        };
        if let Some(special) = special {
            return self.set_special(special, rest);
        }
        match lowered.as_str() {
            "am" | "pm" => {
                self.meridian(lowered == "pm")?;
                return Ok(rest);
            }
            "bc" if self.day.is_some() || self.month.is_some() => {
                self.bc = true;
                return Ok(rest);
            }
            "ad" => return Ok(rest),
            _ => {}
        }
        if !rest.starts_with(['/', '_']) {
            if let Some(month) = month_number(&lowered) {
                let year_first =
                    order == DateOrder::Ymd || numbers.first().is_some_and(|n| n.len() > 2);
                let misplaced = numbers.len() > 1 && !year_first;
                if self.month.replace(month).is_some() || misplaced {
                    return Err(Fault::Syntax);
                }
                return Ok(rest);
            }
            if DAYS
                .iter()
                .any(|d| lowered.len() >= 3 && d.starts_with(&lowered))
            {
                return Ok(rest);
            }
        }
        self.zone_word(text)
    }

    fn zone_word<'a>(&mut self, text: &'a str) -> Result<&'a str, Fault> {
        let length = count(text, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+' | b':')
        });
        let (word, rest) = text.split_at(length);
        let alone = self.day.is_none() && self.time_us.is_none() && self.special.is_none();
        if self.zone.is_some() || alone {
            return Err(Fault::Syntax);
        }
        match named_zone(word) {
            Some(zone) => self.zone = Some(zone),
            None if word.contains('/') => return Err(Fault::UnknownZone(word.to_owned())),
            None => return Err(Fault::Syntax),
        }
        Ok(rest)
    }

    fn set_special<'a>(&mut self, special: Special, rest: &'a str) -> Result<&'a str, Fault> {
        if self.special.replace(special).is_some() || self.day.is_some() {
            return Err(Fault::Syntax);
        }
        Ok(rest)
    }

    fn meridian(&mut self, pm: bool) -> Result<(), Fault> {
        const HOUR_US: i64 = 3600 * SECOND_US;
        let us = self.time_us.ok_or(Fault::Syntax)?;
        let hour = us / HOUR_US;
        if hour > 12 {
            return Err(Fault::Range);
        }
        let half_day_us = if hour == 12 { us - 12 * HOUR_US } else { us };
        self.time_us = Some(if pm {
            half_day_us + 12 * HOUR_US
        } else {
            half_day_us
        });
        Ok(())
    }
}

fn clock(hours: i64, minutes: i64, seconds: i64) -> Result<i64, Fault> {
    if hours > 24 || minutes > 59 || seconds > 60 {
        return Err(Fault::Range);
    }
    Ok(hours * 3600 + minutes * 60 + seconds)
}

/// Reads a number of a UTC offset.
fn zone_part(digits: &str) -> Result<i32, Fault> {
    if digits.is_empty() {
        return Err(Fault::Syntax);
    }
    digits.parse().map_err(|_| Fault::ZoneRange)
}

/// Reads `.ffffff`, rounded to microseconds.
fn fraction(text: &str) -> Result<(i64, &str), Fault> {
    let Some(body) = text.strip_prefix('.') else {
        return Ok((0, text));
    };
    let length = count(body, |b| b.is_ascii_digit());
    let mut us = 0;
    let mut unit = SECOND_US / 10;
    for (i, b) in body[..length].bytes().enumerate() {
        let digit = i64::from(b - b'0');
        if i < 6 {
            us += digit * unit;
            unit /= 10;
        } else if i == 6 {
            us += i64::from(digit >= 5);
        }
    }
    Ok((us, &body[length..]))
}

fn month_number(text: &str) -> Option<u32> {
    if text.len() < 3 {
        return None;
    }
    let lowered = text.to_ascii_lowercase();
    if lowered == "sept" {
        return Some(9);
    }
    let at = MONTHS
        .iter()
        .position(|m| *m == lowered || m[..3] == lowered)?;
    Some(at as u32 + 1)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn count(text: &str, matches: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| matches(*b)).count()
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, Fault> {
    if text.is_empty() || text.len() > 9 {
        return Err(if text.is_empty() {
            Fault::Syntax
        } else {
            Fault::Range
        });
    }
    text.parse().map_err(|_| Fault::Syntax)
}
