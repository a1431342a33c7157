//! The values that an aggregate with DISTINCT has seen, where their order does not matter.

use foldhash::{HashSet, HashSetExt};

use crate::bound::{Aggregate, AggregateKind};
use crate::key::encode_plain;
use crate::types::TypeKind;
use crate::value::Value;

/// The size of an entry of a set of bytes besides the bytes.
const ENTRY_BYTES: usize = 2 * size_of::<Box<[u8]>>();

/// A set of values.
#[derive(Clone, Debug)]
pub(super) enum SeenValues {
    /// Integers of one type.
    Integers(HashSet<i64>),
    /// Values as keys, and the size of all keys.
    Keys(HashSet<Box<[u8]>>, usize),
}

impl SeenValues {
    /// Creates an empty set. Returns `None` if the aggregate is none with DISTINCT, or needs its
    /// values in order. The sum of floats depends on their order.
    pub fn of(aggregate: &Aggregate) -> Option<SeenValues> {
        let ([arg], true) = (&aggregate.args[..], aggregate.order_by.is_empty()) else {
            return None;
        };
        let is_float = matches!(arg.ty.kind, TypeKind::Float4 | TypeKind::Float8);
        let unordered = match aggregate.kind {
            AggregateKind::Count => true,
            AggregateKind::Sum | AggregateKind::Avg => !is_float,
            _ => false,
        };
        (aggregate.distinct && unordered).then(|| match arg.ty.kind {
            TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => {
                SeenValues::Integers(HashSet::new())
            }
            _ => SeenValues::Keys(HashSet::new(), 0),
        })
    }

    /// Adds a value that is not NULL. Returns whether it is new.
    pub fn add(&mut self, value: &Value) -> bool {
        match self {
            SeenValues::Integers(seen) => value.as_int().is_none_or(|value| seen.insert(value)),
            SeenValues::Keys(seen, bytes) => {
                let mut key = Vec::new();
                encode_plain(value, false, &mut key);
                *bytes += key.len();
                seen.insert(key.into())
            }
        }
    }

    /// Returns the size of the set in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            SeenValues::Integers(seen) => seen.capacity() * (size_of::<i64>() + 1),
            SeenValues::Keys(seen, bytes) => bytes + seen.capacity() * ENTRY_BYTES,
        }
    }
}
