//! Engine errors and notices as messages.

use crate::engine::{Notice, SqlError};
use crate::io::Io;
use crate::log::{self, Entry, emit};
use crate::proto::report::{Report, Severity};

/// Appends an ErrorResponse with every field of `error`.
#[cold]
pub(super) fn error(out: &mut Vec<u8>, severity: Severity, error: &SqlError) {
    let fields = error.fields();
    let sqlstate = fields.sqlstate;
    Report {
        severity,
        sqlstate: sqlstate.as_str(),
        message: &fields.message,
        detail: fields.detail.as_deref(),
        hint: fields.hint.as_deref(),
        position: fields.position,
        context: fields.context.as_deref(),
        schema: fields.schema.as_deref(),
        table: fields.table.as_deref(),
        column: fields.column.as_deref(),
        data_type: fields.data_type.as_deref(),
        constraint: fields.constraint.as_deref(),
        // Drivers that prepare the statement again, unseen, go by this name.
        routine: error.is_plan_changed().then_some("RevalidateCachedQuery"),
    }
    .encode(out);
}

/// Appends the ErrorResponse that ends a connection, and logs it.
#[cold]
pub(super) fn fatal(io: &mut Io, sqlstate: &str, message: &str) {
    emit(
        &io.client,
        &Entry::new(log::Severity::Fatal, sqlstate, message),
    );
    Report::new(Severity::Fatal, sqlstate, message).encode(&mut io.out);
}

/// Appends a NoticeResponse.
#[cold]
pub(super) fn notice(out: &mut Vec<u8>, notice: &Notice) {
    error(out, Severity::Notice(notice.severity), &notice.report);
}
