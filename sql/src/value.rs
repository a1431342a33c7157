//! A value of any SQL type, owned.
//!
//! Fixed types hold no heap memory, and short text lives inside the value, so that a row of them is
//! made and dropped without the allocator.
//!
//! Invariants
//! - VAL-1: a value carries no type modifier: `varchar(3)` and `text` are both `Text`.
//! - VAL-2: `char(n)` is stored without its trailing blanks; output pads it.

use compact_str::CompactString;
use rust_decimal::Decimal;

use crate::types::{EnumValue, Fields, Inet};

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// NULL of any type.
    #[default]
    Null,
    /// boolean
    Bool(bool),
    /// smallint
    Int2(i16),
    /// integer
    Int4(i32),
    /// bigint
    Int8(i64),
    /// real
    Float4(f32),
    /// double precision
    Float8(f64),
    /// numeric, with its display scale
    Numeric(Decimal),
    /// text, varchar, char(n), name and literals of unknown type
    Text(CompactString),
    /// citext, with its letters as they were written
    Citext(CompactString),
    /// bytea
    Bytea(Vec<u8>),
    /// date: days from 2000-01-01; `i32::MIN` and `i32::MAX` are -infinity and infinity
    Date(i32),
    /// timestamp: microseconds from 2000-01-01 00:00; `i64::MIN` and `i64::MAX` are the infinities
    Timestamp(i64),
    /// timestamptz: microseconds from 2000-01-01 00:00 UTC; infinities as for timestamp
    TimestampTz(i64),
    /// time: microseconds from midnight, 24:00 included
    Time(i64),
    /// timetz
    TimeTz(TimeTz),
    /// interval
    Interval(Interval),
    /// json: the text as it was written
    Json(CompactString),
    /// jsonb: the text of its one form (see `types::json`)
    Jsonb(CompactString),
    /// An array of any type
    Array(Box<Array>),
    /// uuid
    Uuid([u8; 16]),
    /// inet and cidr
    Inet(Inet),
    /// macaddr
    MacAddr([u8; 6]),
    /// oid
    Oid(u32),
    /// A value of an enum
    Enum(EnumValue),
    /// regclass and the other types of catalog objects
    Object(Box<Object>),
    /// A row, of a composite type or `record`
    Record(Box<Record>),
}

/// An object of the catalog: what it is shown as was found when the value was made. It is its oid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its oid; 0 for none.
    pub oid: u32,
    /// Its name, with its schema where that is not on the search path; `-` for none, digits for one that is not there.
    pub name: CompactString,
}

/// A time of day and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTz {
    /// Local microseconds from midnight.
    pub us: i64,
    /// Seconds west of UTC, as PostgreSQL keeps it.
    pub west: i32,
}

impl TimeTz {
    /// Microseconds from midnight UTC; may be of the day before or after.
    pub fn utc_us(&self) -> i64 {
        self.us + i64::from(self.west) * 1_000_000
    }
}

/// A span of time. Months and days are kept apart, because they are not all of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months; a year is 12 of them.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub us: i64,
}

impl Interval {
    /// Microseconds, with a month of 30 days of 24 hours: what intervals are compared by.
    pub fn span(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * 86_400_000_000 + i128::from(self.us)
    }
}

/// An array: rows of rows of values, all of one type or NULL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// The dimensions from the outermost on; none for an empty array.
    pub dims: Vec<Dimension>,
    /// The elements, the last dimension's next to each other.
    pub values: Vec<Value>,
}

/// A row as a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What is in it.
    pub fields: Fields,
    /// The values; a field that there is none for is NULL.
    pub values: Vec<Value>,
}

impl Record {
    /// A row of these values.
    pub fn new(fields: Fields, values: Vec<Value>) -> Record {
        Record { fields, values }
    }

    /// The value of a field.
    pub fn get(&self, at: usize) -> &Value {
        const NONE: &Value = &Value::Null;
        self.values.get(at).unwrap_or(NONE)
    }
}

impl From<Record> for Value {
    fn from(record: Record) -> Value {
        Value::Record(Box::new(record))
    }
}

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// How many there are.
    pub len: i32,
    /// The subscript of the first.
    pub lower: i32,
}

impl Array {
    /// An array of one dimension.
    pub fn of(values: Vec<Value>) -> Array {
        Array {
            dims: match values.len() {
                0 => Vec::new(),
                len => vec![Dimension {
                    len: i32::try_from(len).unwrap_or(i32::MAX),
                    lower: 1,
                }],
            },
            values,
        }
    }
}

impl From<Inet> for Value {
    fn from(inet: Inet) -> Value {
        Value::Inet(inet)
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(Box::new(array))
    }
}

impl Value {
    /// Is this NULL?
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Bytes that do not lie in the value itself.
    pub fn bytes_apart(&self) -> usize {
        match self {
            Value::Text(text) | Value::Citext(text) | Value::Json(text) | Value::Jsonb(text)
                if text.is_heap_allocated() =>
            {
                text.len()
            }
            Value::Bytea(bytes) => bytes.len(),
            Value::Array(array) => {
                let apart: usize = array.values.iter().map(Value::bytes_apart).sum();
                size_of_val(&**array) + size_of_val(array.values.as_slice()) + apart
            }
            Value::Record(row) => {
                let apart: usize = row.values.iter().map(Value::bytes_apart).sum();
                size_of_val(&**row) + size_of_val(row.values.as_slice()) + apart
            }
            _ => 0,
        }
    }

    /// A text value.
    pub fn text(s: impl AsRef<str>) -> Value {
        Value::Text(CompactString::new(s.as_ref()))
    }

    /// The value of any of the three integer types, or an oid.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match *self {
            Value::Int2(v) => Some(i64::from(v)),
            Value::Int4(v) => Some(i64::from(v)),
            Value::Int8(v) => Some(v),
            Value::Oid(v) => Some(i64::from(v)),
            Value::Object(ref object) => Some(i64::from(object.oid)),
            _ => None,
        }
    }

    /// The text of a text value.
    #[inline]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// The truth of a boolean; `None` for NULL.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Value>() <= 32);
