//! Triggers of a table come, change and go.

use fencepost_sql::bound::TriggerChange;
use fencepost_sql::catalog::{TableDef, TriggerDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Does to a table's triggers what a statement says.
pub async fn change_triggers(
    change: &TriggerChange,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), Halt> {
    match change {
        TriggerChange::Create {
            trigger,
            or_replace,
        } => create(trigger, *or_replace, cx, ddl, table).await?,
        TriggerChange::Drop { name, if_exists } => match find(table, name) {
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
            if find(table, to).is_ok() {
                return Err(exists(table, to).into());
            }
            table.rules.triggers[at].name.clone_from(to);
        }
        TriggerChange::Comment { name, text } => {
            let at = find(table, name)?;
            table.rules.triggers[at].comment.clone_from(text);
        }
        TriggerChange::Enable { name, enabled } => {
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
    // TRG-1
    table.rules.triggers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}

async fn create(
    trigger: &TriggerDef,
    or_replace: bool,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), Halt> {
    let mut trigger = trigger.clone();
    let Ok(at) = find(table, &trigger.name) else {
        trigger.id = ddl.catalog.next_oid(cx.tx).await?;
        table.rules.triggers.push(trigger);
        return Ok(());
    };
    let old = &mut table.rules.triggers[at];
    if !or_replace {
        return Err(exists(table, &trigger.name).into());
    }
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

/// The position of a trigger, or 42704.
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

/// 42710
fn exists(table: &TableDef, name: &str) -> SqlError {
    let message = format!(
        "trigger \"{name}\" for relation \"{}\" already exists",
        table.name
    );
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}
