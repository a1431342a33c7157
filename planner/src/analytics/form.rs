//! The Arrow representations of columns.

use fencepost_sql::types::{Type, TypeKind};

/// The Arrow representation of a column (ANA-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Booleans.
    Bool,
    /// Integers, and dates and times as integers, infinities included.
    Int,
    /// Floats, which are only passed through, because Arrow defines their equality differently.
    Float,
    /// Texts as bytes. Texts compare as bytes, because the only collation is C.
    Text,
    /// UUIDs of 16 bytes.
    Uuid,
    /// Numbers that all have this number of decimal places.
    Decimal(u32),
    /// TRUE for each value that is not NULL, for counting.
    Present,
}

impl Form {
    /// Returns the form of the values of a type; `None` if there is none.
    pub fn of(ty: Type) -> Option<Form> {
        use TypeKind::{Bool, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Oid, Time, Uuid};
        Some(match ty.kind {
            Bool => Form::Bool,
            Int2 | Int4 | Int8 | Oid | Date | Time => Form::Int,
            TypeKind::Timestamp | TypeKind::TimestampTz => Form::Int,
            Float4 | Float8 => Form::Float,
            Uuid => Form::Uuid,
            Numeric => Form::Decimal(declared_scale(ty)?),
            kind if kind.is_string() => Form::Text,
            _ => return None,
        })
    }

    /// Returns whether a hash table of DataFusion's can have such keys.
    pub fn is_key(self) -> bool {
        !matches!(self, Form::Float | Form::Present)
    }
}

/// Returns the declared number of decimal places of a numeric column.
pub fn declared_scale(ty: Type) -> Option<u32> {
    let scale = (ty.typmod.checked_sub(4)? & 0x7FF) as u32;
    (ty.typmod >= 4 && scale <= 28).then_some(scale)
}
