//! Log lines as text, in the format of PostgreSQL's stderr log.

use fencepost::ServerSettings;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::prefix::{Prefix, Process};
use super::record::Record;
use super::{LogFormat, json};

/// The format of lines, as the settings determine it.
#[derive(Debug)]
pub struct Shape {
    format: LogFormat,
    prefix: Prefix,
    zone: TimeZone,
    process: Process,
}

impl Shape {
    /// Returns the format of a process that has read no settings yet.
    pub fn new(format: LogFormat) -> Shape {
        Shape {
            format,
            prefix: Prefix::parse("%m [%p] "),
            zone: TimeZone::UTC,
            process: Process {
                pid: std::process::id(),
                began: Timestamp::now(),
            },
        }
    }

    /// Applies `log_line_prefix` and `log_timezone`.
    pub fn follow(&mut self, settings: &ServerSettings) {
        let get = |name| settings.get(name).unwrap_or_default();
        self.prefix = Prefix::parse(&get("log_line_prefix"));
        if let Ok(zone) = TimeZone::get(&get("log_timezone")) {
            self.zone = zone;
        }
    }

    /// Formats a record as a line, with its line end.
    pub fn line(&self, record: &Record) -> String {
        let mut out = String::with_capacity(160);
        match self.format {
            LogFormat::Json => json::write(record, &self.zone, self.process, &mut out),
            LogFormat::Text => self.write(record, &mut out),
        }
        out
    }

    fn write(&self, record: &Record, out: &mut String) {
        let mut line = |name: &str, text: &str| {
            self.prefix.write(record, &self.zone, self.process, out);
            out.push_str(name);
            out.push_str(":  ");
            // The tab distinguishes further lines of a text from lines of the log.
            out.push_str(&text.trim_end_matches('\n').replace('\n', "\n\t"));
            out.push('\n');
        };
        match record.position {
            Some(position) => {
                let message = format!("{} at character {position}", record.message);
                line(&record.severity, &message);
            }
            None => line(&record.severity, &record.message),
        }
        for (name, text) in [
            ("DETAIL", &record.detail),
            ("HINT", &record.hint),
            ("CONTEXT", &record.context),
            ("BACKTRACE", &record.backtrace),
            ("STATEMENT", &record.statement),
        ] {
            if let Some(text) = text {
                line(name, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Client;
    use super::*;

    #[test]
    fn further_lines_have_names_and_the_prefix() {
        let mut shape = Shape::new(LogFormat::Text);
        shape.prefix = Prefix::parse("[%p] ");
        let record = Record {
            severity: "ERROR".into(),
            message: "no such\nthing".into(),
            position: Some(8),
            hint: Some("Make one.".into()),
            statement: Some("SELECT\n1".into()),
            client: Some(Client {
                session: 5,
                ..Client::default()
            }),
            ..Record::default()
        };
        assert_eq!(
            shape.line(&record),
            "[5] ERROR:  no such\n\tthing at character 8\n[5] HINT:  Make one.\n\
             [5] STATEMENT:  SELECT\n\t1\n"
        );
    }
}
