//! A builder of rows, column by column. Unset columns have a default: false, 0, `-`, or NULL where
//! that is allowed.

use super::Relation;
use crate::types::TypeKind;
use crate::value::{Array, Object, Value};

/// The rows of a relation.
pub struct Rows {
    relation: &'static Relation,
    empty: Vec<Value>,
    /// The rows added so far.
    pub made: Vec<Vec<Value>>,
}

impl Rows {
    /// Creates an empty list of rows.
    pub fn of(relation: &'static Relation) -> Rows {
        let columns = relation.columns.iter();
        let empty = columns.map(|(_, ty)| match ty.kind {
            TypeKind::Bool => Value::Bool(false),
            TypeKind::Int2 => Value::Int2(0),
            TypeKind::Int4 => Value::Int4(0),
            TypeKind::Int8 => Value::Int8(0),
            TypeKind::Float4 => Value::Float4(0.0),
            TypeKind::Oid => Value::Oid(0),
            TypeKind::Char => Value::text(""),
            kind if kind.is_object() => object(0, "-"),
            _ => Value::Null,
        });
        Rows {
            relation,
            empty: empty.collect(),
            made: Vec::new(),
        }
    }

    /// Returns the columns that have one of these types.
    pub fn columns_of(&self, kinds: &[TypeKind]) -> Vec<&'static str> {
        let columns = self.relation.columns.iter();
        let of = columns.filter(|(_, ty)| kinds.contains(&ty.kind));
        of.map(|(name, _)| *name).collect()
    }

    /// Adds a row with these columns.
    pub fn add<'a>(&mut self, columns: impl IntoIterator<Item = (&'a str, Value)>) {
        let mut row = self.empty.clone();
        for (name, value) in columns {
            let mut all = self.relation.columns.iter();
            let at = all.position(|(column, _)| *column == name);
            debug_assert!(at.is_some(), "{}.{name}", self.relation.name);
            if let Some(at) = at {
                row[at] = value;
            }
        }
        self.made.push(row);
    }
}

/// Returns the value for an object and its name.
pub fn object(oid: u32, name: &str) -> Value {
    let name = name.into();
    Value::Object(Box::new(Object { oid, name }))
}

/// Creates an int2vector or oidvector, whose subscripts begin at 0.
pub fn vector(values: impl Iterator<Item = Value>) -> Value {
    let mut array = Array::of(values.collect());
    array
        .dims
        .iter_mut()
        .for_each(|dimension| dimension.lower = 0);
    array.into()
}
