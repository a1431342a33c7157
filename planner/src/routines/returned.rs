//! The result of a routine, and its conversion to the declared types.

use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{CastContext, assign, cast_context, check_domain};
use fencepost_sql::types::{Fields, Type, checked_text, text_in};
use fencepost_sql::value::{Record, Value};

/// The result of a routine.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineOutput {
    /// One row, or one value. `None` means no row, which reads as NULL.
    Row(Option<Vec<Value>>),
    /// A set of rows.
    Set(Vec<Vec<Value>>),
}

impl RoutineOutput {
    /// Returns the single value. For a function that returns rows, `fields` describes their fields.
    pub fn into_value(self, fields: Option<Fields>) -> Value {
        let row = match self {
            RoutineOutput::Row(row) => row,
            RoutineOutput::Set(rows) => rows.into_iter().next(),
        };
        match (row, fields) {
            (Some(row), Some(fields)) => Record::new(fields, row).into(),
            (row, _) => row
                .and_then(|row| row.into_iter().next())
                .unwrap_or_default(),
        }
    }

    /// Returns the rows, which have `width` columns.
    pub fn into_rows(self, width: usize) -> Vec<Vec<Value>> {
        match self {
            RoutineOutput::Row(Some(row)) => vec![row],
            RoutineOutput::Row(None) => vec![vec![Value::Null; width]],
            RoutineOutput::Set(rows) => rows,
        }
    }
}

/// Converts a value to the type of a variable or result: by the assignment cast, or otherwise
/// through its text.
pub fn fit(value: Value, from: &Type, to: &Type, eval: &EvalContext) -> Result<Value, SqlError> {
    if let Some(domain) = to.as_domain() {
        let value = fit(value, from, &domain.root(), eval)?;
        check_domain(domain, &value, eval)?;
        return Ok(value);
    }
    let from = &from.plain();
    if value.is_null() || to.kind == fencepost_sql::types::TypeKind::Void || *to == Type::UNKNOWN {
        return Ok(value);
    }
    if from.kind == to.kind && to.typmod == -1 {
        return Ok(value);
    }
    match cast_context(from.kind, to.kind) {
        Some(needed) if needed <= CastContext::Assignment => assign(value, from, to, eval),
        _ => text_in(
            to,
            &checked_text(&value, from, &eval.settings)?,
            &eval.settings,
        ),
    }
}

/// Converts a row to the declared columns. Returns error 42804 if it does not match.
pub fn fit_row(
    row: Vec<Value>,
    from: &[(String, Type)],
    to: &[(String, Type)],
    eval: &EvalContext,
) -> Result<Vec<Value>, SqlError> {
    if from.len() != to.len() {
        return Err(mismatch().detail(format!(
            "Number of returned columns ({}) does not match expected column count ({}).",
            from.len(),
            to.len()
        )));
    }
    let mut fitted = Vec::with_capacity(row.len());
    for ((value, (_, from)), (_, to)) in row.into_iter().zip(from).zip(to) {
        fitted.push(fit(value, from, to, eval)?);
    }
    Ok(fitted)
}

/// Converts a row value to the declared columns, which must have the same types; error 42804 if it
/// does not match. NULL is no row.
pub fn unpacked(
    value: Value,
    to: &[(String, Type)],
    eval: &EvalContext,
) -> Result<Option<Vec<Value>>, SqlError> {
    let row = match value {
        Value::Null => return Ok(None),
        Value::Record(row) => row,
        _ => {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "cannot return non-composite value from function returning composite type",
            ));
        }
    };
    let fields = row.fields.iter();
    let columns: Vec<_> = fields.map(|f| (f.name.clone(), f.ty)).collect();
    let values: Vec<Value> = (0..columns.len()).map(|at| row.get(at).clone()).collect();
    check_types(&columns, to)?;
    fit_row(values, &columns, to, eval).map(Some)
}

/// Returns error 42804 if columns do not have the declared types.
pub fn check_types(from: &[(String, Type)], to: &[(String, Type)]) -> Result<(), SqlError> {
    for (nth, ((_, from), (_, to))) in from.iter().zip(to).enumerate() {
        if from.plain().kind != to.plain().kind {
            return Err(mismatch().detail(format!(
                "Returned type {from} does not match expected type {to} in column {}.",
                nth + 1
            )));
        }
    }
    Ok(())
}

/// Returns error 42804.
pub fn mismatch() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "returned record type does not match expected record type",
    )
}

/// Checks the columns of RETURN QUERY: they must have the declared types.
pub fn check_query(from: &[(String, Type)], to: &[(String, Type)]) -> Result<(), SqlError> {
    let refused = || {
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            "structure of query does not match function result type",
        )
    };
    if from.len() != to.len() {
        return Err(refused().detail(format!(
            "Number of returned columns ({}) does not match expected column count ({}).",
            from.len(),
            to.len()
        )));
    }
    for (nth, ((_, from), (_, to))) in from.iter().zip(to).enumerate() {
        if from.plain().kind != to.plain().kind && *from != Type::UNKNOWN {
            return Err(refused().detail(format!(
                "Returned type {from} does not match expected type {to} in column {}.",
                nth + 1
            )));
        }
    }
    Ok(())
}
