//! All calls into the engine: the only file that depends on its API.
//!
//! The server relies on these properties:
//! - ENG-1: `run_last` (Sync or the end of the text follows) commits the implicit transaction
//!   itself, and retries the statement transparently after a conflict.
//! - ENG-2: a waiting run ends when it is polled after its token was cancelled or its statement
//!   timeout has passed. The server wakes the task of a session that it cancels, so the run is
//!   polled.
//! - ENG-3: after a run was dropped, `fail` restores the session.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use fencepost::types::{LONG_BYTES, reads_long};
pub(crate) use fencepost::{
    CancelToken, Column as OutputColumn, Completion, CopyIn, Encoding, FlushFuture, Notice,
    PASSWORD_ITERATIONS as ITERATIONS, Portal, PreparedStatement, ReceivedNotification, RowSink,
    Session, Settings, ShippedResults, SqlError, SqlState, StatementKind, StatementSyntax, Tag,
    Type, Value, Verifier,
};
use fencepost::{Database, LockWait, SessionOptions, TxStatus, TypeKind, types};
use fencepost_fabric::processors::anywhere;
use pgwire::messages::response::TransactionStatus;

use crate::log::LogStyle;
use crate::proto::encode::Column;
use crate::proto::startup::Startup;

/// The longest wait until another machine has received a cancel request.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// The settings of a session that this crate uses; computed again when they change.
pub(crate) struct Style {
    settings: Arc<Settings>,
    /// The time limit of a statement.
    pub(crate) statement_timeout: Option<Duration>,
    /// The time limit for an idle client in a transaction block.
    pub(crate) idle_in_transaction_timeout: Option<Duration>,
    /// The time limit for an idle client outside a transaction block.
    pub(crate) idle_timeout: Option<Duration>,
    /// The lines to log.
    pub(crate) log: LogStyle,
    /// The encoding of the client; `None` for UTF-8.
    pub(crate) encoding: Option<Encoding>,
}

impl Style {
    pub(crate) fn of(session: &Session) -> Style {
        let settings = session.settings().clone();
        let time = |name| settings.get(name).and_then(|text| time_limit(&text));
        Style {
            statement_timeout: time("statement_timeout"),
            idle_in_transaction_timeout: time("idle_in_transaction_session_timeout"),
            idle_timeout: time("idle_session_timeout"),
            log: LogStyle::of(&settings),
            encoding: encoding_of(&settings),
            settings,
        }
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Follows changes of the session's settings.
    #[inline]
    pub(crate) fn refresh(&mut self, session: &Session) {
        if !Arc::ptr_eq(&self.settings, session.settings()) {
            *self = Style::of(session);
        }
    }
}

/// Returns the encoding of the client; `None` for UTF-8.
pub(crate) fn encoding_of(settings: &Settings) -> Option<Encoding> {
    let name = settings.get("client_encoding")?;
    let encoding = Encoding::named(&name).ok()??;
    encoding.converts().then_some(encoding)
}

/// Returns whether the binary form of a type is text.
pub(crate) fn is_textual(ty: &Type) -> bool {
    use TypeKind::{BpChar, Citext, Enum, Json, Jsonb, Name, Text, Unknown, VarChar};
    matches!(
        ty.kind,
        Text | VarChar | BpChar | Name | Json | Jsonb | Unknown | Enum(_) | Citext(_)
    )
}

/// Parses a time setting in its canonical form. Returns `None` for 0, which means no limit.
pub(crate) fn time_limit(text: &str) -> Option<Duration> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_ms = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    (number > 0).then(|| Duration::from_millis(number.saturating_mul(unit_ms)))
}

/// Opens the session that a client requests.
pub(crate) fn open(
    database: &Database,
    startup: Startup,
    pid: i32,
    client: Option<SocketAddr>,
) -> Result<Session, SqlError> {
    database.session_with(SessionOptions {
        user: startup.user,
        database: startup.database,
        settings: startup.settings,
        backend_pid: pid,
        client,
        stack_bytes: crate::server::WORKER_STACK / 4 * 3,
    })
}

/// Lets a session adopt changed settings of the server.
#[inline]
pub(crate) fn follow_server(session: &mut Session) {
    session.follow_server();
}

/// Returns the lock that a session waits for.
pub(crate) async fn lock_wait(database: &Database, pid: i32) -> Option<LockWait> {
    database.lock_wait(pid).await
}

/// Returns a number for a new session.
pub(crate) fn number(database: &Database) -> i32 {
    database.next_session_number()
}

/// Cancels the statement of a session on any machine.
pub(crate) async fn cancel(database: &Database, pid: i32, secret: i32) {
    let cancelled = database.cancel(pid, secret);
    // The client waits until its connection is closed, so limit the wait.
    let _ = tokio::time::timeout(CANCEL_PATIENCE, cancelled).await;
}

