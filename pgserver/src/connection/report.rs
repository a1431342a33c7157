//! Conversion of engine errors and notices to messages.

use pgwire::error::{ErrorInfo, SEVERITY_FATAL};
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

use crate::engine::{Notice, SqlError};
use crate::io::Io;
use crate::log::{self, Entry, emit};
use crate::proto::backend::{append, string};

/// Returns a report with a state and a message.
fn report(severity: &str, sqlstate: &str, message: &str) -> ErrorInfo {
    let mut info = ErrorInfo::new(severity.into(), sqlstate.into(), string(message));
    info.severity_nonlocalized = Some(severity.into());
    info
}

/// Returns a report with every field of `error`.
fn fields(severity: &str, error: &SqlError) -> ErrorInfo {
    let fields = error.fields();
    let optional = |text: &Option<String>| text.as_deref().map(string);
    let mut info = report(severity, fields.sqlstate.as_str(), &fields.message);
    info.detail = optional(&fields.detail);
    info.hint = optional(&fields.hint);
    info.position = fields.position.map(|position| position.to_string());
    info.where_context = optional(&fields.context);
    info.schema = optional(&fields.schema);
    info.table = optional(&fields.table);
    info.column = optional(&fields.column);
    info.datatype = optional(&fields.data_type);
    info.constraint = optional(&fields.constraint);
    // Drivers recognize this name, and prepare the statement again transparently.
    let routine = error.is_plan_changed().then_some("RevalidateCachedQuery");
    info.routine = routine.map(str::to_owned);
    info
}

/// Appends an ErrorResponse with every field of `error`.
#[cold]
pub(super) fn error(out: &mut Vec<u8>, severity: &str, error: &SqlError) {
    append(out, &ErrorResponse::from(fields(severity, error)));
}

/// Appends the ErrorResponse that ends a connection, and logs it.
#[cold]
pub(super) fn fatal(io: &mut Io, sqlstate: &str, message: &str) {
    emit(
        &io.client,
        &Entry::new(log::Severity::Fatal, sqlstate, message),
    );
    let info = report(SEVERITY_FATAL, sqlstate, message);
    append(&mut io.out, &ErrorResponse::from(info));
}

/// Appends a NoticeResponse.
#[cold]
pub(super) fn notice(out: &mut Vec<u8>, notice: &Notice) {
    let info = fields(notice.severity, &notice.report);
    append(out, &NoticeResponse::from(info));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SqlState;
    use pgwire::error::SEVERITY_ERROR;

    #[test]
    fn absent_fields_are_left_out() {
        let mut out = Vec::new();
        let twice = SqlError::new(SqlState::UNIQUE_VIOLATION, "twice\0Cforged");
        error(&mut out, SEVERITY_ERROR, &twice.at(12));
        assert_eq!(&out[..5], &[b'E', 0, 0, 0, (out.len() - 1) as u8]);
        assert_eq!(
            &out[5..],
            b"SERROR\0VERROR\0C23505\0Mtwice Cforged\0P12\0\0"
        );
    }
}
