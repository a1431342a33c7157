//! Renames in the texts of the catalog: queries of views, and expressions of tables.
//!
//! A text without the old name stays unchanged. Otherwise the binder rewrites it (`ObjectRename`),
//! and the new catalog must be able to bind the result. If it cannot, the rename is refused
//! (0A000).

use std::sync::Arc;

use fencepost_sql::binder::{DeparseContext, ObjectRename, VisibleColumns};
use fencepost_sql::catalog::{CatalogView, TableDef, ViewDef};
use fencepost_sql::error::SqlError;
use fencepost_sql::parser::names;
use fencepost_sql::pg_catalog::reader;
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::changes::Changes;
use super::view::{touch, view_description};
use crate::exec::Cx;

/// Rewrites the views that name a renamed object; its old name is `old`.
pub async fn rename_in_views(
    (renaming, old): (&ObjectRename, &str),
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for view in ddl.snapshot.queries() {
        let concerned = match renaming {
            ObjectRename::Relation { id, .. } | ObjectRename::Column { relation: id, .. } => {
                view.reads(*id) || ddl.snapshot.sequence_by_id(*id)?.is_some()
            }
            ObjectRename::Routine { .. } => true,
        };
        if !concerned || !names(&view.text, old) {
            continue;
        }
        let text = {
            let reader = reader(ddl.snapshot, cx.eval, false).keeping(renaming);
            let text = reader.view(&view);
            text.ok_or_else(|| lost(&view_description(&view, ddl)))?
        };
        changes.followed.push(view.id);
        if let Some(table) = ddl.snapshot.table_by_id(view.id)? {
            let table = changes.take(cx, &table).await?;
            if let Some(of) = &mut table.materialized {
                of.text = text;
            }
            continue;
        }
        touch(&view, cx, ddl, changes).await?;
        changes.view(&view).text = text;
    }
    Ok(())
}

/// Rewrites the expressions of tables that call a renamed object; its old name is `old`.
pub async fn rename_in_tables(
    (renaming, old): (&ObjectRename, &str),
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for table in ddl.snapshot.tables() {
        let mut written = TableDef::clone(&table);
        {
            let reader = reader(ddl.snapshot, cx.eval, false).keeping(renaming);
            if !rename_expressions(&mut written, &table, old, &reader)? {
                continue;
            }
        }
        let taken = changes.take(cx, &table).await?;
        taken.columns = written.columns;
        taken.rules = written.rules;
        taken.indexes = written.indexes;
    }
    Ok(())
}

/// Rewrites the expressions of one table. Returns whether any changed.
fn rename_expressions(
    written: &mut TableDef,
    table: &TableDef,
    old: &str,
    reader: &DeparseContext<'_>,
) -> Result<bool, SqlError> {
    let mut found = false;
    let mut follow = |text: &mut String, over: VisibleColumns<'_>| {
        if !names(text, old) {
            return Ok(());
        }
        let expression = reader.expression(text, over);
        *text = expression.ok_or_else(|| lost(&format!("table {}", table.name)))?;
        found = true;
        Ok::<(), SqlError>(())
    };
    for column in &mut written.columns {
        if let Some(text) = &mut column.default {
            follow(text, VisibleColumns::Nothing)?;
        }
        if let Some(text) = &mut column.more.generated {
            follow(text, VisibleColumns::Table(table))?;
        }
    }
    for check in &mut written.rules.checks {
        follow(&mut check.text, VisibleColumns::Table(table))?;
    }
    for trigger in &mut written.rules.triggers {
        if let Some(text) = &mut trigger.condition {
            follow(text, VisibleColumns::Trigger(table))?;
        }
    }
    for index in &mut written.indexes {
        for expression in &mut index.more.expressions {
            follow(&mut expression.text, VisibleColumns::Table(table))?;
        }
        if let Some(predicate) = &mut index.more.predicate {
            follow(&mut predicate.text, VisibleColumns::Table(table))?;
        }
    }
    Ok(found)
}

/// Returns error 0A000 unless the rewritten views can be bound with the new catalog.
pub async fn check_followed(
    followed: &[u32],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    if followed.is_empty() {
        return Ok(());
    }
    let snapshot = ddl.catalog.snapshot(cx.tx).await?;
    let reader = reader(&snapshot, cx.eval, false);
    let views: Vec<Arc<ViewDef>> = snapshot.queries();
    let views = views.iter().filter(|view| followed.contains(&view.id));
    for view in views {
        if reader.view(view).is_none() {
            return Err(lost(&view_description(view, ddl)).into());
        }
    }
    Ok(())
}

fn lost(what: &str) -> SqlError {
    SqlError::unsupported(format!("RENAME of what {what} uses in this way"))
}
