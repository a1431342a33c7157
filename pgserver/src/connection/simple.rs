//! The simple query protocol: a text with any number of statements, which form one transaction.

use std::vec::IntoIter;

use pgwire::messages::copy::CopyDone;
use pgwire::messages::response::EmptyQueryResponse;

use super::CloseReason;
use super::copy::{CopyInProgress, SuspendedQuery};
use super::extended::begin_copy_out;
use super::logging::Script;
use super::sink::{ResultFormats, WireSink};
use super::state_machine::{ClientSession, Mode, watched};
use crate::engine::{self, Completion, SqlError, StatementSyntax};
use crate::io::Io;
use crate::proto::backend::{append, copy_in};
use crate::proto::encode;

/// The continuation of a text after one of its statements.
enum Step {
    Next,
    Failed,
    CopyIn(Box<CopyInProgress>),
}

impl ClientSession<'_> {
    /// Handles Query: runs the statements of `sql` up to the first that fails.
    pub(super) async fn query(&mut self, io: &mut Io, sql: &str) -> Result<(), CloseReason> {
        self.unnamed = None;
        self.portal = None;
        let script = Script::begin(sql, &self.style.log);
        let statements = match sql.len() < engine::LONG_BYTES {
            true => engine::split(&mut self.session, sql),
            false => Box::pin(engine::split_apart(&mut self.session, sql)).await,
        };
        match statements {
            Ok(statements) if statements.is_empty() => {
                append(&mut io.out, &EmptyQueryResponse::new());
                self.sync(io).await
            }
            Ok(statements) => {
                self.run_statements(io, script, statements.into_iter())
                    .await
            }
            Err(error) => self.fail_query(io, &error, Some(sql)).await,
        }
    }

    /// Runs the remaining statements of a text, then sends ReadyForQuery.
    pub(super) async fn run_statements(
        &mut self,
        io: &mut Io,
        mut script: Script<'_>,
        mut rest: IntoIter<StatementSyntax>,
    ) -> Result<(), CloseReason> {
        while let Some(statement) = rest.next() {
            let last = rest.len() == 0;
            match self.run_statement(io, &mut script, statement, last).await? {
                Step::Next => {}
                Step::Failed => {
                    script.timed = None;
                    break;
                }
                Step::CopyIn(mut copying) => {
                    copying.rest = Some(SuspendedQuery {
                        sql: script.sql.into(),
                        timed: script.timed,
                        statements: rest,
                    });
                    self.mode = Mode::CopyIn(copying);
                    return Ok(());
                }
            }
        }
        script.ends(&io.client, &self.style.log);
        self.sync(io).await
    }

    /// Reports the error of a simple query and sends ReadyForQuery.
    #[cold]
    pub(super) async fn fail_query(
        &mut self,
        io: &mut Io,
        error: &SqlError,
        statement: Option<&str>,
    ) -> Result<(), CloseReason> {
        self.report_error(io, error, statement)?;
        self.sync(io).await
    }

    async fn run_statement(
        &mut self,
        io: &mut Io,
        script: &mut Script<'_>,
        statement: StatementSyntax,
        last: bool,
    ) -> Result<Step, CloseReason> {
        let was = engine::ready(&self.session);
        let mut prepared = engine::prepare(&mut self.session, statement);
        if let Ok(first) = &prepared
            && engine::waits_for_tables(&self.session, first)
        {
            prepared = watched!(self, io, engine::await_tables(&mut self.session, first))?;
        }
        let opened = prepared.and_then(|prepared| {
            let portal = engine::bind(&mut self.session, &prepared, Vec::new())?;
            Ok((prepared, portal))
        });
        let (prepared, mut portal) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.failed(io, script, &error),
        };
        script.runs(&io.client, &self.style.log, &prepared);
        let columns = engine::columns(&prepared);
        let formats = match engine::fetches_binary(&self.session, &prepared) {
            true => ResultFormats::Binary,
            false => ResultFormats::Text,
        };
        if columns.is_some()
            && let Err(error) = self.describe_rows(io, &prepared, &formats)
        {
            return self.failed(io, script, &error);
        }
        let copy_out = begin_copy_out(&mut io.out, &prepared);
        let out = std::mem::take(&mut io.out);
        let columns = columns.unwrap_or_default();
        let mut sink = WireSink::new(out, columns, &formats, &self.style, &self.handoff);
        sink.copies(engine::copy_out_columns(&prepared));
        let outcome = watched!(
            self,
            io,
            engine::run(&mut self.session, &mut portal, 0, &mut sink, last)
        )?;
        io.out = sink.into_out();
        self.report_notices(io);
        match outcome {
            Ok(Completion::CopyIn(copy)) => {
                append(&mut io.out, &copy_in(engine::copy_in_columns(&copy)));
                Ok(Step::CopyIn(Box::new(CopyInProgress::new(copy))))
            }
            Ok(Completion::Complete(tag)) => {
                if copy_out {
                    append(&mut io.out, &CopyDone::new());
                }
                // The last tag promises that the transaction has committed.
                if last && let Err(error) = watched!(self, io, self.session.sync())? {
                    return self.failed(io, script, &error);
                }
                self.count(prepared.kind());
                encode::command_complete(&mut io.out, |out| tag.write(out));
                self.after_command(was);
                Ok(Step::Next)
            }
            Ok(Completion::Empty) => {
                append(&mut io.out, &EmptyQueryResponse::new());
                Ok(Step::Next)
            }
            Ok(Completion::Suspended) => Ok(Step::Next),
            Err(error) => self.failed(io, script, &error),
        }
    }

    #[cold]
    fn failed(
        &mut self,
        io: &mut Io,
        script: &Script<'_>,
        error: &SqlError,
    ) -> Result<Step, CloseReason> {
        self.report_error(io, error, Some(script.sql))?;
        Ok(Step::Failed)
    }
}
