//! Foreign keys that depend on a unique index or a column of the table they reference (FK-3).

use fencepost_sql::catalog::{ForeignKeyDef, TableDef, TriggerState};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::cascades::tell;
use super::changes::Changes;
use super::create::hidden_index;
use super::partition_hierarchy::partitions_of;
use crate::exec::Cx;
use crate::place::PartitionPlacement;
use crate::reclaim::drop_index;

/// A foreign key that depends on an object that is dropped.
pub struct Dependent {
    /// The oid of the referencing table.
    child: u32,
    /// The oid of the key.
    key: u32,
    /// The key and its table, as messages name them.
    name: String,
    /// The object, as messages name it.
    on: String,
    /// Whether a partition inherits the key. Messages name the key of the parent instead.
    inherited: bool,
}

/// Returns the dropped object that a foreign key depends on, if there is one. The number is the oid
/// of the referencing table.
pub type DependsOn<'a> = &'a (dyn Fn(u32, &ForeignKeyDef) -> Option<String> + Send + Sync);

/// Finds the foreign keys to `table` that depend on an object.
pub async fn dependents(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &TableDef,
    depends_on: DependsOn<'_>,
) -> Result<Vec<Dependent>, StatementStop> {
    let mut found = Vec::new();
    for id in &table.rules.referenced_by {
        let child = match *id == table.id {
            true => table,
            false => changes.by_id(cx, ddl, *id).await?,
        };
        let keys = child.rules.foreign_keys.iter();
        for key in keys.filter(|key| key.parent == table.id) {
            if let Some(on) = depends_on(*id, key) {
                found.push(Dependent {
                    child: *id,
                    key: key.id,
                    name: format!("constraint {} on table {}", key.name, child.name),
                    on,
                    inherited: child.link(key.id).is_some(),
                });
            }
        }
    }
    Ok(found)
}

