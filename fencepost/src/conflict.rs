//! Describes the row or index of a conflict for the DETAIL of a 40001.
//!
//! The transaction layer knows only the object. This module searches for it afterwards, at the cost
//! of a look at every table. A row is found through the first index of its table; a node names its
//! tree.

use std::sync::Arc;

use fencepost_btree as btree;
use fencepost_hashtable::HashTable;
use fencepost_planner::{TablePlan, is_key_lock, key_text, row_at};
use fencepost_sql::catalog::{Catalog, IndexDef, IndexKind, TableDef};
use fencepost_sql::settings::Settings;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{Mode, Transaction};

use crate::database::Shared;

/// The kind of object, by its payload.
enum Shape {
    /// A leaf of the tree with this root, and the value of its first entry.
    Leaf(Addr, Option<[u64; 2]>),
    /// Any other object: possibly a row or a bucket.
    Other,
}

/// A description of the object of a conflict.
#[derive(Debug)]
pub(crate) struct ConflictObject {
    /// The oid of the object's table, or 0.
    pub table: u32,
    /// The description in words.
    pub what: String,
}

/// Describes the object at `addr`. Returns `None` if the object is freed or means nothing to a
/// client.
pub(crate) async fn describe(
    shared: &Shared,
    catalog: &Catalog,
    addr: Addr,
    settings: &Settings,
) -> Option<ConflictObject> {
    let mut tx = shared.machine.coordinator().begin(Mode::ReadOnly);
    let found = find(catalog, &mut tx, addr, settings).await;
    // The caller already reports an error; this only adds detail.
    found.ok().flatten()
}

/// Returns the table, among `tables`, that the object at `addr` belongs to.
pub(crate) async fn table_of(
    shared: &Shared,
    addr: Addr,
    tables: &[Arc<TablePlan>],
    settings: &Settings,
) -> Option<u32> {
    let mut tx = shared.machine.coordinator().begin(Mode::ReadOnly);
    let shape = shape(&mut tx, addr).await.ok()??;
    for plan in tables.iter().filter(|plan| !plan.def.is_parent()) {
        let found = in_table(&mut tx, plan, addr, &shape, settings).await;
        if found.is_ok_and(|found| found.is_some()) {
            return Some(plan.def.id);
        }
    }
    None
}

/// Returns the timestamp of the last write of the object at `addr`.
pub(crate) async fn written_at(shared: &Shared, addr: Addr) -> Option<u64> {
    if is_key_lock(addr) {
        return None;
    }
    let mut tx = shared.machine.coordinator().begin(Mode::ReadOnly);
    let (_, seen) = tx.view(addr, None, |_| ()).await.ok()??;
    Some(seen.timestamp().raw())
}

async fn shape(tx: &mut Transaction, addr: Addr) -> Result<Option<Shape>, StatementStop> {
    if is_key_lock(addr) {
        return Ok(None);
    }
    let shape = tx.view(addr, None, |view| match btree::leaf(view) {
        Some((tree, first)) => Shape::Leaf(tree, first),
        None => Shape::Other,
    });
    Ok(shape.await?.map(|(shape, _)| shape))
}

async fn find(
    catalog: &Catalog,
    tx: &mut Transaction,
    addr: Addr,
    settings: &Settings,
) -> Result<Option<ConflictObject>, StatementStop> {
    let Some(shape) = shape(tx, addr).await? else {
        return Ok(None);
    };
    if addr == catalog.heart() {
        let what = "The definitions of tables".to_owned();
        return Ok(Some(ConflictObject { table: 0, what }));
    }
    for def in catalog.snapshot(tx).await?.tables() {
        let table = def.id;
        if def.guards.all().any(|guard| guard == addr) {
            let what = format!("The definition of table \"{}\"", def.name);
            return Ok(Some(ConflictObject { table, what }));
        }
        if def.is_parent() {
            // The rows belong to its partitions.
            continue;
        }
        let plan = TablePlan::new(&def);
        if let Some(what) = in_table(tx, &plan, addr, &shape, settings).await? {
            return Ok(Some(ConflictObject { table, what }));
        }
    }
    Ok(None)
}

/// Describes the object, if it belongs to the table.
async fn in_table(
    tx: &mut Transaction,
    plan: &TablePlan,
    addr: Addr,
    shape: &Shape,
    settings: &Settings,
) -> Result<Option<String>, StatementStop> {
    Ok(match shape {
        Shape::Leaf(tree, first) => leaf(tx, plan, *tree, *first, settings).await?,
        Shape::Other => match row_at(tx, plan, addr).await? {
            Some(row) => Some(match key(plan, &row, settings) {
                Some(key) => format!("The row with key {key} of table \"{}\"", plan.def.name),
                None => format!("A row of table \"{}\"", plan.def.name),
            }),
            None => bucket(tx, &plan.def, addr).await?,
        },
    })
}

async fn leaf(
    tx: &mut Transaction,
    plan: &TablePlan,
    tree: Addr,
    first: Option<[u64; 2]>,
    settings: &Settings,
) -> Result<Option<String>, StatementStop> {
    let owns = |index: &&IndexDef| {
        index.kind == IndexKind::BTree && index.roots.all().contains(&tree.raw())
    };
    let Some(index) = plan.def.indexes.iter().find(owns) else {
        return Ok(None);
    };
    let first = match first.map(FatPtr::from_words) {
        Some(ptr) => row_at(tx, plan, ptr.addr).await?,
        None => None,
    };
    let table = &plan.def.name;
    Ok(Some(match first {
        _ if index.is_hidden() => format!("The set of rows of table \"{table}\""),
        Some(row) => {
            let (names, values) = key_text(&plan.def, index, &row, settings);
            format!(
                "The set of keys of index \"{}\" of table \"{table}\" around ({names})=({values})",
                index.name
            )
        }
        None => format!(
            "The set of keys of index \"{}\" of table \"{table}\"",
            index.name
        ),
    }))
}

async fn bucket(
    tx: &mut Transaction,
    def: &TableDef,
    addr: Addr,
) -> Result<Option<String>, StatementStop> {
    for index in def.indexes.iter().filter(|i| i.kind == IndexKind::Hash) {
        let roots = index.roots.all().iter();
        let tables: Vec<_> = roots
            .map(|root| HashTable::open(Addr::from_raw(*root)))
            .collect();
        let owns = |view: &View<'_>| tables.iter().any(|table| table.owns(view));
        let owned = tx.view(addr, None, owns).await?;
        if owned.is_some_and(|(owned, _)| owned) {
            return Ok(Some(format!(
                "The set of keys of index \"{}\" of table \"{}\"",
                index.name, def.name
            )));
        }
    }
    Ok(None)
}

/// Returns the row's key for a client: of its primary key, else of any unique index.
fn key(plan: &TablePlan, row: &[Value], settings: &Settings) -> Option<String> {
    let unique = plan.def.indexes.iter().find(|index| index.unique);
    let index = plan.def.primary_key().or(unique)?;
    let (names, values) = key_text(&plan.def, index, row, settings);
    Some(format!("({names})=({values})"))
}
