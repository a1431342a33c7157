//! DROP EXPRESSION, ALTER CONSTRAINT, and ADD CONSTRAINT … USING INDEX, which turns a unique index
//! into a constraint.

use fencepost_sql::bound::{AlterAction, KeyConstraint};
use fencepost_sql::catalog::{IndexKind, TableDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;

use super::alter::{rename_index, set_not_null};
use super::changes::Changes;
use super::create::add_constraint;
use super::{DdlCx, Notice};
use crate::exec::Cx;
use crate::reclaim::drop_index;

/// Applies such an action to a table.
pub async fn change_constraint(
    action: &AlterAction,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    match action {
        AlterAction::DropExpression { column } => {
            table.columns[*column].more.generated = None;
            Ok(())
        }
        AlterAction::DeferForeignKey { name, when } => {
            let mut keys = table.rules.foreign_keys.iter_mut();
            if let Some(key) = keys.find(|key| key.name == *name) {
                (key.deferrable, key.deferred) = *when;
                if key.parent != table.id {
                    // Plans that use the referenced table also depend on the key.
                    changes.by_id(cx, ddl, key.parent).await?;
                }
            }
            Ok(())
        }
        AlterAction::UseIndex {
            index,
            name,
            primary,
        } => use_index((index, name, *primary), cx, ddl, table).await,
        _ => Err(SqlError::internal("not about a constraint").into()),
    }
}

/// Gives a table the constraint `to` on its existing index `from`.
async fn use_index(
    (from, to, primary): (&str, &str, bool),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    table: &mut TableDef,
) -> Result<(), StatementStop> {
    if from != to {
        let message = format!(
            "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{from}\" to \"{to}\""
        );
        let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
        ddl.notices.push(notice);
        rename_index(table, from, to, ddl)?;
    }
    let Some(at) = table.indexes.iter().position(|index| index.name == to) else {
        return Err(SqlError::internal("an index without its table").into());
    };
    if !primary {
        table.indexes[at].constraint = true;
        return Ok(());
    }
    // The index is rebuilt: keys of a primary key are encoded differently, because they contain no
    // NULLs.
    let before = table.indexes.remove(at);
    for key in &before.columns {
        set_not_null(cx, table, key.column, true).await?;
    }
    let key = KeyConstraint {
        name: None,
        columns: before.columns.iter().map(|key| key.column).collect(),
        deferrable: None,
        nulls_equal: before.more.nulls_equal,
        options: before.more.options.clone(),
        include: before.more.include.clone(),
    };
    add_constraint(cx, ddl, table, &key, Some(IndexKind::BTree), None).await?;
    if let Some(made) = table.indexes.iter_mut().find(|index| index.primary) {
        to.clone_into(&mut made.name);
        made.id = before.id;
    }
    drop_index(cx.tx, ddl.catalog.reclaim_list(), &before).await
}
