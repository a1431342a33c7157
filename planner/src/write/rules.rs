//! The constraints of a single row: domains, NOT NULL, CHECK; and generated columns.

use fencepost_sql::error::SqlError;
use fencepost_sql::functions::check_rules;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::errors::{check_violated, null_value, outside_partition, outside_view};
use crate::exec::Cx;
use crate::leaves::is_within;
use crate::plan::TablePlan;

/// Returns an error if `row` violates a constraint of its table. For an update, only the `changed`
/// columns have new values.
#[inline]
pub async fn check_row(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: &[Value],
    changed: Option<&[usize]>,
) -> Result<(), StatementStop> {
    for (column, domain) in &table.rules.domains {
        if changed.is_none_or(|changed| changed.contains(column)) {
            check_rules(*domain, &row[*column], cx.eval)?;
        }
    }
    for (column, def) in table.def.columns.iter().enumerate() {
        if def.not_null && row[column].is_null() {
            return Err(null_value(&table.def, column, row, &cx.eval.settings).into());
        }
    }
    if table.rules.calls {
        Box::pin(call_checks(cx, table, row)).await?;
    } else if !table.rules.checks.is_empty() {
        run_checks(cx, table, row).await?;
    }
    match table.rules.within {
        Some(_) if !is_within(table, table.def.id, row) => {
            Err(outside_partition(&table.def, row, &cx.eval.settings).into())
        }
        _ => Ok(()),
    }
}

/// Runs the CHECK constraints. False violates a constraint; NULL does not.
async fn run_checks(cx: &mut Cx<'_>, table: &TablePlan, row: &[Value]) -> Result<(), SqlError> {
    for check in &table.rules.checks {
        if cx.value(&check.condition, row).await? == Value::Bool(false) {
            return Err(check_violated(
                &table.def,
                &check.name,
                row,
                &cx.eval.settings,
            ));
        }
    }
    Ok(())
}

/// Runs the CHECK constraints of a table whose constraints call user-defined functions.
async fn call_checks(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: &[Value],
) -> Result<(), StatementStop> {
    for check in &table.rules.checks {
        if cx.deep_value(&check.condition, row).await? == Value::Bool(false) {
            let settings = &cx.eval.settings;
            return Err(check_violated(&table.def, &check.name, row, settings).into());
        }
    }
    Ok(())
}

/// Returns an error if `row` violates WITH CHECK OPTION of a view through which it was written.
pub async fn check_views(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: &[Value],
) -> Result<(), StatementStop> {
    for check in &table.rules.views {
        if !cx.deep_holds(Some(&check.condition), row).await? {
            let settings = &cx.eval.settings;
            return Err(outside_view(&table.def, &check.view, row, settings).into());
        }
    }
    Ok(())
}

/// Computes the generated columns of `row`.
#[inline]
pub async fn generate(
    cx: &mut Cx<'_>,
    table: &TablePlan,
    row: &mut [Value],
) -> Result<(), StatementStop> {
    for generated in &table.rules.generated {
        row[generated.column] = match table.rules.calls {
            true => cx.deep_value(&generated.value, row).await?,
            false => cx.value(&generated.value, row).await?,
        };
    }
    Ok(())
}
