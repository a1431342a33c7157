//! DROP TABLE, DROP INDEX, TRUNCATE.

use fencepost_sql::bound::{DropIndex, DropTable, Truncate};
use fencepost_sql::catalog::{TableDef, guard_table};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use super::build_index::RowWalk;
use super::create::begin_alter;
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
    missing(&statement.missing, "table", ddl);
    if !statement.tables.is_empty() {
        ddl.catalog
            .begin_change(cx.tx, ddl.snapshot.version())
            .await?;
    }
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
        free_rows(cx, table).await?;
        for index in &table.indexes {
            index::drop_index(cx.tx, index).await?;
        }
        ddl.catalog.remove_table(cx.tx, table).await?;
    }
    Ok("DROP TABLE")
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
        ddl.catalog.replace_table(cx.tx, &emptied).await?;
    }
    Ok(TAG)
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
