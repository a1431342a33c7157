//! The record of one log line, made from its event.

use std::fmt;

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::severity_of;

/// The target of events about clients.
pub const CLIENT: &str = "fencepost::client";
/// The target of events about checkpoints.
pub const CHECKPOINT: &str = "fencepost::checkpoint";

/// The levels of `log_min_messages`, the least severe first.
pub const LEVELS: [&str; 12] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
    "fatal", "panic",
];
/// The index of `debug1` among them.
pub const DEBUG1: usize = 4;
/// The index of `warning` among them.
pub const WARNING: usize = 7;

/// Returns the index of a level.
pub fn rank(level: &str) -> usize {
    let mut levels = LEVELS.iter();
    levels
        .position(|known| known.eq_ignore_ascii_case(level))
        .unwrap_or(WARNING)
}

/// Returns the index of a level of events.
pub fn of_level(level: Level) -> usize {
    rank(severity_of(level))
}

/// The content of a line.
#[derive(Debug, Default)]
pub struct Record {
    pub at: Timestamp,
    pub severity: String,
    pub message: String,
    pub sqlstate: Option<String>,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub context: Option<String>,
    pub statement: Option<String>,
    pub backtrace: Option<String>,
    pub position: Option<u64>,
    pub client: Option<Client>,
    /// The target of the event.
    pub target: String,
    /// The other fields of the event.
    pub others: Vec<(&'static str, String)>,
}

/// The client to which a line refers.
#[derive(Debug, Default)]
pub struct Client {
    /// The number of its session; 0 before it has one.
    pub session: i64,
    pub user: Option<String>,
    pub database: Option<String>,
    pub application: Option<String>,
    pub host: String,
    pub port: Option<u64>,
    /// The time of its connection, in microseconds from 1970-01-01 UTC.
    pub began_us: i64,
    /// The number of the line among the lines about the client.
    pub line: u64,
}

impl Record {
    /// Reads the fields of an event.
    pub fn of(event: &Event<'_>) -> Record {
        let metadata = event.metadata();
        let mut record = Record {
            at: Timestamp::now(),
            severity: severity_of(*metadata.level()).to_owned(),
            target: metadata.target().to_owned(),
            client: (metadata.target() == CLIENT).then(Client::default),
            ..Record::default()
        };
        event.record(&mut record);
        record
    }

    fn set(&mut self, field: &Field, value: String) {
        let name = field.name();
        if let Some(client) = &mut self.client {
            match name {
                "user" => return client.user = Some(value),
                "database" => return client.database = Some(value),
                "application" => return client.application = Some(value),
                "remote_host" => return client.host = value,
                "remote_port" => return client.port = value.parse().ok(),
                "session" => return client.session = value.parse().unwrap_or(0),
                "session_start_us" => return client.began_us = value.parse().unwrap_or(0),
                "line" => return client.line = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        match name {
            "message" => self.message = value,
            "severity" => self.severity = value,
            "sqlstate" => self.sqlstate = Some(value),
            "detail" => self.detail = Some(value),
            "hint" => self.hint = Some(value),
            "context" => self.context = Some(value),
            "statement" => self.statement = Some(value),
            "backtrace" => self.backtrace = Some(value),
            "position" => self.position = value.parse().ok(),
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}
