//! The remote side of a split statement: plans the same text, and scans some partitions.
//!
//! # Failure
//! If a part cannot run or its result cannot be sent, the sender runs it. An error of the statement
//! itself goes to the client.

use std::sync::atomic::Ordering;

use fencepost_planner::RowSink;
use fencepost_sql::error::SqlError;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

use super::RESULT_BYTES_MAX;
use super::reply::{Reply, StatementResult};
use super::request::{Part, Statement};
use super::serve::{Entry, RowsUpToLimit};
use crate::session::Session;

/// The rows of a part. The plan determines their types.
#[derive(Default)]
pub(crate) struct PartSink(Option<RowsUpToLimit>);

impl PartSink {
    /// Starts to collect rows of these types.
    pub fn begin(&mut self, kinds: &[TypeKind]) {
        self.0 = Some(RowsUpToLimit::of_types(
            kinds.iter().copied(),
            RESULT_BYTES_MAX,
        ));
    }

    fn overflowed(&self) -> bool {
        self.0.as_ref().is_some_and(|rows| rows.overflowed)
    }
}

impl RowSink for PartSink {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        match &mut self.0 {
            Some(rows) => rows.row(row),
            None => Err(SqlError::internal("a part without columns")),
        }
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::internal("a part gives rows"))
    }

    fn rewind(&mut self) -> bool {
        false
    }
}

impl Entry {
    /// Runs a part of the single statement. Returns the reply.
    pub(super) async fn serve_part(
        &self,
        session: &mut Session,
        statements: Vec<Statement<'_>>,
        part: &Part,
    ) -> Reply {
        let mut statements = statements.into_iter();
        let (Some(statement), None) = (statements.next(), statements.next()) else {
            return Reply::RunItYourself;
        };
        // The sender reports planning errors, because it has the text as the client wrote it.
        let Ok(prepared) = session.parse_declared(statement.text, &statement.types) else {
            return Reply::RunItYourself;
        };
        self.ship.parts_served.fetch_add(1, Ordering::Relaxed);
        let mut sink = PartSink::default();
        let run = session.run_part(&prepared, &statement.params, part, &mut sink);
        match self.running.run(run).await {
            Ok(Some(count)) => {
                let rows = sink.0.map(|rows| rows.rows).unwrap_or_default();
                Reply::Ran(vec![StatementResult { count, rows }], None)
            }
            Err(error) if !sink.overflowed() && !self.is_ended_by_closing(&error) => {
                Reply::Ran(Vec::new(), Some(error))
            }
            Ok(None) | Err(_) => Reply::RunItYourself,
        }
    }
}
