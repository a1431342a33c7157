//! Partitions: the objects that they inherit from the parent table, ATTACH and DETACH.
//!
//! Every partition has a counterpart of each index and constraint of its partitioned table: an
//! existing one or a new one. The partition records the link between the two
//! (`PartitionOf::links`). Partitions that are partitioned themselves pass them on.

use std::sync::Arc;

use fencepost_sql::bound::{KeyConstraint, NewCheck, NewPartition, RowRules};
use fencepost_sql::catalog::{
    Bound, CatalogView, CheckDef, HierarchyPosition, IndexDef, Level, PartitionOf, TableDef,
    TriggerDef,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::DdlCx;
use super::changes::Changes;
use super::create::{add_constraint, add_index, multiple_keys};
use super::hierarchy_keys::{check_unreferenced, give_foreign_key};
use super::rewrite::rewrite;
use super::rules::{Rows, add_check};
use super::trigger::{sort_triggers, trigger_exists};
use crate::exec::Cx;

/// Returns the oids of a table's partitions.
pub fn partitions_of(ddl: &DdlCx<'_>, table: u32) -> Result<Vec<u32>, SqlError> {
    let table = ddl.snapshot.table_by_id(table)?;
    let tree = table.as_ref().and_then(|table| table.tree());
    let members = tree.map_or(&[][..], |tree| &tree.top.members);
    Ok(members.iter().map(|member| member.table).collect())
}

/// Returns the tables, each followed by its partitions, without duplicates.
pub fn with_partitions(
    tables: &[Arc<TableDef>],
    ddl: &DdlCx<'_>,
) -> Result<Vec<Arc<TableDef>>, SqlError> {
    let mut all: Vec<Arc<TableDef>> = Vec::new();
    let mut next: Vec<Arc<TableDef>> = tables.iter().rev().cloned().collect();
    while let Some(table) = next.pop() {
        if all.iter().any(|known| known.id == table.id) {
            continue;
        }
        for id in partitions_of(ddl, table.id)?.into_iter().rev() {
            next.extend(ddl.snapshot.table_by_id(id)?);
        }
        all.push(table);
    }
    Ok(all)
}

/// Records which of the parent's indexes, constraints or triggers one of the partition's belongs
/// to.
pub fn link(table: &mut TableDef, own: u32, parents: u32) {
    if let Some(of) = table.hierarchy.as_mut().and_then(|place| place.of.as_mut()) {
        of.links.push((own, parents));
    }
}

/// Removes the link of a partition's index or constraint to that of its parent.
pub fn unlink(table: &mut TableDef, own: u32) {
    if let Some(of) = table.hierarchy.as_mut().and_then(|place| place.of.as_mut()) {
        of.links.retain(|(id, _)| *id != own);
    }
}

/// Gives a partition the constraints, indexes and triggers of its parent.
pub async fn inherit(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    parent: &TableDef,
    partition: &mut TableDef,
) -> Result<(), StatementStop> {
    for check in &parent.rules.checks {
        give_check(cx, ddl, partition, check).await?;
    }
    let named = parent.indexes.iter().filter(|index| !index.is_hidden());
    for index in named {
        give_index(cx, ddl, changes, partition, index).await?;
    }
    for key in &parent.rules.foreign_keys {
        give_foreign_key(cx, ddl, changes, partition, key).await?;
    }
    for trigger in parent.rules.triggers.iter().filter(|trigger| trigger.row) {
        give_trigger(cx, ddl, changes, partition, trigger).await?;
    }
    Ok(())
}

/// Gives a partition, and the partitions below it, the counterpart of a row trigger of its parent,
/// or updates the counterpart.
async fn give_trigger(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    partition: &mut TableDef,
    trigger: &TriggerDef,
) -> Result<(), StatementStop> {
    let known = partition.linked(trigger.id);
    let mut own = TriggerDef {
        comment: None,
        ..trigger.clone()
    };
    let mut all = partition.rules.triggers.iter_mut();
    if let Some(known) = known.and_then(|id| all.find(|own| own.id == id)) {
        (own.id, own.comment) = (known.id, known.comment.take());
        *known = own.clone();
    } else {
        let mut all = partition.rules.triggers.iter();
        if all.any(|other| other.name == own.name) {
            return Err(trigger_exists(partition, &own.name).into());
        }
        own.id = ddl.catalog.next_oid(cx.tx).await?;
        partition.rules.triggers.push(own.clone());
        link(partition, own.id, trigger.id);
    }
    sort_triggers(partition);
    for id in partitions_of(ddl, partition.id)? {
        let mut below = changes.by_id(cx, ddl, id).await?.clone();
        Box::pin(give_trigger(cx, ddl, changes, &mut below, &own)).await?;
        changes.put(below);
    }
    Ok(())
}

/// Gives the partitions of `table` the counterparts of one of its triggers.
pub async fn inherit_trigger(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &TableDef,
    trigger: &TriggerDef,
) -> Result<(), StatementStop> {
    for id in partitions_of(ddl, table.id)? {
        let mut partition = changes.by_id(cx, ddl, id).await?.clone();
        give_trigger(cx, ddl, changes, &mut partition, trigger).await?;
        changes.put(partition);
    }
    Ok(())
}

/// Applies `change` to the counterparts, in all partitions below a table, of triggers with these
/// oids. Removes a trigger if `change` returns false.
pub async fn change_triggers_below(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    (table, ids): (u32, &[u32]),
    change: &(dyn Fn(&mut TriggerDef) -> bool + Send + Sync),
) -> Result<(), StatementStop> {
    for id in partitions_of(ddl, table)? {
        let partition = changes.by_id(cx, ddl, id).await?;
        let own: Vec<u32> = ids.iter().filter_map(|id| partition.linked(*id)).collect();
        let triggers = &mut partition.rules.triggers;
        triggers.retain_mut(|trigger| !own.contains(&trigger.id) || change(trigger));
        sort_triggers(partition);
        Box::pin(change_triggers_below(cx, ddl, changes, (id, &own), change)).await?;
    }
    Ok(())
}

async fn give_check(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    partition: &mut TableDef,
    check: &CheckDef,
) -> Result<(), StatementStop> {
    let mut own = partition.rules.checks.iter();
    let id = match own.find(|own| own.name == check.name) {
        Some(own) => own.id,
        None => {
            let id = ddl.catalog.next_oid(cx.tx).await?;
            let check = CheckDef {
                id,
                ..check.clone()
            };
            partition.rules.checks.push(check);
            id
        }
    };
    link(partition, id, check.id);
    Ok(())
}

/// Gives the partitions of `table` the counterparts of one of its indexes.
pub async fn inherit_index(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &TableDef,
    index: &IndexDef,
) -> Result<(), StatementStop> {
    for id in partitions_of(ddl, table.id)? {
        let mut partition = changes.by_id(cx, ddl, id).await?.clone();
        give_index(cx, ddl, changes, &mut partition, index).await?;
        changes.put(partition);
    }
    Ok(())
}

/// Checks that a unique index contains every column of the partition key of a partition that is
/// itself partitioned. Otherwise two partitions could contain the same key.
///
/// # Errors
/// 0A000 with the missing column.
fn check_key_columns(partition: &TableDef, index: &IndexDef) -> Result<(), SqlError> {
    let Some(key) = partition.partition_key().filter(|_| index.unique) else {
        return Ok(());
    };
    let has = |column: usize| index.columns.iter().any(|of| of.column == column);
    let Some(lacking) = key.columns.iter().find(|column| !has(**column)) else {
        return Ok(());
    };
    let constraint = if index.primary {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    let (table, column) = (&partition.name, &partition.columns[*lacking].name);
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "unique constraint on partitioned table must include all partitioning columns",
    )
    .detail(format!(
        "{constraint} constraint on table \"{table}\" lacks column \"{column}\" which is part of \
         the partition key."
    )))
}

