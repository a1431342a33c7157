//! Partitioned tables: which partition a row belongs to, and the roots that an index has for it.
//!
//! ```text
//! value of the partition column ─► key bytes ─► hash ─► modulo the number of partitions
//!                                                           │
//! index that starts with the column, hidden index     roots: one for each partition
//! any other index of the table                        roots: one
//! ```
//!
//! Invariants
//! - PART-1: `indexes[0]` of a partitioned table has a root for each partition. An entry is in the tree
//!   of its row's partition, and the row is on the machine that has this root.
//! - PART-2: the hash, and the bytes it is taken of, never change: they say where rows on disk are.
//! - PART-3: tables of one group have as many partitions and partition columns of one type, so equal
//!   values are in partitions of one number; those are on one machine.

use crate::key::encode_plain;
use crate::types::TypeKind;
use crate::value::Value;

/// Partitions of a table that does not say how many.
pub const PARTITIONS_DEFAULT: u32 = 16;
/// The most partitions a table can have.
pub const PARTITIONS_MAX: u32 = 1024;

/// How a table is cut into partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// The partition column, by position in the table; it is NOT NULL.
    pub column: usize,
    /// Its type.
    pub kind: TypeKind,
    /// The number of partitions.
    pub count: u32,
    /// The tables that are kept together with this one have the same group: the oid of the first of
    /// them.
    pub group: u32,
}

impl Partitioning {
    /// The partition of a value of the partition column's type. `scratch` comes back as it was.
    pub fn of_value(&self, value: &Value, scratch: &mut Vec<u8>) -> u32 {
        let start = scratch.len();
        encode_plain(value, self.kind == TypeKind::BpChar, scratch);
        let hash = hash(&scratch[start..]);
        scratch.truncate(start);
        // The remainder is below `count`.
        (hash % u64::from(self.count)) as u32
    }
}

/// FNV-1a, and then the bits are mixed, so that the low ones depend on all of the key (PART-2). It is not
/// the hash of the hash tables: in one partition that still spreads the keys.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0xCBF2_9CE4_8422_2325_u64;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    state = (state ^ (state >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    state ^ (state >> 33)
}

/// Raw addresses of the roots of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Of the whole table.
    One(u64),
    /// Of each partition.
    Each(Box<[u64]>),
}

impl Roots {
    /// Of an index that is still to be made.
    pub const NONE: Roots = Roots::One(0);

    /// The root for rows of `partition`, which any is of a table that has none.
    #[inline]
    pub fn of(&self, partition: u32) -> u64 {
        match self {
            Roots::One(root) => *root,
            Roots::Each(roots) => roots[partition as usize],
        }
    }

    /// All of them, by partition.
    pub fn all(&self) -> &[u64] {
        match self {
            Roots::One(root) => std::slice::from_ref(root),
            Roots::Each(roots) => roots,
        }
    }

    /// Has each partition its own?
    #[inline]
    pub fn are_partitioned(&self) -> bool {
        matches!(self, Roots::Each(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitioning(kind: TypeKind, count: u32) -> Partitioning {
        Partitioning {
            column: 0,
            kind,
            count,
            group: 1,
        }
    }

    #[test]
    fn the_partitions_of_values_are_what_they_always_were() {
        let of = |kind, value: Value| {
            let mut scratch = b"kept".to_vec();
            let partition = partitioning(kind, 1024).of_value(&value, &mut scratch);
            assert_eq!(scratch, b"kept");
            partition
        };
        let known = [
            of(TypeKind::Int4, Value::Int4(0)),
            of(TypeKind::Int4, Value::Int4(-5)),
            of(TypeKind::Int8, Value::Int8(5)),
            of(TypeKind::Text, Value::text("fencepost")),
            of(TypeKind::Uuid, Value::Uuid([7; 16])),
            of(TypeKind::Bool, Value::Bool(true)),
        ];
        assert_eq!(known, [380, 719, 820, 766, 877, 334]);
    }

    #[test]
    fn equal_values_share_a_partition() {
        let mut scratch = Vec::new();
        let numeric = partitioning(TypeKind::Numeric, 1024);
        let decimal = |text: &str| Value::Numeric(text.parse().expect("a decimal"));
        let short = numeric.of_value(&decimal("1.5"), &mut scratch);
        assert_eq!(short, numeric.of_value(&decimal("1.500"), &mut scratch));
        let padded = partitioning(TypeKind::BpChar, 1024);
        let bare = padded.of_value(&Value::text("ab"), &mut scratch);
        assert_eq!(bare, padded.of_value(&Value::text("ab   "), &mut scratch));
        let float = partitioning(TypeKind::Float8, 1024);
        let zero = float.of_value(&Value::Float8(0.0), &mut scratch);
        assert_eq!(zero, float.of_value(&Value::Float8(-0.0), &mut scratch));
    }

    #[test]
    fn values_in_a_row_are_spread() {
        let mut scratch = Vec::new();
        for count in [3, 16, 24] {
            let partitioning = partitioning(TypeKind::Int4, count);
            let mut rows = vec![0u32; count as usize];
            for n in 0..(count as i32 * 1000) {
                rows[partitioning.of_value(&Value::Int4(n), &mut scratch) as usize] += 1;
            }
            assert!(rows.iter().all(|n| (850..1150).contains(n)), "{rows:?}");
        }
    }
}
