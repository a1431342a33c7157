//! The insertion, update and deletion of one row: its object and its entry in every index.
//!
//! Invariants
//! - ROW-1: every index of a table has exactly one entry for each row, under the key of the row's
//!   columns, that leads to the row's object. A partial index has one for each row that satisfies
//!   its predicate.
//! - ROW-2: a row stays in its object while it fits and belongs to the same partition. Otherwise it
//!   moves to a new object, and every entry is updated in the same transaction.

use fencepost_btree::Insert;
use fencepost_sql::catalog::{IndexDef, IndexKind, TableDef};
use fencepost_sql::counts::Count;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Isolation, ObjectLocation, Strength};

use super::bulk_index_builder::{EntryBuffer, EntryRemovals};
use super::errors::duplicate;
use super::rules::check_row;
use super::unique_recheck::{await_writers, record_duplicate};
use crate::exec::Cx;
use crate::index::{find, insert, is_taken, key_lock, remove, replace, try_insert};
use crate::leaves::Leaves;
use crate::plan::TablePlan;
use crate::store::{free_row, insert_row, read_row, update_row};
use crate::trees::trees;

/// The outcome of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The row was inserted.
    Done,
    /// The row conflicts with a unique index that ON CONFLICT names; nothing was changed.
    Conflict,
}

/// The unique indexes for which a duplicate is a conflict and not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// None: every duplicate is an error.
    Never,
    /// Any of them.
    Any,
    /// The one at this position.
    Index(usize),
}

/// The state and buffers for writing rows, kept from row to row.
#[derive(Debug, Default)]
pub struct RowWriter {
    words: Vec<u64>,
    old_key: Vec<u8>,
    new_key: Vec<u8>,
    /// The partition and address of the last row written. The next row of that partition is
    /// allocated near it.
    last: Option<(u32, Addr)>,
    entries: Entries,
    /// The index entries of deleted rows, if they are removed at the end of the statement.
    pub(super) removals: Option<Box<EntryRemovals>>,
    duplicate: Option<u32>,
    /// The number of unique keys that were locked.
    keys_locked: u32,
}

/// The time at which the index entries of new rows are created.
#[derive(Debug, Default)]
enum Entries {
    /// Together with the row.
    #[default]
    AtOnce,
    /// Not decided yet; the first row decides.
    Undecided,
    /// At the end, one index after the other.
    Gathered(Vec<EntryBuffer>),
}

/// The maximal number of unique keys that one statement locks.
const KEY_LOCKS_MAX: u32 = 1024;

/// The number of rows from which bulk building pays off, although it excludes other writers of the
/// trees meanwhile.
const MANY: usize = 4096;

/// Writes the index key of a row at address `at`.
#[inline]
pub(super) async fn entry(
    cx: &mut Cx<'_>,
    (table, position): (&TablePlan, usize),
    row: &[Value],
    at: Addr,
    key: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let codec = &table.keys[position];
    codec.encode_entry(
        &cx.in_parts(|cx| codec.key_row(row, cx.eval)).await?,
        at.raw(),
        key,
    );
    Ok(())
}

/// Returns whether one of the `changed` columns that unique indexes depend on has another value.
fn changes_keys(table: &TableDef, (old, new): (&[Value], &[Value]), changed: &[usize]) -> bool {
    let differs = |column: &&usize| old[**column] != new[**column];
    let changes = |index: &IndexDef| {
        let mut changed = changed.iter().filter(differs);
        changed.any(|column| index.depends_on(*column))
    };
    let mut keys = table.indexes.iter().filter(|index| index.is_unique());
    keys.any(changes)
}

impl RowWriter {
    /// Creates a writer for many new rows. If the table is empty, its index entries are created
    /// only by [`Self::finish`].
    pub fn of_many() -> RowWriter {
        RowWriter {
            entries: Entries::Undecided,
            ..RowWriter::default()
        }
    }

    /// Returns the number of the row, counted from 0, that [`Self::finish`] found to have a
    /// duplicate key.
    pub fn duplicate(&self) -> Option<u32> {
        self.duplicate
    }

