//! Conversion of values to Arrow columns, and back.
//!
//! Failure: a value that does not have its column's form is an internal error.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBuilder, Decimal128Array, Decimal128Builder,
    FixedSizeBinaryArray, FixedSizeBinaryBuilder, Float64Array, Float64Builder, Int64Array,
    Int64Builder, LargeStringArray, LargeStringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fencepost_sql::error::SqlError;
use fencepost_sql::row::RowReader;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use rust_decimal::Decimal;

use super::form::Form;

/// The number of digits of a decimal in Arrow, more than any numeric has.
const DIGITS: u8 = 38;
const UUID_BYTES: i32 = 16;

impl Form {
    /// Returns the Arrow type of the column.
    pub fn data_type(self) -> DataType {
        match self {
            Form::Bool | Form::Present => DataType::Boolean,
            Form::Int => DataType::Int64,
            Form::Float => DataType::Float64,
            Form::Text => DataType::LargeUtf8,
            Form::Uuid => DataType::FixedSizeBinary(UUID_BYTES),
            Form::Decimal(scale) => DataType::Decimal128(DIGITS, scale as i8),
        }
    }
}

/// Returns the schema of columns of these forms. Their names are their numbers.
pub fn schema(forms: impl IntoIterator<Item = Form>) -> SchemaRef {
    let field = |(nth, form): (usize, Form)| Field::new(name(nth), form.data_type(), true);
    let fields: Vec<Field> = forms.into_iter().enumerate().map(field).collect();
    Arc::new(Schema::new(fields))
}

/// Returns the name of a column.
pub fn name(nth: usize) -> String {
    format!("c{nth}")
}

/// A builder of an Arrow column.
pub enum Cells {
    Bool(BooleanBuilder),
    Present(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(LargeStringBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Decimal(Decimal128Builder, u32),
}

impl Cells {
    /// Creates an empty builder with capacity for `rows` rows.
    pub fn new(form: Form, rows: usize) -> Cells {
        match form {
            Form::Bool => Cells::Bool(BooleanBuilder::with_capacity(rows)),
            Form::Present => Cells::Present(BooleanBuilder::with_capacity(rows)),
            Form::Int => Cells::Int(Int64Builder::with_capacity(rows)),
            Form::Float => Cells::Float(Float64Builder::with_capacity(rows)),
            Form::Text => Cells::Text(LargeStringBuilder::with_capacity(rows, rows * 8)),
            Form::Uuid => Cells::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, UUID_BYTES)),
            Form::Decimal(scale) => Cells::Decimal(
                Decimal128Builder::with_capacity(rows).with_data_type(form.data_type()),
                scale,
            ),
        }
    }