/// Gives a partition, and the partitions below it, the counterpart of an index of its parent.
async fn give_index(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    partition: &mut TableDef,
    index: &IndexDef,
) -> Result<(), StatementStop> {
    check_key_columns(partition, index)?;
    let mut free = partition.indexes.iter();
    let free = free.find(|own| {
        !own.is_hidden() && own.can_be_part_of(index) && partition.link(own.id).is_none()
    });
    let own = match free.cloned() {
        Some(own) => own,
        None if index.constraint => {
            if index.primary && partition.primary_key().is_some() {
                return Err(multiple_keys(&partition.name).into());
            }
            let key = KeyConstraint {
                name: None,
                columns: index.columns.iter().map(|c| c.column).collect(),
                deferrable: index.more.deferrable,
                nulls_equal: index.more.nulls_equal,
                options: index.more.options.clone(),
                include: index.more.include.clone(),
            };
            let kind = index.primary.then_some(index.kind);
            add_constraint(cx, ddl, partition, &key, kind, None).await?;
            let newest = partition.indexes.iter().max_by_key(|index| index.id);
            newest.cloned().unwrap_or_else(|| index.clone())
        }
        None => {
            let shape = IndexDef {
                name: String::new(),
                ..index.clone()
            };
            add_index(cx, ddl, partition, shape).await?
        }
    };
    link(partition, own.id, index.id);
    Box::pin(inherit_index(cx, ddl, changes, partition, &own)).await
}