    async fn decide(&mut self, cx: &mut Cx<'_>, table: &TablePlan) -> Result<(), StatementStop> {
        self.entries = Entries::AtOnce;
        for index in &table.def.indexes {
            if index.kind != IndexKind::BTree || index.more.deferrable.is_some() {
                return Ok(());
            }
            for tree in trees(index) {
                if !tree.is_bare(cx.tx).await? {
                    return Ok(());
                }
            }
        }
        let each = table.def.indexes.iter().map(EntryBuffer::of);
        self.entries = Entries::Gathered(each.collect());
        Ok(())
    }

    /// Creates the remaining index entries.
    pub async fn finish(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
    ) -> Result<(), StatementStop> {
        let Entries::Gathered(gathered) = std::mem::take(&mut self.entries) else {
            return Ok(());
        };
        for (position, mut gather) in gathered.into_iter().enumerate() {
            let index = table.index_def(position);
            let mut duplicate_key = gather.sort(cx).await?;
            if duplicate_key.is_none() {
                let built = gather.len() >= MANY && gather.build(cx, index).await?;
                if !built {
                    duplicate_key = gather.insert(cx, index).await?;
                }
            }
            if let Some(entry) = duplicate_key {
                self.duplicate = Some(entry.nth);
                let mut row = vec![Value::Null; table.layout.width()];
                read_row(cx.tx, entry.place.addr, &mut self.words).await?;
                table.layout.decode(&self.words, &mut row)?;
                return Err(duplicate(&table.def, index, &row, &cx.eval.settings).into());
            }
        }
        Ok(())
    }

    /// Inserts `row`, which has one value for each column.
    pub async fn insert(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        row: &[Value],
        yields: Yield,
    ) -> Result<Inserted, StatementStop> {
        if let Some(leaves) = &table.leaves {
            return Box::pin(self.insert_routed(cx, (table, leaves), row, yields)).await;
        }
        check_row(cx, table, row, None).await?;
        if yields != Yield::Never {
            return Box::pin(self.insert_yielding(cx, table, row, yields)).await;
        }
        match self.put(cx, table, row, yields).await? {
            Inserted::Done => Ok(Inserted::Done),
            // With `Yield::Never`, a duplicate is an error and never a conflict.
            Inserted::Conflict => Err(SqlError::internal("an insert yielded").into()),
        }
    }

    /// Inserts `row` unless it conflicts with an existing row, even one inserted after the first
    /// lookup.
    async fn insert_yielding(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        row: &[Value],
        yields: Yield,
    ) -> Result<Inserted, StatementStop> {
        let mark = cx.tx.reads_mark();
        let conflicts = self.conflicts(cx, table, row, yields).await?;
        if cx.tx.isolation() == Isolation::ReadCommitted {
            // The insert itself guarantees that there is no duplicate.
            cx.tx.forget_reads(mark);
        }
        if conflicts {
            return Ok(Inserted::Conflict);
        }
        let before = cx.tx.savepoint();
        let put = self.put(cx, table, row, yields).await;
        if matches!(put, Ok(Inserted::Conflict)) {
            cx.tx.rollback_to(&before);
        }
        cx.tx.release(before);
        put
    }

    /// Stores the row and its index entries.
    async fn put(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        row: &[Value],
        yields: Yield,
    ) -> Result<Inserted, StatementStop> {
        table.layout.encode(row, &mut self.words)?;
        let partition = table.def.partition_of(row, &mut self.new_key);
        let near = self.near(table, partition);
        let place = insert_row(cx.tx, &self.words, near).await?;
        cx.count(table.def.id, Count::Inserted, 1);
        self.last = Some((partition, place.addr));
        if let Entries::Undecided = self.entries {
            self.decide(cx, table).await?;
        }
        if let Entries::Gathered(gathered) = &mut self.entries {
            let mut full = false;
            for (position, (codec, gather)) in table.keys.iter().zip(gathered).enumerate() {
                if !table.has_entry(cx, position, row).await? {
                    continue;
                }
                let keys = cx.in_parts(|cx| codec.key_row(row, cx.eval)).await?;
                codec.encode_entry(&keys, place.addr.raw(), &mut self.new_key);
                gather.push(cx.tx, partition, &self.new_key, place)?;
                full |= gather.is_full();
            }
            if full {
                self.finish(cx, table).await?;
            }
            return Ok(Inserted::Done);
        }
        for position in 0..table.keys.len() {
            if !table.has_entry(cx, position, row).await? {
                continue;
            }
            let at = (position, partition);
            if yields == Yield::Any || yields == Yield::Index(position) {
                if !self.add_entry(cx, table, at, row, place).await? {
                    return Ok(Inserted::Conflict);
                }
                continue;
            }
            self.insert_entry(cx, table, at, row, place).await?;
        }
        Ok(Inserted::Done)
    }

