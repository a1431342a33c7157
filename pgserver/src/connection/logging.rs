//! Lines of the log about a session's statements and errors.

use crate::engine::{Portal, Prepared, SqlError, Style};
use crate::log::{Client, Entry, Line, LogStyle, Phase, Severity, Timed, emit, parameters};

/// The text of a simple query while its statements run.
pub(super) struct Script<'a> {
    pub(super) sql: &'a str,
    pub(super) timed: Option<Timed>,
}

impl<'a> Script<'a> {
    /// A text that begins to run.
    #[inline]
    pub(super) fn begin(sql: &'a str, style: &LogStyle) -> Script<'a> {
        Script {
            sql,
            timed: Timed::begin(style),
        }
    }

    /// Logs the text once one of its statements is of a kind that `log_statement` wants.
    #[inline]
    pub(super) fn runs(&mut self, client: &Client, style: &LogStyle, prepared: &Prepared) {
        if let Some(timed) = &mut self.timed {
            let line = Line::simple(self.sql);
            timed.statement(client, style, prepared.kind(), &line);
        }
    }

    /// Logs how long the text took.
    #[inline]
    pub(super) fn ends(&mut self, client: &Client, style: &LogStyle) {
        if let Some(timed) = self.timed.take() {
            timed.end(client, style, &Line::simple(self.sql));
        }
    }
}

/// Logs an Execute that begins.
#[cold]
pub(super) fn execute_begins(
    timed: &mut Timed,
    client: &Client,
    style: &Style,
    statement: (&str, &Prepared),
    portal: Option<&Portal>,
) {
    let kind = statement.1.kind();
    if style.log.statement.has(kind) {
        let line = line_of(Phase::Execute, style, statement, portal);
        timed.statement(client, &style.log, kind, &line);
    }
}

/// Logs how long a Parse, Bind or Execute took.
#[cold]
pub(super) fn ends(
    timed: Timed,
    client: &Client,
    style: &Style,
    phase: Phase,
    statement: (&str, &Prepared),
    portal: Option<&Portal>,
) {
    let line = line_of(phase, style, statement, portal);
    timed.end(client, &style.log, &line);
}

fn line_of<'a>(
    phase: Phase,
    style: &Style,
    (name, prepared): (&'a str, &'a Prepared),
    portal: Option<&Portal>,
) -> Line<'a> {
    let values = portal.map(|portal| portal.parameters(style.settings()));
    Line {
        phase,
        name,
        sql: prepared.source(),
        parameters: parameters(&values.unwrap_or_default(), style.log.parameter_bytes),
    }
}

/// Logs an error that a client is told of, as far as `log_min_messages` wants it.
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
    let entry = Entry {
        detail: detail.as_deref(),
        hint: hint.as_deref(),
        context: context.as_deref(),
        statement: statement.filter(|_| style.wants_statement(severity)),
        position: fields.position,
        ..Entry::new(severity, sqlstate.as_str(), &fields.message)
    };
    emit(client, &entry);
}
