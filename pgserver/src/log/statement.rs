//! Log lines about statements: their start and their duration.

use std::time::Instant;

use super::{Client, Entry, LogStyle, emit};
use crate::engine::StatementKind;

/// A phase of a statement, with the words of PostgreSQL's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Execution by the simple protocol.
    Simple,
    /// Parse.
    Parse,
    /// Bind.
    Bind,
    /// Execute.
    Execute,
}

impl Phase {
    fn prefix(self, name: &str) -> String {
        let name = match name {
            "" => "<unnamed>",
            name => name,
        };
        match self {
            Phase::Simple => "statement: ".to_owned(),
            Phase::Parse => format!("parse {name}: "),
            Phase::Bind => format!("bind {name}: "),
            Phase::Execute => format!("execute {name}: "),
        }
    }
}

/// A running statement that is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatementTimer {
    began: Instant,
    /// True once its text has been logged.
    is_logged: bool,
}

impl StatementTimer {
    /// Starts to time a statement, if statements are logged (LOG-1).
    #[inline]
    pub(crate) fn begin(style: &LogStyle) -> Option<StatementTimer> {
        match style.statements {
            true => Some(StatementTimer {
                began: Instant::now(),
                is_logged: false,
            }),
            false => None,
        }
    }

    /// Logs a statement that starts, if `log_statement` includes its kind and its text was not
    /// logged before.
    pub(crate) fn statement(
        &mut self,
        client: &Client,
        style: &LogStyle,
        kind: StatementKind,
        line: &StatementFields<'_>,
    ) {
        if !self.is_logged && style.statement.has(kind) {
            self.is_logged = true;
            line.emit(client, "");
        }
    }

    /// Logs the duration of a statement, if the settings include that.
    pub(crate) fn end(self, client: &Client, style: &LogStyle, line: &StatementFields<'_>) {
        let took = self.began.elapsed();
        let is_slow = style.min_duration.is_some_and(|least| took >= least);
        if !is_slow && !style.duration {
            return;
        }
        let duration = format!("duration: {:.3} ms", took.as_secs_f64() * 1e3);
        match is_slow && !self.is_logged {
            true => line.emit(client, &format!("{duration}  ")),
            false => emit(client, &Entry::log(&duration)),
        }
    }
}

/// The part of a log line that describes a statement.
pub(crate) struct StatementFields<'a> {
    pub(crate) phase: Phase,
    /// The names of the statement and the portal, if the protocol has them.
    pub(crate) name: &'a str,
    pub(crate) sql: &'a str,
    pub(crate) parameters: Option<String>,
}

impl<'a> StatementFields<'a> {
    /// Returns the line of a text of the simple protocol.
    pub(crate) fn simple(sql: &'a str) -> StatementFields<'a> {
        StatementFields {
            phase: Phase::Simple,
            name: "",
            sql,
            parameters: None,
        }
    }

    fn emit(&self, client: &Client, before: &str) {
        let message = format!("{before}{}{}", self.phase.prefix(self.name), self.sql);
        let entry = Entry {
            detail: self.parameters.as_deref(),
            ..Entry::log(&message)
        };
        emit(client, &entry);
    }
}

/// Returns the DETAIL of parameters: `parameters: $1 = '5', $2 = NULL`. Returns `None` without
/// parameters.
pub(crate) fn parameters(values: &[Option<String>], bytes_max: Option<usize>) -> Option<String> {
    if values.is_empty() || bytes_max == Some(0) {
        return None;
    }
    let value_text = |(at, value): (usize, &Option<String>)| match value {
        None => format!("${} = NULL", at + 1),
        Some(value) => {
            let end = value.floor_char_boundary(bytes_max.unwrap_or(value.len()));
            let more = if end < value.len() { "..." } else { "" };
            let quoted = value[..end].replace('\'', "''");
            format!("${} = '{quoted}{more}'", at + 1)
        }
    };
    let all: Vec<String> = values.iter().enumerate().map(value_text).collect();
    Some(format!("parameters: {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_quoted_and_cut() {
        let values = [Some("it's".to_owned()), None, Some("éé".to_owned())];
        assert_eq!(
            parameters(&values, None).as_deref(),
            Some("parameters: $1 = 'it''s', $2 = NULL, $3 = 'éé'")
        );
        assert_eq!(
            parameters(&values[2..], Some(3)).as_deref(),
            Some("parameters: $1 = 'é...'")
        );
        assert_eq!(parameters(&values, Some(0)), None);
        assert_eq!(parameters(&[], None), None);
    }
}