/// Returns the error 2BP01 for `what`, on which foreign keys depend.
pub fn still_referenced(what: &str, dependents: &[Dependent]) -> SqlError {
    let them = match what {
        "desired object(s)" => "them",
        _ => "it",
    };
    let named = dependents.iter().filter(|dependent| !dependent.inherited);
    let lines = named.map(|dependent| format!("{} depends on {}", dependent.name, dependent.on));
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop {what} because other objects depend on {them}"),
    )
    .detail(lines.collect::<Vec<_>>().join("\n"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Reports the `dependents` that a DROP … CASCADE drops.
pub fn tell_of(dependents: &[Dependent], ddl: &mut DdlCx<'_>) {
    for dependent in dependents.iter().filter(|dependent| !dependent.inherited) {
        tell(&dependent.name, ddl);
    }
}

/// Drops foreign keys to `table`. Removes from `table` the back references of tables that no key
/// connects with it any more (FK-2).
pub async fn drop_dependents(
    dependents: &[Dependent],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let old = table.clone();
    for dependent in dependents {
        let child = match dependent.child == table.id {
            true => &mut *table,
            false => changes.by_id(cx, ddl, dependent.child).await?,
        };
        let keys = &mut child.rules.foreign_keys;
        keys.retain(|key| key.id != dependent.key);
    }
    forget_references(&old, table, cx, ddl, changes).await
}

/// Removes the index of a constraint at `position` from a table. With CASCADE, also drops the
/// foreign keys that depend on it; without CASCADE they are error 2BP01.
pub async fn drop_key(
    (position, cascade): (usize, bool),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let dropped = table.indexes[position].clone();
    let what = format!("constraint {} on table {}", dropped.name, table.name);
    let found = dependents_of_index(position, cx, ddl, changes, table).await?;
    if !found.is_empty() && !cascade {
        return Err(still_referenced(&what, &found).into());
    }
    tell_of(&found, ddl);
    drop_dependents(&found, cx, ddl, changes, table).await?;
    if position == 0 {
        let mut hidden = hidden_index(cx, ddl, table, &PartitionPlacement::with(table)).await?;
        drop_index(cx.tx, ddl.catalog.reclaim_list(), &hidden).await?;
        hidden.roots = super::build_index::build(cx, table, &hidden).await?;
        table.indexes.push(hidden);
        let last = table.indexes.len() - 1;
        table.indexes.swap(0, last);
        let dropped = table.indexes.remove(last);
        drop_index(cx.tx, ddl.catalog.reclaim_list(), &dropped).await?;
    } else {
        let dropped = table.indexes.remove(position);
        drop_index(cx.tx, ddl.catalog.reclaim_list(), &dropped).await?;
    }
    Ok(())
}

/// Finds the foreign keys that depend on the index at `position` of `table`.
pub async fn dependents_of_index(
    position: usize,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &TableDef,
) -> Result<Vec<Dependent>, StatementStop> {
    let on = format!("index {}", table.indexes[position].name);
    let depends_on = |_: u32, key: &ForeignKeyDef| {
        let depends = table.referenced_index(key) == Some(position);
        depends.then(|| on.clone())
    };
    dependents(cx, ddl, changes, table, &depends_on).await
}

/// Finds the foreign keys that depend on a column of `table`, or on an index that is dropped with
/// the column.
pub async fn dependents_of_column(
    column: usize,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &TableDef,
) -> Result<Vec<Dependent>, StatementStop> {
    let depends_on = |child: u32, key: &ForeignKeyDef| {
        if child == table.id && key.columns.contains(&column) {
            // The key is dropped with its own column.
            return None;
        }
        if key.parent_columns.contains(&column) {
            let name = &table.columns[column].name;
            return Some(format!("column {name} of table {}", table.name));
        }
        let index = &table.indexes[table.referenced_index(key)?];
        let goes = index.concerns(column);
        goes.then(|| format!("index {}", index.name))
    };
    dependents(cx, ddl, changes, table, &depends_on).await
}

/// Removes back references between `table` and other tables that a foreign key connected before
/// (`old`) and no key connects any more (FK-2).
pub async fn forget_references(
    old: &TableDef,
    table: &mut TableDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let id = table.id;
    for key in &old.rules.foreign_keys {
        let mut left = table.rules.foreign_keys.iter();
        if left.any(|k| k.parent == key.parent) {
            continue;
        }
        let parent = match key.parent == id {
            true => &mut *table,
            false => changes.by_id(cx, ddl, key.parent).await?,
        };
        parent.rules.referenced_by.retain(|child| *child != id);
    }
    let mut children = table.rules.referenced_by.clone();
    for child in table.rules.referenced_by.iter().filter(|c| **c != id) {
        let def = changes.by_id(cx, ddl, *child).await?;
        if def.rules.foreign_keys.iter().all(|key| key.parent != id) {
            children.retain(|c| c != child);
        }
    }
    table.rules.referenced_by = children;
    Ok(())
}

/// Runs ENABLE and DISABLE TRIGGER ALL: switches the checks of a table's foreign keys, and the
/// actions of foreign keys that reference the table.
pub async fn switch_keys(
    enabled: TriggerState,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let off = enabled == TriggerState::Disabled;
    let id = table.id;
    for key in &mut table.rules.foreign_keys {
        key.unchecked = off;
        key.inert = if key.parent == id { off } else { key.inert };
    }
    for child in table.rules.referenced_by.iter().filter(|c| **c != id) {
        let child = changes.by_id(cx, ddl, *child).await?;
        let keys = child.rules.foreign_keys.iter_mut();
        keys.filter(|key| key.parent == id)
            .for_each(|key| key.inert = off);
    }
    Ok(())
}

/// Does the same for all partitions below a table.
pub async fn switch_keys_below(
    table: u32,
    enabled: TriggerState,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for id in partitions_of(ddl, table)? {
        let mut partition = changes.by_id(cx, ddl, id).await?.clone();
        switch_keys(enabled, cx, ddl, changes, &mut partition).await?;
        changes.put(partition);
        Box::pin(switch_keys_below(id, enabled, cx, ddl, changes)).await?;
    }
    Ok(())
}
