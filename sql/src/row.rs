//! The encoding of rows as object payloads: an array of words.
//!
//! ```text
//! bytes 0..4   length of the row in bytes   (self-delimiting: the object may be longer)
//!       4..6   number of columns
//!       6..8   flags: NULLS a bitmap is there, WIDE ends are u32 and not u16,
//!              LONG the payload is not the row, but a reference to it (see `planner::store`)
//!       8..    columns of fixed size, widest first, each at its own alignment, zero when NULL
//!              bitmap, one bit a column, set = NULL
//!              end of each column of varying size, counted from the first data byte
//!              data of the columns of varying size
//! ```
//!
//! A row that was written before columns were added has fewer columns. It is read by the layout
//! with which it was written. Its other columns have the values in `ColumnMore::missing`.
//!
//! The offsets of fixed columns depend only on the table, so reading one is one load and a shift.
//! `value` describes the encoding of values.
//!
//! Failure: every offset that is read from the bytes is checked. Malformed bytes give an error
//! (XX001), never a panic.

use crate::catalog::ColumnDef;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind;
use crate::value::Value;

mod array;
mod reader;
mod record;
mod value;

pub use reader::RowReader;
use value::{fixed_width, is_of, put_fixed, put_varying, varying_bytes};

const DATA_CORRUPTED: SqlState = SqlState::new(b"XX001");
const HEADER_BYTES: usize = 8;
const FLAG_NULLS: u16 = 1;
const FLAG_WIDE: u16 = 2;
const FLAG_LONG: u16 = 4;

/// The maximum size of a row, in bytes.
pub const ROW_BYTES_MAX: usize = 256 << 20;

/// Returns whether these words are a reference to a long row instead of the row itself.
#[inline]
pub fn is_long(words: &[u64]) -> bool {
    let flags = words.first().map_or(0, |word| word.to_ne_bytes()[6]);
    u16::from(flags) & FLAG_LONG != 0
}

/// Returns the first word of a reference to a long row, given the words of the row.
pub fn long_head(words: &[u64]) -> u64 {
    let mut bytes = words.first().map_or([0; 8], |word| word.to_ne_bytes());
    bytes[6] |= FLAG_LONG as u8;
    u64::from_ne_bytes(bytes)
}

/// Returns the number of words of the row that `words` begins or refers to.
pub fn row_words(words: &[u64]) -> usize {
    let first = words.first().map_or([0; 8], |word| word.to_ne_bytes());
    let bytes = u32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    (bytes as usize).div_ceil(8)
}

/// The positions of the columns in the rows of one table.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Vec<ColumnLocation>,
    varying: Vec<usize>,
    fixed_end: usize,
    /// The layouts of rows with fewer columns; the narrowest is the first.
    older: Vec<RowLayout>,
    /// The values of the added columns in rows that lack them.
    missing: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct ColumnLocation {
    kind: TypeKind,
    at: ColumnOffset,
}

#[derive(Clone, Copy, Debug)]
enum ColumnOffset {
    Fixed(usize),
    Varying(usize),
}

impl RowLayout {
    /// Creates the layout of rows with `columns`.
    pub fn new(columns: &[ColumnDef]) -> RowLayout {
        let of_first = |count: usize| {
            let columns = columns.iter().take(count);
            RowLayout::of_types(columns.map(|column| column.ty.kind))
        };
        let mut layout = of_first(columns.len());
        let added = |column: &ColumnDef| column.more.missing.is_some();
        if let Some(first) = columns.iter().position(added) {
            layout.older = (first..columns.len()).map(of_first).collect();
            let missing = columns[first..].iter();
            layout.missing = missing
                .map(|column| column.more.missing.clone().unwrap_or_default())
                .collect();
        }
        layout
    }

    /// Returns the layout of rows with `width` columns.
    fn of_width(&self, width: usize) -> Option<&RowLayout> {
        if width == self.columns.len() {
            return Some(self);
        }
        let fewest = self.columns.len() - self.older.len();
        self.older.get(width.checked_sub(fewest)?)
    }

