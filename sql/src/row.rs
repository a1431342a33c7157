//! Rows as the payload of an object: an array of words.
//!
//! ```text
//! bytes 0..4   length of the row in bytes            (self-delimiting: the object may be longer)
//!       4..6   number of columns
//!       6..8   flags: NULLS a bitmap is there, WIDE ends are u32 and not u16,
//!              LONG what follows is not the row, but where its words are (see `planner::store`)
//!       8..    columns of fixed size, widest first, each at its own alignment, zero when NULL
//!              bitmap, one bit a column, set = NULL
//!              end of each column of varying size, counted from the first data byte
//!              data of the columns of varying size
//! ```
//!
//! A row that was written before columns were added has fewer: it is read by the layout that it was written with, and
//! has in the others what they say (`ColumnMore::missing`).
//!
//! Fixed columns sit at offsets known from the table alone, so reading one is one load and a
//! shift. `numeric` is kept as sign, scale and the mantissa's significant bytes.
//!
//! Failure: every offset read from the bytes is checked; bytes that make no row are an error
//! (XX001), never a panic.

use compact_str::CompactString;
use rust_decimal::Decimal;

use crate::catalog::ColumnDef;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind;
use crate::value::{Interval, TimeTz, Value};

mod array;

const DATA_CORRUPTED: SqlState = SqlState::new(b"XX001");
const HEADER_BYTES: usize = 8;
const FLAG_NULLS: u16 = 1;
const FLAG_WIDE: u16 = 2;
const FLAG_LONG: u16 = 4;

/// The longest row.
pub const ROW_BYTES_MAX: usize = 256 << 20;

/// Do these words, not the row's own, say where a long row's are?
#[inline]
pub fn is_long(words: &[u64]) -> bool {
    let flags = words.first().map_or(0, |word| word.to_ne_bytes()[6]);
    u16::from(flags) & FLAG_LONG != 0
}

/// The first word of what stands for a long row.
pub fn long_head(words: &[u64]) -> u64 {
    let mut bytes = words.first().map_or([0; 8], |word| word.to_ne_bytes());
    bytes[6] |= FLAG_LONG as u8;
    u64::from_ne_bytes(bytes)
}

/// The number of words of the row that `words` begin, or stand for.
pub fn row_words(words: &[u64]) -> usize {
    let first = words.first().map_or([0; 8], |word| word.to_ne_bytes());
    let bytes = u32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    (bytes as usize).div_ceil(8)
}

/// Where the columns of one table's rows are.
#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: Vec<Place>,
    varying: Vec<usize>,
    fixed_end: usize,
    /// The layouts of rows with fewer columns, the one with the fewest first.
    older: Vec<RowLayout>,
    /// What those rows have in the columns that not all of them have.
    missing: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    kind: TypeKind,
    at: At,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Fixed(usize),
    Varying(usize),
}

impl RowLayout {
    /// The layout of rows with `columns`.
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

    /// The layout of rows with so many columns.
    fn of_width(&self, width: usize) -> Option<&RowLayout> {
        if width == self.columns.len() {
            return Some(self);
        }
        let fewest = self.columns.len() - self.older.len();
        self.older.get(width.checked_sub(fewest)?)
    }

    /// What rows without `column` have in it.
    fn missing(&self, column: usize) -> &Value {
        let first = self.columns.len() - self.missing.len();
        let missing = column
            .checked_sub(first)
            .and_then(|at| self.missing.get(at));
        missing.unwrap_or(&Value::Null)
    }

