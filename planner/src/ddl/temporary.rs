//! Temporary objects: the schema of a session for them, and their removal.

use std::sync::Arc;

use fencepost_sql::bound::{Delete, DropSchema, DropTable, Integrity, OnCommit, Statement};
use fencepost_sql::catalog::temporary::Temporary;
use fencepost_sql::catalog::{Catalog, CatalogView, Snapshot, temporary};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::Work;

use super::changes::Changes;
use super::materialized::run_now;
use super::ownership::forget_dropped;
use super::schema::drop_schema;
use super::{DdlCx, Notice, drop};
use crate::exec::Cx;

/// Creates the temporary schema of a session.
pub fn make_temporary_schema<'a>(
    schema: &'a str,
    cx: &'a mut Cx<'_>,
    ddl: &'a mut DdlCx<'_>,
) -> Work<'a, Result<Temporary, StatementStop>> {
    Box::pin(async move {
        let changes = Changes::begin(cx, ddl).await?;
        let id = ddl.catalog.next_oid(cx.tx).await?;
        ddl.catalog.insert_schema(cx.tx, id, schema).await?;
        changes.finish(cx, ddl).await?;
        let schema = schema.to_owned();
        Ok(Temporary { schema, id })
    })
}

/// Returns the catalog with a schema for the session's temporary objects. Creates the schema if the
/// session has none.
pub fn open_temporary_schema<'a>(
    catalog: &'a Catalog,
    cx: &'a mut Cx<'_>,
) -> Work<'a, Result<Arc<Snapshot>, StatementStop>> {
    Box::pin(async move {
        let snapshot = catalog.snapshot(cx.tx).await?;
        if cx.eval.temporary_in(&*snapshot).is_some() {
            return Ok(snapshot);
        }
        let schema = cx.eval.temporary_schema();
        if let Some(id) = snapshot.schema(&schema) {
            // An ended session with the same number has left this schema.
            let schema = schema.clone();
            let mut notices = Vec::new();
            let mut ddl = plain_ddl(catalog, &snapshot, &mut notices);
            drop_temporary_schema(&Temporary { schema, id }, cx, &mut ddl).await?;
        }
        let snapshot = catalog.snapshot(cx.tx).await?;
        let mut notices = Vec::new();
        let mut ddl = plain_ddl(catalog, &snapshot, &mut notices);
        let own = make_temporary_schema(&schema, cx, &mut ddl).await?;
        cx.eval.set_temporary(Some(own));
        catalog.snapshot(cx.tx).await
    })
}

fn plain_ddl<'a>(
    catalog: &'a Catalog,
    snapshot: &'a Snapshot,
    notices: &'a mut Vec<Notice>,
) -> DdlCx<'a> {
    DdlCx {
        catalog,
        snapshot,
        notices,
        rows: None,
        salt: [0; 16],
    }
}

/// Drops the temporary schema of a session with all its objects, if it still exists.
pub fn drop_temporary_schema<'a>(
    of: &'a Temporary,
    cx: &'a mut Cx<'_>,
    ddl: &'a mut DdlCx<'_>,
) -> Work<'a, Result<(), StatementStop>> {
    Box::pin(async move {
        if ddl.snapshot.schema_oid(&of.schema) != Some(of.id) {
            return Ok(());
        }
        let statement = DropSchema {
            names: vec![of.schema.clone()],
            if_exists: true,
            cascade: true,
        };
        let notices_before = ddl.notices.len();
        drop_schema(&statement, cx, ddl).await?;
        ddl.notices.truncate(notices_before);
        forget_dropped(cx, ddl).await
    })
}

/// Applies ON COMMIT to the tables with these oids. Skips tables that no longer exist.
pub fn end_temporary<'a>(
    tables: &'a [(u32, OnCommit)],
    cx: &'a mut Cx<'_>,
    ddl: &'a mut DdlCx<'_>,
) -> Work<'a, Result<(), StatementStop>> {
    Box::pin(async move {
        let mut going = Vec::new();
        for (id, what) in tables {
            let Some(table) = ddl.snapshot.table_by_id(*id)? else {
                continue;
            };
            if *what == OnCommit::Drop {
                going.push(table);
                continue;
            }
            let delete = Delete {
                view: None,
                alias: table.name.clone(),
                table: Arc::clone(&table),
                using: None,
                filter: None,
                current: None,
                integrity: Integrity::default(),
                returning: Vec::new(),
            };
            run_now(Statement::Delete(Box::new(delete)), cx).await?;
        }
        if going.is_empty() {
            return Ok(());
        }
        let statement = DropTable {
            tables: going,
            materialized: false,
            cascade: true,
            missing: Vec::new(),
        };
        let notices_before = ddl.notices.len();
        drop::drop_table(&statement, cx, ddl).await?;
        ddl.notices.truncate(notices_before);
        forget_dropped(cx, ddl).await
    })
}

/// Returns the temporary table that a statement has created and its ON COMMIT action, unless that
/// is PRESERVE ROWS. `before` and `after` are the catalog before and after the statement.
pub fn made_until_commit(
    statement: &Statement,
    before: &Snapshot,
    after: &Snapshot,
) -> Option<(u32, OnCommit)> {
    let Statement::CreateTable(create) = statement else {
        return None;
    };
    let named = |catalog: &Snapshot| {
        let found = catalog.table(Some(&create.schema), &create.name);
        found.ok().flatten().map(|table| table.id)
    };
    if create.on_commit == OnCommit::PreserveRows || named(before).is_some() {
        return None;
    }
    named(after).map(|id| (id, create.on_commit))
}

/// Returns whether a statement creates a temporary object.
pub fn makes_temporary(statement: &Statement) -> bool {
    let schema = match statement {
        Statement::CreateTable(create) => Some(&create.schema),
        Statement::CreateView(create) => Some(&create.schema),
        Statement::CreateSequence(create) => create.schema.as_ref(),
        Statement::CreateRoutine(create) => Some(&create.schema),
        _ => None,
    };
    schema.is_some_and(|schema| temporary::is_temporary(schema))
}
