//! ALTER TABLE.

use std::sync::atomic::{AtomicI64, Ordering};

use fencepost_sql::binder::ObjectRename;
use fencepost_sql::bound::{
    AddColumn, AlterAction, AlterTable, NewCheck, TriggerChange, Volatility,
};
use fencepost_sql::catalog::{IndexDef, IndexKind, Object, ObjectKind, SequenceDef, TableDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::check_rules;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;

use super::changes::Changes;
use super::constraint_actions::change_constraint;
use super::create::{add_constraint, exists, hidden_index, multiple_keys};
use super::follow::rename_in_views;
use super::keep::keep;
use super::ownership::{about, store};
use super::partition_action::of_partition;
use super::partition_hierarchy::{attach, attach_index, detach, inherit_all, partitions_of};
use super::referencing::{
    dependents_of_column, drop_dependents, drop_key, forget_references, still_referenced,
    switch_keys, switch_keys_below, tell_of,
};
use super::rewrite::{rewrite, set_type};
use super::rules::{
    Rows, add_check, add_foreign_key, constraint_name, validate_foreign_key, validate_named_check,
};
use super::schema_elements::run_each;
use super::sequence::{add_for_column, drop_owned};
use super::trigger::{change_below, change_triggers};
use super::type_names::check_not_type;
use super::{DdlCx, Notice};
use crate::exec::Cx;
use crate::place::PartitionPlacement;
use crate::reclaim::drop_index;
use crate::write::contains_nulls;

/// Runs ALTER TABLE, and ALTER INDEX. Returns the command tag.
pub async fn alter_table(
    statement: &AlterTable,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let tag = statement.tag();
    let Some(table) = &statement.table else {
        if !matches!(
            statement.actions[..],
            [] | [AlterAction::Trigger(_) | AlterAction::RenameIndex { .. }]
        ) {
            // The relation is not a table, and there is nothing to do.
            return Ok(tag);
        }
        let message = format!("relation \"{}\" does not exist, skipping", statement.name);
        notice(ddl, SqlState::SUCCESSFUL_COMPLETION, message);
        return Ok(tag);
    };
    let mut changes = match statement.keeps_plans() {
        true => Changes::begin_unnoticed(cx, ddl).await?,
        false => Changes::begin(cx, ddl).await?,
    };
    let mut table = changes.take(cx, table).await?.clone();
    for action in &statement.actions {
        let only = statement.only;
        act_on_all(action, cx, ddl, &mut changes, (&mut table, only)).await?;
    }
    forget_columns(&table, &statement.actions, cx, ddl).await?;
    changes.put(table);
    changes.finish(cx, ddl).await?;
    if !statement.later.is_empty() {
        run_each(&statement.later, &|_| Ok(()), cx, ddl).await?;
    }
    Ok(tag)
}

/// Applies an action to a table and its partitions.
async fn act_on_all(
    action: &AlterAction,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    (table, only): (&mut TableDef, bool),
) -> Result<(), StatementStop> {
    let before = table.is_parent().then(|| table.clone());
    Box::pin(act(action, cx, ddl, changes, table)).await?;
    let Some(before) = before else {
        return Ok(());
    };
    if let AlterAction::Trigger(change) = action {
        if !only
            && let TriggerChange::Enable {
                enabled,
                keys: true,
                ..
            } = change
        {
            let table = table.id;
            Box::pin(switch_keys_below(table, *enabled, cx, ddl, changes)).await?;
        }
        if only {
            return Ok(());
        }
        let tables = (&before, &*table);
        return Box::pin(change_below(change, cx, ddl, changes, tables)).await;
    }
    if let Some(checks) = Box::pin(act_below(action, cx, ddl, changes, (&before, table))).await? {
        let tables = (&before, &*table, only);
        Box::pin(inherit_all(cx, ddl, changes, tables, &checks)).await?;
    }
    Ok(())
}

/// Applies an action to the partitions of a table, if it changes them as it changes the table.
/// Returns the CHECK constraints of the action if the table may have new constraints that its
/// partitions must inherit.
async fn act_below<'a>(
    action: &'a AlterAction,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    (before, table): (&TableDef, &TableDef),
) -> Result<Option<Vec<(&'a NewCheck, bool)>>, StatementStop> {
    let column;
    let below = match action {
        AlterAction::AddCheck(check, validate) => return Ok(Some(vec![(check, *validate)])),
        AlterAction::AddForeignKey(..)
        | AlterAction::AddUnique(_)
        | AlterAction::AddPrimaryKey(_) => return Ok(Some(Vec::new())),
        AlterAction::AddColumn(add) if add.sequence.is_some() => {
            return Err(SqlError::unsupported(
                "ADD COLUMN of a serial or identity column to a partitioned table",
            )
            .into());
        }
        AlterAction::AddColumn(add) => {
            column = AlterAction::AddColumn(Box::new(AddColumn {
                primary_key: None,
                unique: Vec::new(),
                checks: Vec::new(),
                foreign_keys: Vec::new(),
                ..(**add).clone()
            }));
            &column
        }
        AlterAction::DropColumn { .. }
        | AlterAction::RenameColumn { .. }
        | AlterAction::SetDefault { .. }
        | AlterAction::SetNotNull { .. }
        | AlterAction::DropExpression { .. }
        | AlterAction::SetType(_)
        | AlterAction::DropConstraint { .. }
        | AlterAction::RenameConstraint { .. } => action,
        _ => return Ok(None),
    };
    for id in partitions_of(ddl, table.id)? {
        let mut partition = changes.by_id(cx, ddl, id).await?.clone();
        if let Some(own) = of_partition(below, before, &partition) {
            let own = own.as_ref().unwrap_or(below);
            Box::pin(act_on_all(own, cx, ddl, changes, (&mut partition, false))).await?;
        }
        changes.put(partition);
    }
    Ok(match action {
        AlterAction::AddColumn(add) => Some(add.checks.iter().map(|check| (check, true)).collect()),
        _ => None,
    })
}

