//! `log_line_prefix`: the prefix of each line, with PostgreSQL's escapes.

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::record::{Client, Record};

/// A parsed prefix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prefix(Vec<PrefixItem>);

#[derive(Clone, Debug, PartialEq)]
enum PrefixItem {
    Text(String),
    /// The letter of an escape and its width; a negative width pads on the right.
    Escape(char, i32),
}

/// The process, for lines that are not about a client.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub pid: u32,
    pub began: Timestamp,
}

impl Prefix {
    /// Parses a prefix. Unknown escapes are left out, as in PostgreSQL.
    pub fn parse(text: &str) -> Prefix {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                literal.push(c);
                continue;
            }
            let mut width = String::new();
            while let Some(c) = chars.next_if(|c| *c == '-' || c.is_ascii_digit()) {
                width.push(c);
            }
            match chars.next() {
                Some('%') => literal.push('%'),
                Some(letter) => {
                    if !literal.is_empty() {
                        parts.push(PrefixItem::Text(std::mem::take(&mut literal)));
                    }
                    // A bound for invalid widths.
                    let width = width.parse::<i32>().unwrap_or(0).clamp(-1000, 1000);
                    parts.push(PrefixItem::Escape(letter, width));
                }
                None => {}
            }
        }
        if !literal.is_empty() {
            parts.push(PrefixItem::Text(literal));
        }
        Prefix(parts)
    }

    /// Appends the prefix of a line.
    pub fn write(&self, record: &Record, zone: &TimeZone, process: Process, out: &mut String) {
        for part in &self.0 {
            match part {
                PrefixItem::Text(text) => out.push_str(text),
                // The rest of the prefix is only for lines about clients.
                PrefixItem::Escape('q', _) if record.client.is_none() => return,
                PrefixItem::Escape('q', _) => {}
                PrefixItem::Escape(letter, width) => {
                    let value = value(*letter, record, zone, process);
                    let cells = width.unsigned_abs() as usize;
                    // Writing to a String cannot fail.
                    let _ = match *width < 0 {
                        true => write!(out, "{value:<cells$}"),
                        false => write!(out, "{value:>cells$}"),
                    };
                }
            }
        }
    }
}

fn value(letter: char, record: &Record, zone: &TimeZone, process: Process) -> String {
    let client = record.client.as_ref();
    let of = |f: fn(&Client) -> Option<&String>| {
        let of_client = |client| f(client).map_or("[unknown]", String::as_str).to_owned();
        client.map_or_else(String::new, of_client)
    };
    match letter {
        'a' => of(|client| client.application.as_ref()),
        'u' => of(|client| client.user.as_ref()),
        'd' => of(|client| client.database.as_ref()),
        'r' => client.map_or_else(String::new, |client| match client.port {
            Some(port) => format!("{}({port})", client.host),
            None => client.host.clone(),
        }),
        'h' => client.map_or_else(String::new, |client| client.host.clone()),
        'b' => match client {
            Some(_) => "client backend".to_owned(),
            None => "postmaster".to_owned(),
        },
        'p' => pid(record, process).to_string(),
        't' => stamp(record.at, zone, "%Y-%m-%d %H:%M:%S %Z"),
        'm' => stamp(record.at, zone, "%Y-%m-%d %H:%M:%S%.3f %Z"),
        'n' => {
            let ms = record.at.as_millisecond();
            format!("{}.{:03}", ms / 1000, ms % 1000)
        }
        's' => stamp(began(record, process), zone, "%Y-%m-%d %H:%M:%S %Z"),
        'c' => session_id(record, process),
        'l' => client.map_or_else(|| "0".to_owned(), |client| client.line.to_string()),
        'e' => record
            .sqlstate
            .clone()
            .unwrap_or_else(|| "00000".to_owned()),
        'x' | 'Q' => "0".to_owned(),
        // Group leaders, command tags and virtual transactions do not exist here.
        _ => String::new(),
    }
}

/// Returns the number of the session, or else of the process.
pub fn pid(record: &Record, process: Process) -> i64 {
    let session = record.client.as_ref().map_or(0, |client| client.session);
    match session {
        0 => i64::from(process.pid),
        session => session,
    }
}

/// Returns the start time of the session, or else of the process.
pub fn began(record: &Record, process: Process) -> Timestamp {
    let client = record.client.as_ref();
    let began = client.and_then(|client| Timestamp::from_microsecond(client.began_us).ok());
    began.unwrap_or(process.began)
}

/// Returns the session id of the escape `%c`.
pub fn session_id(record: &Record, process: Process) -> String {
    let began = began(record, process).as_second();
    format!("{began:x}.{:x}", pid(record, process))
}

/// Formats a time in a time zone.
pub fn stamp(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    Zoned::new(at, zone.clone()).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(prefix: &str, record: &Record) -> String {
        let process = Process {
            pid: 77,
            began: Timestamp::UNIX_EPOCH,
        };
        let mut out = String::new();
        Prefix::parse(prefix).write(record, &TimeZone::UTC, process, &mut out);
        out
    }

    fn record(client: Option<Client>) -> Record {
        Record {
            at: Timestamp::from_millisecond(1_700_000_000_123).expect("a time"),
            client,
            ..Record::default()
        }
    }

    fn client() -> Client {
        Client {
            session: 5,
            user: Some("ada".into()),
            host: "::1".into(),
            port: Some(99),
            began_us: 16_000_000,
            line: 3,
            ..Client::default()
        }
    }

    #[test]
    fn escapes_tell_the_client() {
        let record = record(Some(client()));
        for (prefix, expected) in [
            ("%m [%p] ", "2023-11-14 22:13:20.123 UTC [5] "),
            ("%t|%n", "2023-11-14 22:13:20 UTC|1700000000.123"),
            ("%u@%d/%a", "ada@[unknown]/[unknown]"),
            ("%r %h %l %c", "::1(99) ::1 3 10.5"),
            ("<%5u|%-5u>", "<  ada|ada  >"),
            ("%q%u 100%% %e", "ada 100% 00000"),
            ("%s", "1970-01-01 00:00:16 UTC"),
            ("%z%", ""),
        ] {
            assert_eq!(written(prefix, &record), expected, "{prefix}");
        }
    }

    #[test]
    fn lines_about_no_client_end_at_q() {
        let record = record(None);
        assert_eq!(written("[%p] %q%u", &record), "[77] ");
        assert_eq!(written("%b %u|%l", &record), "postmaster |0");
    }
}