/// Gives the partitions of `table` one of its CHECK constraints, and checks their rows if
/// `validate` is set.
async fn inherit_check(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    (table, check): (&TableDef, &CheckDef),
    (new, validate): (&NewCheck, bool),
) -> Result<(), StatementStop> {
    for id in partitions_of(ddl, table.id)? {
        let mut partition = changes.by_id(cx, ddl, id).await?.clone();
        if partition
            .rules
            .checks
            .iter()
            .all(|own| own.name != check.name)
        {
            let named = NewCheck {
                name: Some(check.name.clone()),
                ..new.clone()
            };
            add_check(cx, ddl, &mut partition, &named, validate).await?;
        }
        give_check(cx, ddl, &mut partition, check).await?;
        let mut own = partition.rules.checks.iter();
        if let Some(own) = own.find(|own| own.name == check.name).cloned() {
            let given = (new, validate);
            Box::pin(inherit_check(cx, ddl, changes, (&partition, &own), given)).await?;
        }
        changes.put(partition);
    }
    Ok(())
}

/// Gives the partitions of `table` the objects that it has and `before` did not have: constraints,
/// and indexes unless ONLY was given. `checks` has the new CHECK constraints as they were bound.
pub async fn inherit_all(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    (before, table, only): (&TableDef, &TableDef, bool),
    checks: &[(&NewCheck, bool)],
) -> Result<(), StatementStop> {
    let had = &before.rules.checks;
    let new_checks = table.rules.checks.iter();
    let new_checks = new_checks.filter(|check| had.iter().all(|old| old.id != check.id));
    for (check, new) in new_checks.zip(checks) {
        inherit_check(cx, ddl, changes, (table, check), *new).await?;
    }
    for index in table.indexes.iter().filter(|index| !index.is_hidden()) {
        if !only && before.indexes.iter().all(|old| old.id != index.id) {
            inherit_index(cx, ddl, changes, table, index).await?;
        }
    }
    let had = &before.rules.foreign_keys;
    for key in &table.rules.foreign_keys {
        if had.iter().any(|old| old.id == key.id) {
            continue;
        }
        for id in partitions_of(ddl, table.id)? {
            let mut partition = changes.by_id(cx, ddl, id).await?.clone();
            give_foreign_key(cx, ddl, changes, &mut partition, key).await?;
            changes.put(partition);
        }
    }
    Ok(())
}

/// Runs ATTACH PARTITION.
pub async fn attach(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    parent: &mut TableDef,
    new: &NewPartition,
) -> Result<(), StatementStop> {
    let stored = &new.parent;
    let mut partition = changes.take(cx, stored).await?.clone();
    check_rows(cx, ddl, parent, stored, &new.bound).await?;
    check_default(cx, parent, stored, &new.bound).await?;
    let missing = |table: &TableDef| -> Vec<Option<Value>> {
        let columns = table.columns.iter();
        columns.map(|column| column.more.missing.clone()).collect()
    };
    let whole = partition.columns.iter().all(|c| c.more.missing.is_none());
    if !whole && missing(&partition) != missing(parent) {
        if partition.is_parent() {
            return Err(SqlError::unsupported(
                "ATTACH PARTITION of a partitioned table that has got columns",
            )
            .into());
        }
        // HIERARCHY-1: the rows must be readable with the parent's layout.
        let as_it_is = |_: &Cx<'_>, row: &[Value]| Ok(row.to_vec());
        let old = TableDef::clone(stored);
        rewrite(
            cx,
            ddl,
            &old,
            &mut partition,
            RowRules::default(),
            &as_it_is,
        )
        .await?;
    }
    let hierarchy = partition
        .hierarchy
        .get_or_insert_with(|| Box::new(HierarchyPosition::default()));
    hierarchy.of = Some(PartitionOf {
        parent: parent.id,
        bound: new.bound.clone(),
        links: Vec::new(),
    });
    inherit(cx, ddl, changes, parent, &mut partition).await?;
    changes.put(partition);
    Ok(())
}