    /// The layout of rows of values of these types.
    pub fn of_types(kinds: impl IntoIterator<Item = TypeKind>) -> RowLayout {
        let place = |kind| Place {
            kind,
            at: At::Varying(0),
        };
        let mut places: Vec<Place> = kinds.into_iter().map(place).collect();
        let mut offset = HEADER_BYTES;
        for width in [16, 8, 4, 2, 1] {
            for place in &mut places {
                if fixed_width(place.kind) == Some(width) {
                    place.at = At::Fixed(offset);
                    offset += width;
                }
            }
        }
        let mut varying = Vec::new();
        for (i, place) in places.iter_mut().enumerate() {
            if let At::Varying(nth) = &mut place.at {
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

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Whether `row` has one value a column, each of the column's type: what a table's rows always have.
    pub fn takes(&self, row: &[Value]) -> bool {
        let of_kind = |(place, value): (&Place, &Value)| is_of(value, place.kind);
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
                At::Fixed(at) => put_fixed(value, &mut bytes[at..]),
                At::Varying(nth) => {
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

    /// A reader over an encoded row.
    pub fn reader<'a>(&'a self, words: &'a [u64]) -> Result<RowReader<'a>, SqlError> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let whole = RowReader::new(self, bytes).filter(|row| row.total <= bytes.len());
        whole.ok_or_else(corrupt)
    }

    /// Do `words`, the beginning of a row, have all of `columns` in them?
    pub fn reaches(&self, words: &[u64], columns: &[usize]) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let Some(row) = RowReader::new(self, bytes) else {
            return false;
        };
        let end = |column: &usize| match row.layout.columns.get(*column)?.at {
            At::Fixed(_) => Some(row.layout.fixed_end),
            At::Varying(nth) => row.end(nth).map(|end| row.data_at + end),
        };
        let mut ends = columns.iter().map(end);
        ends.all(|end| end.is_some_and(|end| end <= bytes.len()))
    }

    /// Decodes every column into `out`, one slot a column.
    pub fn decode(&self, words: &[u64], out: &mut [Value]) -> Result<(), SqlError> {
        let reader = self.reader(words)?;
        for (column, slot) in out.iter_mut().enumerate().take(self.columns.len()) {
            *slot = reader.get(column)?;
        }
        Ok(())
    }

    /// Decodes just `columns` (positions in the table), each into the slot of the same position. The
    /// beginning of the row will do if it [`Self::reaches`] them.
    pub fn decode_some(
        &self,
        words: &[u64],
        columns: &[usize],
        out: &mut [Value],
    ) -> Result<(), SqlError> {
        let reader = RowReader::new(self, bytemuck::cast_slice(words)).ok_or_else(corrupt)?;
        for &column in columns {
            out[column] = reader.get(column)?;
        }
        Ok(())
    }
}

/// One encoded row, checked as far as its header.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    /// What it was written with.
    layout: &'a RowLayout,
    /// What it is read with.
    whole: &'a RowLayout,
    bytes: &'a [u8],
    /// Length of the row, of which `bytes` may be the beginning only.
    total: usize,
    nulls: bool,
    wide: bool,
    ends_at: usize,
    data_at: usize,
}

impl<'a> RowReader<'a> {
    fn new(layout: &'a RowLayout, bytes: &'a [u8]) -> Option<RowReader<'a>> {
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

    /// The value of `column`.
    #[inline]
    pub fn get(&self, column: usize) -> Result<Value, SqlError> {
        let Some(place) = self.layout.columns.get(column) else {
            return Ok(self.whole.missing(column).clone());
        };
        if self.is_null(column) {
            return Ok(Value::Null);
        }
        let value = match place.at {
            At::Fixed(at) => self.bytes.get(at..).and_then(|b| get_fixed(place.kind, b)),
            At::Varying(nth) => self.varying(nth).and_then(|b| get_varying(place.kind, b)),
        };
        value.ok_or_else(corrupt)
    }

    /// Is `column` NULL?
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

    fn varying(&self, nth: usize) -> Option<&'a [u8]> {
        let start = match nth {
            0 => 0,
            _ => self.end(nth - 1)?,
        };
        let end = self.end(nth)?;
        self.bytes.get(self.data_at..)?.get(start..end)
    }

    fn end(&self, nth: usize) -> Option<usize> {
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

/// Whether a value may be of a type.
fn is_of(value: &Value, kind: TypeKind) -> bool {
    match value {
        Value::Null => true,
        Value::Text(_) => kind.is_string(),
        Value::Bool(_) => kind == TypeKind::Bool,
        Value::Int2(_) => kind == TypeKind::Int2,
        Value::Int4(_) => kind == TypeKind::Int4,
        Value::Int8(_) => kind == TypeKind::Int8,
        Value::Float4(_) => kind == TypeKind::Float4,
        Value::Float8(_) => kind == TypeKind::Float8,
        Value::Numeric(_) => kind == TypeKind::Numeric,
        Value::Bytea(_) => kind == TypeKind::Bytea,
        Value::Date(_) => kind == TypeKind::Date,
        Value::Timestamp(_) => kind == TypeKind::Timestamp,
        Value::TimestampTz(_) => kind == TypeKind::TimestampTz,
        Value::Time(_) => kind == TypeKind::Time,
        Value::TimeTz(_) => kind == TypeKind::TimeTz,
        Value::Interval(_) => kind == TypeKind::Interval,
        Value::Uuid(_) => kind == TypeKind::Uuid,
        Value::Oid(_) => kind == TypeKind::Oid,
        // No table has columns of these types.
        Value::Object(_) => false,
        Value::Json(_) => kind == TypeKind::Json,
        Value::Jsonb(_) => kind == TypeKind::Jsonb,
        Value::Array(array) => match kind.element() {
            Some(element) => array.values.iter().all(|value| is_of(value, element)),
            None => false,
        },
    }
}

fn fixed_width(kind: TypeKind) -> Option<usize> {
    match kind {
        TypeKind::Bool => Some(1),
        TypeKind::Int2 => Some(2),
        TypeKind::Int4 | TypeKind::Float4 | TypeKind::Date | TypeKind::Oid => Some(4),
        TypeKind::Int8
        | TypeKind::Float8
        | TypeKind::Timestamp
        | TypeKind::TimestampTz
        | TypeKind::Time => Some(8),
        TypeKind::Uuid | TypeKind::TimeTz | TypeKind::Interval => Some(16),
        _ => None,
    }
}

fn put_fixed(value: &Value, out: &mut [u8]) {
    match value {
        Value::Bool(b) => out[0] = u8::from(*b),
        Value::Int2(i) => out[..2].copy_from_slice(&i.to_le_bytes()),
        Value::Int4(i) | Value::Date(i) => out[..4].copy_from_slice(&i.to_le_bytes()),
        Value::Int8(i) | Value::Timestamp(i) | Value::TimestampTz(i) | Value::Time(i) => {
            out[..8].copy_from_slice(&i.to_le_bytes());
        }
        Value::Float4(f) => out[..4].copy_from_slice(&f.to_le_bytes()),
        Value::Float8(f) => out[..8].copy_from_slice(&f.to_le_bytes()),
        Value::TimeTz(time) => {
            out[..8].copy_from_slice(&time.us.to_le_bytes());
            out[8..12].copy_from_slice(&time.west.to_le_bytes());
        }
        Value::Interval(span) => {
            out[..8].copy_from_slice(&span.us.to_le_bytes());
            out[8..12].copy_from_slice(&span.days.to_le_bytes());
            out[12..16].copy_from_slice(&span.months.to_le_bytes());
        }
        Value::Uuid(u) => out[..16].copy_from_slice(u),
        Value::Oid(oid) => out[..4].copy_from_slice(&oid.to_le_bytes()),
        Value::Null
        | Value::Numeric(_)
        | Value::Text(_)
        | Value::Bytea(_)
        | Value::Object(_)
        | Value::Json(_)
        | Value::Jsonb(_)
        | Value::Array(_) => {}
    }
}

#[inline]
fn get_fixed(kind: TypeKind, bytes: &[u8]) -> Option<Value> {
    Some(match kind {
        TypeKind::Bool => Value::Bool(*bytes.first()? != 0),
        TypeKind::Int2 => Value::Int2(i16::from_le_bytes(take(bytes)?)),
        TypeKind::Int4 => Value::Int4(i32::from_le_bytes(take(bytes)?)),
        TypeKind::Date => Value::Date(i32::from_le_bytes(take(bytes)?)),
        TypeKind::Int8 => Value::Int8(i64::from_le_bytes(take(bytes)?)),
        TypeKind::Timestamp => Value::Timestamp(i64::from_le_bytes(take(bytes)?)),
        TypeKind::TimestampTz => Value::TimestampTz(i64::from_le_bytes(take(bytes)?)),
        TypeKind::Float4 => Value::Float4(f32::from_le_bytes(take(bytes)?)),
        TypeKind::Float8 => Value::Float8(f64::from_le_bytes(take(bytes)?)),
        TypeKind::Time => Value::Time(i64::from_le_bytes(take(bytes)?)),
        TypeKind::TimeTz => Value::TimeTz(TimeTz {
            us: i64::from_le_bytes(take(bytes)?),
            west: i32::from_le_bytes(take(bytes.get(8..)?)?),
        }),
        TypeKind::Interval => Value::Interval(Interval {
            us: i64::from_le_bytes(take(bytes)?),
            days: i32::from_le_bytes(take(bytes.get(8..)?)?),
            months: i32::from_le_bytes(take(bytes.get(12..)?)?),
        }),
        TypeKind::Uuid => Value::Uuid(take(bytes)?),
        TypeKind::Oid => Value::Oid(u32::from_le_bytes(take(bytes)?)),
        _ => return None,
    })
}

#[inline]
fn take<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.get(..N)?.try_into().ok()
}

fn varying_bytes(value: &Value) -> usize {
    match value {
        Value::Text(s) | Value::Json(s) | Value::Jsonb(s) => s.len(),
        Value::Array(array) => array::bytes(array),
        Value::Bytea(b) => b.len(),
        Value::Numeric(d) => 1 + mantissa_bytes(d),
        _ => 0,
    }
}

fn put_varying(value: &Value, out: &mut [u8]) -> usize {
    match value {
        Value::Array(array) => array::put(array, out),
        Value::Text(s) | Value::Json(s) | Value::Jsonb(s) => {
            out[..s.len()].copy_from_slice(s.as_bytes());
            s.len()
        }
        Value::Bytea(b) => {
            out[..b.len()].copy_from_slice(b);
            b.len()
        }
        Value::Numeric(d) => {
            let sign = if d.is_sign_negative() { 0x80 } else { 0 };
            out[0] = sign | d.scale() as u8;
            let count = mantissa_bytes(d);
            let mantissa = d.mantissa().unsigned_abs().to_le_bytes();
            out[1..=count].copy_from_slice(&mantissa[..count]);
            1 + count
        }
        _ => 0,
    }
}

fn get_varying(kind: TypeKind, bytes: &[u8]) -> Option<Value> {
    if kind.is_string() {
        return Some(Value::Text(CompactString::from_utf8(bytes).ok()?));
    }
    match kind {
        TypeKind::Json => Some(Value::Json(CompactString::from_utf8(bytes).ok()?)),
        TypeKind::Jsonb => Some(Value::Jsonb(CompactString::from_utf8(bytes).ok()?)),
        TypeKind::Array(element) => array::get(element.kind(), bytes).map(Value::from),
        TypeKind::Bytea => Some(Value::Bytea(bytes.to_vec())),
        TypeKind::Numeric => get_numeric(bytes).map(Value::Numeric),
        _ => None,
    }
}

fn mantissa_bytes(d: &Decimal) -> usize {
    let bits = 128 - d.mantissa().unsigned_abs().leading_zeros() as usize;
    bits.div_ceil(8)
}

fn get_numeric(bytes: &[u8]) -> Option<Decimal> {
    let (&head, digits) = bytes.split_first()?;
    let mut mantissa = [0u8; 16];
    mantissa.get_mut(..digits.len())?.copy_from_slice(digits);
    let scale = u32::from(head & 0x7F);
    let mantissa = i128::try_from(u128::from_le_bytes(mantissa)).ok()?;
    let mut d = Decimal::try_from_i128_with_scale(mantissa, scale).ok()?;
    d.set_sign_negative(head & 0x80 != 0);
    Some(d)
}

fn row_too_big(bytes: usize) -> SqlError {
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
    use crate::value::{Array, Dimension};

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
        // One column more than the first, one less than the last.
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
    fn values_of_other_types_are_told_from_those_of_the_columns() {
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
