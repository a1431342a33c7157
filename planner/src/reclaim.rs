//! Dropping trees, hash tables and rows in constant time; their memory is freed later.
//!
//! ```text
//! DROP, TRUNCATE: root ─────────────▶ list ◀───────────────┐
//!                                      │ first entries     │ nodes that are left
//!                                      ▼                   │
//! transactions of [`Reclaimer`]:  free node, rows ─▶ nodes below, up to OBJECTS_PER_STEP
//! ```
//! `fencepost_sql::catalog::ReclaimList` has the list and its invariants. A structure of one node
//! is freed by the statement itself, without the list.
//!
//! # Concurrency
//! A transaction that uses a table has a guard of the table in its read set, so no transaction that
//! commits after the drop has changed the table. The reclaimer waits until no reader has a snapshot
//! from before the drop. So it needs no old versions of what it frees, and no reader loses one.

use std::sync::Arc;

use fencepost_btree::{BTree, NodeContent};
use fencepost_hashtable::HashTable;
use fencepost_sql::catalog::{Garbage, GarbageKind, IndexDef, IndexKind, ReclaimList, TableDef};
use fencepost_sql::stop::StatementStop;
use fencepost_storage::{Addr, FatPtr, Timestamp};
use fencepost_txn::{Coordinator, Machine, Mode, Outcome, Stop, Transaction};

use crate::store::{chunks_of, free_row};

/// The number of objects after which a transaction of the reclaimer takes no further node.
const OBJECTS_PER_STEP: usize = 512;
/// The number of entries that a transaction of the reclaimer reads.
const ENTRIES_PER_STEP: usize = 64;

/// Drops the trees or hash tables of an index; the rows stay.
pub async fn drop_index(
    tx: &mut Transaction,
    list: ReclaimList,
    index: &IndexDef,
) -> Result<(), StatementStop> {
    let kind = match index.kind {
        IndexKind::BTree => GarbageKind::Nodes,
        IndexKind::Hash => GarbageKind::HashTable,
    };
    drop_roots(tx, list, (index, kind)).await
}

/// Drops the rows of a table and all its indexes.
pub async fn drop_storage(
    tx: &mut Transaction,
    list: ReclaimList,
    table: &TableDef,
) -> Result<(), StatementStop> {
    let mut indexes = table.indexes.iter();
    if let Some(first) = indexes.next() {
        // The first index reaches every row (CAT-1).
        drop_roots(tx, list, (first, GarbageKind::NodesAndRows)).await?;
    }
    for index in indexes {
        drop_index(tx, list, index).await?;
    }
    Ok(())
}

async fn drop_roots(
    tx: &mut Transaction,
    list: ReclaimList,
    (index, kind): (&IndexDef, GarbageKind),
) -> Result<(), StatementStop> {
    for root in index.roots.all() {
        let whole = Garbage::whole(kind, Addr::from_raw(*root));
        if !is_small(tx, &whole).await? {
            list.add(tx, &whole).await?;
            continue;
        }
        // The structure may have grown since the snapshot.
        for of in free(tx, &whole).await?.below {
            list.add(tx, &of).await?;
        }
    }
    Ok(())
}

/// Returns whether a whole structure has one node, or one shard.
async fn is_small(tx: &mut Transaction, whole: &Garbage) -> Result<bool, Stop> {
    if whole.kind == GarbageKind::HashTable {
        return HashTable::open(whole.root).is_one_shard(tx).await;
    }
    let content = BTree::open(whole.root).node_content(tx, whole.at).await?;
    Ok(matches!(content, NodeContent::Values(_)))
}

/// The objects that a call of [`free`] has freed, and the entries of those that remain.
#[derive(Default)]
struct Freed {
    objects: usize,
    below: Vec<Garbage>,
}

/// Frees the object of an entry, and the rows of a leaf.
async fn free(tx: &mut Transaction, of: &Garbage) -> Result<Freed, Stop> {
    let mut freed = Freed::default();
    match of.kind {
        GarbageKind::HashTable => {
            let table = HashTable::open(of.root);
            if table.is_one_shard(tx).await? {
                return table.drop_table(tx).await.map(|()| freed);
            }
            let runs = table.free_root(tx).await?;
            freed.objects = 2;
            freed.below = runs.into_iter().map(|run| of.shard(run)).collect();
        }
        GarbageKind::HashShard(run) => {
            freed.objects = HashTable::open(of.root).free_run(tx, run).await?;
        }
        GarbageKind::Nodes | GarbageKind::NodesAndRows => {
            freed.objects = 1;
            match BTree::open(of.root).free_node(tx, of.at).await? {
                NodeContent::Children { level, nodes } => {
                    freed.below = nodes.into_iter().map(|at| of.child(at, level)).collect();
                }
                NodeContent::Values(values) if of.kind == GarbageKind::NodesAndRows => {
                    freed.objects += values.len();
                    for row in values {
                        free_row(tx, FatPtr::from_words(row).addr).await?;
                    }
                }
                NodeContent::Values(_) => {}
            }
        }
    }
    Ok(freed)
}