    /// Returns the value of `column` in rows that lack it.
    fn missing(&self, column: usize) -> &Value {
        let first = self.columns.len() - self.missing.len();
        let missing = column
            .checked_sub(first)
            .and_then(|at| self.missing.get(at));
        missing.unwrap_or(&Value::Null)
    }

    /// Creates the layout of rows of values of these types.
    pub fn of_types(kinds: impl IntoIterator<Item = TypeKind>) -> RowLayout {
        let place = |kind| ColumnLocation {
            kind,
            at: ColumnOffset::Varying(0),
        };
        let mut places: Vec<ColumnLocation> = kinds.into_iter().map(place).collect();
        let mut offset = HEADER_BYTES;
        for width in [16, 8, 4, 2, 1] {
            for place in &mut places {
                if fixed_width(place.kind) == Some(width) {
                    place.at = ColumnOffset::Fixed(offset);
                    offset += width;
                }
            }
        }
        let mut varying = Vec::new();
        for (i, place) in places.iter_mut().enumerate() {
            if let ColumnOffset::Varying(nth) = &mut place.at {
                *nth = varying.len();
                varying.push(i);
            }
        }
        RowLayout {
            columns: places,
            varying,
            fixed_end: offset,
            older: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether `row` has one value a column, each of the column's type. Rows of a table
    /// always do.
    pub fn takes(&self, row: &[Value]) -> bool {
        let of_kind = |(place, value): (&ColumnLocation, &Value)| is_of(value, place.kind);
        row.len() == self.columns.len() && self.columns.iter().zip(row).all(of_kind)
    }

    /// Encodes `row` into `out`, which is cleared and keeps its capacity.
    pub fn encode(&self, row: &[Value], out: &mut Vec<u64>) -> Result<(), SqlError> {
        debug_assert_eq!(row.len(), self.columns.len(), "one value a column");
        let nulls = row.iter().any(Value::is_null);
        let mut data = 0;
        for &column in &self.varying {
            data += varying_bytes(&row[column]);
        }
        let wide = data > usize::from(u16::MAX);
        let bitmap = if nulls {
            self.columns.len().div_ceil(8)
        } else {
            0
        };
        let end_bytes = if wide { 4 } else { 2 };
        let ends_at = self.fixed_end + bitmap;
        let data_at = ends_at + end_bytes * self.varying.len();
        let total = data_at + data;
        if total > ROW_BYTES_MAX {
            return Err(row_too_big(total));
        }
        out.clear();
        out.resize(total.div_ceil(8), 0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
        let flags = if nulls { FLAG_NULLS } else { 0 } | if wide { FLAG_WIDE } else { 0 };
        bytes[0..4].copy_from_slice(&(total as u32).to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.columns.len() as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&flags.to_le_bytes());
        let mut end = 0;
        for (i, (place, value)) in self.columns.iter().zip(row).enumerate() {
            if value.is_null() {
                bytes[self.fixed_end + i / 8] |= 1 << (i % 8);
            }
            match place.at {
                ColumnOffset::Fixed(at) => put_fixed(value, &mut bytes[at..]),
                ColumnOffset::Varying(nth) => {
                    end += put_varying(value, &mut bytes[data_at + end..]);
                    let slot = ends_at + nth * end_bytes;
                    if wide {
                        bytes[slot..slot + 4].copy_from_slice(&(end as u32).to_le_bytes());
                    } else {
                        bytes[slot..slot + 2].copy_from_slice(&(end as u16).to_le_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a reader of an encoded row.
    ///
    /// # Errors
    /// XX001 if the words are not a complete row.
    pub fn reader<'a>(&'a self, words: &'a [u64]) -> Result<RowReader<'a>, SqlError> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let whole = RowReader::new(self, bytes).filter(|row| row.total <= bytes.len());
        whole.ok_or_else(corrupt)
    }

    /// Returns whether `words`, the beginning of a row, contain all of `columns`.
    pub fn reaches(&self, words: &[u64], columns: &[usize]) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let Some(row) = RowReader::new(self, bytes) else {
            return false;
        };
        let end = |column: &usize| match row.layout.columns.get(*column)?.at {
            ColumnOffset::Fixed(_) => Some(row.layout.fixed_end),
            ColumnOffset::Varying(nth) => row.end(nth).map(|end| row.data_at + end),
        };
        let mut ends = columns.iter().map(end);
        ends.all(|end| end.is_some_and(|end| end <= bytes.len()))
    }

    /// Decodes every column into `out`, which has one slot a column.
    pub fn decode(&self, words: &[u64], out: &mut [Value]) -> Result<(), SqlError> {
        let reader = self.reader(words)?;
        for (column, slot) in out.iter_mut().enumerate().take(self.columns.len()) {
            *slot = reader.get(column)?;
        }
        Ok(())
    }

    /// Decodes only `columns` (positions in the table), each into the slot of the same position.
    /// The beginning of a row suffices if [`Self::reaches`] holds for these columns.
    pub fn decode_some(
        &self,
        words: &[u64],
        columns: &[usize],
        out: &mut [Value],
    ) -> Result<(), SqlError> {
        let reader = self.partial_reader(words)?;
        for &column in columns {
            out[column] = reader.get(column)?;
        }
        Ok(())
    }

    /// Returns a reader of the beginning of a row, for columns for which [`Self::reaches`] holds.
    ///
    /// # Errors
    /// XX001 if the words do not begin a row.
    #[inline]
    pub fn partial_reader<'a>(&'a self, words: &'a [u64]) -> Result<RowReader<'a>, SqlError> {
        RowReader::new(self, bytemuck::cast_slice(words)).ok_or_else(corrupt)
    }

    /// Returns the type of a column.
    pub fn kind(&self, column: usize) -> Option<TypeKind> {
        self.columns.get(column).map(|place| place.kind)
    }
}

/// Returns error 54000: a row of `bytes` bytes is too big.
pub fn row_too_big(bytes: usize) -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("row is too big: size {bytes}, maximum size {ROW_BYTES_MAX}"),
    )
}

fn corrupt() -> SqlError {
    SqlError::new(
        DATA_CORRUPTED,
        "a stored row does not match its table's columns",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;
    use crate::value::{Array, Dimension, Interval, TimeTz};

    fn layout(types: &[Type]) -> RowLayout {
        let columns: Vec<ColumnDef> = types
            .iter()
            .enumerate()
            .map(|(i, ty)| ColumnDef {
                name: format!("c{i}"),
                ty: *ty,
                not_null: false,
                default: None,
                attnum: i as i16 + 1,
                more: crate::catalog::ColumnMore::default(),
            })
            .collect();
        RowLayout::new(&columns)
    }

    fn every_type() -> (RowLayout, Vec<Value>) {
        let layout = layout(&[
            Type::BOOL,
            Type::TEXT,
            Type::INT2,
            Type::NUMERIC,
            Type::INT8,
            Type::char(5),
            Type::FLOAT4,
            Type::BYTEA,
            Type::FLOAT8,
            Type::DATE,
            Type::UUID,
            Type::TIMESTAMP,
            Type::TIMESTAMPTZ,
            Type::INT4,
            Type::TIME,
            Type::TIMETZ,
            Type::INTERVAL,
            Type::of(TypeKind::Text.array().expect("an array type")),
            Type::JSONB,
        ]);
        let row = vec![
            Value::Bool(true),
            Value::text("zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich"),
            Value::Int2(-3),
            Value::Numeric("-12345.6700".parse().expect("a decimal")),
            Value::Int8(i64::MIN),
            Value::text("ab"),
            Value::Float4(1.5),
            Value::Bytea(vec![0, 1, 255]),
            Value::Float8(-2.5),
            Value::Date(8000),
            Value::Uuid([7; 16]),
            Value::Timestamp(1),
            Value::TimestampTz(-1),
            Value::Int4(42),
            Value::Time(86_399_999_999),
            Value::TimeTz(TimeTz {
                us: 5,
                west: -19_800,
            }),
            Value::Interval(Interval {
                months: -14,
                days: 3,
                us: 1,
            }),
            Value::from(Array {
                dims: vec![
                    Dimension { len: 2, lower: 0 },
                    Dimension { len: 1, lower: 1 },
                ],
                values: vec![Value::text("ab"), Value::Null],
            }),
            Value::Jsonb("{\"a\": 1}".into()),
        ];
        (layout, row)
    }

    #[test]
    fn rows_with_fewer_columns_are_still_read() {
        let column = |ty: Type, missing: Option<Value>| ColumnDef {
            name: "c".into(),
            ty,
            not_null: false,
            default: None,
            attnum: 1,
            more: crate::catalog::ColumnMore {
                missing,
                ..Default::default()
            },
        };
        let mut columns = vec![column(Type::INT4, None), column(Type::TEXT, None)];
        let before = RowLayout::new(&columns);
        let mut words = Vec::new();
        let row = [Value::Int4(1), Value::text("a")];
        before.encode(&row, &mut words).expect("a row");
        columns.push(column(Type::INT8, Some(Value::Int8(7))));
        columns.push(column(Type::TEXT, Some(Value::Null)));
        let after = RowLayout::new(&columns);
        let mut out = vec![Value::Null; 4];
        after.decode(&words, &mut out).expect("the row");
        assert_eq!(out[..2], row);
        assert_eq!(out[2..], [Value::Int8(7), Value::Null]);
        // One column more than the first layout, one less than the last.
        let between = RowLayout::new(&columns[..3]);
        let row = [Value::Int4(2), Value::Null, Value::Int8(8)];
        between.encode(&row, &mut words).expect("a row");
        after.decode(&words, &mut out).expect("the row");
        assert_eq!(out[..3], row);
        assert!(before.decode(&words, &mut out).is_err());
    }

    #[test]
    fn rows_come_back_with_any_set_of_nulls() {
        let (layout, row) = every_type();
        let mut words = Vec::new();
        for mask in 0..1u32 << row.len() {
            if mask.count_ones() > 2 && mask.count_zeros() > 20 {
                continue;
            }
            let mut row = row.clone();
            for (i, value) in row.iter_mut().enumerate() {
                if mask >> i & 1 == 1 {
                    *value = Value::Null;
                }
            }
            layout.encode(&row, &mut words).expect("it fits");
            words.push(u64::MAX);
            let mut back = vec![Value::Null; row.len()];
            layout.decode(&words, &mut back).expect("it decodes");
            assert_eq!(row, back);
        }
    }

    #[test]
    fn layout_rejects_values_of_other_types() {
        let (layout, row) = every_type();
        assert!(layout.takes(&row));
        assert!(!layout.takes(&row[1..]));
        for column in 0..row.len() {
            let mut row = row.clone();
            let other = row[(column + 1) % row.len()].clone();
            row[column] = Value::Null;
            assert!(layout.takes(&row));
            row[column] = other;
            assert!(!layout.takes(&row), "column {column}");
        }
    }

    #[test]
    fn wide_rows_and_too_wide_rows() {
        let layout = layout(&[Type::TEXT, Type::TEXT]);
        let row = [Value::text("x".repeat(70_000)), Value::text("y")];
        let mut words = Vec::new();
        layout.encode(&row, &mut words).expect("it fits");
        let mut back = [Value::Null, Value::Null];
        layout
            .decode_some(&words, &[1], &mut back)
            .expect("it decodes");
        assert_eq!(back, [Value::Null, Value::text("y")]);
        let row = [Value::text("x".repeat(ROW_BYTES_MAX)), Value::Null];
        let error = layout.encode(&row, &mut words).expect_err("too big");
        assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let (layout, row) = every_type();
        let mut words = Vec::new();
        layout.encode(&row, &mut words).expect("it fits");
        let mut back = vec![Value::Null; row.len()];
        for cut in 0..words.len() {
            assert!(layout.decode(&words[..cut], &mut back).is_err());
        }
        for bit in 0..words.len() * 64 {
            let mut damaged = words.clone();
            damaged[bit / 64] ^= 1 << (bit % 64);
            let _ = layout.decode(&damaged, &mut back);
        }
    }
}
