//! A sequence read as a relation: one row of how far it is, of what its machines have taken of it.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::CatalogView;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;

use super::cx::Cx;
use super::system::catalog;

/// `last_value`, `log_cnt` and `is_called` of the sequence whose oid is the argument.
pub(super) async fn row(args: &[Expr], cx: &mut Cx<'_>) -> Result<[Value; 3], Halt> {
    let gone = || SqlError::internal("the sequence is gone");
    let oid = args.first().ok_or_else(gone)?;
    let Value::Oid(oid) = cx.value(oid, &[])? else {
        return Err(gone().into());
    };
    let snapshot = catalog(cx).await?;
    let sequence = snapshot.sequence_by_id(oid)?.ok_or_else(gone)?;
    let (last, was_given) = sequence.read(cx.tx).await?.ok_or_else(gone)?;
    Ok([Value::Int8(last), Value::Int8(0), Value::Bool(was_given)])
}
