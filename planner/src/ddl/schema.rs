//! CREATE and DROP SCHEMA.

use std::sync::Arc;

use fencepost_sql::bound::{CreateSchema, DropSchema};
use fencepost_sql::catalog::{CatalogView, PUBLIC_SCHEMA, SequenceDef, TableDef, ViewDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use super::changes::Changes;
use super::drop::drop_tables;
use super::sequence::remove;
use super::view::drop_views;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// 42P06
const DUPLICATE_SCHEMA: SqlState = SqlState::new(b"42P06");

/// CREATE SCHEMA.
pub async fn create_schema(
    statement: &CreateSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    const TAG: &str = "CREATE SCHEMA";
    let name = &statement.name;
    if name.starts_with("pg_") {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas.")
        .into());
    }
    if ddl.snapshot.schema_exists(name) || name == "information_schema" {
        let message = format!("schema \"{name}\" already exists");
        if !statement.if_not_exists {
            return Err(SqlError::new(DUPLICATE_SCHEMA, message).into());
        }
        let message = format!("{message}, skipping");
        ddl.notices.push(Notice::new(DUPLICATE_SCHEMA, message));
        return Ok(TAG);
    }
    let changes = Changes::begin(cx, ddl).await?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    ddl.catalog.insert_schema(cx.tx, id, name).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// DROP SCHEMA.
pub async fn drop_schema(
    statement: &DropSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    let mut changes = Changes::begin(cx, ddl).await?;
    for name in &statement.names {
        if name == PUBLIC_SCHEMA {
            return Err(SqlError::unsupported("DROP SCHEMA public").into());
        }
        let Some(id) = ddl.snapshot.schema(name) else {
            let message = format!("schema \"{name}\" does not exist");
            if !statement.if_exists {
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).into());
            }
            let message = format!("{message}, skipping");
            let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
            ddl.notices.push(notice);
            continue;
        };
        let mut tables = ddl.snapshot.tables();
        tables.retain(|table| table.schema == *name);
        let views = ddl.snapshot.views().cloned();
        let views: Vec<Arc<ViewDef>> = views.filter(|view| view.schema == *name).collect();
        // Those that go with a table go with it.
        let lone = |s: &&Arc<SequenceDef>| {
            s.schema == *name && s.owner.is_none_or(|id| tables.iter().all(|t| t.id != id))
        };
        let sequences: Vec<Arc<SequenceDef>> =
            ddl.snapshot.sequences().filter(lone).cloned().collect();
        let first = first_of(&tables, &views, &sequences);
        if let (Some(first), false) = (first, statement.cascade) {
            return Err(needed(name, &first).into());
        }
        let mut gone = Vec::new();
        for view in drop_views(&views, true, ddl)? {
            for table in view
                .tables
                .iter()
                .filter(|id| tables.iter().all(|t| t.id != **id))
            {
                changes.by_id(cx, ddl, *table).await?;
            }
            ddl.catalog.remove_view(cx.tx, &view).await?;
            gone.push(view.id);
        }
        drop_tables((&tables, true), &gone, cx, ddl, &mut changes).await?;
        for sequence in sequences {
            remove(&sequence, cx, ddl).await?;
        }
        ddl.catalog.remove_schema(cx.tx, id).await?;
    }
    changes.finish(cx, ddl).await?;
    Ok("DROP SCHEMA")
}

fn first_of(
    tables: &[Arc<TableDef>],
    views: &[Arc<ViewDef>],
    sequences: &[Arc<SequenceDef>],
) -> Option<String> {
    let table = tables
        .first()
        .map(|t| format!("table {}.{}", t.schema, t.name));
    let view = || {
        views
            .first()
            .map(|v| format!("view {}.{}", v.schema, v.name))
    };
    let sequence = || {
        sequences
            .first()
            .map(|s| format!("sequence {}.{}", s.schema, s.name))
    };
    table.or_else(view).or_else(sequence)
}

fn needed(schema: &str, dependent: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop schema {schema} because other objects depend on it"),
    )
    .detail(format!("{dependent} depends on schema {schema}"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
