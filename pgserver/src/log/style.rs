//! The settings of a session that select its log lines.

use std::time::Duration;

use super::Severity;
use crate::engine::{Settings, StatementKind, time_limit};

/// The statements that `log_statement` selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    /// No statements.
    #[default]
    None,
    /// Statements that change definitions.
    Ddl,
    /// Statements that change definitions or data.
    Mod,
    /// All statements.
    All,
}

impl Level {
    fn of(value: &str) -> Level {
        match value {
            "ddl" => Level::Ddl,
            "mod" => Level::Mod,
            "all" => Level::All,
            _ => Level::None,
        }
    }

    /// Returns whether statements of this kind are logged.
    pub(crate) fn has(self, kind: StatementKind) -> bool {
        match self {
            Level::None => false,
            Level::Ddl => kind.is_ddl(),
            Level::Mod => kind.is_ddl() || kind.changes_data(),
            Level::All => true,
        }
    }
}

/// The selection of log lines about a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogStyle {
    /// True if any line about successful statements may be logged (LOG-1).
    pub(crate) statements: bool,
    pub(crate) statement: Level,
    /// The duration from which a statement is logged with its duration.
    pub(crate) min_duration: Option<Duration>,
    /// True if the duration of every statement is logged.
    pub(crate) duration: bool,
    /// The wait for a lock after which the wait is logged.
    pub(crate) lock_waits: Option<Duration>,
    pub(crate) connections: bool,
    pub(crate) disconnections: bool,
    /// The number of logged bytes of each parameter; `None` for all.
    pub(crate) parameter_bytes: Option<usize>,
    min_messages: usize,
    min_error_statement: usize,
    is_terse: bool,
}

/// The levels of `log_min_messages`, the most detailed first.
const LEVELS: [&str; 12] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log",
    "fatal", "panic",
];

fn rank(level: &str) -> usize {
    let known = LEVELS
        .iter()
        .position(|known| known.eq_ignore_ascii_case(level));
    known.unwrap_or(0)
}

impl LogStyle {
    pub(crate) fn of(settings: &Settings) -> LogStyle {
        let get = |name| settings.get(name).unwrap_or_default();
        let is_on = |name| get(name) == "on";
        let statement = Level::of(&get("log_statement"));
        // 0 logs all, -1 none.
        let min_duration = match &*get("log_min_duration_statement") {
            "-1" => None,
            text => Some(time_limit(text).unwrap_or_default()),
        };
        let duration = is_on("log_duration");
        let deadlock_timeout = || time_limit(&get("deadlock_timeout"));
        LogStyle {
            statements: statement != Level::None || min_duration.is_some() || duration,
            statement,
            min_duration,
            duration,
            lock_waits: match is_on("log_lock_waits") {
                true => deadlock_timeout(),
                false => None,
            },
            connections: is_on("log_connections"),
            disconnections: is_on("log_disconnections"),
            parameter_bytes: bytes(&get("log_parameter_max_length")),
            min_messages: rank(&get("log_min_messages")),
            min_error_statement: rank(&get("log_min_error_statement")),
            is_terse: get("log_error_verbosity") == "terse",
        }
    }

    /// Returns whether lines of a severity are logged.
    pub(crate) fn wants(&self, severity: Severity) -> bool {
        rank(severity.name()) >= self.min_messages
    }

    /// Returns whether the statement is logged with an error of a severity.
    pub(crate) fn wants_statement(&self, severity: Severity) -> bool {
        rank(severity.name()) >= self.min_error_statement
    }

    /// Returns whether DETAIL, HINT and CONTEXT are omitted.
    pub(crate) fn is_terse(&self) -> bool {
        self.is_terse
    }
}

/// Parses a size in its canonical form. Returns `None` for -1.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => 1,
    };
    digits.parse::<usize>().ok().map(|count| count * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(pairs: &[(&str, &str)]) -> LogStyle {
        let mut settings = Settings::new();
        for (name, value) in pairs {
            settings.set(name, value).expect("a value");
        }
        LogStyle::of(&settings)
    }

    #[test]
    fn nothing_is_logged_of_statements_unless_said() {
        let plain = style(&[]);
        assert!(!plain.statements && plain.lock_waits.is_none());
        assert!(plain.wants(Severity::Error) && plain.wants(Severity::Notice("WARNING")));
        assert!(!plain.wants(Severity::Notice("NOTICE")));
        assert!(style(&[("log_min_duration_statement", "0")]).statements);
        let slow = style(&[("log_min_duration_statement", "2s")]);
        assert_eq!(slow.min_duration, Some(Duration::from_secs(2)));
        assert!(style(&[("log_statement", "ddl")]).statements);
    }

    #[test]
    fn log_lock_waits_goes_by_deadlock_timeout() {
        let waits = style(&[("log_lock_waits", "on"), ("deadlock_timeout", "200ms")]);
        assert_eq!(waits.lock_waits, Some(Duration::from_millis(200)));
    }

    #[test]
    fn levels_of_log_statement_contain_each_other() {
        for (level, expected) in [
            (Level::None, [false, false, false]),
            (Level::Ddl, [true, false, false]),
            (Level::Mod, [true, true, false]),
            (Level::All, [true, true, true]),
        ] {
            let kinds = [
                StatementKind::Ddl,
                StatementKind::Insert,
                StatementKind::Select,
            ];
            assert_eq!(kinds.map(|kind| level.has(kind)), expected, "{level:?}");
        }
    }
}
