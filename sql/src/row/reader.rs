//! A reader of one encoded row, column by column.
//!
//! Failure: an offset outside the bytes is an error (XX001), never a panic.

use super::value::{get_digits, get_fixed, get_integer, get_varying, integer_of};
use super::{ColumnOffset, FLAG_NULLS, FLAG_WIDE, RowLayout, corrupt};
use crate::error::SqlError;
use crate::types::TypeKind;
use crate::value::Value;

/// An encoded row whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    /// The layout with which the row was written.
    pub(super) layout: &'a RowLayout,
    /// The current layout of the table.
    whole: &'a RowLayout,
    bytes: &'a [u8],
    /// The length of the row; `bytes` may be only its beginning.
    pub(super) total: usize,
    nulls: bool,
    wide: bool,
    ends_at: usize,
    pub(super) data_at: usize,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(layout: &'a RowLayout, bytes: &'a [u8]) -> Option<RowReader<'a>> {
        let total = u32::from_le_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
        let columns = u16::from_le_bytes(bytes.get(4..6)?.try_into().ok()?);
        let flags = u16::from_le_bytes(bytes.get(6..8)?.try_into().ok()?);
        let whole = layout;
        let layout = whole.of_width(usize::from(columns))?;
        let bytes = bytes.get(..total).unwrap_or(bytes);
        let nulls = flags & FLAG_NULLS != 0;
        let wide = flags & FLAG_WIDE != 0;
        let bitmap = if nulls {
            layout.columns.len().div_ceil(8)
        } else {
            0
        };
        let ends_at = layout.fixed_end + bitmap;
        let data_at = ends_at + layout.varying.len() * if wide { 4 } else { 2 };
        let sound = flags & !(FLAG_NULLS | FLAG_WIDE) == 0 && data_at <= bytes.len();
        sound.then_some(RowReader {
            layout,
            whole,
            bytes,
            total,
            nulls,
            wide,
            ends_at,
            data_at,
        })
    }

    /// Returns the value of `column`.
    #[inline]
    pub fn get(&self, column: usize) -> Result<Value, SqlError> {
        let Some(place) = self.layout.columns.get(column) else {
            return Ok(self.whole.missing(column).clone());
        };
        if self.is_null(column) {
            return Ok(Value::Null);
        }
        let value = match place.at {
            ColumnOffset::Fixed(at) => self.bytes.get(at..).and_then(|b| get_fixed(place.kind, b)),
            ColumnOffset::Varying(nth) => {
                self.varying(nth).and_then(|b| get_varying(place.kind, b))
            }
        };
        value.ok_or_else(corrupt)
    }

    /// Returns whether `column` is NULL.
    #[inline]
    pub fn is_null(&self, column: usize) -> bool {
        if column >= self.layout.columns.len() {
            return self.whole.missing(column).is_null();
        }
        self.nulls
            && self
                .bytes
                .get(self.layout.fixed_end + column / 8)
                .is_some_and(|byte| byte >> (column % 8) & 1 == 1)
    }

    /// Returns the value of `column` as an integer if its type is smallint, integer, bigint, oid,
    /// or a date or time that is one number; `None` for NULL.
    ///
    /// # Errors
    /// XX001 if the row is damaged, or the column has another type.
    #[inline]
    pub fn integer(&self, column: usize) -> Result<Option<i64>, SqlError> {
        let Some(place) = self.layout.columns.get(column) else {
            let missing = self.whole.missing(column);
            if missing.is_null() {
                return Ok(None);
            }
            return integer_of(missing).map(Some).ok_or_else(corrupt);
        };
        if self.is_null(column) {
            return Ok(None);
        }
        let ColumnOffset::Fixed(at) = place.at else {
            return Err(corrupt());
        };
        let bytes = self.bytes.get(at..).ok_or_else(corrupt)?;
        get_integer(place.kind, bytes).map(Some).ok_or_else(corrupt)
    }

    /// Returns the text of `column` if its type is a string type; `None` for NULL. The bytes of a
    /// damaged row may not be UTF-8.
    ///
    /// # Errors
    /// XX001 if the row is damaged, or the column has another type.
    #[inline]
    pub fn text(&self, column: usize) -> Result<Option<&'a [u8]>, SqlError> {
        let Some(place) = self.layout.columns.get(column) else {
            return match self.whole.missing(column) {
                Value::Null => Ok(None),
                Value::Text(text) => Ok(Some(text.as_bytes())),
                _ => Err(corrupt()),
            };
        };
        if self.is_null(column) {
            return Ok(None);
        }
        match place.at {
            ColumnOffset::Varying(nth) if place.kind.is_string() => {
                self.varying(nth).map(Some).ok_or_else(corrupt)
            }
            _ => Err(corrupt()),
        }
    }

    /// Returns the digits of `column`, a numeric or an integer, and its number of decimal places;
    /// `None` for NULL.
    ///
    /// # Errors
    /// XX001 if the row is damaged, or the column has another type.
    #[inline]
    pub fn decimal(&self, column: usize) -> Result<Option<(i128, u32)>, SqlError> {
        let Some(place) = self.layout.columns.get(column) else {
            return match self.whole.missing(column) {
                Value::Null => Ok(None),
                Value::Numeric(value) => Ok(Some((value.mantissa(), value.scale()))),
                other => match integer_of(other) {
                    Some(value) => Ok(Some((i128::from(value), 0))),
                    None => Err(corrupt()),
                },
            };
        };
        if self.is_null(column) {
            return Ok(None);
        }
        match (place.at, place.kind) {
            (ColumnOffset::Varying(nth), TypeKind::Numeric) => self
                .varying(nth)
                .and_then(get_digits)
                .map(Some)
                .ok_or_else(corrupt),
            (ColumnOffset::Fixed(_), _) => {
                let value = self.integer(column)?;
                Ok(value.map(|value| (i128::from(value), 0)))
            }
            (ColumnOffset::Varying(_), _) => Err(corrupt()),
        }
    }

    fn varying(&self, nth: usize) -> Option<&'a [u8]> {
        let start = match nth {
            0 => 0,
            _ => self.end(nth - 1)?,
        };
        let end = self.end(nth)?;
        self.bytes.get(self.data_at..)?.get(start..end)
    }

    pub(super) fn end(&self, nth: usize) -> Option<usize> {
        if self.wide {
            let slot = self.ends_at + nth * 4;
            let raw = self.bytes.get(slot..slot + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(raw)).ok()
        } else {
            let slot = self.ends_at + nth * 2;
            let raw = self.bytes.get(slot..slot + 2)?.try_into().ok()?;
            Some(usize::from(u16::from_le_bytes(raw)))
        }
    }
}
