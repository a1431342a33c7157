//! Functions of sequences. The binder has resolved the names to oids.

use super::ScalarFunction;
use super::library::volatile;
use super::mismatch;
use crate::catalog::CatalogView;
use crate::catalog::temporary::is_temporary;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::sequences::SetValue;
use crate::types::TypeKind::{Bool, Int8};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    volatile("nextval", &[Int8], Int8, |a, cx| {
        let id = id(a)?;
        check_writable(id, "nextval", cx)?;
        Ok(Value::Int8(cx.sequences.next(id)?))
    }),
    volatile("currval", &[Int8], Int8, |a, cx| {
        let current = cx.sequences.current(id(a)?);
        current.map(Value::Int8).ok_or_else(|| undefined("currval of this sequence"))
    }),
    volatile("lastval", &[], Int8, |_, cx| {
        let last = cx.sequences.last();
        last.map(Value::Int8).ok_or_else(|| undefined("lastval"))
    }),
    volatile("setval", &[Int8, Int8], Int8, |a, cx| set(a, cx, true)),
    volatile("setval", &[Int8, Int8, Bool], Int8, |a, cx| {
        let was_given = a.get(2).and_then(Value::as_bool) == Some(true);
        set(a, cx, was_given)
    }),
];

/// Returns whether a function only returns values drawn from a sequence.
pub fn draws(function: &ScalarFunction) -> bool {
    matches!(function.name, "nextval" | "currval" | "lastval")
}

fn id(args: &[Value]) -> Result<u32, SqlError> {
    let id = args.first().and_then(Value::as_int);
    let id = id.ok_or_else(|| mismatch("nextval"))?;
    u32::try_from(id)
        .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))
}

fn set(args: &[Value], cx: &EvalContext, was_given: bool) -> Outcome {
    let value = args.get(1).and_then(Value::as_int);
    let value = value.ok_or_else(|| mismatch("setval"))?;
    let id = id(args)?;
    check_writable(id, "setval", cx)?;
    let sequence = cx.catalog().sequence_by_id(id)?;
    sequence.map_or(Ok(()), |sequence| sequence.check_value(value))?;
    cx.sequences.set(SetValue {
        id,
        value,
        was_given,
    });
    Ok(Value::Int8(value))
}

/// Checks that the transaction can change a sequence.
///
/// # Errors
/// 25006 in a read-only transaction, unless the sequence is temporary.
fn check_writable(id: u32, function: &str, cx: &EvalContext) -> Result<(), SqlError> {
    if !cx.sequences.is_read_only() {
        return Ok(());
    }
    let sequence = cx.catalog().sequence_by_id(id)?;
    if sequence.is_some_and(|sequence| is_temporary(&sequence.schema)) {
        return Ok(());
    }
    Err(SqlError::read_only(format_args!("{function}()")))
}

/// Returns error 55000.
fn undefined(what: &str) -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("{what} is not yet defined in this session"),
    )
}
