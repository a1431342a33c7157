//! RAISE and ASSERT.

use fencepost_sql::error::{ErrorFields, SqlError, SqlState};
use fencepost_sql::plpgsql::{Level, Raise, RaiseOption, errcode};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::checked_text;

use super::machine::BodyExecution;
use crate::ddl::Notice;
use crate::exec::Cx;

/// SQLSTATE P0001, `raise_exception`.
const RAISED: SqlState = SqlState::new(b"P0001");

impl BodyExecution {
    /// Returns the text of a value; `None` for NULL.
    async fn text_of(
        &mut self,
        text: usize,
        cx: &mut Cx<'_>,
    ) -> Result<Option<String>, StatementStop> {
        let (value, ty) = self.value(text, cx).await?;
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(checked_text(&value, &ty, &cx.eval.settings)?))
    }

    /// Runs RAISE.
    pub async fn raise(&mut self, raise: &Raise, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let mut message = None;
        if let Some(format) = &raise.format {
            let mut args = Vec::with_capacity(raise.args.len());
            for arg in &raise.args {
                let text = self.text_of(*arg, cx).await?;
                args.push(text.unwrap_or_else(|| "<NULL>".to_owned()));
            }
            message = Some(formatted(format, &args));
        }
        let (mut state, mut named) = match &raise.state {
            Some((state, name)) => (Some(*state), Some(name.clone())),
            None => (None, None),
        };
        let mut fields = ErrorFields::new(RAISED, "");
        for (option, text) in &raise.options {
            let Some(text) = self.text_of(*text, cx).await? else {
                return Err(SqlError::new(
                    SqlState::new(b"22004"),
                    "RAISE statement option cannot be null",
                )
                .into());
            };
            let twice = |name: &str| {
                SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("RAISE option already specified: {name}"),
                )
            };
            match option {
                RaiseOption::State => {
                    if state.is_some() {
                        return Err(twice("ERRCODE").into());
                    }
                    state = Some(errcode(&text)?);
                    named = Some(text);
                }
                RaiseOption::Message => {
                    if message.is_some() {
                        return Err(twice("MESSAGE").into());
                    }
                    message = Some(text);
                }
                RaiseOption::Detail => fields.detail = Some(text),
                RaiseOption::Hint => fields.hint = Some(text),
                RaiseOption::Column => fields.column = Some(text),
                RaiseOption::Constraint => fields.constraint = Some(text),
                RaiseOption::DataType => fields.data_type = Some(text),
                RaiseOption::Table => fields.table = Some(text),
                RaiseOption::Schema => fields.schema = Some(text),
            }
        }
        fields.message = message
            .or_else(|| named.clone())
            .unwrap_or_else(|| "unhandled exception".to_owned());
        let severity = match raise.level {
            Level::Exception => {
                fields.sqlstate = state.filter(is_failure).unwrap_or(RAISED);
                return Err(SqlError::from(fields).into());
            }
            Level::Warning => "WARNING",
            Level::Notice => "NOTICE",
            Level::Info => "INFO",
            Level::Log => "LOG",
            Level::Debug => "DEBUG",
        };
        let usual = match raise.level {
            Level::Warning => SqlState::new(b"01000"),
            _ => SqlState::SUCCESSFUL_COMPLETION,
        };
        fields.sqlstate = state.filter(is_failure).unwrap_or(usual);
        if shows(&cx.eval.setting("client_min_messages"), raise.level) {
            cx.scratch.routines.notices.push(Notice {
                severity,
                report: fields.into(),
            });
        }
        Ok(())
    }

    /// Runs ASSERT.
    pub async fn check(
        &mut self,
        condition: usize,
        message: Option<usize>,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        if cx.eval.setting("plpgsql.check_asserts").as_deref() == Some("off")
            || self.holds(condition, cx).await?
        {
            return Ok(());
        }
        let text = match message {
            Some(message) => self.text_of(message, cx).await?,
            None => None,
        };
        let text = text.unwrap_or_else(|| "assertion failed".to_owned());
        Err(SqlError::new(SqlState::new(b"P0004"), text).into())
    }
}

/// Returns whether `client_min_messages` lets a message through. INFO always passes.
fn shows(least: &Option<String>, level: Level) -> bool {
    let rank = |name: &str| match name {
        "error" => 5,
        "warning" => 4,
        "log" => 2,
        name if name.starts_with("debug") => 1,
        _ => 3,
    };
    let least = least.as_deref().map_or(3, rank);
    match level {
        Level::Info | Level::Exception => true,
        Level::Warning => least <= 4,
        Level::Notice => least <= 3,
        Level::Log => least <= 2,
        Level::Debug => least <= 1,
    }
}

/// Replaces each `%` by an argument; `%%` is a percent sign.
fn formatted(format: &str, args: &[String]) -> String {
    let mut out = String::with_capacity(format.len());
    let mut args = args.iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
        } else if chars.next_if_eq(&'%').is_some() {
            out.push('%');
        } else if let Some(arg) = args.next() {
            out.push_str(arg);
        }
    }
    out
}

/// Returns whether a SQLSTATE is not 00000, which stands for the usual one of the level.
fn is_failure(state: &SqlState) -> bool {
    *state != SqlState::SUCCESSFUL_COMPLETION
}
