//! The errors of constraint violations, with the fields that clients read.

use std::sync::Arc;

use fencepost_sql::catalog::{ForeignKeyDef, IndexDef, Level, TableDef};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions;
use fencepost_sql::pg_catalog::index_column;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::text_out;
use fencepost_sql::value::Value;

/// Returns error 23505: `row` has a key that another row has.
#[cold]
pub fn duplicate(
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    settings: &Settings,
) -> SqlError {
    let (names, values) = key_text(table, index, row, settings);
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!(
            "duplicate key value violates unique constraint \"{}\"",
            index.name
        ),
    )
    .detail(format!("Key ({names})=({values}) already exists."))
    .table(&table.schema, &table.name)
    .constraint(&index.name)
}

/// Returns error 23505 of CREATE UNIQUE INDEX: two rows share a key.
#[cold]
pub fn not_unique(
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    settings: &Settings,
) -> SqlError {
    let (names, values) = key_text(table, index, row, settings);
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("could not create unique index \"{}\"", index.name),
    )
    .detail(format!("Key ({names})=({values}) is duplicated."))
    .table(&table.schema, &table.name)
    .constraint(&index.name)
}

/// Returns error 23514: a CHECK constraint rejects `row`.
#[cold]
pub fn check_violated(
    table: &TableDef,
    name: &str,
    row: &[Value],
    settings: &Settings,
) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "new row for relation \"{}\" violates check constraint \"{name}\"",
            table.name
        ),
    )
    .detail(failing_row(table, row, settings))
    .table(&table.schema, &table.name)
    .constraint(name)
}

/// Returns error 44000: `row` violates the check option of a view.
#[cold]
pub fn outside_view(table: &TableDef, view: &str, row: &[Value], settings: &Settings) -> SqlError {
    SqlError::new(
        SqlState::new(b"44000"),
        format!("new row violates check option for view \"{view}\""),
    )
    .detail(failing_row(table, row, settings))
}

/// Returns error 23514: a partitioned table, or one of its partitions, has no partition for `row`.
#[cold]
pub fn no_partition(
    table: &TableDef,
    level: &Level,
    row: &[Value],
    settings: &Settings,
) -> SqlError {
    let columns = &level.key.columns;
    let values: Vec<Value> = columns.iter().map(|column| row[*column].clone()).collect();
    let (names, value_texts) = values_text(table, columns, &values, settings);
    let name = match level.table == table.id {
        true => table.name.clone(),
        false => {
            let name = table.tree().and_then(|tree| tree.name_of(level.table));
            name.unwrap_or_default().to_owned()
        }
    };
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!("no partition of relation \"{name}\" found for row"),
    )
    .detail(format!(
        "Partition key of the failing row contains ({names}) = ({value_texts})."
    ))
    .table(&table.schema, &name)
}

/// Returns error 23514: `row` violates the partition constraint of the partition it is written to.
#[cold]
pub fn outside_partition(table: &TableDef, row: &[Value], settings: &Settings) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "new row for relation \"{}\" violates partition constraint",
            table.name
        ),
    )
    .detail(failing_row(table, row, settings))
    .table(&table.schema, &table.name)
}

fn failing_row(table: &TableDef, row: &[Value], settings: &Settings) -> String {
    let columns = table.columns.iter().zip(row);
    let values: Vec<String> = columns
        .map(|(c, v)| shortened(text(v, c.ty, settings)))
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}

/// Returns error 23503 of a referencing row: the referenced row does not exist.
#[cold]
pub fn not_present(
    key: &ForeignKeyDef,
    (child, parent): (&TableDef, &TableDef),
    values: &[Value],
    settings: &Settings,
) -> SqlError {
    let (names, value_texts) = values_text(child, &key.columns, values, settings);
    foreign_key_error(
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            child.name, key.name
        ),
        (child, &key.name),
    )
    .detail(format!(
        "Key ({names})=({value_texts}) is not present in table \"{}\".",
        parent.name
    ))
}

