//! CREATE, ALTER, ENABLE, DISABLE and DROP of a table's triggers.

use fencepost_sql::bound::TriggerChange;
use fencepost_sql::catalog::{CatalogView, TableDef, TriggerDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::order::StableSort;
use fencepost_sql::stop::StatementStop;

use super::changes::Changes;
use super::partition_hierarchy::{change_triggers_below, inherit_trigger};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Applies a statement about triggers to a table.
pub async fn change_triggers(
    change: &TriggerChange,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    match change {
        TriggerChange::Create {
            trigger,
            or_replace,
        } => create(trigger, *or_replace, cx, ddl, table).await?,
        TriggerChange::Drop { name, if_exists } => match find(table, name) {
            Ok(at) if inherited(table, at).is_some() => {
                return Err(required(table, name, ddl)?.into());
            }
            Ok(at) => drop(table.rules.triggers.remove(at)),
            Err(_) if *if_exists => {
                let message = format!(
                    "trigger \"{name}\" for relation \"{}\" does not exist, skipping",
                    table.name
                );
                let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
                ddl.notices.push(notice);
            }
            Err(missing) => return Err(missing.into()),
        },
        TriggerChange::Rename { from, to } => {
            let at = find(table, from)?;
            if inherited(table, at).is_some() {
                let above = name_above(table, ddl)?;
                let message = format!(
                    "cannot rename trigger \"{from}\" on table \"{}\"",
                    table.name
                );
                let refused = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                let hint =
                    format!("Rename the trigger on the partitioned table \"{above}\" instead.");
                return Err(refused.hint(hint).into());
            }
            if find(table, to).is_ok() {
                return Err(trigger_exists(table, to).into());
            }
            table.rules.triggers[at].name.clone_from(to);
        }
        TriggerChange::Comment { name, text } => {
            let at = find(table, name)?;
            table.rules.triggers[at].comment.clone_from(text);
        }
        TriggerChange::Enable { name, enabled, .. } => {
            let of = match name {
                Some(name) => {
                    let at = find(table, name)?;
                    at..at + 1
                }
                None => 0..table.rules.triggers.len(),
            };
            for trigger in &mut table.rules.triggers[of] {
                trigger.enabled = *enabled;
            }
        }
    }
    sort_triggers(table);
    Ok(())
}

/// Applies a statement about a table's row triggers to their counterparts in its partitions.
/// `before` is the table before the change.
pub async fn change_below(
    change: &TriggerChange,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    (before, table): (&TableDef, &TableDef),
) -> Result<(), StatementStop> {
    let id_of = |table: &TableDef, name: &str| {
        let mut all = table.rules.triggers.iter();
        all.find(|trigger| trigger.name == name).map(|t| t.id)
    };
    match change {
        TriggerChange::Create { trigger, .. } if trigger.row => {
            let mut all = table.rules.triggers.iter();
            let Some(trigger) = all.find(|own| own.name == trigger.name) else {
                return Ok(());
            };
            inherit_trigger(cx, ddl, changes, table, trigger).await
        }
        TriggerChange::Drop { name, .. } => {
            let dropped: Vec<u32> = id_of(before, name).into_iter().collect();
            change_triggers_below(cx, ddl, changes, (table.id, &dropped), &|_| false).await
        }
        TriggerChange::Rename { to, .. } => {
            let ids: Vec<u32> = id_of(table, to).into_iter().collect();
            let rename = |trigger: &mut TriggerDef| {
                trigger.name.clone_from(to);
                true
            };
            change_triggers_below(cx, ddl, changes, (table.id, &ids), &rename).await
        }
        TriggerChange::Enable { name, enabled, .. } => {
            let ids: Vec<u32> = match name {
                Some(name) => id_of(table, name).into_iter().collect(),
                None => table.rules.triggers.iter().map(|own| own.id).collect(),
            };
            let enable = |trigger: &mut TriggerDef| {
                trigger.enabled = *enabled;
                true
            };
            change_triggers_below(cx, ddl, changes, (table.id, &ids), &enable).await
        }
        TriggerChange::Create { .. } | TriggerChange::Comment { .. } => Ok(()),
    }
}

/// Sorts the triggers by name (TRG-1).
pub fn sort_triggers(table: &mut TableDef) {
    table.rules.triggers.order_by(|a, b| a.name.cmp(&b.name));
}

/// Returns the parent's trigger from which a partition's trigger is inherited.
fn inherited(table: &TableDef, at: usize) -> Option<u32> {
    table.link(table.rules.triggers[at].id)
}

/// Returns the name of a partition's parent table.
fn name_above(table: &TableDef, ddl: &DdlCx<'_>) -> Result<String, SqlError> {
    let above = table.partition_of_table().map(|of| of.parent);
    let above = match above {
        Some(id) => ddl.snapshot.table_by_id(id)?,
        None => None,
    };
    Ok(above.map_or_else(String::new, |above| above.name.clone()))
}

/// Returns error 2BP01.
fn required(table: &TableDef, name: &str, ddl: &DdlCx<'_>) -> Result<SqlError, SqlError> {
    let (own, above) = (&table.name, name_above(table, ddl)?);
    let message = format!(
        "cannot drop trigger {name} on table {own} because trigger {name} on table {above} \
         requires it"
    );
    let hint = format!("You can drop trigger {name} on table {above} instead.");
    Ok(SqlError::new(SqlState::DEPENDENT_OBJECTS, message).hint(hint))
}

async fn create(
    trigger: &TriggerDef,
    or_replace: bool,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    let mut trigger = trigger.clone();
    let Ok(at) = find(table, &trigger.name) else {
        trigger.id = ddl.catalog.next_oid(cx.tx).await?;
        table.rules.triggers.push(trigger);
        return Ok(());
    };
    if !or_replace {
        return Err(trigger_exists(table, &trigger.name).into());
    }
    if inherited(table, at).is_some() {
        let message = format!(
            "trigger \"{}\" for relation \"{}\" is an internal or a child trigger",
            trigger.name, table.name
        );
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
    }
    let old = &mut table.rules.triggers[at];
    if old.constraint.is_some() || trigger.constraint.is_some() {
        let what = match old.constraint {
            Some(_) => "constraint trigger",
            None => "regular trigger",
        };
        let message = format!(
            "trigger \"{}\" for relation \"{}\" is a {what}",
            trigger.name, table.name
        );
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
    }
    trigger.id = old.id;
    trigger.comment = old.comment.take();
    *old = trigger;
    Ok(())
}

/// Returns the position of a trigger, or error 42704.
fn find(table: &TableDef, name: &str) -> Result<usize, SqlError> {
    let mut all = table.rules.triggers.iter();
    all.position(|trigger| trigger.name == name).ok_or_else(|| {
        let message = format!(
            "trigger \"{name}\" for table \"{}\" does not exist",
            table.name
        );
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

/// Returns error 42710.
pub fn trigger_exists(table: &TableDef, name: &str) -> SqlError {
    let message = format!(
        "trigger \"{name}\" for relation \"{}\" already exists",
        table.name
    );
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}
