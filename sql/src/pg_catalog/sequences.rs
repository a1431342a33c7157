//! Sequences: their columns as relations, the columns that use them, and the rows of `pg_sequence`.

use std::sync::Arc;

use super::RowInputs;
use super::rows::Rows;
use crate::catalog::{PUBLIC_SCHEMA, SequenceDef, Snapshot, TableDef};
use crate::error::{SqlError, SqlState};
use crate::functions::quote_ident as quoted;
use crate::types::Type;
use crate::value::Value;

/// The columns of a sequence as a relation.
pub const SEQUENCE_COLUMNS: [(&str, Type); 3] = [
    ("last_value", Type::INT8),
    ("log_cnt", Type::INT8),
    ("is_called", Type::BOOL),
];

/// Returns whether a default of the table uses this sequence.
pub fn takes_values_of(snapshot: &Snapshot, table: &TableDef, sequence: u32) -> bool {
    let mut columns = table.columns.iter();
    columns.any(|column| {
        let mut all = sequences_of(snapshot, table, column.default.as_ref());
        all.any(|of| of.id == sequence)
    })
}

/// Returns the sequences that a default of a table uses.
pub(super) fn sequences_of<'a>(
    snapshot: &'a Snapshot,
    table: &'a TableDef,
    default: Option<&'a String>,
) -> impl Iterator<Item = &'a SequenceDef> {
    let called = move |sequence: &&Arc<SequenceDef>| {
        let name = quoted(&sequence.name).replace('\'', "''");
        let schema = quoted(&sequence.schema).replace('\'', "''");
        // An unqualified sequence is in `public` or in the schema of the table.
        let near = sequence.schema == PUBLIC_SCHEMA || sequence.schema == table.schema;
        default.is_some_and(|default| {
            default.contains(&format!("nextval('{schema}.{name}'"))
                || (near && default.contains(&format!("nextval('{name}'")))
        })
    };
    snapshot
        .sequences()
        .filter(called)
        .map(|sequence| &**sequence)
}

/// Returns the sequence that a column of the relation with this oid owns.
///
/// # Errors
/// 42703 if the column does not exist.
pub fn serial_sequence(
    snapshot: &Snapshot,
    oid: u32,
    column: &str,
) -> Result<Option<String>, SqlError> {
    let Some(table) = snapshot.relation(oid) else {
        return Ok(None);
    };
    let Some(at) = table.column(column) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                table.name
            ),
        ));
    };
    let owned = table.columns[at].more.sequence;
    let mut all = snapshot.sequences();
    let sequence = all.find(|sequence| Some(sequence.id) == owned);
    Ok(sequence.map(|sequence| {
        let (schema, name) = (&sequence.schema, &sequence.name);
        format!("{}.{}", quoted(schema), quoted(name))
    }))
}

/// Returns whether a sequence belongs to an identity column.
pub fn is_of_identity(around: &RowInputs<'_>, sequence: &SequenceDef) -> bool {
    let table = sequence
        .owner
        .and_then(|owner| around.snapshot.relation(owner));
    table.is_some_and(|table| {
        let mut columns = table.columns.iter();
        columns.any(|column| {
            column.more.identity.is_some() && column.more.sequence == Some(sequence.id)
        })
    })
}

/// Adds the rows of `pg_sequence`.
pub fn sequences(rows: &mut Rows, around: &RowInputs<'_>) {
    for sequence in around.snapshot.sequences() {
        rows.add([
            ("seqrelid", Value::Oid(sequence.id)),
            ("seqtypid", Value::Oid(sequence.kind.oid())),
            ("seqstart", Value::Int8(sequence.start)),
            ("seqincrement", Value::Int8(sequence.increment)),
            ("seqmax", Value::Int8(sequence.max)),
            ("seqmin", Value::Int8(sequence.min)),
            ("seqcache", Value::Int8(sequence.cache)),
            ("seqcycle", Value::Bool(sequence.cycle)),
        ]);
    }
}