    /// Adds a value.
    #[inline]
    pub fn push(&mut self, value: &Value) -> Result<(), SqlError> {
        match (self, value) {
            (Cells::Bool(cells) | Cells::Present(cells), Value::Null) => cells.append_null(),
            (Cells::Int(cells), Value::Null) => cells.append_null(),
            (Cells::Float(cells), Value::Null) => cells.append_null(),
            (Cells::Text(cells), Value::Null) => cells.append_null(),
            (Cells::Uuid(cells), Value::Null) => cells.append_null(),
            (Cells::Decimal(cells, _), Value::Null) => cells.append_null(),
            (Cells::Present(cells), _) => cells.append_value(true),
            (Cells::Bool(cells), Value::Bool(value)) => cells.append_value(*value),
            (Cells::Int(cells), value) => cells.append_value(integer(value)?),
            (Cells::Float(cells), Value::Float8(value)) => cells.append_value(*value),
            (Cells::Float(cells), Value::Float4(value)) => cells.append_value(f64::from(*value)),
            (Cells::Text(cells), Value::Text(value)) => cells.append_value(value),
            (Cells::Uuid(cells), Value::Uuid(value)) => {
                cells.append_value(value).map_err(|_| wrong())?;
            }
            (Cells::Decimal(cells, scale), value) => cells.append_value(mantissa(value, *scale)?),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Adds the value of a column of an encoded row.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    #[inline]
    pub fn push_encoded(&mut self, row: &RowReader<'_>, column: usize) -> Result<(), SqlError> {
        match self {
            Cells::Int(cells) => cells.append_option(row.integer(column)?),
            Cells::Decimal(_, _) => return self.push_number(row.decimal(column)?),
            Cells::Present(cells) => cells.append_option((!row.is_null(column)).then_some(true)),
            Cells::Text(cells) => match row.text(column)? {
                Some(text) => cells.append_value(str::from_utf8(text).map_err(|_| wrong())?),
                None => cells.append_null(),
            },
            Cells::Bool(_) | Cells::Float(_) | Cells::Uuid(_) => {
                return self.push(&row.get(column)?);
            }
        }
        Ok(())
    }

    /// Adds a number, given by its digits and its number of decimal places; `None` for NULL.
    #[inline]
    pub fn push_number(&mut self, number: Option<(i128, u32)>) -> Result<(), SqlError> {
        match (self, number) {
            (Cells::Decimal(cells, _), None) => cells.append_null(),
            (Cells::Decimal(cells, scale), Some((digits, own))) => {
                cells.append_value(at_scale((digits, own), *scale)?);
            }
            (Cells::Present(cells), None) => cells.append_null(),
            (Cells::Present(cells), Some(_)) => cells.append_value(true),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Returns the finished column, and starts the next one.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Cells::Bool(cells) | Cells::Present(cells) => Arc::new(cells.finish()),
            Cells::Int(cells) => Arc::new(cells.finish()),
            Cells::Float(cells) => Arc::new(cells.finish()),
            Cells::Text(cells) => Arc::new(cells.finish()),
            Cells::Uuid(cells) => Arc::new(cells.finish()),
            Cells::Decimal(cells, _) => Arc::new(cells.finish()),
        }
    }
}

fn integer(value: &Value) -> Result<i64, SqlError> {
    Ok(match *value {
        Value::Int4(value) | Value::Date(value) => i64::from(value),
        Value::Int8(value)
        | Value::Timestamp(value)
        | Value::TimestampTz(value)
        | Value::Time(value) => value,
        Value::Int2(value) => i64::from(value),
        Value::Oid(value) => i64::from(value),
        _ => return Err(wrong()),
    })
}

/// Returns a number as an integer with `scale` decimal places.
fn mantissa(value: &Value, scale: u32) -> Result<i128, SqlError> {
    let (mantissa, digits) = match value {
        Value::Numeric(value) => (value.mantissa(), value.scale()),
        other => (i128::from(other.as_int().ok_or_else(wrong)?), 0),
    };
    at_scale((mantissa, digits), scale)
}

#[inline]
fn at_scale((mantissa, digits): (i128, u32), scale: u32) -> Result<i128, SqlError> {
    if digits == scale {
        return Ok(mantissa);
    }
    let power = 10i128.checked_pow(digits.abs_diff(scale));
    let shifted = match digits < scale {
        true => power.and_then(|power| mantissa.checked_mul(power)),
        false => power.and_then(|power| (mantissa % power == 0).then(|| mantissa / power)),
    };
    shifted.ok_or_else(wrong)
}

/// A column of a result.
pub enum ResultColumn<'a> {
    Bool(&'a BooleanArray),
    Int(&'a Int64Array),
    Float(&'a Float64Array),
    Text(&'a LargeStringArray),
    Uuid(&'a FixedSizeBinaryArray),
    Decimal(&'a Decimal128Array, u32),
}

impl<'a> ResultColumn<'a> {
    /// Reads an Arrow array as a column of this form.
    pub fn of(array: &'a dyn Array, form: Form) -> Result<ResultColumn<'a>, SqlError> {
        let any = array.as_any();
        let given = match form {
            Form::Bool | Form::Present => any.downcast_ref().map(ResultColumn::Bool),
            Form::Int => any.downcast_ref().map(ResultColumn::Int),
            Form::Float => any.downcast_ref().map(ResultColumn::Float),
            Form::Text => any.downcast_ref().map(ResultColumn::Text),
            Form::Uuid => any.downcast_ref().map(ResultColumn::Uuid),
            Form::Decimal(scale) => any
                .downcast_ref()
                .map(|array| ResultColumn::Decimal(array, scale)),
        };
        given.ok_or_else(wrong)
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            ResultColumn::Bool(array) => array.is_null(row),
            ResultColumn::Int(array) => array.is_null(row),
            ResultColumn::Float(array) => array.is_null(row),
            ResultColumn::Text(array) => array.is_null(row),
            ResultColumn::Uuid(array) => array.is_null(row),
            ResultColumn::Decimal(array, _) => array.is_null(row),
        }
    }

    /// Returns the value in a row, of type `kind`.
    #[inline]
    pub fn value(&self, row: usize, kind: TypeKind) -> Result<Value, SqlError> {
        if self.is_null(row) {
            return Ok(Value::Null);
        }
        Ok(match self {
            ResultColumn::Bool(array) => Value::Bool(array.value(row)),
            ResultColumn::Int(array) => of_integer(array.value(row), kind).ok_or_else(wrong)?,
            ResultColumn::Float(array) => match kind {
                TypeKind::Float4 => Value::Float4(array.value(row) as f32),
                _ => Value::Float8(array.value(row)),
            },
            ResultColumn::Text(array) => Value::text(array.value(row)),
            ResultColumn::Uuid(array) => {
                Value::Uuid(array.value(row).try_into().map_err(|_| wrong())?)
            }
            ResultColumn::Decimal(array, scale) => {
                let value = Decimal::try_from_i128_with_scale(array.value(row), *scale);
                Value::Numeric(value.map_err(|_| wrong())?)
            }
        })
    }

    /// Returns the digits of a sum, and its number of decimal places; `None` for NULL.
    pub fn digits(&self, row: usize) -> Result<Option<(i128, u32)>, SqlError> {
        if self.is_null(row) {
            return Ok(None);
        }
        match self {
            ResultColumn::Int(array) => Ok(Some((i128::from(array.value(row)), 0))),
            ResultColumn::Decimal(array, scale) => Ok(Some((array.value(row), *scale))),
            _ => Err(wrong()),
        }
    }
}

fn of_integer(value: i64, kind: TypeKind) -> Option<Value> {
    Some(match kind {
        TypeKind::Int2 => Value::Int2(value.try_into().ok()?),
        TypeKind::Int4 => Value::Int4(value.try_into().ok()?),
        TypeKind::Int8 => Value::Int8(value),
        TypeKind::Oid => Value::Oid(value.try_into().ok()?),
        TypeKind::Date => Value::Date(value.try_into().ok()?),
        TypeKind::Time => Value::Time(value),
        TypeKind::Timestamp => Value::Timestamp(value),
        TypeKind::TimestampTz => Value::TimestampTz(value),
        _ => return None,
    })
}

fn wrong() -> SqlError {
    SqlError::internal("a value is not of its column's form")
}
