//! Typed rows: conversions between SQL values and Rust types.

use std::sync::Arc;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::value::Value;
use rust_decimal::Decimal;

use crate::error::Error;
use crate::prepared::Column;

/// A row of a result. It owns its values, and is independent of its session.
///
/// ```
/// use fencepost::{Database, SqlState};
///
/// let mut session = Database::in_memory()?.blocking();
/// let row = session.query_one("SELECT 7 AS id, 'Ada' AS name, NULL::date AS born", &[])?;
/// let (id, name): (i64, String) = (row.get("id")?, row.get(1)?);
/// assert_eq!((id, name.as_str()), (7, "Ada"));
/// assert!(row.values()[2].is_null());
/// let wrong = row.get::<bool>("id").unwrap_err();
/// assert_eq!(wrong.code(), SqlState::DATATYPE_MISMATCH);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Row {
    columns: Arc<[Column]>,
    values: Vec<Value>,
}

/// A way to select a column of a row: by its exact name or by its position from 0. Of several
/// columns with one name, the first is selected.
pub trait RowIndex {
    /// Returns the position of the column, below `columns.len()`; `None` if there is none.
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

    /// Returns the value of a column as a Rust type; [`FromValue`] has the table of types.
    ///
    /// # Errors
    /// 42703 for a missing column; 42804 for a type that does not fit, for NULL where `T` is no
    /// `Option`, and for a value that `T` cannot represent.
    ///
    /// # Panics
    /// If a `RowIndex` of the caller's returns a position that the row does not have.
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

    /// Returns the values, in the order of the columns.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the columns: their names, types and origins.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

/// A Rust type into which a value can be converted.
///
/// | Rust | SQL |
/// |---|---|
/// | `bool` | boolean |
/// | `i16` | smallint |
/// | `i32` | smallint, integer |
/// | `i64` | smallint, integer, bigint |
/// | `f32` | real |
/// | `f64` | real, double precision |
/// | `Decimal` of the crate `rust_decimal` | smallint, integer, bigint, numeric |
/// | `String` | text, varchar, char, name |
/// | `Vec<u8>` | bytea |
/// | `[u8; 16]` | uuid |
/// | `Option<T>` | as `T`, and NULL |
/// | [`Value`] | any type, also dates, timestamps, JSON and arrays |
///
/// `count(*)` is a bigint, and `sum` of a bigint is a numeric. Other types may be cast in the
/// statement, as in `SELECT at::text`.
pub trait FromValue: Sized {
    /// Converts the value; `None` if its type does not fit.
    fn from_value(value: &Value) -> Option<Self>;
}

/// A Rust type that can be converted into a parameter: those of [`FromValue`], and `&str`.
pub trait ToValue {
    /// Returns the parameter's value; NULL for `None`.
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

/// Creates the parameters of a statement: a reference to an array of [`Value`](crate::Value).
///
/// The statement converts each value to the type of its parameter, as an INSERT does: an `i64` for
/// an integer, or a string for a date. A value that does not fit is an error of the statement.
///
/// ```
/// use fencepost::{Database, SqlState, Value, params};
///
/// let mut session = Database::in_memory()?.blocking();
/// session.batch("CREATE TABLE person (id int, name text, born date)")?;
/// let insert = "INSERT INTO person VALUES ($1, $2, $3)";
/// session.execute(insert, params![1_i64, "Ada", "1815-12-10"])?;
/// session.execute(insert, params![2, None::<String>, Value::Null])?;
/// let bad = session.execute(insert, params![3, "Bob", "someday"]).unwrap_err();
/// assert_eq!(bad.code(), SqlState::INVALID_DATETIME_FORMAT);
/// let born = session.query_one("SELECT born FROM person WHERE id = $1", params![1])?;
/// assert_eq!(born.get::<Value>(0)?, Value::Date(-67_227)); // days from 2000-01-01
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::ToValue::to_value(&$value)),*]
    };
}