/// Removes the privileges on dropped columns, and renumbers those on the columns behind them.
async fn forget_columns(
    table: &TableDef,
    actions: &[AlterAction],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let object = Object::new(ObjectKind::Table, table.id);
    let before = about(object, ddl);
    let mut after = before.clone();
    for action in actions {
        if let AlterAction::DropColumn { column, .. } = action {
            after.remove_column(i16::try_from(column + 1).unwrap_or(i16::MAX));
        }
    }
    match after == before {
        true => Ok(()),
        false => store(&after, object, cx, ddl).await,
    }
}

fn notice(ddl: &mut DdlCx<'_>, state: SqlState, message: String) {
    ddl.notices.push(Notice::new(state, message));
}

async fn act(
    action: &AlterAction,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    match action {
        AlterAction::Keep { index, what } => Ok(keep(table, index.as_deref(), what)?),
        AlterAction::Trigger(change) => {
            change_triggers(change, cx, ddl, table).await?;
            match change {
                TriggerChange::Enable {
                    enabled,
                    keys: true,
                    ..
                } => switch_keys(*enabled, cx, ddl, changes, table).await,
                _ => Ok(()),
            }
        }
        AlterAction::AttachPartition(new) => attach(cx, ddl, changes, table, new).await,
        AlterAction::DetachPartition(partition) => detach(cx, ddl, changes, table, partition).await,
        AlterAction::AttachIndex {
            index,
            partition,
            of_partition,
        } => attach_index(cx, changes, table, index, (partition, of_partition)).await,
        AlterAction::Notice(state, message) => {
            notice(ddl, *state, message.clone());
            Ok(())
        }
        AlterAction::AddIdentity(identity, new) => {
            add_for_column(new, table, cx, ddl).await?;
            table.columns[new.column].more.identity = Some(*identity);
            Ok(())
        }
        AlterAction::SetIdentity { column, identity } => {
            let column = &mut table.columns[*column];
            column.more.identity = *identity;
            if identity.is_none() {
                column.default = None;
                drop_owned(column.more.sequence.take().into_iter(), cx, ddl).await?;
            }
            Ok(())
        }
        AlterAction::Comment { column, text } => {
            let comments = &mut table.rules.comments;
            comments.retain(|(on, _)| on != column);
            comments.extend(text.iter().map(|text| (*column, text.clone())));
            Ok(())
        }
        AlterAction::AddCheck(check, validate) => add_check(cx, ddl, table, check, *validate).await,
        AlterAction::ValidateCheck { name, condition } => {
            validate_named_check(cx, table, (name.as_str(), condition)).await
        }
        AlterAction::ValidateForeignKey { name } => {
            validate_foreign_key(cx, ddl, changes, table, name).await
        }
        AlterAction::AddForeignKey(key, validate) => {
            add_foreign_key(cx, ddl, changes, table, (key, *validate)).await
        }
        AlterAction::AddUnique(key) => add_constraint(cx, ddl, table, key, None, None).await,
        AlterAction::AddPrimaryKey(key) => {
            if table.primary_key().is_some() {
                return Err(multiple_keys(&table.name).into());
            }
            add_constraint(cx, ddl, table, key, Some(IndexKind::BTree), None).await
        }
        AlterAction::AddColumn(add) => add_column(add, cx, ddl, changes, table).await,
        AlterAction::DropColumn { column, cascade } => {
            drop_column((*column, *cascade), cx, ddl, changes, table).await
        }
        AlterAction::RenameColumn { column, to } => {
            let renaming = ObjectRename::Column {
                relation: table.id,
                column: *column,
                to: to.clone(),
            };
            let old = table.columns[*column].name.clone();
            table.rename_column(*column, to);
            rename_in_views((&renaming, &old), cx, ddl, changes).await
        }
        AlterAction::RenameTable(to) => {
            if ddl.snapshot.relation_exists(&table.schema, to) {
                return Ok(exists(to, false, ddl)?);
            }
            check_not_type(&table.schema, to, ddl)?;
            let renaming = ObjectRename::Relation {
                id: table.id,
                to: to.clone(),
            };
            let old = table.rename(to);
            rename_in_views((&renaming, &old), cx, ddl, changes).await
        }
        AlterAction::RenameIndex { from, to } => rename_index(table, from, to, ddl),
        AlterAction::RenameConstraint { from, to } => rename_constraint(table, from, to, ddl),
        AlterAction::DropConstraint {
            name,
            if_exists,
            cascade,
        } => {
            let dropped = drop_constraint(name, *cascade, cx, ddl, changes, table).await?;
            if dropped {
                return Ok(());
            }
            let message = no_constraint(name, table);
            match if_exists {
                true => notice(
                    ddl,
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("{message}, skipping"),
                ),
                false => return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into()),
            }
            Ok(())
        }
        AlterAction::SetDefault { column, default } => {
            table.columns[*column].default.clone_from(default);
            Ok(())
        }
        AlterAction::SetNotNull { column, not_null } => {
            set_not_null(cx, table, *column, *not_null).await
        }
        AlterAction::SetType(set) => set_type(set, cx, ddl, table).await,
        AlterAction::DropExpression { .. }
        | AlterAction::DeferForeignKey { .. }
        | AlterAction::UseIndex { .. } => change_constraint(action, cx, ddl, changes, table).await,
    }
}

