//! Which row or index a conflict was about, in words for the DETAIL of a 40001.
//!
//! The transaction layer knows the object alone. What it is to SQL is found out after the fact, at
//! the price of a look at every table: a row leads to itself through its table's first index, a
//! node names its tree.

use std::sync::Arc;

use fencepost_btree as btree;
use fencepost_hashtable::HashTable;
use fencepost_planner::{TablePlan, is_key_lock, key_text, row_at};
use fencepost_sql::catalog::{Catalog, IndexDef, IndexKind, TableDef};
use fencepost_sql::settings::Settings;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{Mode, Transaction};

use crate::database::Shared;

/// What the object's payload looks like.
enum Shape {
    /// A leaf of the tree with this root; the value of its first entry.
    Leaf(Addr, Option<[u64; 2]>),
    /// Maybe a row, or a bucket.
    Other,
}

/// An object that a conflict was about.
#[derive(Debug)]
pub(crate) struct Known {
    /// The table that it has to do with, or 0.
    pub table: u32,
    /// What it is in words.
    pub what: String,
}

/// The object at `addr`; `None` where it is nothing that a client knows, or is gone.
pub(crate) async fn describe(
    shared: &Shared,
    catalog: &Catalog,
    addr: Addr,
    settings: &Settings,
) -> Option<Known> {
    let mut tx = shared.machine.coordinator().begin(Mode::ReadOnly);
    let found = find(catalog, &mut tx, addr, settings).await;
    // There is an error to report already: this is only to say more about it.
    found.ok().flatten()
}

/// The table of `tables` that the object at `addr` has to do with.
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

/// When the object at `addr` was written last.
pub(crate) async fn written_at(shared: &Shared, addr: Addr) -> Option<u64> {
    if is_key_lock(addr) {
        return None;
    }
    let mut tx = shared.machine.coordinator().begin(Mode::ReadOnly);
    let (_, seen) = tx.view(addr, None, |_| ()).await.ok()??;
    Some(seen.timestamp().raw())
}

async fn shape(tx: &mut Transaction, addr: Addr) -> Result<Option<Shape>, Halt> {
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
) -> Result<Option<Known>, Halt> {
    let Some(shape) = shape(tx, addr).await? else {
        return Ok(None);
    };
    if addr == catalog.heart() {
        let what = "The definitions of tables".to_owned();
        return Ok(Some(Known { table: 0, what }));
    }
    for def in catalog.snapshot(tx).await?.tables() {
        let table = def.id;
        if def.guards.all().any(|guard| guard == addr) {
            let what = format!("The definition of table \"{}\"", def.name);
            return Ok(Some(Known { table, what }));
        }
        if def.is_parent() {
            // What is there is its partitions'.
            continue;
        }
        let plan = TablePlan::new(&def);
        if let Some(what) = in_table(tx, &plan, addr, &shape, settings).await? {
            return Ok(Some(Known { table, what }));
        }
    }
    Ok(None)
}

/// The object in words, if it is one of the table's.
async fn in_table(
    tx: &mut Transaction,
    plan: &TablePlan,
    addr: Addr,
    shape: &Shape,
    settings: &Settings,
) -> Result<Option<String>, Halt> {
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
) -> Result<Option<String>, Halt> {
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

async fn bucket(tx: &mut Transaction, def: &TableDef, addr: Addr) -> Result<Option<String>, Halt> {
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

/// The row's key as a client knows it: of its primary key, else of any unique index.
fn key(plan: &TablePlan, row: &[Value], settings: &Settings) -> Option<String> {
    let unique = plan.def.indexes.iter().find(|index| index.unique);
    let index = plan.def.primary_key().or(unique)?;
    let (names, values) = key_text(&plan.def, index, row, settings);
    Some(format!("({names})=({values})"))
}
