//! Typed rows: conversions between SQL values and Rust types.

use std::sync::Arc;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::value::Value;
use rust_decimal::Decimal;

use crate::error::Error;
use crate::prepared::Column;

/// A row of a result.
#[derive(Clone, Debug)]
pub struct Row {
    columns: Arc<[Column]>,
    values: Vec<Value>,
}

/// A way to select a column of a row: by name or by position.
pub trait RowIndex {
    /// Returns the position of the column.
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

impl RowIndex for usize {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl RowIndex for &str {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        columns.iter().position(|c| c.name == *self)
    }
}

impl Row {
    pub(crate) fn new(columns: Arc<[Column]>, values: Vec<Value>) -> Row {
        Row { columns, values }
    }

    /// Returns the value of a column as a Rust type. Fails with 42703 for a missing column, and
    /// 42804 for a type that does not fit.
    pub fn get<T: FromValue>(&self, column: impl RowIndex) -> Result<T, Error> {
        let Some(position) = column.find(&self.columns) else {
            let error = SqlError::new(SqlState::UNDEFINED_COLUMN, "the row has no such column");
            return Err(error.into());
        };
        T::from_value(&self.values[position]).ok_or_else(|| {
            let name = &self.columns[position].name;
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("column \"{name}\" does not hold a value of the type asked for"),
            )
            .into()
        })
    }

    /// Returns the values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

/// A Rust type into which a value can be converted.
pub trait FromValue: Sized {
    /// Converts the value, if its type fits.
    fn from_value(value: &Value) -> Option<Self>;
}

/// A Rust type that can be converted into a parameter.
pub trait ToValue {
    /// Returns the parameter's value.
    fn to_value(&self) -> Value;
}

macro_rules! convert {
    ($($rust:ty: $($variant:ident)|+, $to:expr;)*) => {$(
        impl FromValue for $rust {
            fn from_value(value: &Value) -> Option<$rust> {
                match value {
                    $(Value::$variant(v) => <$rust>::try_from(v.clone()).ok(),)+
                    _ => None,
                }
            }
        }

        impl ToValue for $rust {
            fn to_value(&self) -> Value {
                let to: fn(&$rust) -> Value = $to;
                to(self)
            }
        }
    )*};
}

convert! {
    bool: Bool, |v| Value::Bool(*v);
    i16: Int2, |v| Value::Int2(*v);
    i32: Int2 | Int4, |v| Value::Int4(*v);
    i64: Int2 | Int4 | Int8, |v| Value::Int8(*v);
    f32: Float4, |v| Value::Float4(*v);
    f64: Float4 | Float8, |v| Value::Float8(*v);
    Decimal: Int2 | Int4 | Int8 | Numeric, |v| Value::Numeric(*v);
    String: Text, |v| Value::text(v);
    Vec<u8>: Bytea, |v| Value::Bytea(v.clone());
    [u8; 16]: Uuid, |v| Value::Uuid(*v);
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl ToValue for Value {
    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value {
        Value::text(self)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

/// Creates the parameters of a statement.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::ToValue::to_value(&$value)),*]
    };
}
