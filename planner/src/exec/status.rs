//! `txid_status`: the outcome of a transaction, by its number.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{Catalog, TransactionOutcome};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::cx::Cx;

/// Returns the status of the transaction whose number is the argument. Unlike in PostgreSQL, the
/// answer is final: a transaction that has not committed yet will not commit later, except the
/// calling one.
pub(super) async fn of(args: &[Expr], cx: &mut Cx<'_>) -> Result<Value, StatementStop> {
    let Some(number) = args.first() else {
        return Ok(Value::Null);
    };
    let Value::Int8(number) = cx.value(number, &[]).await? else {
        return Ok(Value::Null);
    };
    if cx.eval.drawn_number() == Some(number) {
        return Ok(Value::text("in progress"));
    }
    let root = cx.tx.machine().root();
    let outcomes = Catalog::open(cx.tx, root).await?.outcomes();
    let now = cx.eval.clock_now();
    let ending = outcomes.outcome_of(cx.tx.machine(), number, now).await?;
    Ok(match ending {
        Some(TransactionOutcome::Committed) => Value::text("committed"),
        Some(TransactionOutcome::Aborted) => Value::text("aborted"),
        None => Value::Null,
    })
}
