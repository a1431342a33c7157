//! Log lines about a session's statements and errors.

use crate::engine::{Portal, PreparedStatement, SqlError, Style};
use crate::log::{
    Client, Entry, LogStyle, Phase, Severity, StatementFields, StatementTimer, emit, parameters,
};

/// The text of a simple query while its statements run.
pub(super) struct Script<'a> {
    pub(super) sql: &'a str,
    pub(super) timed: Option<StatementTimer>,
}

impl<'a> Script<'a> {
    /// Returns the text of a simple query that starts now.
    #[inline]
    pub(super) fn begin(sql: &'a str, style: &LogStyle) -> Script<'a> {
        Script {
            sql,
            timed: StatementTimer::begin(style),
        }
    }

    /// Logs the text when its first statement runs whose kind `log_statement` includes.
    #[inline]
    pub(super) fn runs(&mut self, client: &Client, style: &LogStyle, prepared: &PreparedStatement) {
        if let Some(timed) = &mut self.timed {
            let line = StatementFields::simple(self.sql);
            timed.statement(client, style, prepared.kind(), &line);
        }
    }

    /// Logs the duration of the text.
    #[inline]
    pub(super) fn ends(&mut self, client: &Client, style: &LogStyle) {
        if let Some(timed) = self.timed.take() {
            timed.end(client, style, &StatementFields::simple(self.sql));
        }
    }
}

/// Logs the start of an Execute.
#[cold]
pub(super) fn execute_begins(
    timed: &mut StatementTimer,
    client: &Client,
    style: &Style,
    statement: (&str, &PreparedStatement),
    portal: Option<&Portal>,
) {
    let kind = statement.1.kind();
    if style.log.statement.has(kind) {
        let line = line_of(Phase::Execute, style, statement, portal);
        timed.statement(client, &style.log, kind, &line);
    }
}

/// Logs the duration of a Parse, Bind or Execute.
#[cold]
pub(super) fn ends(
    timed: StatementTimer,
    client: &Client,
    style: &Style,
    phase: Phase,
    statement: (&str, &PreparedStatement),
    portal: Option<&Portal>,
) {
    let line = line_of(phase, style, statement, portal);
    timed.end(client, &style.log, &line);
}

fn line_of<'a>(
    phase: Phase,
    style: &Style,
    (name, prepared): (&'a str, &'a PreparedStatement),
    portal: Option<&Portal>,
) -> StatementFields<'a> {
    let values = portal.map(|portal| portal.parameters(style.settings()));
    StatementFields {
        phase,
        name,
        sql: prepared.source(),
        parameters: parameters(&values.unwrap_or_default(), style.log.parameter_bytes),
    }
}

/// Logs an error that is reported to a client, if `log_min_messages` includes it.
#[cold]
pub(super) fn error(
    client: &Client,
    style: &LogStyle,
    severity: Severity,
    error: &SqlError,
    statement: Option<&str>,
) {
    if !style.wants(severity) {
        return;
    }
    let fields = error.fields();
    let sqlstate = error.sqlstate();
    let more = |text: Option<&'_ String>| text.filter(|_| !style.is_terse()).cloned();
    let detail = more(fields.detail.as_ref());
    let hint = more(fields.hint.as_ref());
    let context = more(fields.context.as_ref());
    let backtrace = error.backtrace().map(ToString::to_string);
    let entry = Entry {
        backtrace: backtrace.as_deref(),
        detail: detail.as_deref(),
        hint: hint.as_deref(),
        context: context.as_deref(),
        statement: statement.filter(|_| style.wants_statement(severity)),
        position: fields.position,
        ..Entry::new(severity, sqlstate.as_str(), &fields.message)
    };
    emit(client, &entry);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::log::Peer;

    /// Collects the fields of all events.
    #[derive(Clone, Default)]
    struct CollectedFields(Arc<Mutex<Vec<HashMap<&'static str, String>>>>);

    #[derive(Default)]
    struct Fields(HashMap<&'static str, String>);

    impl Visit for Fields {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name(), value.to_owned());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Subscriber for CollectedFields {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().expect("no panic").push(fields.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn internal_error_is_logged_with_its_backtrace_and_without_secrets() {
        let kept = CollectedFields::default();
        tracing::subscriber::with_default(kept.clone(), || {
            let client = Client::new(Peer::Local);
            let statement = Some("ALTER ROLE a PASSWORD 'tops3cret'");
            let failed = SqlError::internal("no role for tops3cret").detail("tops3cret");
            let style = LogStyle::default();
            error(&client, &style, Severity::Error, &failed, statement);
        });
        let events = kept.0.lock().expect("no panic");
        assert_eq!(events.len(), 1);
        let fields = &events[0];
        assert_eq!(fields["sqlstate"], "XX000");
        assert_eq!(fields["remote_host"], "[local]");
        assert!(fields["backtrace"].contains("internal_error_is_logged"));
        for name in ["message", "detail", "statement"] {
            assert!(!fields[name].contains("tops3cret"), "{fields:?}");
        }
    }
}
