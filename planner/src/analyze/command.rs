//! The command ANALYZE: which tables it reads, and where the statistics go.

use std::sync::Arc;

use fencepost_sql::bound::{AnalyzedTable, AnalyzedTargets};
use fencepost_sql::catalog::temporary::session_of;
use fencepost_sql::catalog::{CatalogView, Object, ObjectKind, TableDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::stop::StatementStop;

use super::analyze;
use crate::exec::Cx;

/// Runs ANALYZE: collects the statistics of each table, stores them with the transaction, and gives
/// them to the planner. The planner may use them although the transaction is rolled back.
///
/// # Errors
/// Those of reading rows; 40001 if another ANALYZE of a table commits at the same time.
pub async fn run_analyze(targets: &AnalyzedTargets, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
    let all = match targets {
        AnalyzedTargets::Tables(tables) => tables.clone(),
        AnalyzedTargets::All => owned_tables(cx.eval),
    };
    for AnalyzedTable { table, columns } in all {
        let columns = if columns.is_empty() {
            (0..table.columns.len()).collect()
        } else {
            columns
        };
        let statistics = analyze(&table, &columns, cx).await?;
        let eval = cx.eval;
        if let Some(catalog) = &eval.database_catalog {
            let stored = catalog.statistics();
            stored
                .put(cx.tx, catalog.database(), &table, &statistics)
                .await?;
        }
        if let Some(known) = &eval.table_statistics {
            known.replace(&table, statistics);
        }
    }
    Ok(())
}

/// Returns the tables of the database that the current role owns.
fn owned_tables(eval: &EvalContext) -> Vec<AnalyzedTable> {
    let catalog = eval.catalog();
    let role = catalog.role(&eval.current_user()).ok().flatten();
    let own_schema = eval.temporary_schema();
    let owns = |table: &TableDef| {
        if session_of(&table.schema).is_some() && table.schema != own_schema {
            // A temporary table of another session.
            return false;
        }
        let object = Object::new(ObjectKind::Table, table.id);
        role.as_ref()
            .is_some_and(|role| catalog.security().owns(role.id, object))
    };
    let tables = catalog.tables().into_iter().filter(|table| owns(table));
    let whole = |table: Arc<TableDef>| AnalyzedTable {
        table,
        columns: Vec::new(),
    };
    tables.map(whole).collect()
}