    /// Returns the address of the row that was inserted last.
    pub fn last_row(&self) -> Option<u64> {
        self.last.map(|(_, addr)| addr.raw())
    }

    /// Returns the row that has the key of `row` in a unique index, according to the index. For a
    /// partitioned table, `table` must be the leaf.
    pub async fn holder(
        &mut self,
        cx: &mut Cx<'_>,
        (table, position): (&TablePlan, usize),
        row: &[Value],
    ) -> Result<Option<FatPtr>, StatementStop> {
        let codec = &table.keys[position];
        let keys = cx.in_parts(|cx| codec.key_row(row, cx.eval)).await?;
        if codec.encode_row(&keys, &mut self.old_key) {
            return Ok(None);
        }
        std::mem::swap(&mut self.old_key, &mut self.new_key);
        let partition = table.def.partition_of(row, &mut self.old_key);
        let at = (table.index_def(position), partition);
        self.lock_key(cx, at).await?;
        let mark = cx.tx.reads_mark();
        let entry = find(cx.tx, at, &self.new_key).await?;
        if cx.tx.isolation() == Isolation::ReadCommitted {
            // The insert itself guarantees that there is no duplicate.
            cx.tx.forget_reads(mark);
        }
        Ok(entry.map(FatPtr::from_words))
    }

    /// Adds an index entry. Returns false if its key is taken.
    async fn add_entry(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        (position, partition): (usize, u32),
        row: &[Value],
        place: FatPtr,
    ) -> Result<bool, StatementStop> {
        let index = table.index_def(position);
        entry(cx, (table, position), row, place.addr, &mut self.new_key).await?;
        let at = (index, partition);
        self.lock_key(cx, at).await?;
        let added = try_insert(cx.tx, at, &self.new_key, place.to_words()).await?;
        Ok(matches!(added, Insert::Done))
    }

    /// Waits for transactions that insert the key in `new_key`, and makes others wait for this one,
    /// if the index is unique. After `KEY_LOCKS_MAX` keys a statement takes no more locks: further
    /// keys are compared only at the commit.
    async fn lock_key(
        &mut self,
        cx: &mut Cx<'_>,
        (index, partition): (&IndexDef, u32),
    ) -> Result<(), StatementStop> {
        if !index.unique || self.keys_locked == KEY_LOCKS_MAX {
            return Ok(());
        }
        self.keys_locked += 1;
        let key = key_lock(index, partition, &self.new_key);
        cx.queue(key, Strength::Update).await
    }

    /// Returns where to allocate a new row of a partition.
    fn near(&self, table: &TablePlan, partition: u32) -> ObjectLocation {
        let last = self.last.filter(|(last, _)| *last == partition);
        table.near(partition, last.map(|(_, addr)| addr))
    }