/// Returns error 23503 of a row that is still referenced.
#[cold]
pub fn still_referenced(
    key: &ForeignKeyDef,
    (child, parent): (&TableDef, &TableDef),
    values: &[Value],
    settings: &Settings,
) -> SqlError {
    let (names, value_texts) = values_text(parent, &key.parent_columns, values, settings);
    foreign_key_error(
        format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \
             \"{}\"",
            parent.name, key.name, child.name
        ),
        (child, &key.name),
    )
    .detail(format!(
        "Key ({names})=({value_texts}) is still referenced from table \"{}\".",
        child.name
    ))
}

/// Returns error 23503 of a partition that cannot be dropped or detached, because one of its rows
/// is referenced.
#[cold]
pub fn still_in_partition(
    key: &ForeignKeyDef,
    (child, parent): (&TableDef, &TableDef),
    (partition, values): (&TableDef, &[Value]),
    settings: &Settings,
) -> SqlError {
    let (names, value_texts) = values_text(parent, &key.parent_columns, values, settings);
    foreign_key_error(
        format!(
            "removing partition \"{}\" violates foreign key constraint \"{}\"",
            partition.name, key.name
        ),
        (child, &key.name),
    )
    .detail(format!(
        "Key ({names})=({value_texts}) is still referenced from table \"{}\".",
        child.name
    ))
}

/// Returns error 23503 of MATCH FULL: some columns are NULL and others are not.
#[cold]
pub fn partly_null(key: &ForeignKeyDef, child: &TableDef) -> SqlError {
    foreign_key_error(
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            child.name, key.name
        ),
        (child, &key.name),
    )
    .detail("MATCH FULL does not allow mixing of null and nonnull key values.")
}

fn foreign_key_error(message: String, (table, name): (&TableDef, &str)) -> SqlError {
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .table(&table.schema, &table.name)
        .constraint(name)
}

fn values_text(
    table: &TableDef,
    columns: &[usize],
    values: &[Value],
    settings: &Settings,
) -> (String, String) {
    let defs = columns.iter().map(|c| &table.columns[*c]);
    let names: Vec<&str> = defs.clone().map(|c| c.name.as_str()).collect();
    let value_texts: Vec<String> = defs
        .zip(values)
        .map(|(c, v)| text(v, c.ty, settings))
        .collect();
    (names.join(", "), value_texts.join(", "))
}

/// Returns error 23502: `row` has NULL in a NOT NULL column.
#[cold]
pub fn null_value(table: &TableDef, column: usize, row: &[Value], settings: &Settings) -> SqlError {
    let name = &table.columns[column].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
            table.name
        ),
    )
    .detail(failing_row(table, row, settings))
    .table(&table.schema, &table.name)
    .column(name)
}

/// Returns error 23502 of ALTER TABLE: an existing row has NULL in a column that becomes a key
/// column.
#[cold]
pub fn contains_nulls(table: &TableDef, column: usize) -> SqlError {
    let name = &table.columns[column].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "column \"{name}\" of relation \"{}\" contains null values",
            table.name
        ),
    )
    .table(&table.schema, &table.name)
    .column(name)
}

/// Returns the columns of `index` and the values of `row` in them, as lists.
pub fn key_text(
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    settings: &Settings,
) -> (String, String) {
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (at, key) in index.columns.iter().enumerate() {
        let Some(expression) = index.expression(key.column) else {
            let column = &table.columns[key.column];
            names.push(column.name.clone());
            values.push(text(&row[key.column], column.ty, settings));
            continue;
        };
        names.push(index_column(None, table, index, at).unwrap_or_default());
        let eval = EvalContext::new(Arc::new(settings.clone()), 0, 0);
        // The expression was evaluated for the key before, so it does not fail.
        let value = functions::eval(&expression.value, row, &[], &eval).unwrap_or_default();
        values.push(text(&value, expression.value.ty, settings));
    }
    (names.join(", "), values.join(", "))
}

fn text(value: &Value, ty: fencepost_sql::types::Type, settings: &Settings) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut out = Vec::new();
    text_out(value, &ty, settings, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Shortens a long value to its first 64 bytes, as PostgreSQL does.
fn shortened(mut text: String) -> String {
    const SHOWN_BYTES: usize = 64;
    if text.len() > SHOWN_BYTES {
        let mut end = SHOWN_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}
