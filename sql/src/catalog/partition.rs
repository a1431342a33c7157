//! Distributed tables (PARTITION BY HASH … WITH): the partition of a row, and the root of an index
//! for that partition.
//!
//! ```text
//! value of the partition column ─► key bytes ─► hash ─► modulo the number of partitions
//!                                                           │
//! index that starts with the column, hidden index     roots: one for each partition
//! any other index of the table                        roots: one
//! ```
//!
//! Invariants
//! - PART-1: `indexes[0]` of such a table has a root for each partition. An entry is in the tree of
//!   its row's partition, and the row is on the machine that stores this root.
//! - PART-2: the hash and its input bytes never change: they determine the location of rows on
//!   disk.
//! - PART-3: tables of one group have the same number of partitions, and partition columns of one
//!   type. So equal values are in partitions of the same number, which are on one machine.

use crate::key::encode_plain;
use crate::types::TypeKind;
use crate::value::Value;

/// The number of partitions of a table that does not specify one.
pub const PARTITIONS_DEFAULT: u32 = 16;
/// The largest number of partitions of a table.
pub const PARTITIONS_MAX: u32 = 1024;

/// The distribution of a table's rows over partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// The partition column, by position in the table; it is NOT NULL.
    pub column: usize,
    /// The type of the partition column.
    pub kind: TypeKind,
    /// The number of partitions.
    pub count: u32,
    /// The colocation group: the oid of its first table. All tables of a group are colocated.
    pub group: u32,
}

impl Partitioning {
    /// Returns the partition of a value of the partition column's type. `scratch` is left
    /// unchanged.
    pub fn of_value(&self, value: &Value, scratch: &mut Vec<u8>) -> u32 {
        let start = scratch.len();
        encode_plain(value, self.kind == TypeKind::BpChar, scratch);
        let hash = hash(&scratch[start..]);
        scratch.truncate(start);
        // The remainder is smaller than `count`, which is a u32.
        (hash % u64::from(self.count)) as u32
    }
}

/// Returns an FNV-1a hash with mixed bits, so that the low bits depend on the whole key (PART-2).
/// It differs from the hash of the hash tables, which therefore still distributes the keys within
/// one partition.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0xCBF2_9CE4_8422_2325_u64;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    state = (state ^ (state >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    state ^ (state >> 33)
}

/// The raw addresses of the roots of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// One root for the whole table.
    One(u64),
    /// One root for each partition.
    Each(Box<[u64]>),
}

impl Roots {
    /// The roots of an index that is not created yet.
    pub const NONE: Roots = Roots::One(0);

    /// Returns the root for rows of `partition`, which is ignored for an index with one root.
    #[inline]
    pub fn of(&self, partition: u32) -> u64 {
        match self {
            Roots::One(root) => *root,
            Roots::Each(roots) => roots[partition as usize],
        }
    }

    /// Returns all roots, in the order of the partitions.
    pub fn all(&self) -> &[u64] {
        match self {
            Roots::One(root) => std::slice::from_ref(root),
            Roots::Each(roots) => roots,
        }
    }

    /// Returns whether each partition has a root of its own.
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
    fn partition_of_value_is_stable() {
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
