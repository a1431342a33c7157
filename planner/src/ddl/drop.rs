//! DROP TABLE, DROP INDEX, TRUNCATE.

use std::sync::Arc;

use fencepost_sql::bound::{DropIndex, DropTable, RowRules, Trigger, Truncate};
use fencepost_sql::catalog::{
    CatalogView, GuardScope, IndexDef, TableDef, guard_routine, guard_table,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::ROW_TYPE;

use super::cascades::tell;
use super::changes::{Changes, check_settled};
use super::hierarchy_keys::{WholeKey, drop_foreign_key, keys_to_wholes};
use super::partition_hierarchy::{partitions_of, unlink, with_partitions};
use super::referencing::{dependents_of_index, drop_dependents, still_referenced, tell_of};
use super::routine::drop_row_users;
use super::rules::drop_references;
use super::sequence::{drop_owned, restart_owned};
use super::view::drop_views_of;
use super::{DdlCx, Notice};
use crate::exec::Cx;
use crate::index;
use crate::place::PartitionPlacement;
use crate::plan::TablePlan;
use crate::reclaim::{self, drop_storage};
use crate::write::{PendingTriggers, StatementEvent};

/// Runs DROP TABLE and DROP MATERIALIZED VIEW. Returns the command tag.
pub async fn drop_table(
    statement: &DropTable,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let what = match statement.materialized {
        true => "materialized view",
        false => "table",
    };
    missing(&statement.missing, what, ddl);
    if statement.tables.is_empty() {
        return Ok(statement.tag());
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let tables = (statement.tables.as_slice(), statement.cascade);
    drop_tables(tables, &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(statement.tag())
}

/// Drops tables and their dependent objects, except views that are in `already_dropped`.
pub async fn drop_tables(
    (tables, cascade): (&[Arc<TableDef>], bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let tables = &with_partitions(tables, ddl)?[..];
    let goes = |id: &u32| tables.iter().any(|table| table.id == *id);
    drop_views_of((tables, cascade), already_dropped, cx, ddl, changes).await?;
    for table in tables {
        if let Some(of) = table.partition_of_table().filter(|of| !goes(&of.parent)) {
            changes.by_id(cx, ddl, of.parent).await?;
        }
        let referencing = table.rules.referenced_by.iter().filter(|id| !goes(id));
        for child in referencing {
            let child = changes.by_id(cx, ddl, *child).await?;
            if !cascade {
                return Err(still_needed(table, child, table.id).into());
            }
            drop_references(child, ddl, &|key| key.parent == table.id);
        }
        drop_keys_to_wholes(table, (cascade, &goes), cx, ddl, changes).await?;
        for key in &table.rules.foreign_keys {
            if !goes(&key.parent) {
                let parent = changes.by_id(cx, ddl, key.parent).await?;
                parent.rules.referenced_by.retain(|id| *id != table.id);
            }
        }
    }
    for table in tables {
        let of_rows = (table.id | ROW_TYPE, table.name.as_str());
        Box::pin(drop_row_users(of_rows, cascade, cx, ddl, changes)).await?;
    }
    for table in tables {
        remove_table(table, cx, ddl, changes).await?;
    }
    Ok(())
}

/// Drops the foreign keys to a partitioned table when one of its partitions is dropped. Without
/// CASCADE they are error 2BP01.
async fn drop_keys_to_wholes(
    partition: &TableDef,
    (cascade, goes): (bool, &(dyn Fn(&u32) -> bool + Send + Sync)),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for WholeKey { child, whole, key } in keys_to_wholes(ddl.snapshot, partition)? {
        if goes(&child.id) || goes(&whole.id) {
            continue;
        }
        if !cascade {
            return Err(still_needed(partition, &child, whole.id).into());
        }
        tell(
            format_args!("constraint {} on table {}", key.name, child.name),
            ddl,
        );
        drop_foreign_key(key.id, child.id, cx, ddl, changes).await?;
    }
    Ok(())
}

/// Removes a table without dependent objects: its rows, its trees and its sequences.
pub async fn remove_table(
    table: &TableDef,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    if !guard_table(cx.tx, table, GuardScope::Commit).await? {
        return Err(StatementStop::Stale);
    }
    check_settled(cx, table)?;
    // A routine cannot exist without a type of its signature.
    let of_rows = (table.id | ROW_TYPE, table.name.as_str());
    Box::pin(drop_row_users(of_rows, true, cx, ddl, changes)).await?;
    if !table.is_parent() {
        drop_storage(cx.tx, ddl.catalog.reclaim_list(), table).await?;
    }
    let owned = table.columns.iter().filter_map(|c| c.more.sequence);
    drop_owned(owned, cx, ddl).await?;
    ddl.catalog.remove_table(cx.tx, table).await?;
    changes.forget(table.id);
    Ok(())
}

/// Returns error 2BP01: `child` has foreign keys to `table`, or to `parent`, which has `table` as a
/// partition.
fn still_needed(table: &TableDef, child: &TableDef, parent: u32) -> SqlError {
    let keys = child.rules.foreign_keys.iter();
    let keys = keys.filter(|key| key.parent == parent).map(|key| {
        format!(
            "constraint {} on table {} depends on table {}",
            key.name, child.name, table.name
        )
    });
    let message = format!(
        "cannot drop table {} because other objects depend on it",
        table.name
    );
    SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
        .detail(keys.collect::<Vec<_>>().join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Runs DROP INDEX. Returns the command tag.
pub async fn drop_index(
    statement: &DropIndex,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    missing(&statement.missing, "index", ddl);
    if statement.indexes.is_empty() {
        return Ok("DROP INDEX");
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut found = Vec::new();
    for (owner, name) in &statement.indexes {
        let table = changes.take(cx, owner).await?.clone();
        let named = |index: &IndexDef| !index.is_hidden() && index.name == *name;
        if let Some(position) = table.indexes.iter().position(named) {
            check_droppable(owner, (&table, position), ddl)?;
            found.extend(dependents_of_index(position, cx, ddl, &mut changes, &table).await?);
        }
    }
    if !found.is_empty() && !statement.cascade {
        let what = match statement.indexes.as_slice() {
            [(_, name)] => format!("index {name}"),
            _ => "desired object(s)".to_owned(),
        };
        return Err(still_referenced(&what, &found).into());
    }
    tell_of(&found, ddl);
    for (owner, name) in &statement.indexes {
        let mut table = changes.take(cx, owner).await?.clone();
        let Some(index) = table.index(name).map(|index| index.id) else {
            continue;
        };
        drop_dependents(&found, cx, ddl, &mut changes, &mut table).await?;
        drop_with_parts(cx, ddl, &mut changes, &mut table, index).await?;
        changes.put(table);
    }
    changes.finish(cx, ddl).await?;
    Ok("DROP INDEX")
}

/// Returns error 2BP01 if an index belongs to a constraint, or to an index of the parent table.
fn check_droppable(
    owner: &TableDef,
    (table, position): (&TableDef, usize),
    ddl: &DdlCx<'_>,
) -> Result<(), SqlError> {
    let index = &table.indexes[position];
    let name = &index.name;
    let needed_by = match table.link(index.id) {
        Some(of) => parents_index(owner, of, ddl)?,
        None if index.constraint => format!("constraint {name} on table {}", table.name),
        None => return Ok(()),
    };
    Err(SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop index {name} because {needed_by} requires it"),
    )
    .hint(format!("You can drop {needed_by} instead.")))
}

/// Returns the description, for messages, of the index with this oid of the parent of `table`.
fn parents_index(table: &TableDef, id: u32, ddl: &DdlCx<'_>) -> Result<String, SqlError> {
    let of = table.partition_of_table().map_or(0, |of| of.parent);
    let parent = ddl.snapshot.table_by_id(of)?;
    let name = parent.and_then(|parent| {
        let mut indexes = parent.indexes.iter();
        indexes.find(|index| index.id == id).map(|i| i.name.clone())
    });
    Ok(format!("index {}", name.unwrap_or_default()))
}

/// Drops an index, and the partitions' indexes that belong to it.
async fn drop_with_parts(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
    id: u32,
) -> Result<(), StatementStop> {
    for member in partitions_of(ddl, table.id)? {
        let mut partition = changes.by_id(cx, ddl, member).await?.clone();
        if let Some(own) = partition.linked(id) {
            Box::pin(drop_with_parts(cx, ddl, changes, &mut partition, own)).await?;
            unlink(&mut partition, own);
            changes.put(partition);
        }
    }
    if let Some(at) = table.indexes.iter().position(|index| index.id == id) {
        let index = table.indexes.remove(at);
        reclaim::drop_index(cx.tx, ddl.catalog.reclaim_list(), &index).await?;
    }
    Ok(())
}

/// Runs TRUNCATE: new, empty trees replace the old ones. Returns the command tag.
pub async fn truncate(
    statement: &Truncate,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "TRUNCATE TABLE";
    if statement.tables.is_empty() {
        return Ok(TAG);
    }
    let tables = with_partitions(&statement.tables, ddl)?;
    for table in &statement.tables {
        check_not_referenced(table, &tables, ddl)?;
    }
    for table in &statement.tables[statement.named..] {
        let message = format!("truncate cascades to table \"{}\"", table.name);
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let mut pending = PendingTriggers::default();
    for (table, triggers) in with_triggers(statement) {
        for trigger in triggers {
            if !guard_routine(cx.tx, &trigger.routine, GuardScope::Commit).await? {
                return Err(StatementStop::Stale);
            }
        }
        let rules = RowRules {
            triggers: triggers.clone(),
            ..RowRules::default()
        };
        let table = Arc::new(TablePlan::written(table, rules));
        Box::pin(pending.begin(cx, &table, StatementEvent::TRUNCATE)).await?;
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for table in &tables {
        let mut emptied = changes.take(cx, table).await?.clone();
        if !table.is_parent() {
            empty(cx, ddl, &mut emptied).await?;
        }
        if statement.restart {
            let owned = table.columns.iter().filter_map(|c| c.more.sequence);
            restart_owned(owned, cx, ddl).await?;
        }
        changes.put(emptied);
    }
    changes.finish(cx, ddl).await?;
    Box::pin(pending.finish(cx)).await?;
    Ok(TAG)
}

/// Returns the tables with triggers that TRUNCATE fires.
fn with_triggers(statement: &Truncate) -> impl Iterator<Item = (&Arc<TableDef>, &Vec<Trigger>)> {
    let all = statement.tables.iter().zip(&statement.triggers);
    all.filter(|(_, triggers)| !triggers.is_empty())
}

/// Returns error 0A000 if a table that is not truncated references `table`.
fn check_not_referenced(
    table: &TableDef,
    tables: &[Arc<TableDef>],
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let goes = |id: &u32| tables.iter().any(|table| table.id == *id);
    let mut children = table.rules.referenced_by.iter();
    let Some(child) = children.find(|id| !goes(id)) else {
        return Ok(());
    };
    let child = ddl.snapshot.table_by_id(*child)?;
    let child = child.map_or_else(String::new, |child| child.name.clone());
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "cannot truncate a table referenced in a foreign key constraint",
    )
    .detail(format!("Table \"{child}\" references \"{}\".", table.name))
    .hint(format!(
        "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
    )))
}

/// Gives a table new, empty trees, and drops the old ones with their rows.
pub async fn empty(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    drop_storage(cx.tx, ddl.catalog.reclaim_list(), table).await?;
    let before = table.clone();
    let places = PartitionPlacement::with(&before);
    for index in &mut table.indexes {
        index.roots = index::create(cx.tx, &before, index, &places).await?;
    }
    Ok(())
}

fn missing(names: &[String], what: &str, ddl: &mut DdlCx<'_>) {
    for name in names {
        ddl.notices.push(Notice::new(
            SqlState::SUCCESSFUL_COMPLETION,
            format!("{what} \"{name}\" does not exist, skipping"),
        ));
    }
}