/// Returns the password verifier of a role, if it has one.
pub(crate) fn verifier(database: &Database, user: &str) -> Option<Verifier> {
    Verifier::parse(&database.verifier(user)?)
}

/// Returns the settings that are reported to every client, in order.
pub(crate) fn reported(session: &Session) -> Vec<(&'static str, String)> {
    session.settings().reported()
}

#[inline]
pub(crate) fn ready(session: &Session) -> TransactionStatus {
    match session.status() {
        TxStatus::Idle => TransactionStatus::Idle,
        TxStatus::InBlock => TransactionStatus::Transaction,
        TxStatus::Failed => TransactionStatus::Error,
    }
}

/// Splits a text into statements.
pub(crate) fn split(session: &mut Session, sql: &str) -> Result<Vec<StatementSyntax>, SqlError> {
    session.split(sql)
}

/// Does the same as [`split`] on a separate thread, so that the worker can serve others.
pub(crate) async fn split_apart(
    session: &mut Session,
    sql: &str,
) -> Result<Vec<StatementSyntax>, SqlError> {
    let text = sql.to_owned();
    let parsed = apart(move || StatementSyntax::all(&text)).await;
    parsed.inspect_err(|_| session.fail())
}

/// Runs long work on a separate thread.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
) -> Result<T, SqlError> {
    match anywhere(|| tokio::task::spawn_blocking(work)).await {
        Ok(done) => done,
        Err(failed) => Err(SqlError::internal(format!(
            "long work has failed: {failed}"
        ))),
    }
}

/// Prepares one statement of a text.
pub(crate) fn prepare(
    session: &mut Session,
    parsed: StatementSyntax,
) -> Result<Arc<PreparedStatement>, SqlError> {
    session.prepare_parsed(parsed)
}

/// Returns whether [`await_tables`] must be called before the columns of a simple query are
/// reported.
pub(crate) fn waits_for_tables(session: &Session, prepared: &PreparedStatement) -> bool {
    session.waits_for_tables(prepared)
}

/// Locks the tables of a simple query, and prepares it again.
pub(crate) async fn await_tables(
    session: &mut Session,
    prepared: &PreparedStatement,
) -> Result<Arc<PreparedStatement>, SqlError> {
    session.await_tables(prepared).await
}

/// Prepares the statement of a Parse message.
pub(crate) fn parse(
    session: &mut Session,
    sql: &str,
    types: &[u32],
) -> Result<Arc<PreparedStatement>, SqlError> {
    session.parse(sql, types)
}

/// Fails with 42P05 if a statement of that name exists.
pub(crate) fn check_name_free(session: &Session, name: &str) -> Result<(), SqlError> {
    session.check_name_free(name)
}

/// Stores a statement under a name.
pub(crate) fn keep_statement(session: &mut Session, name: &str, prepared: Arc<PreparedStatement>) {
    session.keep_statement(name, prepared);
}

/// Returns the named statement, created by Parse or by PREPARE.
#[inline]
pub(crate) fn statement<'a>(
    session: &'a Session,
    name: &str,
) -> Result<&'a Arc<PreparedStatement>, SqlError> {
    session.named(name)
}

/// Removes a statement.
pub(crate) fn forget_statement(session: &mut Session, name: &str) {
    session.forget_statement(name);
}

/// Creates a portal.
#[inline]
pub(crate) fn bind(
    session: &mut Session,
    prepared: &Arc<PreparedStatement>,
    values: Vec<Value>,
) -> Result<Portal, SqlError> {
    session.bind(prepared, values)
}

/// Gives a portal a name. `binary` says for each column whether it is sent in binary.
pub(crate) fn bind_named(
    session: &mut Session,
    name: &str,
    portal: Portal,
    binary: Box<[bool]>,
) -> Result<(), SqlError> {
    session.bind_named(name, portal, binary)
}

/// Closes a named portal or a cursor, if it exists.
pub(crate) fn close_named(session: &mut Session, name: &str) {
    session.close_named(name);
}

/// Returns the statement of a named portal or cursor, and which columns are sent in binary.
pub(crate) fn named_portal<'a>(
    session: &'a Session,
    name: &str,
) -> Option<(&'a Arc<PreparedStatement>, &'a [bool])> {
    session.named_portal(name)
}

/// Runs a named portal or a cursor, as [`run`] does.
pub(crate) async fn run_named(
    session: &mut Session,
    name: &str,
    rows_max: usize,
    sink: &mut dyn RowSink,
    last: bool,
) -> Result<Completion, SqlError> {
    session.run_named(name, rows_max, sink, last).await
}

