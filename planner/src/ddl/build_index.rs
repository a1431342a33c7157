//! Index entries for the rows that a table already has.

use std::ops::Bound;

use fencepost_btree::{BTree, Direction, ScanBatch};
use fencepost_sql::catalog::{IndexDef, TableDef};
use fencepost_sql::key::KeyCodec;
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use crate::exec::Cx;
use crate::index::{create, tree};
use crate::store::{read_columns, read_row};
use crate::write::{Gather, contains_nulls, not_unique};

const CHUNK: usize = 1024;

/// The rows of a table, one after the other through its first index.
pub struct RowWalk {
    cursor: fencepost_btree::Cursor,
    entries: ScanBatch,
    next: usize,
    more: bool,
}

impl RowWalk {
    /// A walk over all rows of `table`.
    pub fn new(table: &TableDef) -> RowWalk {
        let tree: BTree = tree(table.primary());
        RowWalk {
            cursor: tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward),
            entries: ScanBatch::default(),
            next: 0,
            more: true,
        }
    }

    /// The next row's place.
    pub async fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<FatPtr>, Halt> {
        while self.next == self.entries.len() {
            if !self.more {
                return Ok(None);
            }
            cx.breathe().await?;
            self.entries.clear();
            self.next = 0;
            self.more = self
                .cursor
                .next_batch(cx.tx, &mut self.entries, CHUNK)
                .await?;
        }
        self.next += 1;
        Ok(Some(FatPtr::from_words(self.entries.value(self.next - 1))))
    }
}

/// An index over the rows that `table` has; its root. `index.root` is not looked at.
pub async fn build(cx: &mut Cx<'_>, table: &TableDef, index: &IndexDef) -> Result<u64, Halt> {
    let layout = RowLayout::new(&table.columns);
    let codec = KeyCodec::new(table, index);
    let mut columns: Vec<usize> = index.columns.iter().map(|c| c.column).collect();
    columns.sort_unstable();
    let mut row = vec![Value::Null; layout.width()];
    let mut words = Vec::new();
    let mut key = Vec::new();
    let mut gather = Gather::default();
    let mut walk = RowWalk::new(table);
    while let Some(place) = walk.next(cx).await? {
        if !read_columns(cx.tx, place.addr, (&layout, &columns), &mut words).await? {
            continue;
        }
        layout.decode_some(&words, &columns, &mut row)?;
        if index.primary
            && let Some(null) = columns.iter().find(|c| row[**c].is_null())
        {
            return Err(contains_nulls(table, *null).into());
        }
        codec.encode_entry(&row, place.addr.raw(), &mut key);
        gather.push(cx.tx, &key, place)?;
    }
    if let Some(twin) = gather.sort() {
        read_row(cx.tx, twin.place.addr, &mut words).await?;
        layout.decode(&words, &mut row)?;
        return Err(not_unique(table, index, &row, &cx.eval.settings).into());
    }
    let index = IndexDef {
        root: create(cx.tx, table, index).await?,
        ..index.clone()
    };
    if !gather.build(cx, &index).await? {
        gather.insert(cx, &index).await?;
    }
    Ok(index.root)
}