async fn add_column(
    add: &AddColumn,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let position = table.columns.len();
    let old = table.clone();
    table.push_column(add.column.clone());
    let not_null = add.column.not_null;
    let generated = add.column.more.generated.is_some();
    if let Some(new) = &add.sequence {
        let sequence = add_for_column(new, table, cx, ddl).await?;
        fill_from(&sequence, &old, cx, ddl, table).await?;
    } else if generated || add.default.volatility() == Volatility::Volatile {
        let fill = |cx: &Cx<'_>, row: &[Value]| {
            let mut row = row.to_vec();
            row.push(cx.value_here(&add.default, &[])?);
            Ok(row)
        };
        // NULL values are reported below, as for an altered column.
        table.columns[position].not_null = false;
        rewrite(cx, ddl, &old, table, add.rules.clone(), &fill).await?;
        table.columns[position].not_null = not_null;
        if not_null {
            check_no_nulls(cx, table, position).await?;
        }
    } else {
        let value = cx.deep_value(&add.default, &[]).await?;
        if let Some(domain) = add.column.more.domain
            && Rows::of(&old).next(cx).await?.is_some()
        {
            check_rules(domain, &value, cx.eval)?;
        }
        if not_null && value.is_null() && Rows::of(&old).next(cx).await?.is_some() {
            return Err(contains_nulls(table, position).into());
        }
        table.columns[position].more.missing = Some(value);
    }
    if let Some(key) = &add.primary_key {
        add_constraint(cx, ddl, table, key, Some(IndexKind::BTree), None).await?;
    }
    for key in &add.unique {
        add_constraint(cx, ddl, table, key, None, None).await?;
    }
    for check in &add.checks {
        add_check(cx, ddl, table, check, true).await?;
    }
    for key in &add.foreign_keys {
        add_foreign_key(cx, ddl, changes, table, (key, true)).await?;
    }
    Ok(())
}