    async fn conflicts(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        row: &[Value],
        yields: Yield,
    ) -> Result<bool, StatementStop> {
        for (position, codec) in table.keys.iter().enumerate() {
            let asked = yields == Yield::Any || yields == Yield::Index(position);
            if !asked || !codec.is_unique() || !table.has_entry(cx, position, row).await? {
                continue;
            }
            let keys = cx.in_parts(|cx| codec.key_row(row, cx.eval)).await?;
            if codec.encode_row(&keys, &mut self.new_key) {
                continue;
            }
            let partition = table.def.partition_of(row, &mut self.old_key);
            let at = (table.index_def(position), partition);
            self.lock_key(cx, at).await?;
            if let Some(holder) = find(cx.tx, at, &self.new_key).await? {
                await_writers(cx, FatPtr::from_words(holder).addr).await?;
            }
            if is_taken(cx.tx, at, &self.new_key).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn insert_entry(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        (position, partition): (usize, u32),
        row: &[Value],
        place: FatPtr,
    ) -> Result<(), StatementStop> {
        let index = table.index_def(position);
        entry(cx, (table, position), row, place.addr, &mut self.new_key).await?;
        let at = (index, partition);
        self.lock_key(cx, at).await?;
        let mut added = try_insert(cx.tx, at, &self.new_key, place.to_words()).await?;
        if let Insert::Exists(holder) = added {
            await_writers(cx, FatPtr::from_words(holder).addr).await?;
            added = insert(cx.tx, at, &self.new_key, place.to_words()).await?;
        }
        match added {
            Insert::Done if index.more.deferrable.is_some() => {
                Box::pin(record_duplicate(cx, table, (position, partition), row)).await
            }
            Insert::Done => Ok(()),
            Insert::Exists(_) => Err(duplicate(&table.def, index, row, &cx.eval.settings).into()),
        }
    }

    /// Replaces the row `old` at `place` by `new`; only `changed` columns may differ. Returns its
    /// new address. The row lock lets others reference the row; a change of a key waits for
    /// transactions that reference it.
    pub async fn update(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        place: FatPtr,
        (old, new): (&[Value], &[Value]),
        changed: &[usize],
    ) -> Result<Addr, StatementStop> {
        if let Some(leaves) = &table.leaves {
            let rows = (old, new);
            return Box::pin(self.update_routed(cx, (table, leaves), place, rows, changed)).await;
        }
        check_row(cx, table, new, Some(changed)).await?;
        cx.count(table.def.id, Count::Updated, 1);
        table.layout.encode(new, &mut self.words)?;
        let partition = table.def.partition_of(old, &mut self.new_key);
        let leaves = table.def.partitioning.is_some()
            && changed.iter().any(|c| table.def.is_partition_column(*c))
            && table.def.partition_of(new, &mut self.new_key) != partition;
        let near = table.near(partition, None);
        let touched = |i: &IndexDef| i.is_partial() || changed.iter().any(|c| i.depends_on(*c));
        let touched = table.def.indexes.iter().any(touched);
        if leaves || touched && changes_keys(&table.def, (old, new), changed) {
            cx.queue(place.addr, Strength::Update).await?;
        }
        if leaves || !update_row(cx.tx, place, &self.words, near).await? {
            return Box::pin(self.move_row(cx, table, place, old, new)).await;
        }
        if touched {
            let at = (place, partition);
            Box::pin(self.update_entries(cx, table, at, (old, new), changed)).await?;
        }
        Ok(place.addr)
    }

    /// Updates the index entries of a row that keeps its object and partition.
    async fn update_entries(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        (place, partition): (FatPtr, u32),
        (old, new): (&[Value], &[Value]),
        changed: &[usize],
    ) -> Result<(), StatementStop> {
        for position in 0..table.keys.len() {
            let index = table.index_def(position);
            if !index.is_partial() && !changed.iter().any(|c| index.depends_on(*c)) {
                continue;
            }
            let had = table.has_entry(cx, position, old).await?;
            let has = table.has_entry(cx, position, new).await?;
            if had {
                entry(cx, (table, position), old, place.addr, &mut self.old_key).await?;
            }
            if has {
                entry(cx, (table, position), new, place.addr, &mut self.new_key).await?;
            }
            if had == has && (!had || self.old_key == self.new_key) {
                continue;
            }
            if had {
                remove(cx.tx, (index, partition), &self.old_key).await?;
            }
            if has {
                let at = (position, partition);
                self.insert_entry(cx, table, at, new, place).await?;
            }
        }
        Ok(())
    }

    /// Moves a row that has outgrown its object, or leaves its partition (ROW-2). `words` has its
    /// encoding.
    async fn move_row(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        from: FatPtr,
        old: &[Value],
        new: &[Value],
    ) -> Result<Addr, StatementStop> {
        let leaves = table.def.partition_of(old, &mut self.old_key);
        let enters = table.def.partition_of(new, &mut self.new_key);
        let near = match leaves == enters {
            true => table.near(enters, Some(from.addr)),
            false => self.near(table, enters),
        };
        let to = insert_row(cx.tx, &self.words, near).await?;
        free_row(cx.tx, from.addr).await?;
        for position in 0..table.keys.len() {
            let index = table.index_def(position);
            let stays = leaves == enters || !index.roots.are_partitioned();
            let had = table.has_entry(cx, position, old).await?;
            let has = table.has_entry(cx, position, new).await?;
            if had {
                entry(cx, (table, position), old, from.addr, &mut self.old_key).await?;
            }
            if has {
                entry(cx, (table, position), new, to.addr, &mut self.new_key).await?;
            }
            if had && has && stays && self.old_key == self.new_key {
                replace(cx.tx, (index, enters), &self.new_key, to.to_words()).await?;
                continue;
            }
            if had {
                remove(cx.tx, (index, leaves), &self.old_key).await?;
            }
            if has {
                let at = (position, enters);
                self.insert_entry(cx, table, at, new, to).await?;
            }
        }
        Ok(to.addr)
    }

    /// Deletes the row `old` at `place`.
    pub async fn delete(
        &mut self,
        cx: &mut Cx<'_>,
        table: &TablePlan,
        place: FatPtr,
        old: &[Value],
    ) -> Result<(), StatementStop> {
        if let Some(leaves) = &table.leaves {
            let leaf = leaves.leaf_of(table, old, &cx.eval.settings)?;
            return Box::pin(self.delete(cx, leaves.plan(leaf), place, old)).await;
        }
        cx.count(table.def.id, Count::Deleted, 1);
        let partition = table.def.partition_of(old, &mut self.old_key);
        for position in 0..table.keys.len() {
            if !table.has_entry(cx, position, old).await? {
                continue;
            }
            entry(cx, (table, position), old, place.addr, &mut self.old_key).await?;
            let at = (table.index_def(position), partition);
            match &mut self.removals {
                Some(removals) => removals.add(cx, position, at, &self.old_key).await?,
                None => remove(cx.tx, at, &self.old_key).await?,
            }
        }
        free_row(cx.tx, place.addr).await?;
        Ok(())
    }
}

/// The routing of rows of partitioned tables to their leaves.
impl RowWriter {
    async fn insert_routed(
        &mut self,
        cx: &mut Cx<'_>,
        (table, leaves): (&TablePlan, &Leaves),
        row: &[Value],
        yields: Yield,
    ) -> Result<Inserted, StatementStop> {
        let leaf = leaves.leaf_of(table, row, &cx.eval.settings)?;
        let yields = match yields {
            Yield::Index(index) => Yield::Index(leaves.index_in(table, index, leaf)?),
            other => other,
        };
        // Entries can be collected for only one table.
        self.entries = Entries::AtOnce;
        self.insert(cx, leaves.plan(leaf), row, yields).await
    }

    async fn update_routed(
        &mut self,
        cx: &mut Cx<'_>,
        (table, leaves): (&TablePlan, &Leaves),
        place: FatPtr,
        (old, new): (&[Value], &[Value]),
        changed: &[usize],
    ) -> Result<Addr, StatementStop> {
        let from = leaves.leaf_of(table, old, &cx.eval.settings)?;
        let to = leaves.leaf_of(table, new, &cx.eval.settings)?;
        if from == to {
            let rows = (old, new);
            return self
                .update(cx, leaves.plan(from), place, rows, changed)
                .await;
        }
        let enters = leaves.plan(to);
        check_row(cx, enters, new, Some(changed)).await?;
        cx.queue(place.addr, Strength::Update).await?;
        self.delete(cx, leaves.plan(from), place, old).await?;
        self.entries = Entries::AtOnce;
        self.insert(cx, enters, new, Yield::Never).await?;
        Ok(self.last.map_or(Addr::NULL, |(_, addr)| addr))
    }
}
