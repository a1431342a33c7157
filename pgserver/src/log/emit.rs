//! One line about a client, as a tracing event.

use super::secrets;
use super::{Client, TARGET};

/// The severity of a line, by PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// A line for administrators.
    Log,
    /// A statement has failed.
    Error,
    /// A connection ends, or is refused.
    Fatal,
    /// A message for the client, of this level.
    Notice(&'static str),
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Log => "LOG",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice(level) => level,
        }
    }
}

/// A log line about a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) severity: Severity,
    pub(crate) sqlstate: &'a str,
    pub(crate) message: &'a str,
    pub(crate) detail: Option<&'a str>,
    pub(crate) hint: Option<&'a str>,
    pub(crate) context: Option<&'a str>,
    /// The statement of the line.
    pub(crate) statement: Option<&'a str>,
    /// The position in the statement, in characters from 1.
    pub(crate) position: Option<u32>,
    /// The origin of an internal error.
    pub(crate) backtrace: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// Returns a line with only a message.
    pub(crate) fn new(severity: Severity, sqlstate: &'a str, message: &'a str) -> Entry<'a> {
        Entry {
            severity,
            sqlstate,
            message,
            detail: None,
            hint: None,
            context: None,
            statement: None,
            position: None,
            backtrace: None,
        }
    }

    /// Returns a line of severity LOG.
    pub(crate) fn log(message: &'a str) -> Entry<'a> {
        Entry::new(Severity::Log, "00000", message)
    }
}

/// Emits a line as an event, with secrets masked.
#[cold]
pub(crate) fn emit(client: &Client, entry: &Entry<'_>) {
    let line = client.lines.get() + 1;
    client.lines.set(line);
    let statement = entry.statement.map(secrets::mask);
    let hidden = entry.statement.map(secrets::secrets_of).unwrap_or_default();
    let message = secrets::hide(entry.message, &hidden);
    let message = secrets::mask(&message);
    let detail = entry.detail.map(|text| secrets::hide(text, &hidden));
    let context = entry.context.map(|text| secrets::hide(text, &hidden));
    let known = |text: &'_ String| (!text.is_empty()).then(|| text.clone());
    let address = client.peer.address();
    macro_rules! event {
        ($level:ident) => {
            tracing::event!(
                target: TARGET,
                tracing::Level::$level,
                severity = entry.severity.name(),
                sqlstate = entry.sqlstate,
                detail = detail.as_deref(),
                hint = entry.hint,
                context = context.as_deref(),
                statement = statement.as_deref(),
                position = entry.position,
                backtrace = entry.backtrace,
                session = client.pid,
                user = known(&client.user).as_deref(),
                database = known(&client.database).as_deref(),
                application = known(&client.application).as_deref(),
                remote_host = client.peer.host().as_str(),
                remote_port = address.map(|address| address.port()),
                session_start_us = client.began_us,
                line,
                "{message}"
            )
        };
    }
    match entry.severity {
        Severity::Error | Severity::Fatal => event!(ERROR),
        Severity::Notice("WARNING") => event!(WARN),
        Severity::Log | Severity::Notice(_) => event!(INFO),
    }
}