/// Fills existing rows with values of a new sequence, in the order of the first index.
async fn fill_from(
    sequence: &SequenceDef,
    old: &TableDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let mut count = 0;
    let mut rows = Rows::of(old);
    while rows.next(cx).await?.is_some() {
        count += 1;
    }
    let taken = match count {
        0 => None,
        count => sequence.take(cx.tx, count).await?,
    };
    if taken.is_some_and(|taken| taken.count < count) {
        return Err(sequence.exhausted().into());
    }
    let next = AtomicI64::new(taken.map_or(0, |taken| taken.first));
    let steps = sequence.steps();
    let kind = table.columns[table.columns.len() - 1].ty.kind;
    let fill = |_: &Cx<'_>, row: &[Value]| {
        let value = next.load(Ordering::Relaxed);
        next.store(steps.after(value).unwrap_or(value), Ordering::Relaxed);
        let mut row = row.to_vec();
        row.push(match kind {
            TypeKind::Int2 => Value::Int2(value as i16),
            TypeKind::Int4 => Value::Int4(value as i32),
            _ => Value::Int8(value),
        });
        Ok(row)
    };
    rewrite(cx, ddl, old, table, Default::default(), &fill).await
}

/// Drops a column, and all objects that depend on it.
pub async fn drop_column(
    (column, cascade): (usize, bool),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let name = table.columns[column].name.clone();
    let mut triggers = table.rules.triggers.iter();
    if let (Some(trigger), false) = (triggers.find(|t| t.concerns(column, &name)), cascade) {
        let what = format!("column {name} of table {}", table.name);
        let dependent = format!(
            "trigger {} on table {} depends on {what}",
            trigger.name, table.name
        );
        return Err(needed(&what, &dependent).into());
    }
    let found = dependents_of_column(column, cx, ddl, changes, table).await?;
    if !found.is_empty() && !cascade {
        let what = format!("column {name} of table {}", table.name);
        return Err(still_referenced(&what, &found).into());
    }
    tell_of(&found, ddl);
    drop_dependents(&found, cx, ddl, changes, table).await?;
    for child in table.rules.referenced_by.iter().filter(|c| **c != table.id) {
        let child = changes.by_id(cx, ddl, *child).await?;
        child.parent_lost_column(table.id, column);
    }
    let old = table.clone();
    drop_owned(old.columns[column].more.sequence.into_iter(), cx, ddl).await?;
    table.remove_column(column);
    let reaches_all =
        |first: &IndexDef| first.is_hidden() || (first.primary && first.kind == IndexKind::BTree);
    if !table.indexes.first().is_some_and(reaches_all) {
        let hidden = hidden_index(cx, ddl, table, &PartitionPlacement::with(&old)).await?;
        drop_index(cx.tx, ddl.catalog.reclaim_list(), &hidden).await?;
        table.indexes.insert(0, hidden);
    }
    let without = |_: &Cx<'_>, row: &[Value]| {
        let mut row = row.to_vec();
        row.remove(column);
        Ok(row)
    };
    rewrite(cx, ddl, &old, table, Default::default(), &without).await?;
    forget_references(&old, table, cx, ddl, changes).await
}

