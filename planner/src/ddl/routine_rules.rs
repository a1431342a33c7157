//! Defaults, CHECK constraints and generated columns that call a function: they depend on it, and
//! are dropped with it.

use std::sync::Arc;

use fencepost_sql::binder::{StoredText, calling};
use fencepost_sql::catalog::{RoutineDef, TableDef};
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::alter::drop_column;
use super::cascades::tell;
use super::changes::Changes;
use crate::exec::Cx;

/// Returns the tables with expressions that call a function, and these expressions. Skips tables
/// that are in `already_dropped`.
pub fn ruled_by(
    routine: &RoutineDef,
    already_dropped: &[u32],
    cx: &Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Vec<(Arc<TableDef>, Vec<StoredText>)> {
    let tables = ddl.snapshot.tables().into_iter();
    let left = tables.filter(|table| !already_dropped.contains(&table.id));
    let ruled = left.map(|table| {
        let texts = calling(&table, routine, ddl.snapshot, cx.eval);
        (table, texts)
    });
    ruled.filter(|(_, texts)| !texts.is_empty()).collect()
}

/// Returns the description of such an expression for messages.
pub fn rule_description(table: &TableDef, text: &StoredText) -> String {
    let table_name = &table.name;
    match text {
        StoredText::Check(name) => format!("constraint {name} on table {table_name}"),
        StoredText::Generated(at) => {
            format!("column {} of table {table_name}", table.columns[*at].name)
        }
        StoredText::Default(at) => {
            let column = &table.columns[*at].name;
            format!("default value for column {column} of table {table_name}")
        }
        _ => format!("table {table_name}"),
    }
}

/// Drops such expressions, and reports them. A partition's expressions that are inherited from its
/// parent are not reported.
pub async fn drop_rules(
    table: &TableDef,
    texts: &[StoredText],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let mut taken = changes.take(cx, table).await?.clone();
    let mut columns = Vec::new();
    for text in texts {
        let inherited = match text {
            StoredText::Check(name) => {
                let mut checks = table.rules.checks.iter();
                let check = checks.find(|check| check.name == *name);
                check.is_some_and(|check| table.link(check.id).is_some())
            }
            _ => table.partition_of_table().is_some(),
        };
        if !inherited {
            tell(rule_description(table, text), ddl);
        }
        match text {
            StoredText::Check(name) => taken.rules.checks.retain(|check| check.name != *name),
            StoredText::Generated(at) => columns.push(*at),
            StoredText::Default(at) => taken.columns[*at].default = None,
            _ => {}
        }
    }
    // In reverse order, because dropping a column renumbers the columns behind it.
    for at in columns.into_iter().rev() {
        Box::pin(drop_column((at, true), cx, ddl, changes, &mut taken)).await?;
    }
    changes.put(taken);
    Ok(())
}
