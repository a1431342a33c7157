//! Aggregates that collect all of their input: `array_agg` and the JSON aggregates.

use crate::bound::AggregateKind;
use crate::error::{SqlError, SqlState};
use crate::functions::array::stacked;
use crate::functions::long::too_long;
use crate::functions::mismatch;
use crate::types::json;
use crate::value::{Array, Value};

/// The maximum size of one aggregate's input, in bytes, as PostgreSQL limits an array.
const GATHERED_BYTES_MAX: usize = (1 << 30) - 1;

/// The collected input of an aggregate and the form of its result.
#[derive(Clone, Debug)]
pub(super) struct AggregateInput {
    kind: AggregateKind,
    /// The arguments of all rows, concatenated.
    values: Vec<Value>,
    /// Whether each element of a JSON array stands on its own line.
    lines: bool,
    /// The size of the values in bytes.
    bytes: usize,
}

impl AggregateInput {
    /// Returns the state of an aggregate; `None` for one that does not collect its input.
    pub(super) fn new(kind: AggregateKind) -> Option<AggregateInput> {
        let keeps = matches!(
            kind,
            AggregateKind::ArrayAgg
                | AggregateKind::JsonAgg
                | AggregateKind::JsonbAgg
                | AggregateKind::JsonObjectAgg
                | AggregateKind::JsonbObjectAgg
        );
        keeps.then_some(AggregateInput {
            kind,
            values: Vec::new(),
            lines: false,
            bytes: 0,
        })
    }

    /// Adds one row's arguments, including NULLs.
    pub(super) fn add(&mut self, args: &[Value]) -> Result<(), SqlError> {
        let object = matches!(
            self.kind,
            AggregateKind::JsonObjectAgg | AggregateKind::JsonbObjectAgg
        );
        if object && args.first().is_some_and(Value::is_null) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "field name must not be null",
            ));
        }
        if self.kind == AggregateKind::ArrayAgg
            && matches!(args, [Value::Null])
            && matches!(self.values.first(), Some(Value::Array(_)))
        {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "cannot accumulate null arrays",
            ));
        }
        let apart: usize = args.iter().map(Value::bytes_apart).sum();
        self.bytes += size_of_val(args) + apart;
        if self.bytes > GATHERED_BYTES_MAX {
            return Err(self.too_large());
        }
        if let (AggregateKind::JsonAgg, [value, _]) = (self.kind, args) {
            self.lines = true;
            self.values.push(value.clone());
            return Ok(());
        }
        self.values.extend_from_slice(args);
        Ok(())
    }

    /// Returns the size of the collected input, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns error 54000 for a result that is too large.
    #[cold]
    fn too_large(&self) -> SqlError {
        match self.kind {
            AggregateKind::ArrayAgg => SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("array size exceeds the maximum allowed ({GATHERED_BYTES_MAX})"),
            ),
            _ => too_long(),
        }
    }

    /// Returns the result; NULL if there were no rows.
    pub(super) fn finish(self) -> Result<Value, SqlError> {
        if self.values.is_empty() {
            return Ok(Value::Null);
        }
        match self.kind {
            AggregateKind::ArrayAgg => match self.values.first() {
                Some(Value::Array(first)) if first.dims.is_empty() => Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "cannot accumulate empty arrays",
                )),
                Some(Value::Array(_)) => stacked(&self.values).map_err(|e| match e.sqlstate() {
                    SqlState::ARRAY_SUBSCRIPT_ERROR => SqlError::new(
                        SqlState::ARRAY_SUBSCRIPT_ERROR,
                        "cannot accumulate arrays of different dimensionality",
                    ),
                    _ => e,
                }),
                _ => Ok(Array::of(self.values).into()),
            },
            AggregateKind::JsonAgg => Ok(Value::Json(self.list()?.into())),
            AggregateKind::JsonbAgg => Ok(Value::Jsonb(self.list()?.into())),
            AggregateKind::JsonObjectAgg => {
                let pairs = self.pairs(" : ")?;
                Ok(Value::Json(format!("{{ {pairs} }}").into()))
            }
            _ => {
                let pairs = self.pairs(": ")?;
                Ok(Value::Jsonb(json::normal(&format!("{{{pairs}}}"))?.into()))
            }
        }
    }

    fn list(&self) -> Result<String, SqlError> {
        let mut out = String::from("[");
        for (i, value) in self.values.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
                if self.lines && !value.is_null() {
                    out.push_str("\n ");
                }
            }
            out.push_str(json_text(value)?);
        }
        out.push(']');
        Ok(out)
    }

    fn pairs(&self, colon: &str) -> Result<String, SqlError> {
        let mut out = String::new();
        for pair in self.values.chunks_exact(2) {
            if !out.is_empty() {
                out.push_str(", ");
            }
            let key = pair[0].as_text().ok_or_else(|| mismatch("a JSON key"))?;
            json::quote(key, &mut out);
            out.push_str(colon);
            out.push_str(json_text(&pair[1])?);
        }
        Ok(out)
    }
}

/// Returns the text of a value that the binder has converted to JSON.
fn json_text(value: &Value) -> Result<&str, SqlError> {
    match value {
        Value::Null => Ok("null"),
        Value::Json(text) | Value::Jsonb(text) => Ok(text),
        _ => Err(mismatch("a JSON aggregate")),
    }
}