/// Returns whether a statement fetches from a cursor whose rows are sent in binary.
pub(crate) fn fetches_binary(session: &Session, prepared: &PreparedStatement) -> bool {
    session.fetches_binary(prepared)
}

/// Runs portals, with a Sync after the last, on another machine. Returns `None` if they have to run
/// here.
pub(crate) async fn ship_batch(
    session: &mut Session,
    portals: &mut [Portal],
) -> Result<Option<ShippedResults>, SqlError> {
    session.ship_batch(portals).await
}

/// Runs a portal for `rows_max` rows, or to its end if that is 0; `last` says that the implicit
/// transaction ends with it.
#[inline]
pub(crate) async fn run(
    session: &mut Session,
    portal: &mut Portal,
    rows_max: usize,
    sink: &mut dyn RowSink,
    last: bool,
) -> Result<Completion, SqlError> {
    match last {
        true => session.run_last(portal, rows_max, sink).await,
        false => session.run(portal, rows_max, sink).await,
    }
}

/// Returns the columns of a statement's rows; `None` if it returns no rows.
#[inline]
pub(crate) fn columns(prepared: &PreparedStatement) -> Option<&[OutputColumn]> {
    prepared.columns()
}

/// Returns the current types of a statement's parameters.
#[inline]
pub(crate) fn parameter_types<'a>(
    session: &Session,
    prepared: &'a PreparedStatement,
) -> Cow<'a, [Type]> {
    session.parameter_types(prepared)
}

/// Returns the oids of these types, which do not change.
pub(crate) fn parameter_oids(
    prepared: &PreparedStatement,
) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
    prepared.parameter_types().iter().map(Type::oid)
}

/// Returns a column in the form of RowDescription.
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

/// Appends a value that is not NULL.
///
/// Errors: 54000 if the text of a row or an array is too long.
#[inline]
pub(crate) fn write_value(
    value: &Value,
    column: &OutputColumn,
    binary: bool,
    style: &Style,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    match binary {
        true => {
            types::binary_out(value, &column.ty, out);
            Ok(())
        }
        false => types::checked_text_out(value, &column.ty, &style.settings, out),
    }
}

/// Parses a parameter.
#[inline]
pub(crate) fn read_value(
    bytes: Option<&[u8]>,
    ty: &Type,
    binary: bool,
    style: &Style,
) -> Result<Value, SqlError> {
    match bytes {
        None => Ok(Value::Null),
        Some(bytes) => read_bytes(bytes, ty, binary, &style.settings),
    }
}

#[inline]
fn read_bytes(
    bytes: &[u8],
    ty: &Type,
    binary: bool,
    settings: &Settings,
) -> Result<Value, SqlError> {
    match binary {
        true => types::binary_in(ty, bytes),
        false => types::text_in(ty, types::check_utf8(bytes)?, settings),
    }
}

/// Does the same as [`read_value`] on a separate thread, so that the worker can serve others.
pub(crate) async fn read_value_apart(
    bytes: Vec<u8>,
    ty: Type,
    binary: bool,
    style: &Style,
) -> Result<Value, SqlError> {
    let settings = Arc::clone(&style.settings);
    apart(move || read_bytes(&bytes, &ty, binary, &settings)).await
}

/// Returns the error 54000 for a row that does not fit in a message.
#[cold]
pub(crate) fn row_too_large() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "a row is too large for the protocol",
    )
}

/// Returns the number of columns of a COPY TO STDOUT, and whether they are binary.
#[inline]
pub(crate) fn copy_out_columns(prepared: &PreparedStatement) -> Option<(usize, bool)> {
    prepared.copy_out_columns()
}

/// Returns the number of columns of a COPY FROM STDIN, and whether they are binary.
pub(crate) fn copy_in_columns(copy: &CopyIn) -> (usize, bool) {
    (copy.columns(), copy.is_binary())
}

/// Passes data to a COPY.
pub(crate) fn copy_feed<'a>(
    copy: &'a mut CopyIn,
    session: &'a mut Session,
    data: &'a [u8],
) -> impl Future<Output = Result<(), SqlError>> + 'a {
    copy.data(session, data)
}

/// Completes a COPY.
pub(crate) fn copy_finish(
    copy: CopyIn,
    session: &mut Session,
) -> impl Future<Output = Result<fencepost::Tag, SqlError>> {
    copy.finish(session)
}

/// Fails a COPY that the client has given up.
pub(crate) fn copy_fail(copy: CopyIn, session: &mut Session) {
    copy.fail(session);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_units() {
        assert_eq!(time_limit("0"), None);
        assert_eq!(time_limit("250"), Some(Duration::from_millis(250)));
        assert_eq!(time_limit("2min"), Some(Duration::from_secs(120)));
        assert_eq!(time_limit("soon"), None);
    }
}
