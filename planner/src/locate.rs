//! The way from an object's address to the table row that it stores.

use fencepost_btree::BTree;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::Transaction;

use crate::plan::TablePlan;
use crate::store::read_row;

/// Returns the row at `addr`, if the object is a row of the table.
pub async fn row_at(
    tx: &mut Transaction,
    plan: &TablePlan,
    addr: Addr,
) -> Result<Option<Vec<Value>>, StatementStop> {
    let mut words = Vec::new();
    let mut row = vec![Value::Null; plan.layout.width()];
    // Another object may look like the head of a long row and have invalid chunk pointers.
    let read = matches!(read_row(tx, addr, &mut words).await, Ok(true));
    if !read || plan.layout.decode(&words, &mut row).is_err() {
        return Ok(None);
    }
    let (Some(codec), primary) = (plan.keys.first(), plan.def.primary()) else {
        return Ok(None);
    };
    let mut key = Vec::new();
    codec.encode_entry(&row, addr.raw(), &mut key);
    let partition = plan.def.partition_of(&row, &mut key);
    let tree = BTree::open(Addr::from_raw(primary.roots.of(partition)));
    let entry = tree.get(tx, &key).await?.map(FatPtr::from_words);
    Ok(entry.filter(|ptr| ptr.addr == addr).map(|_| row))
}
