//! A sequence read as a relation: one row with its state, as far as its machines have reserved
//! values.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{CatalogView, SequenceDef, SequenceState, Snapshot};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::cx::Cx;
use super::system::catalog;

/// Returns `last_value`, `log_cnt` and `is_called` of the sequence whose oid is the argument.
pub(super) async fn row(args: &[Expr], cx: &mut Cx<'_>) -> Result<[Value; 3], StatementStop> {
    let missing = || SqlError::internal("the sequence is gone");
    let oid = args.first().ok_or_else(missing)?;
    let Value::Oid(oid) = cx.value(oid, &[]).await? else {
        return Err(missing().into());
    };
    let snapshot = catalog(cx).await?;
    let sequence = snapshot.sequence_by_id(oid)?.ok_or_else(missing)?;
    let reached = reached(&sequence, cx).await?.ok_or_else(missing)?;
    let (last, was_given) = (reached.value, reached.was_given);
    Ok([Value::Int8(last), Value::Int8(0), Value::Bool(was_given)])
}

/// Returns the state of a sequence; `None` if the transaction does not see its cell.
pub(super) async fn reached(
    sequence: &SequenceDef,
    cx: &mut Cx<'_>,
) -> Result<Option<SequenceState>, StatementStop> {
    let machine = cx.tx.machine().number();
    let cell = sequence.read(cx.tx).await?;
    let sequences = &cx.eval.sequences;
    Ok(cell.map(|cell| sequences.reached(sequence.id, cell, machine)))
}

/// Fills the last column of the rows of `pg_sequences` with the last values of the sequences.
pub(super) async fn add_last_values(
    rows: &mut [Vec<Value>],
    snapshot: &Snapshot,
    cx: &mut Cx<'_>,
) -> Result<(), StatementStop> {
    for row in rows {
        let [Value::Text(schema), Value::Text(name), .., last] = &mut row[..] else {
            continue;
        };
        let Some(sequence) = snapshot.sequence(Some(&**schema), name)? else {
            continue;
        };
        let reached = reached(&sequence, cx).await?;
        *last = match reached {
            Some(reached) if reached.was_given => Value::Int8(reached.value),
            _ => Value::Null,
        };
    }
    Ok(())
}