pub(super) fn rename_index(
    table: &mut TableDef,
    from: &str,
    to: &str,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    if ddl.snapshot.relation_exists(&table.schema, to) {
        return Ok(exists(to, false, ddl)?);
    }
    match table.indexes.iter_mut().find(|index| index.name == from) {
        Some(index) => to.clone_into(&mut index.name),
        None => return Err(SqlError::internal("an index without its table").into()),
    }
    Ok(())
}

fn rename_constraint(
    table: &mut TableDef,
    from: &str,
    to: &str,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    if !table.has_constraint(from) {
        let message = format!(
            "constraint \"{from}\" for table \"{}\" does not exist",
            table.name
        );
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
    }
    constraint_name(table, Some(to), &[], "")?;
    let mut keys = table.indexes.iter();
    if keys.any(|index| index.constraint && index.name == from) {
        return rename_index(table, from, to, ddl);
    }
    let checks = table.rules.checks.iter_mut().map(|check| &mut check.name);
    let keys = table.rules.foreign_keys.iter_mut().map(|key| &mut key.name);
    if let Some(name) = checks.chain(keys).find(|name| *name == from) {
        to.clone_into(name);
    }
    Ok(())
}

/// Drops a constraint. Returns false if there is none with that name.
async fn drop_constraint(
    name: &str,
    cascade: bool,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<bool, StatementStop> {
    if !table.has_constraint(name) {
        return Ok(false);
    }
    let old = table.clone();
    table.rules.checks.retain(|check| check.name != name);
    table.rules.foreign_keys.retain(|key| key.name != name);
    let mut indexes = table.indexes.iter();
    if let Some(position) = indexes.position(|i| i.constraint && i.name == name) {
        drop_key((position, cascade), cx, ddl, changes, table).await?;
    }
    forget_references(&old, table, cx, ddl, changes).await?;
    Ok(true)
}

pub(super) async fn set_not_null(
    cx: &mut Cx<'_>,
    table: &mut TableDef,
    column: usize,
    not_null: bool,
) -> Result<(), StatementStop> {
    let name = table.columns[column].name.clone();
    if not_null {
        check_no_nulls(cx, table, column).await?;
    } else if table.primary_key().is_some_and(|key| key.covers(column)) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{name}\" is in a primary key"),
        )
        .into());
    } else if table.is_partition_column(column) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{name}\" is in the partition key"),
        )
        .into());
    }
    table.columns[column].not_null = not_null;
    Ok(())
}

async fn check_no_nulls(
    cx: &mut Cx<'_>,
    table: &TableDef,
    column: usize,
) -> Result<(), StatementStop> {
    let mut rows = Rows::of(table);
    while let Some(row) = rows.next(cx).await? {
        if row[column].is_null() {
            return Err(contains_nulls(table, column).into());
        }
    }
    Ok(())
}

fn no_constraint(name: &str, table: &TableDef) -> String {
    format!(
        "constraint \"{name}\" of relation \"{}\" does not exist",
        table.name
    )
}

/// Returns error 2BP01.
fn needed(what: &str, dependent: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .detail(dependent)
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