/// Returns the addresses of all dropped objects that are not free, as the transaction sees them.
///
/// # Errors
/// The errors of [`Transaction::view`].
pub async fn pending_objects(tx: &mut Transaction, list: ReclaimList) -> Result<Vec<Addr>, Stop> {
    let mut all = Vec::new();
    let mut left = list.first(tx, usize::MAX).await?;
    while let Some(of) = left.pop() {
        match of.kind {
            GarbageKind::HashTable => {
                let table = HashTable::open(of.root);
                all.extend(table.check(tx).await?.addresses);
            }
            GarbageKind::HashShard(run) => {
                all.extend(HashTable::open(of.root).run_addresses(tx, run).await?);
            }
            GarbageKind::Nodes | GarbageKind::NodesAndRows => {
                all.push(of.at);
                match BTree::open(of.root).node_content(tx, of.at).await? {
                    NodeContent::Children { level, nodes } => {
                        left.extend(nodes.into_iter().map(|at| of.child(at, level)));
                    }
                    NodeContent::Values(values) if of.kind == GarbageKind::NodesAndRows => {
                        for row in values {
                            let row = FatPtr::from_words(row).addr;
                            let chunks = chunks_of(tx, row).await?;
                            all.push(row);
                            all.extend(chunks.iter().map(|chunk| chunk.addr));
                        }
                    }
                    NodeContent::Values(_) => {}
                }
            }
        }
    }
    Ok(all)
}

/// The result of one step of the reclaimer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimStep {
    /// The list is empty.
    Idle,
    /// Readers may still use the dropped structures.
    ReadersRemain,
    /// Objects have been freed.
    Freed,
}

/// Frees the objects of the list, some with each transaction.
pub struct Reclaimer {
    coordinator: Coordinator,
    list: ReclaimList,
    /// Dropped structures, and the timestamp of the snapshot in which they were dropped.
    awaited: Option<(Timestamp, Vec<Garbage>)>,
}

impl Reclaimer {
    /// Creates a reclaimer of a machine.
    pub fn new(machine: &Arc<Machine>, list: ReclaimList) -> Reclaimer {
        Reclaimer {
            coordinator: machine.coordinator(),
            list,
            awaited: None,
        }
    }

    /// Frees some objects in one transaction.
    ///
    /// # Errors
    /// The errors of a transaction. After a conflict, for example with another machine that frees
    /// the same objects, the next step may succeed.
    pub async fn step(&mut self) -> Result<ReclaimStep, StatementStop> {
        let mut tx = self.coordinator.begin(Mode::ReadOnly);
        let mut entries = self.list.first(&mut tx, ENTRIES_PER_STEP).await?;
        let (machine, now) = (Arc::clone(tx.machine()), tx.read_timestamp());
        tx.abort();
        // Nodes below a freed root come first. Their readers have ended.
        if entries.first().is_none_or(Garbage::is_whole) {
            let (since, dropped) = self.awaited.take().unwrap_or((now, entries));
            if dropped.is_empty() {
                return Ok(ReclaimStep::Idle);
            }
            if machine.oldest() < since {
                self.awaited = Some((since, dropped));
                return Ok(ReclaimStep::ReadersRemain);
            }
            entries = dropped;
        }
        self.free_some(&entries).await?;
        Ok(ReclaimStep::Freed)
    }

    /// Frees objects of the entries, and puts the nodes that remain into the list.
    async fn free_some(&mut self, entries: &[Garbage]) -> Result<(), StatementStop> {
        let mut tx = self.coordinator.begin(Mode::ReadWrite);
        tx.set_synchronous(false);
        let mut objects = 0;
        let mut left = Vec::new();
        for entry in entries {
            if objects >= OBJECTS_PER_STEP {
                break;
            }
            self.list.remove(&mut tx, entry).await?;
            left.push(*entry);
            while objects < OBJECTS_PER_STEP
                && let Some(of) = left.pop()
            {
                let freed = free(&mut tx, &of).await?;
                objects += freed.objects;
                left.extend(freed.below);
            }
        }
        for of in &left {
            self.list.add(&mut tx, of).await?;
        }
        match tx.commit().await? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Aborted(reason) => Err(Stop::Retry(reason).into()),
        }
    }
}