/// Runs DETACH PARTITION. The table keeps its own objects.
pub async fn detach(
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    parent: &TableDef,
    partition: &TableDef,
) -> Result<(), StatementStop> {
    check_unreferenced(cx, ddl, (parent, partition)).await?;
    let id = partition.id;
    let partition = changes.take(cx, partition).await?;
    // The triggers inherited from the parent are dropped.
    let triggers = partition.rules.triggers.iter().map(|trigger| trigger.id);
    let inherited: Vec<u32> = triggers
        .filter(|id| partition.link(*id).is_some())
        .collect();
    let triggers = &mut partition.rules.triggers;
    triggers.retain(|trigger| !inherited.contains(&trigger.id));
    change_triggers_below(cx, ddl, changes, (id, &inherited), &|_| false).await?;
    let partition = changes.by_id(cx, ddl, id).await?;
    if let Some(hierarchy) = &mut partition.hierarchy {
        hierarchy.of = None;
        if hierarchy.key.is_none() {
            partition.hierarchy = None;
        }
    }
    Ok(())
}

/// Runs ALTER INDEX … ATTACH PARTITION.
pub async fn attach_index(
    cx: &mut Cx<'_>,
    changes: &mut Changes,
    parent: &TableDef,
    index: &str,
    (partition, name): (&TableDef, &str),
) -> Result<(), StatementStop> {
    let own = partition.index(name).map_or(0, |index| index.id);
    let parents = parent.index(index).map_or(0, |index| index.id);
    match partition.linked(parents) {
        Some(linked) if linked == own => return Ok(()),
        None if partition.link(own).is_none() => {}
        _ => {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot attach index \"{name}\" as a partition of index \"{index}\""),
            )
            .detail(format!(
                "Another index is already attached for partition \"{}\".",
                partition.name
            ))
            .into());
        }
    }
    link(changes.take(cx, partition).await?, own, parents);
    Ok(())
}

/// Returns the tables with rows: the table itself, or its leaf partitions.
pub fn tables_with_rows(table: &Arc<TableDef>) -> Vec<Arc<TableDef>> {
    match table.is_parent() {
        true => table.leaves().to_vec(),
        false => vec![Arc::clone(table)],
    }
}

/// Returns error 23514 if a row of a future partition violates its partition constraint.
async fn check_rows(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    parent: &TableDef,
    partition: &Arc<TableDef>,
    bound: &Bound,
) -> Result<(), StatementStop> {
    let Some(key) = parent.partition_key() else {
        return Ok(());
    };
    let alone = Level::new(parent, key, &[(partition, bound)]);
    // The tables above, each with the oid of the partition that leads to this one.
    let mut above = Vec::new();
    let mut member = parent.clone();
    while let Some(of) = member.partition_of_table() {
        let Some(whole) = ddl.snapshot.table_by_id(of.parent)? else {
            break;
        };
        above.push((Arc::clone(&whole), member.id));
        member = TableDef::clone(&whole);
    }
    for table in tables_with_rows(partition) {
        let mut rows = Rows::of(&table);
        while let Some(row) = rows.next(cx).await? {
            let own = match (bound, parent.tree()) {
                (Bound::Default, Some(tree)) => tree.top.member_of_row(row).is_none(),
                _ => alone.member_of_row(row).is_some(),
            };
            let fits = |(whole, id): &(Arc<TableDef>, u32)| {
                let found = whole.tree().and_then(|tree| tree.top.member_of_row(row));
                found.is_some_and(|found| found.table == *id)
            };
            if !own || !above.iter().all(fits) {
                return Err(violated(
                    format!(
                        "partition constraint of relation \"{}\" is violated by some row",
                        table.name
                    ),
                    &table,
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Returns error 23514 if a row of the default partition belongs to the new partition.
pub async fn check_default(
    cx: &mut Cx<'_>,
    parent: &TableDef,
    partition: &TableDef,
    bound: &Bound,
) -> Result<(), StatementStop> {
    let (Some(key), Some(tree)) = (parent.partition_key(), parent.tree()) else {
        return Ok(());
    };
    let Some(default) = tree.top.default() else {
        return Ok(());
    };
    let alone = Level::new(parent, key, &[(partition, bound)]);
    for leaf in tree.below(default.table) {
        let leaf = &tree.leaves[leaf as usize];
        let mut rows = Rows::of(leaf);
        while let Some(row) = rows.next(cx).await? {
            if alone.member_of_row(row).is_some() {
                return Err(violated(
                    format!(
                        "updated partition constraint for default \
                         partition \"{}\" would be violated by some row",
                        leaf.name
                    ),
                    leaf,
                )
                .into());
            }
        }
    }
    Ok(())
}

fn violated(message: String, table: &TableDef) -> SqlError {
    SqlError::new(SqlState::CHECK_VIOLATION, message).table(&table.schema, &table.name)
}
