//! Every call into the engine: the one file that follows its API.

use std::sync::Arc;
use std::time::Duration;

pub(crate) use fencepost::{
    CancelToken, Column as OutputColumn, Completion, CopyIn, Flushed, Notice, Parsed, Portal,
    Prepared, RowSink, Session, SqlError, SqlState, Type, Value,
};
use fencepost::{Database, SessionOptions, TxStatus, types};

use crate::proto::encode::{Column, Ready};
use crate::proto::startup::Startup;

/// How values are written and read: the settings of a session.
pub(crate) type Style = fencepost::Settings;

/// Opens the session a client asks for.
pub(crate) fn open(database: &Database, startup: Startup, _pid: i32) -> Result<Session, SqlError> {
    database.session_with(SessionOptions {
        user: startup.user,
        database: startup.database,
        settings: startup.settings,
        ..Default::default()
    })
}

pub(crate) fn setting(session: &Session, name: &str) -> String {
    session.settings().get(name).unwrap_or_default()
}

#[inline]
pub(crate) fn style(session: &Session) -> Style {
    session.settings().clone()
}

#[inline]
pub(crate) fn statement_timeout(_session: &Session) -> Option<Duration> {
    None
}

pub(crate) fn idle_in_transaction_timeout(_session: &Session) -> Option<Duration> {
    None
}

#[inline]
pub(crate) fn ready(session: &Session) -> Ready {
    match session.status() {
        TxStatus::Idle => Ready::Idle,
        TxStatus::InBlock => Ready::InBlock,
        TxStatus::Failed => Ready::Failed,
    }
}

pub(crate) fn split(session: &mut Session, sql: &str) -> Result<Vec<Parsed>, SqlError> {
    session.split(sql)
}

pub(crate) fn prepare(session: &mut Session, parsed: Parsed) -> Result<Arc<Prepared>, SqlError> {
    session.prepare_parsed(parsed)
}

pub(crate) fn parse(
    session: &mut Session,
    sql: &str,
    types: &[u32],
) -> Result<Arc<Prepared>, SqlError> {
    session.parse(sql, types)
}

#[inline]
pub(crate) fn bind(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    values: Vec<Value>,
) -> Result<Portal, SqlError> {
    session.bind(prepared, values)
}

#[inline]
pub(crate) async fn run(
    session: &mut Session,
    portal: &mut Portal,
    rows_max: usize,
    sink: &mut dyn RowSink,
    _last: bool,
) -> Result<Completion, SqlError> {
    session.run(portal, rows_max, sink).await
}

#[inline]
pub(crate) fn columns(prepared: &Prepared) -> Option<&[OutputColumn]> {
    prepared.columns()
}

#[inline]
pub(crate) fn parameter_types(prepared: &Prepared) -> &[Type] {
    prepared.parameter_types()
}

pub(crate) fn oid(ty: &Type) -> u32 {
    ty.oid()
}

pub(crate) fn describe(column: &OutputColumn, binary: bool) -> Column<'_> {
    Column {
        name: &column.name,
        table: column.table_oid,
        attribute: column.attnum,
        type_oid: column.ty.oid(),
        type_size: column.ty.size(),
        typmod: column.ty.typmod,
        binary,
    }
}

#[inline]
pub(crate) fn write_value(
    value: &Value,
    column: &OutputColumn,
    binary: bool,
    style: &Style,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    match binary {
        true => types::binary_out(value, &column.ty, out),
        false => types::text_out(value, &column.ty, style, out),
    }
    Ok(())
}

#[inline]
pub(crate) fn read_value(
    bytes: Option<&[u8]>,
    ty: &Type,
    binary: bool,
    _style: &Style,
) -> Result<Value, SqlError> {
    match bytes {
        None => Ok(Value::Null),
        Some(bytes) if binary => types::binary_in(ty, bytes),
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| {
                SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\"",
                )
            })?;
            types::text_in(ty, text)
        }
    }
}

#[cold]
pub(crate) fn row_too_large() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "a row is too large for the protocol",
    )
}

/// The columns of a COPY TO STDOUT and whether it is binary.
#[inline]
pub(crate) fn copy_out_shape(prepared: &Prepared) -> Option<(usize, bool)> {
    prepared.copy_out_columns().map(|columns| (columns, false))
}

pub(crate) fn copy_shape(copy: &CopyIn) -> (usize, bool) {
    (copy.columns(), false)
}

pub(crate) async fn copy_feed(
    copy: &mut CopyIn,
    session: &mut Session,
    data: &[u8],
) -> Result<(), SqlError> {
    copy.data(session, data).await
}

pub(crate) async fn copy_finish(copy: CopyIn, session: &mut Session) -> Result<String, SqlError> {
    copy.finish(session).await
}

pub(crate) fn copy_fail(copy: CopyIn, session: &mut Session) {
    copy.fail(session)
}
