//! `pg_stats`: the statistics that ANALYZE has collected.

use super::RowInputs;
use super::rows::Rows;
use crate::catalog::acl::Privileges;
use crate::catalog::{CatalogView, ColumnDef, Object, ObjectKind, TableDef};
use crate::settings::Settings;
use crate::table_statistics::ColumnStatistics;
use crate::types::{Type, text_out};
use crate::value::{Array, Value};

/// Adds the rows of `pg_stats`: those of the columns that the current role may read.
pub fn columns(rows: &mut Rows, around: &RowInputs<'_>) {
    let Some(source) = &around.cx.table_statistics else {
        return;
    };
    let role = around.snapshot.role(&around.cx.current_user());
    let Some(role) = role.ok().flatten() else {
        return;
    };
    let security = around.snapshot.security();
    for table in around.snapshot.tables() {
        let Some(statistics) = source.statistics(&table) else {
            continue;
        };
        let object = Object::new(ObjectKind::Table, table.id);
        for column in &table.columns {
            let select = Privileges::SELECT;
            let allowed = security.allowed(role.id, object, select).has(select)
                || security
                    .allowed_column(role.id, object, column.attnum, select)
                    .has(select);
            if let Some(of) = statistics.column(column.attnum).filter(|_| allowed) {
                add(rows, &table, column, of);
            }
        }
    }
}

fn add(rows: &mut Rows, table: &TableDef, column: &ColumnDef, of: &ColumnStatistics) {
    let common = of.common.iter().map(|(value, _)| value.clone());
    let fractions = of.common.iter();
    let fractions = fractions.map(|(_, fraction)| Value::Float4(*fraction as f32));
    let correlation = of.correlation.map(|of| Value::Float4(of as f32));
    rows.add([
        ("schemaname", Value::text(&table.schema)),
        ("tablename", Value::text(&table.name)),
        ("attname", Value::text(&column.name)),
        ("inherited", Value::Bool(table.is_parent())),
        ("null_frac", Value::Float4(of.null_fraction as f32)),
        ("avg_width", Value::Int4(of.width as i32)),
        ("n_distinct", Value::Float4(of.distinct as f32)),
        ("most_common_vals", array_text(common.collect(), column)),
        ("most_common_freqs", list(fractions.collect())),
        ("histogram_bounds", array_text(of.histogram.clone(), column)),
        ("correlation", correlation.unwrap_or_default()),
    ]);
}

/// Returns an array of values in its text form; NULL for no values.
fn array_text(values: Vec<Value>, column: &ColumnDef) -> Value {
    let Some(kind) = column.ty.kind.array().filter(|_| !values.is_empty()) else {
        return Value::Null;
    };
    let (values, ty) = (Array::of(values).into(), Type::of(kind));
    let mut text = Vec::new();
    text_out(&values, &ty, &Settings::new(), &mut text);
    Value::text(String::from_utf8_lossy(&text))
}

/// Returns an array; NULL for no values.
fn list(values: Vec<Value>) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    Array::of(values).into()
}
