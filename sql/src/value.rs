//! An owned value of any SQL type.
//!
//! Fixed-size types hold no heap memory, and short text is stored inline. A row of such values is
//! created and dropped without the allocator.
//!
//! Invariants
//! - VAL-1: a value carries no type modifier: `varchar(3)` and `text` are both `Text`.
//! - VAL-2: `char(n)` is stored without its trailing blanks; output pads it.

use compact_str::CompactString;
use rust_decimal::Decimal;

use crate::types::{EnumValue, Fields, Inet};

/// An SQL value: a parameter of a statement, or a column of a row.
///
/// `fencepost::params!` creates values from Rust's types, and `fencepost::Row::get` converts them
/// back. Types without a Rust counterpart, such as dates, are used as variants of this type.
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
    /// citext, in its original case
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
    /// timetz: microseconds from midnight, and the UTC offset in seconds
    TimeTz(TimeTz),
    /// interval: months, days and microseconds
    Interval(Interval),
    /// json: the original text
    Json(CompactString),
    /// jsonb: the text of its canonical form (see `types::json`)
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
    /// A value of regclass or another type of catalog objects
    Object(Box<Object>),
    /// A row, of a composite type or `record`
    Record(Box<Record>),
}

/// A reference to a catalog object (`regclass` and similar types). Its text was looked up when the
/// value was made; its identity is the oid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The oid; 0 for none.
    pub oid: u32,
    /// The name, qualified unless its schema is on the search path. `-` for none; the digits of the
    /// oid for a missing object.
    pub name: CompactString,
}

/// A time of day with a UTC offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTz {
    /// Local microseconds from midnight.
    pub us: i64,
    /// Seconds west of UTC, as PostgreSQL stores it.
    pub west: i32,
}

impl TimeTz {
    /// Returns microseconds from midnight UTC. They can belong to the day before or after.
    pub fn utc_us(&self) -> i64 {
        self.us + i64::from(self.west) * 1_000_000
    }
}

/// A span of time. Months and days are separate fields because their lengths vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months; a year is 12 months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub us: i64,
}

impl Interval {
    /// Returns the value by which intervals are compared: microseconds, with months of 30 days and
    /// days of 24 hours.
    pub fn span(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * 86_400_000_000 + i128::from(self.us)
    }
}

/// An array of one or more dimensions; its elements are of one type or NULL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// The dimensions, outermost first; empty for an empty array.
    pub dims: Vec<Dimension>,
    /// The elements in row-major order: those of the last dimension are adjacent.
    pub values: Vec<Value>,
}

/// A row as a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The names and types of the fields.
    pub fields: Fields,
    /// The values. A field beyond their number is NULL.
    pub values: Vec<Value>,
}

impl Record {
    /// Creates a record.
    pub fn new(fields: Fields, values: Vec<Value>) -> Record {
        Record { fields, values }
    }

    /// Returns the value of a field; NULL for a field beyond the values.
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
    /// The number of elements.
    pub len: i32,
    /// The subscript of the first element.
    pub lower: i32,
}

impl Dimension {
    /// Returns the subscript of the last element.
    pub fn upper(&self) -> i32 {
        // An element prepended at the highest subscripts makes `lower + len` exceed 32 bits.
        self.lower + (self.len - 1)
    }
}

impl Array {
    /// Creates an array of one dimension, or an empty array.
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
    /// Returns whether the value is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns whether two values have the same representation. Equal numbers can differ in their
    /// display scale or in the sign of zero, and NaN is identical to itself.
    pub fn is_identical(&self, other: &Value) -> bool {
        let all = |a: &[Value], b: &[Value]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_identical(b))
        };
        match (self, other) {
            (Value::Numeric(a), Value::Numeric(b)) => a.serialize() == b.serialize(),
            (Value::Float4(a), Value::Float4(b)) => a.to_bits() == b.to_bits(),
            (Value::Float8(a), Value::Float8(b)) => a.to_bits() == b.to_bits(),
            (Value::Array(a), Value::Array(b)) => a.dims == b.dims && all(&a.values, &b.values),
            (Value::Record(a), Value::Record(b)) => {
                a.fields == b.fields && all(&a.values, &b.values)
            }
            (a, b) => a == b,
        }
    }

    /// Returns the size of the heap memory of the value, in bytes.
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

    /// Creates a text value.
    pub fn text(s: impl AsRef<str>) -> Value {
        Value::Text(CompactString::new(s.as_ref()))
    }

    /// Returns the value of any of the three integer types, or of an oid.
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

    /// Returns the text of a text value.
    #[inline]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the value of a boolean; `None` for NULL.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Value>() <= 32);
