//! The extended query protocol: Parse, Bind, Describe, Execute, Close.
//!
//! A portal lives until it is closed, replaced (the unnamed one) or its transaction ends.

use std::sync::Arc;

use pgwire::messages::copy::CopyDone;
use pgwire::messages::extendedquery::{CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};

use super::CloseReason;
use super::copy::CopyInProgress;
use super::encoding;
use super::logging;
use super::sink::{ResultFormats, WireSink, unsupported_format};
use super::state_machine::{ClientSession, Mode, watched};
use crate::engine::{
    self, Completion, Portal, PreparedStatement, SqlError, SqlState, StatementKind, Value,
};
use crate::io::Io;
use crate::log::{Phase, StatementTimer};
use crate::proto::backend::{self, append};
use crate::proto::client_message::{Bind, Oids, Target};
use crate::proto::encode;

/// A portal, and the formats of its rows.
pub(super) struct OpenPortal {
    pub(super) prepared: Arc<PreparedStatement>,
    pub(super) portal: Portal,
    pub(super) formats: ResultFormats,
    /// The name of its statement, if it is logged.
    pub(super) logged_name: Option<Box<str>>,
}

#[cold]
fn no_unnamed() -> SqlError {
    SqlError::new(
        SqlState::INVALID_SQL_STATEMENT_NAME,
        "unnamed prepared statement does not exist",
    )
}

#[cold]
fn no_portal(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CURSOR_NAME, message)
}

