//! RETURNING: the result rows of a statement that changes rows.

use fencepost_sql::bound::Target;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use crate::exec::{Batch, Cx};
use crate::sink::RowSink;

/// The destination of the rows: the client, or a portal that returns them in pieces.
pub enum Returning<'a> {
    /// To the client.
    Sink(&'a mut dyn RowSink, Vec<Value>),
    /// Materialized for a portal or a WITH query.
    Materialize(Batch),
}

impl Returning<'_> {
    /// Adds the result of `targets` over `row`.
    pub async fn row(
        &mut self,
        targets: &[Target],
        cx: &mut Cx<'_>,
        row: &[Value],
    ) -> Result<(), SqlError> {
        if targets.is_empty() {
            return Ok(());
        }
        match self {
            Returning::Sink(sink, out) => {
                out.clear();
                for target in targets {
                    out.push(cx.value(&target.expr, row).await?);
                }
                sink.row(out)
            }
            Returning::Materialize(batch) => {
                let slots = batch.push();
                for (slot, target) in slots.iter_mut().zip(targets) {
                    *slot = cx.value(&target.expr, row).await?;
                }
                Ok(())
            }
        }
    }

    /// Adds a row as [`Returning::row`] does, with subqueries in the targets.
    pub async fn deep_row(
        &mut self,
        targets: &[Target],
        cx: &mut Cx<'_>,
        row: &[Value],
    ) -> Result<(), StatementStop> {
        if targets.is_empty() {
            return Ok(());
        }
        let mut values = Vec::with_capacity(targets.len());
        for target in targets {
            values.push(cx.deep_value(&target.expr, row).await?);
        }
        match self {
            Returning::Sink(sink, _) => Ok(sink.row(&values)?),
            Returning::Materialize(batch) => {
                for (slot, value) in batch.push().iter_mut().zip(values) {
                    *slot = value;
                }
                Ok(())
            }
        }
    }
}
