//! Rows as bytes of a temporary file.
//!
//! ```text
//! row     length of the rest (4 bytes) | values
//! value   tag | fixed bytes, or length (4 bytes) and bytes
//! array   tag | number of dimensions | dimensions | number of elements | elements
//! record  tag | number of its fields in the codec | number of values | values
//! ```
//! The process that wrote a file reads it. So labels of enums and fields of records are numbers of
//! tables in memory.
//!
//! # Failure
//! Bytes that are no row are XX000.

use compact_str::CompactString;
use fencepost_sql::error::SqlError;
use fencepost_sql::types::{EnumValue, Fields, Inet};
use fencepost_sql::value::{Array, Dimension, Interval, Object, Record, TimeTz, Value};
use foldhash::HashMap;
use rust_decimal::Decimal;

/// The bytes of a row's length.
const LENGTH_BYTES: usize = 4;

/// The kinds of values in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Null,
    False,
    True,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Citext,
    Bytea,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    TimeTz,
    Interval,
    Json,
    Jsonb,
    Array,
    Uuid,
    Inet,
    MacAddr,
    Oid,
    Enum,
    Object,
    Record,
}

impl Tag {
    /// All tags, each at the place of its number.
    const ALL: [Tag; 28] = [
        Tag::Null,
        Tag::False,
        Tag::True,
        Tag::Int2,
        Tag::Int4,
        Tag::Int8,
        Tag::Float4,
        Tag::Float8,
        Tag::Numeric,
        Tag::Text,
        Tag::Citext,
        Tag::Bytea,
        Tag::Date,
        Tag::Timestamp,
        Tag::TimestampTz,
        Tag::Time,
        Tag::TimeTz,
        Tag::Interval,
        Tag::Json,
        Tag::Jsonb,
        Tag::Array,
        Tag::Uuid,
        Tag::Inet,
        Tag::MacAddr,
        Tag::Oid,
        Tag::Enum,
        Tag::Object,
        Tag::Record,
    ];
}

/// Encodes and decodes the rows of one temporary file.
#[derive(Debug, Default)]
pub struct RowCodec {
    labels: Vec<EnumValue>,
    label_numbers: HashMap<u32, u32>,
    fields: Vec<Fields>,
}