/// Checks the numbers of a Bind's parameters and formats. Fails with 08P01.
#[inline]
fn check_parameter_counts(bind: &Bind<'_>, required: usize) -> Result<(), SqlError> {
    let (formats, count) = (bind.parameter_formats.count(), bind.parameters.count());
    let message = if formats > 1 && formats != count {
        format!("bind message has {formats} parameter formats but {count} parameters")
    } else if count != required {
        let name = bind.statement;
        format!(
            "bind message supplies {count} parameters, but prepared statement \"{name}\" \
             requires {required}"
        )
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
}

/// Appends the RowDescription of a statement, or NoData.
pub(super) fn describe_rows(
    out: &mut Vec<u8>,
    prepared: &PreparedStatement,
    formats: &ResultFormats,
) {
    match engine::columns(prepared) {
        Some(columns) => {
            let columns = columns.iter().enumerate();
            let columns =
                columns.map(|(index, column)| engine::describe(column, formats.is_binary(index)));
            encode::row_description(out, columns);
        }
        None => encode::no_data(out),
    }
}

/// Appends the CopyOutResponse of a COPY TO STDOUT. Returns whether the statement is one.
#[inline]
pub(super) fn begin_copy_out(out: &mut Vec<u8>, prepared: &PreparedStatement) -> bool {
    match engine::copy_out_columns(prepared) {
        Some(columns) => {
            append(out, &backend::copy_out(columns));
            true
        }
        None => false,
    }
}

impl ClientSession<'_> {
    #[inline]
    fn statement(&self, name: &str) -> Result<&Arc<PreparedStatement>, SqlError> {
        match name {
            "" => self.unnamed.as_ref().ok_or_else(no_unnamed),
            name => engine::statement(&self.session, name),
        }
    }

    /// Handles Parse: prepares a statement.
    pub(super) fn parse(
        &mut self,
        io: &mut Io,
        name: &str,
        sql: &str,
        types: Oids<'_>,
    ) -> Result<(), CloseReason> {
        if let Err(error) = engine::check_name_free(&self.session, name) {
            return self.fail(io, &error, Some(sql));
        }
        let timed = StatementTimer::begin(&self.style.log);
        let types: Vec<u32> = types.iter().collect();
        match engine::parse(&mut self.session, sql, &types) {
            Ok(prepared) => {
                if let Some(timed) = timed {
                    let statement = (name, &*prepared);
                    logging::ends(
                        timed,
                        &io.client,
                        &self.style,
                        Phase::Parse,
                        statement,
                        None,
                    );
                }
                match name {
                    "" => self.unnamed = Some(prepared),
                    name => engine::keep_statement(&mut self.session, name, prepared),
                }
                append(&mut io.out, &ParseComplete::new());
                Ok(())
            }
            Err(error) => self.fail(io, &error, Some(sql)),
        }
    }

    /// Handles Bind: creates a portal.
    #[inline]
    pub(super) fn bind(&mut self, io: &mut Io, bind: &Bind<'_>) -> Result<(), CloseReason> {
        let timed = StatementTimer::begin(&self.style.log);
        match self.open_portal(bind) {
            Ok(open) => {
                if let Some(timed) = timed {
                    let (statement, portal) = ((bind.statement, &*open.prepared), &open.portal);
                    let (client, style) = (&io.client, &self.style);
                    logging::ends(timed, client, style, Phase::Bind, statement, Some(portal));
                }
                let bound = match bind.portal {
                    "" => {
                        self.portal = Some(open);
                        Ok(())
                    }
                    name => {
                        let binary = open.formats.by_column(&open.prepared);
                        engine::bind_named(&mut self.session, name, open.portal, binary)
                    }
                };
                if let Err(error) = bound {
                    return self.fail(io, &error, None);
                }
                encode::bind_complete(&mut io.out);
                Ok(())
            }
            Err(error) => self.fail_bind(io, bind, &error),
        }
    }

    /// Does the same as [`Self::bind`], but parses long parameters on separate threads.
    pub(super) async fn bind_long(
        &mut self,
        io: &mut Io,
        bind: &Bind<'_>,
    ) -> Result<(), CloseReason> {
        match self.read_long(bind).await {
            Ok(read) => {
                self.read = read;
                let bound = self.bind(io, bind);
                self.read = Vec::new();
                bound
            }
            Err(error) => self.fail_bind(io, bind, &error),
        }
    }

    /// Parses the long parameters. Returns their values by position.
    async fn read_long(&self, bind: &Bind<'_>) -> Result<Vec<Option<Value>>, SqlError> {
        let prepared = Arc::clone(self.statement(bind.statement)?);
        let types = engine::parameter_types(&self.session, &prepared);
        let mut read = Vec::with_capacity(types.len());
        for (index, (bytes, ty)) in bind.parameters.iter().zip(types.iter()).enumerate() {
            let binary = bind.parameter_formats.code(index) == 1;
            let long = bytes.filter(|bytes| engine::reads_long(ty, bytes.len()));
            read.push(match long {
                Some(bytes) => {
                    let bytes = match self.style.encoding {
                        Some(of) => encoding::decode_parameter(of, bytes, (ty, binary))?
                            .map_or_else(|| bytes.to_vec(), String::into_bytes),
                        None => bytes.to_vec(),
                    };
                    let value = engine::read_value_apart(bytes, *ty, binary, &self.style);
                    Some(value.await?)
                }
                None => None,
            });
        }
        Ok(read)
    }

    #[cold]
    fn fail_bind(
        &mut self,
        io: &mut Io,
        bind: &Bind<'_>,
        error: &SqlError,
    ) -> Result<(), CloseReason> {
        let prepared = self.statement(bind.statement).cloned();
        let source = prepared.as_ref().map(|prepared| prepared.source());
        self.fail(io, error, source.ok())
    }

    pub(super) fn open_portal(&mut self, bind: &Bind<'_>) -> Result<OpenPortal, SqlError> {
        let prepared = Arc::clone(self.statement(bind.statement)?);
        let types = engine::parameter_types(&self.session, &prepared);
        check_parameter_counts(bind, types.len())?;
        let mut values = Vec::with_capacity(types.len());
        for (index, (bytes, ty)) in bind.parameters.iter().zip(types.iter()).enumerate() {
            let binary = match bind.parameter_formats.code(index) {
                0 => false,
                1 => true,
                code => return Err(unsupported_format(code)),
            };
            if let Some(value) = self.read.get_mut(index).and_then(Option::take) {
                values.push(value);
                continue;
            }
            let decoded = match (self.style.encoding, bytes) {
                (Some(of), Some(bytes)) => encoding::decode_parameter(of, bytes, (ty, binary))?,
                _ => None,
            };
            let bytes = decoded.as_deref().map(str::as_bytes).or(bytes);
            values.push(engine::read_value(bytes, ty, binary, &self.style)?);
        }
        let formats = ResultFormats::of(&bind.result_formats, engine::columns(&prepared))?;
        let portal = engine::bind(&mut self.session, &prepared, values)?;
        Ok(OpenPortal {
            prepared,
            portal,
            formats,
            logged_name: match self.style.log.statements {
                true => Some(bind.statement.into()),
                false => None,
            },
        })
    }

    /// Handles Describe: sends the types of a statement or portal.
    pub(super) fn describe(
        &mut self,
        io: &mut Io,
        target: Target,
        name: &str,
    ) -> Result<(), CloseReason> {
        match target {
            Target::Statement => {
                let prepared = match self.statement(name) {
                    Ok(prepared) => prepared,
                    Err(error) => return self.fail(io, &error, None),
                };
                let prepared = Arc::clone(prepared);
                let oids = engine::parameter_oids(&prepared);
                append(&mut io.out, &backend::parameter_description(oids));
                if let Err(error) = self.describe_rows(io, &prepared, &ResultFormats::Text) {
                    return self.fail(io, &error, None);
                }
            }
            Target::Portal => {
                let Some((prepared, formats)) = self.described(name) else {
                    return self.fail(io, &no_portal(name), None);
                };
                if let Err(error) = self.describe_rows(io, &prepared, &formats) {
                    return self.fail(io, &error, None);
                }
            }
        }
        Ok(())
    }

    /// Handles Close: removes a statement or portal, if it exists.
    pub(super) fn close(&mut self, io: &mut Io, target: Target, name: &str) {
        match target {
            Target::Statement if name.is_empty() => self.unnamed = None,
            Target::Statement => engine::forget_statement(&mut self.session, name),
            Target::Portal if name.is_empty() => self.portal = None,
            Target::Portal => engine::close_named(&mut self.session, name),
        }
        append(&mut io.out, &CloseComplete::new());
    }

    /// Handles Execute: runs a portal for some rows or to its end.
    #[inline]
    pub(super) async fn execute(
        &mut self,
        io: &mut Io,
        name: &str,
        rows_max: usize,
        last: bool,
    ) -> Result<(), CloseReason> {
        if !name.is_empty() {
            return Box::pin(self.execute_named(io, name, rows_max, last)).await;
        }
        let Some(open) = &mut self.portal else {
            return self.fail(io, &no_portal(name), None);
        };
        let mut timed = StatementTimer::begin(&self.style.log);
        if let Some(timed) = &mut timed {
            let statement = (open.logged_name.as_deref().unwrap_or(""), &*open.prepared);
            let (client, portal) = (&io.client, Some(&open.portal));
            logging::execute_begins(timed, client, &self.style, statement, portal);
        }
        let was = engine::ready(&self.session);
        let copy_out = begin_copy_out(&mut io.out, &open.prepared);
        let out = std::mem::take(&mut io.out);
        let columns = engine::columns(&open.prepared).unwrap_or_default();
        let mut sink = WireSink::new(out, columns, &open.formats, &self.style, &self.handoff);
        sink.copies(engine::copy_out_columns(&open.prepared));
        let outcome = watched!(
            self,
            io,
            engine::run(
                &mut self.session,
                &mut open.portal,
                rows_max,
                &mut sink,
                last
            )
        )?;
        io.out = sink.into_out();
        match outcome {
            Ok(done) => {
                if let (Some(timed), Some(open)) = (timed, &self.portal) {
                    let statement = (open.logged_name.as_deref().unwrap_or(""), &*open.prepared);
                    let (client, portal) = (&io.client, Some(&open.portal));
                    logging::ends(
                        timed,
                        client,
                        &self.style,
                        Phase::Execute,
                        statement,
                        portal,
                    );
                }
                let kind = self.portal.as_ref().map(|open| open.prepared.kind());
                self.executed(io, done, (was, kind), copy_out);
                Ok(())
            }
            Err(error) => self.fail_unnamed(io, &error),
        }
    }

    /// Reports an error of the unnamed portal.
    #[cold]
    fn fail_unnamed(&mut self, io: &mut Io, error: &SqlError) -> Result<(), CloseReason> {
        self.report_notices(io);
        let prepared = self.portal.as_ref().map(|open| Arc::clone(&open.prepared));
        self.fail(
            io,
            error,
            prepared.as_ref().map(|prepared| prepared.source()),
        )
    }

    /// Does the same as [`Self::execute`], for a named portal or a cursor.
    async fn execute_named(
        &mut self,
        io: &mut Io,
        name: &str,
        rows_max: usize,
        last: bool,
    ) -> Result<(), CloseReason> {
        let Some((prepared, formats)) = self.described(name) else {
            return self.fail(io, &no_portal(name), None);
        };
        let mut timed = StatementTimer::begin(&self.style.log);
        if let Some(timed) = &mut timed {
            let statement = (name, &*prepared);
            logging::execute_begins(timed, &io.client, &self.style, statement, None);
        }
        let was = engine::ready(&self.session);
        let copy_out = begin_copy_out(&mut io.out, &prepared);
        let out = std::mem::take(&mut io.out);
        let columns = engine::columns(&prepared).unwrap_or_default();
        let mut sink = WireSink::new(out, columns, &formats, &self.style, &self.handoff);
        sink.copies(engine::copy_out_columns(&prepared));
        let outcome = watched!(
            self,
            io,
            engine::run_named(&mut self.session, name, rows_max, &mut sink, last)
        )?;
        io.out = sink.into_out();
        match outcome {
            Ok(done) => {
                if let Some(timed) = timed {
                    let statement = (name, &*prepared);
                    logging::ends(
                        timed,
                        &io.client,
                        &self.style,
                        Phase::Execute,
                        statement,
                        None,
                    );
                }
                self.executed(io, done, (was, Some(prepared.kind())), copy_out);
                Ok(())
            }
            Err(error) => {
                self.report_notices(io);
                self.fail(io, &error, Some(prepared.source()))
            }
        }
    }

    /// Returns the statement of a portal and the formats of its columns.
    fn described(&self, name: &str) -> Option<(Arc<PreparedStatement>, ResultFormats)> {
        if name.is_empty() {
            let open = self.portal.as_ref()?;
            return Some((Arc::clone(&open.prepared), open.formats.clone()));
        }
        let (prepared, binary) = engine::named_portal(&self.session, name)?;
        Some((Arc::clone(prepared), ResultFormats::from(binary)))
    }

    /// Answers an Execute that has succeeded.
    #[inline]
    fn executed(
        &mut self,
        io: &mut Io,
        done: Completion,
        (was, kind): (TransactionStatus, Option<StatementKind>),
        copy_out: bool,
    ) {
        self.report_notices(io);
        match done {
            Completion::Complete(tag) => {
                if copy_out {
                    append(&mut io.out, &CopyDone::new());
                }
                if let Some(kind) = kind {
                    self.count(kind);
                }
                encode::command_complete(&mut io.out, |out| tag.write(out));
                self.after_command(was);
            }
            Completion::Suspended => append(&mut io.out, &PortalSuspended::new()),
            Completion::Empty => append(&mut io.out, &EmptyQueryResponse::new()),
            Completion::CopyIn(copy) => {
                append(
                    &mut io.out,
                    &backend::copy_in(engine::copy_in_columns(&copy)),
                );
                self.mode = Mode::CopyIn(Box::new(CopyInProgress::new(copy)));
            }
        }
    }

    /// Updates the portals and settings of the session after a command.
    #[inline]
    pub(super) fn after_command(&mut self, was: TransactionStatus) {
        if was != TransactionStatus::Idle && engine::ready(&self.session) == TransactionStatus::Idle
        {
            self.portal = None;
        }
        self.style.refresh(&self.session);
    }
}
