//! Index entries for the rows that a table already has.

use std::ops::Bound;

use fencepost_btree::{BTree, Cursor, Direction, ScanBatch};
use fencepost_sql::catalog::{EXPRESSION, IndexDef, Roots, TableDef};
use fencepost_sql::key::KeyCodec;
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use crate::exec::Cx;
use crate::index::create;
use crate::place::PartitionPlacement;
use crate::store::{prefetch_row, read_at_once, read_columns, read_row};
use crate::trees::trees;
use crate::write::{EntryBuffer, contains_nulls, not_unique};

const CHUNK: usize = 1024;
/// The distance in rows at which rows are prefetched.
const ROWS_AHEAD: usize = 8;

/// A scan of all rows of a table through its first index, partition by partition.
pub struct RowWalk {
    trees: std::vec::IntoIter<BTree>,
    cursor: Option<Cursor>,
    entries: ScanBatch,
    next: usize,
}

impl RowWalk {
    /// Creates a scan of all rows of `table`.
    pub fn new(table: &TableDef) -> RowWalk {
        let trees: Vec<BTree> = trees(table.primary()).collect();
        RowWalk {
            trees: trees.into_iter(),
            cursor: None,
            entries: ScanBatch::of_values(),
            next: 0,
        }
    }

    /// Returns the fat pointer of the next row.
    pub async fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<FatPtr>, StatementStop> {
        cx.breathe().await?;
        while self.next == self.entries.len() {
            let Some(cursor) = &mut self.cursor else {
                let Some(tree) = self.trees.next() else {
                    return Ok(None);
                };
                let whole = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
                self.cursor = Some(whole);
                continue;
            };
            self.entries.clear();
            self.next = 0;
            let mut seen = cx.seen();
            let batch = cursor.next_batch(&mut seen, &mut self.entries, CHUNK);
            if !batch.await? {
                self.cursor = None;
            }
        }
        if let Some(ahead) = self.entries.values().get(self.next + ROWS_AHEAD) {
            prefetch_row(cx.tx, FatPtr::from_words(*ahead));
        }
        self.next += 1;
        Ok(Some(FatPtr::from_words(self.entries.value(self.next - 1))))
    }
}

/// Returns the columns that the entries of an index depend on.
fn columns_of(table: &TableDef, index: &IndexDef) -> Vec<usize> {
    let keys = index.columns.iter().map(|c| c.column);
    let mut columns: Vec<usize> = keys.filter(|column| *column < EXPRESSION).collect();
    for expression in &index.more.expressions {
        let value = &expression.value;
        value.for_each_column(&mut |column| columns.push(column));
    }
    columns.extend(table.partitioning.iter().map(|by| by.column));
    if let Some(predicate) = &index.more.predicate {
        let condition = &predicate.condition;
        condition.for_each_column(&mut |column| columns.push(column));
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Builds an index over the existing rows of `table` and returns its roots. Ignores `index.roots`.
pub async fn build(
    cx: &mut Cx<'_>,
    table: &TableDef,
    index: &IndexDef,
) -> Result<Roots, StatementStop> {
    let layout = RowLayout::new(&table.columns);
    let codec = KeyCodec::new(table, index);
    let columns = columns_of(table, index);
    let mut row = vec![Value::Null; layout.width()];
    let mut words = Vec::new();
    let mut key = Vec::new();
    let roots = create(cx.tx, table, index, &PartitionPlacement::with(table)).await?;
    let index = &IndexDef {
        roots,
        ..index.clone()
    };
    let predicate = index.more.predicate.as_ref().map(|p| &p.condition);
    let mut gather = EntryBuffer::of(index);
    // A deferrable constraint is enforced immediately while its index is built.
    let strict = index.more.deferrable.map(|_| IndexDef {
        unique: true,
        ..index.clone()
    });
    let mut strict = strict.map(|of| (KeyCodec::new(table, &of), EntryBuffer::of(&of)));
    let mut walk = RowWalk::new(table);
    while let Some(place) = walk.next(cx).await? {
        let there = match read_at_once(cx.tx, place.addr, &mut words) {
            Some(there) => there?,
            None => read_columns(cx.tx, place.addr, (&layout, &columns), &mut words).await?,
        };
        if !there {
            continue;
        }
        layout.decode_some(&words, &columns, &mut row)?;
        if !cx.holds(predicate, &row).await? {
            continue;
        }
        if index.primary
            && let Some(null) = index.columns.iter().find(|c| row[c.column].is_null())
        {
            return Err(contains_nulls(table, null.column).into());
        }
        let keys = cx.in_parts(|cx| codec.key_row(&row, cx.eval)).await?;
        codec.encode_entry(&keys, place.addr.raw(), &mut key);
        let partition = table.partition_of(&row, &mut key);
        gather.push(cx.tx, partition, &key, place)?;
        if let Some((codec, gather)) = &mut strict {
            codec.encode_entry(&keys, place.addr.raw(), &mut key);
            gather.push(cx.tx, partition, &key, place)?;
        }
    }
    let duplicate_key = match &mut strict {
        Some((_, gather)) => gather.sort(cx).await?,
        None => None,
    };
    let sorted = gather.sort(cx).await?;
    if let Some(duplicate) = duplicate_key.or(sorted) {
        read_row(cx.tx, duplicate.place.addr, &mut words).await?;
        layout.decode(&words, &mut row)?;
        return Err(not_unique(table, index, &row, &cx.eval.settings).into());
    }
    if !gather.build(cx, index).await? {
        gather.insert(cx, index).await?;
    }
    Ok(index.roots.clone())
}
