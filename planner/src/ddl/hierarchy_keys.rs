//! Foreign keys of partitions: those that a partition inherits from its parent, and those that
//! reference the partitioned table.
//!
//! A row that references a partitioned table references a row of one of its partitions. So such a
//! row must not exist when the partition is detached or dropped. DETACH searches for one. DROP
//! treats the foreign key as an object that depends on the partition.

use std::sync::Arc;

use fencepost_sql::bound::{NewForeignKey, RelatedTable, RowRules};
use fencepost_sql::catalog::{CatalogView, ForeignKeyDef, Snapshot, TableDef};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::DdlCx;
use super::changes::Changes;
use super::partition_hierarchy::{link, partitions_of, tables_with_rows};
use super::referencing::forget_references;
use super::rules::{Rows, add_foreign_key};
use crate::exec::Cx;
use crate::write::{Key, References, still_in_partition};

/// Gives a partition, and the partitions below it, the counterpart of a foreign key of its parent.
pub async fn give_foreign_key(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    partition: &mut TableDef,
    key: &ForeignKeyDef,
) -> Result<(), StatementStop> {
    let same = |own: &&ForeignKeyDef| {
        let named = ForeignKeyDef {
            id: key.id,
            name: key.name.clone(),
            index: key.index,
            unchecked: key.unchecked,
            inert: key.inert,
            ..(*own).clone()
        };
        named == *key && partition.link(own.id).is_none()
    };
    let free = partition.rules.foreign_keys.iter().find(same).cloned();
    let own = match free {
        Some(own) => own,
        None => {
            let free = !partition.has_constraint(&key.name);
            let new = NewForeignKey {
                name: free.then(|| key.name.clone()),
                columns: key.columns.clone(),
                parent: ddl.snapshot.table_by_id(key.parent)?,
                parent_columns: key.parent_columns.clone(),
                of_primary_key: false,
                on_delete: key.on_delete,
                delete_columns: key.delete_columns.clone(),
                on_update: key.on_update,
                full: key.full,
                deferrable: key.deferrable,
                deferred: key.deferred,
            };
            let validate = !partition.is_parent();
            add_foreign_key(cx, ddl, changes, partition, (&new, validate)).await?;
            let newest = partition.rules.foreign_keys.last_mut();
            if let Some(own) = newest {
                (own.valid, own.index) = (key.valid, key.index);
                (own.unchecked, own.inert) = (key.unchecked, key.inert);
            }
            let newest = partition.rules.foreign_keys.last();
            newest.cloned().unwrap_or_else(|| key.clone())
        }
    };
    link(partition, own.id, key.id);
    for id in partitions_of(ddl, partition.id)? {
        let mut below = changes.by_id(cx, ddl, id).await?.clone();
        Box::pin(give_foreign_key(cx, ddl, changes, &mut below, &own)).await?;
        changes.put(below);
    }
    Ok(())
}

/// A foreign key to a partitioned table.
pub struct WholeKey {
    /// The table that references.
    pub child: Arc<TableDef>,
    /// The partitioned table.
    pub whole: Arc<TableDef>,
    /// The foreign key.
    pub key: ForeignKeyDef,
}

/// Returns the foreign keys to partitioned tables that have `table` as a partition.
pub fn keys_to_wholes(snapshot: &Snapshot, table: &TableDef) -> Result<Vec<WholeKey>, SqlError> {
    let mut all = Vec::new();
    let above = |table: &TableDef| table.partition_of_table().map(|of| of.parent);
    let mut next = above(table);
    while let Some(id) = next {
        let Some(whole) = snapshot.table_by_id(id)? else {
            break;
        };
        for child in &whole.rules.referenced_by {
            let Some(child) = snapshot.table_by_id(*child)? else {
                continue;
            };
            let keys = child.rules.foreign_keys.iter();
            let keys = keys.filter(|key| key.parent == id && child.link(key.id).is_none());
            all.extend(keys.map(|key| WholeKey {
                child: Arc::clone(&child),
                whole: Arc::clone(&whole),
                key: key.clone(),
            }));
        }
        next = above(&whole);
    }
    Ok(all)
}

/// Returns error 23503 if a row references a row of a partition that is detached.
pub async fn check_unreferenced(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    (parent, partition): (&TableDef, &TableDef),
) -> Result<(), StatementStop> {
    for WholeKey { child, whole, key } in keys_to_wholes(ddl.snapshot, partition)? {
        let leaves = whole
            .tree()
            .map_or_else(Vec::new, |tree| tree.below(partition.id));
        let mut tables = vec![Arc::clone(&child)];
        if child.id != whole.id {
            tables.push(whole);
        }
        let related = |table: Arc<TableDef>| RelatedTable {
            table,
            rules: RowRules::default(),
            defaults: Vec::new(),
        };
        let references = References::of(tables.into_iter().map(related).collect());
        let of_child = |of: &&Key| of.child == 0 && of.def.id == key.id;
        let found = references
            .as_ref()
            .and_then(|all| Some((all, all.keys.iter().find(of_child)?)));
        let Some((references, bound)) = found else {
            return Err(SqlError::internal("a foreign key without an index").into());
        };
        for table in tables_with_rows(&child) {
            let mut rows = Rows::of(&table);
            while let Some(row) = rows.next(cx).await? {
                let values: Vec<Value> = key.columns.iter().map(|c| row[*c].clone()).collect();
                let leaf = references.leaf_of(bound, &values);
                if leaf.is_some_and(|leaf| leaves.contains(&leaf)) {
                    let settings = &cx.eval.settings;
                    let ends = (&*child, parent);
                    let error = still_in_partition(&key, ends, (partition, &values), settings);
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}

/// Drops a foreign key of a table, and its counterparts in the table's partitions.
pub async fn drop_foreign_key(
    key: u32,
    table: u32,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let old = changes.by_id(cx, ddl, table).await?.clone();
    let mut new = old.clone();
    new.rules.foreign_keys.retain(|of| of.id != key);
    forget_references(&old, &mut new, cx, ddl, changes).await?;
    changes.put(new);
    for id in partitions_of(ddl, table)? {
        let own = changes.by_id(cx, ddl, id).await?.linked(key);
        if let Some(own) = own {
            Box::pin(drop_foreign_key(own, id, cx, ddl, changes)).await?;
        }
    }
    Ok(())
}