impl RowCodec {
    /// Appends a row to `out`.
    ///
    /// # Errors
    /// 54000 if the row has more than 4 GiB.
    pub fn encode<'a>(
        &mut self,
        row: impl IntoIterator<Item = &'a Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        for value in row {
            self.put(value, out);
        }
        let bytes = out.len() - start - LENGTH_BYTES;
        let Ok(length) = u32::try_from(bytes) else {
            out.truncate(start);
            return Err(fencepost_sql::row::row_too_big(bytes));
        };
        out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn put(&mut self, value: &Value, out: &mut Vec<u8>) {
        let mut fixed = |tag: Tag, bytes: &[u8]| {
            out.push(tag as u8);
            out.extend_from_slice(bytes);
        };
        match value {
            Value::Null => fixed(Tag::Null, &[]),
            Value::Bool(false) => fixed(Tag::False, &[]),
            Value::Bool(true) => fixed(Tag::True, &[]),
            Value::Int2(v) => fixed(Tag::Int2, &v.to_le_bytes()),
            Value::Int4(v) => fixed(Tag::Int4, &v.to_le_bytes()),
            Value::Int8(v) => fixed(Tag::Int8, &v.to_le_bytes()),
            Value::Float4(v) => fixed(Tag::Float4, &v.to_le_bytes()),
            Value::Float8(v) => fixed(Tag::Float8, &v.to_le_bytes()),
            Value::Numeric(v) => fixed(Tag::Numeric, &v.serialize()),
            Value::Text(v) => put_bytes(Tag::Text, v.as_bytes(), out),
            Value::Citext(v) => put_bytes(Tag::Citext, v.as_bytes(), out),
            Value::Bytea(v) => put_bytes(Tag::Bytea, v, out),
            Value::Date(v) => fixed(Tag::Date, &v.to_le_bytes()),
            Value::Timestamp(v) => fixed(Tag::Timestamp, &v.to_le_bytes()),
            Value::TimestampTz(v) => fixed(Tag::TimestampTz, &v.to_le_bytes()),
            Value::Time(v) => fixed(Tag::Time, &v.to_le_bytes()),
            Value::TimeTz(v) => {
                fixed(Tag::TimeTz, &v.us.to_le_bytes());
                out.extend_from_slice(&v.west.to_le_bytes());
            }
            Value::Interval(v) => {
                fixed(Tag::Interval, &v.months.to_le_bytes());
                out.extend_from_slice(&v.days.to_le_bytes());
                out.extend_from_slice(&v.us.to_le_bytes());
            }
            Value::Json(v) => put_bytes(Tag::Json, v.as_bytes(), out),
            Value::Jsonb(v) => put_bytes(Tag::Jsonb, v.as_bytes(), out),
            Value::Array(array) => self.put_array(array, out),
            Value::Uuid(v) => fixed(Tag::Uuid, v),
            Value::Inet(v) => {
                let mut bytes = vec![0; v.row_bytes()];
                v.put(&mut bytes);
                put_bytes(Tag::Inet, &bytes, out);
            }
            Value::MacAddr(v) => fixed(Tag::MacAddr, v),
            Value::Oid(v) => fixed(Tag::Oid, &v.to_le_bytes()),
            Value::Enum(v) => {
                let number = self.label_number(*v);
                out.push(Tag::Enum as u8);
                put_number(number, out);
            }
            Value::Object(v) => {
                fixed(Tag::Object, &v.oid.to_le_bytes());
                put_number(v.name.len() as u32, out);
                out.extend_from_slice(v.name.as_bytes());
            }
            Value::Record(record) => {
                let number = self.fields_number(&record.fields);
                out.push(Tag::Record as u8);
                put_number(number, out);
                self.put_all(&record.values, out);
            }
        }
    }

    fn put_array(&mut self, array: &Array, out: &mut Vec<u8>) {
        out.push(Tag::Array as u8);
        put_number(array.dims.len() as u32, out);
        for dimension in &array.dims {
            out.extend_from_slice(&dimension.len.to_le_bytes());
            out.extend_from_slice(&dimension.lower.to_le_bytes());
        }
        self.put_all(&array.values, out);
    }

    fn put_all(&mut self, values: &[Value], out: &mut Vec<u8>) {
        put_number(values.len() as u32, out);
        for value in values {
            self.put(value, out);
        }
    }

    fn label_number(&mut self, label: EnumValue) -> u32 {
        let labels = &mut self.labels;
        *self.label_numbers.entry(label.oid()).or_insert_with(|| {
            labels.push(label);
            labels.len() as u32 - 1
        })
    }

    fn fields_number(&mut self, fields: &Fields) -> u32 {
        let known = self.fields.iter().position(|known| known == fields);
        let number = known.unwrap_or_else(|| {
            self.fields.push(fields.clone());
            self.fields.len() - 1
        });
        number as u32
    }

    /// Returns the number of bytes of the first row of `bytes`; `None` if the row is not complete.
    pub fn first_row(bytes: &[u8]) -> Option<usize> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize + LENGTH_BYTES;
        (length <= bytes.len()).then_some(length)
    }

    /// Decodes the values of `row`, of the length that [`Self::first_row`] returned, into the
    /// places that `slots` lists.
    ///
    /// # Errors
    /// XX000 if the bytes are no such row.
    pub fn decode<'a>(
        &self,
        row: &[u8],
        slots: impl IntoIterator<Item = &'a mut Value>,
    ) -> Result<(), SqlError> {
        let mut reader = RowBytes(row.get(LENGTH_BYTES..).unwrap_or_default());
        for slot in slots {
            *slot = self.value(&mut reader).ok_or_else(damaged)?;
        }
        if reader.0.is_empty() {
            Ok(())
        } else {
            Err(damaged())
        }
    }

    fn value(&self, reader: &mut RowBytes<'_>) -> Option<Value> {
        let tag = *Tag::ALL.get(usize::from(reader.fixed::<1>()?[0]))?;
        Some(match tag {
            Tag::Null => Value::Null,
            Tag::False => Value::Bool(false),
            Tag::True => Value::Bool(true),
            Tag::Int2 => Value::Int2(i16::from_le_bytes(reader.fixed()?)),
            Tag::Int4 => Value::Int4(reader.i32()?),
            Tag::Int8 => Value::Int8(reader.i64()?),
            Tag::Float4 => Value::Float4(f32::from_le_bytes(reader.fixed()?)),
            Tag::Float8 => Value::Float8(f64::from_le_bytes(reader.fixed()?)),
            Tag::Numeric => Value::Numeric(Decimal::deserialize(reader.fixed()?)),
            Tag::Text => Value::Text(reader.text()?),
            Tag::Citext => Value::Citext(reader.text()?),
            Tag::Bytea => Value::Bytea(reader.bytes()?.to_vec()),
            Tag::Date => Value::Date(reader.i32()?),
            Tag::Timestamp => Value::Timestamp(reader.i64()?),
            Tag::TimestampTz => Value::TimestampTz(reader.i64()?),
            Tag::Time => Value::Time(reader.i64()?),
            Tag::TimeTz => Value::TimeTz(TimeTz {
                us: reader.i64()?,
                west: reader.i32()?,
            }),
            Tag::Interval => Value::Interval(Interval {
                months: reader.i32()?,
                days: reader.i32()?,
                us: reader.i64()?,
            }),
            Tag::Json => Value::Json(reader.text()?),
            Tag::Jsonb => Value::Jsonb(reader.text()?),
            Tag::Array => self.array(reader)?.into(),
            Tag::Uuid => Value::Uuid(reader.fixed()?),
            Tag::Inet => Value::Inet(Inet::get(reader.bytes()?)?),
            Tag::MacAddr => Value::MacAddr(reader.fixed()?),
            Tag::Oid => Value::Oid(reader.u32()?),
            Tag::Enum => Value::Enum(*self.labels.get(reader.u32()? as usize)?),
            Tag::Object => Value::Object(Box::new(Object {
                oid: reader.u32()?,
                name: reader.text()?,
            })),
            Tag::Record => {
                let fields = self.fields.get(reader.u32()? as usize)?.clone();
                Record::new(fields, self.values(reader)?).into()
            }
        })
    }

    fn array(&self, reader: &mut RowBytes<'_>) -> Option<Array> {
        let dimension = |reader: &mut RowBytes<'_>| {
            Some(Dimension {
                len: reader.i32()?,
                lower: reader.i32()?,
            })
        };
        let dims = (0..reader.u32()?).map(|_| dimension(reader));
        Some(Array {
            dims: dims.collect::<Option<_>>()?,
            values: self.values(reader)?,
        })
    }

    fn values(&self, reader: &mut RowBytes<'_>) -> Option<Vec<Value>> {
        (0..reader.u32()?).map(|_| self.value(reader)).collect()
    }
}

fn put_number(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(tag: Tag, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag as u8);
    put_number(bytes.len() as u32, out);
    out.extend_from_slice(bytes);
}

#[cold]
fn damaged() -> SqlError {
    SqlError::internal("a temporary file is damaged")
}

/// The bytes of a row that are not decoded yet.
struct RowBytes<'a>(&'a [u8]);

impl<'a> RowBytes<'a> {
    fn fixed<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.fixed().map(i32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.fixed().map(i64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<CompactString> {
        CompactString::from_utf8(self.bytes()?).ok()
    }
}
