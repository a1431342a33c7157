//! DROP TABLE, DROP INDEX, TRUNCATE.

use std::sync::Arc;

use fencepost_sql::bound::{DropIndex, DropTable, Truncate};
use fencepost_sql::catalog::{CatalogView, TableDef, guard_table};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use super::build_index::RowWalk;
use super::changes::{Changes, check_settled};
use super::create::begin_alter;
use super::rules::drop_references;
use super::sequence::{drop_owned, restart_owned};
use super::view::drop_views_of;
use super::{DdlCx, Notice};
use crate::exec::Cx;
use crate::index;
use crate::place::Places;
use crate::store::free_row;

/// DROP TABLE.
pub async fn drop_table(
    statement: &DropTable,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    const TAG: &str = "DROP TABLE";
    missing(&statement.missing, "table", ddl);
    if statement.tables.is_empty() {
        return Ok(TAG);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let tables = (statement.tables.as_slice(), statement.cascade);
    drop_tables(tables, &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Drops tables with all that is theirs, but for views that are `gone` already.
pub async fn drop_tables(
    (tables, cascade): (&[Arc<TableDef>], bool),
    gone: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), Halt> {
    let goes = |id: &u32| tables.iter().any(|table| table.id == *id);
    drop_views_of((tables, cascade), gone, cx, ddl, changes).await?;
    for table in tables {
        let referencing = table.rules.referenced_by.iter().filter(|id| !goes(id));
        for child in referencing {
            let child = changes.by_id(cx, ddl, *child).await?;
            if !cascade {
                return Err(still_needed(table, child).into());
            }
            drop_references(child, ddl, &|key| key.parent == table.id);
        }
        for key in &table.rules.foreign_keys {
            if !goes(&key.parent) {
                let parent = changes.by_id(cx, ddl, key.parent).await?;
                parent.rules.referenced_by.retain(|id| *id != table.id);
            }
        }
    }
    for table in tables {
        if !guard_table(cx.tx, table).await? {
            return Err(Halt::Stale);
        }
        check_settled(cx, table)?;
        free_rows(cx, table).await?;
        for index in &table.indexes {
            index::drop_index(cx.tx, index).await?;
        }
        let owned = table.columns.iter().filter_map(|c| c.more.sequence);
        drop_owned(owned, cx, ddl).await?;
        ddl.catalog.remove_table(cx.tx, table).await?;
    }
    Ok(())
}

/// 2BP01: `child` has foreign keys to `table`.
fn still_needed(table: &TableDef, child: &TableDef) -> SqlError {
    let keys = child.rules.foreign_keys.iter();
    let keys = keys.filter(|key| key.parent == table.id).map(|key| {
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

/// DROP INDEX.
pub async fn drop_index(
    statement: &DropIndex,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    missing(&statement.missing, "index", ddl);
    let mut changed: Vec<TableDef> = Vec::new();
    for (owner, name) in &statement.indexes {
        let position = match changed.iter().position(|t| t.id == owner.id) {
            Some(position) => position,
            None => {
                let table = match changed.first() {
                    None => begin_alter(owner, cx, ddl).await?,
                    Some(first) => TableDef {
                        version: first.version,
                        ..TableDef::clone(owner)
                    },
                };
                changed.push(table);
                changed.len() - 1
            }
        };
        let table = &mut changed[position];
        let Some(found) = table.indexes.iter().position(|i| i.name == *name) else {
            continue;
        };
        let index = table.indexes.remove(found);
        if index.constraint {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS,
                format!(
                    "cannot drop index {name} because constraint {name} on table {} requires it",
                    table.name
                ),
            )
            .hint(format!(
                "You can drop constraint {name} on table {} instead.",
                table.name
            ))
            .into());
        }
        index::drop_index(cx.tx, &index).await?;
    }
    for table in &changed {
        ddl.catalog.replace_table(cx.tx, table).await?;
    }
    Ok("DROP INDEX")
}

/// TRUNCATE: new, empty trees take the place of the old.
pub async fn truncate(
    statement: &Truncate,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    const TAG: &str = "TRUNCATE TABLE";
    if statement.tables.is_empty() {
        return Ok(TAG);
    }
    for table in &statement.tables {
        check_not_referenced(table, statement, ddl)?;
    }
    for table in &statement.tables[statement.named..] {
        let message = format!("truncate cascades to table \"{}\"", table.name);
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let version = ddl
        .catalog
        .begin_change(cx.tx, ddl.snapshot.version())
        .await?;
    for (position, table) in statement.tables.iter().enumerate() {
        if statement.tables[..position]
            .iter()
            .any(|t| t.id == table.id)
        {
            continue;
        }
        if !guard_table(cx.tx, table).await? {
            return Err(Halt::Stale);
        }
        check_settled(cx, table)?;
        free_rows(cx, table).await?;
        let mut emptied = TableDef {
            version,
            ..TableDef::clone(table)
        };
        let places = Places::with(table);
        for index in &mut emptied.indexes {
            index::drop_index(cx.tx, index).await?;
            index.roots = index::create(cx.tx, table, index, &places).await?;
        }
        if statement.restart {
            let owned = table.columns.iter().filter_map(|c| c.more.sequence);
            restart_owned(owned, cx, ddl).await?;
        }
        ddl.catalog.replace_table(cx.tx, &emptied).await?;
    }
    Ok(TAG)
}

/// 0A000 where a table that keeps its rows references one that does not.
fn check_not_referenced(
    table: &TableDef,
    statement: &Truncate,
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let goes = |id: &u32| statement.tables.iter().any(|table| table.id == *id);
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

async fn free_rows(cx: &mut Cx<'_>, table: &TableDef) -> Result<(), Halt> {
    let mut walk = RowWalk::new(table);
    while let Some(place) = walk.next(cx).await? {
        free_row(cx.tx, place.addr).await?;
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
