//! Partition hierarchies: partitioned tables and their partitions, as in PostgreSQL. The rows of a
//! partitioned table are the rows of its *leaf partitions*, which are ordinary tables. A *tree* of
//! bounds determines the leaf of a row.
//!
//! ```text
//! stored     partitioned table: its key        partition: its parent, its bound, and the origin
//!                                              of its indexes and constraints
//!                       └──────────── Snapshot (`compose`) ───────────┘
//! in memory  partitioned table: a tree with all leaves;
//!            each index has the roots of the leaves' indexes
//! ```
//! So a partitioned table is read like a table with a root for each partition, and it is written
//! leaf by leaf.
//!
//! Invariants
//! - HIERARCHY-1: a partition has its parent's columns, in the same order and with the same types.
//!   So rows of a leaf can be read by the layout of any table above it.
//! - HIERARCHY-2: a change of a partition's definition raises the versions of all tables above it.
//!   So a transaction that guards a partitioned table guards its tree and all leaves.
//! - HIERARCHY-3: the tree of each table above a leaf leads every row of the leaf to that leaf.
//! - HIERARCHY-4: an index of a partitioned table is usable if each leaf has an index that is
//!   linked to it. Otherwise it has no roots (`TableDef::is_whole`).

mod compose;
mod hash;
mod tree;

use std::sync::Arc;

pub use compose::compose;
pub use hash::{can_hash, hash_of};
pub use tree::{ColumnConstraint, Level, Member, Tree};

use super::def::{IndexDef, TableDef};
use super::partition::Roots;
use crate::value::Value;

/// The place of a table in a partition hierarchy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HierarchyPosition {
    /// The partition key, if the table is partitioned.
    pub key: Option<PartitionKey>,
    /// The parent, if the table is a partition.
    pub of: Option<PartitionOf>,
    /// The tree of bounds of a partitioned table; in snapshots only.
    pub tree: Option<Arc<Tree>>,
}

/// The partition key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// The strategy.
    pub strategy: Strategy,
    /// The key columns, by position in the table.
    pub columns: Vec<usize>,
}

/// The partitioning strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// RANGE: from one row of values up to, but not including, another.
    Range,
    /// LIST: values of one column.
    List,
    /// HASH: the remainder of a hash.
    Hash,
}

impl Strategy {
    /// Returns the SQL keyword.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "RANGE",
            Strategy::List => "LIST",
            Strategy::Hash => "HASH",
        }
    }
}

/// The parent of a partition, and its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOf {
    /// The oid of the partitioned table, which is the parent.
    pub parent: u32,
    /// The bound, which selects the rows of the partition.
    pub bound: Bound,
    /// The indexes and constraints that the partition inherits: its own oid of each, and the
    /// parent's.
    pub links: Vec<(u32, u32)>,
}

/// The bound of a partition.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// DEFAULT: the rows of no other partition.
    Default,
    /// FROM … TO …
    Range {
        /// The inclusive lower bound.
        from: Vec<Edge>,
        /// The exclusive upper bound.
        to: Vec<Edge>,
    },
    /// IN (…)
    List(Vec<Value>),
    /// WITH (MODULUS …, REMAINDER …)
    Hash {
        /// The divisor of the hash.
        modulus: u32,
        /// The remainder of the hash.
        remainder: u32,
    },
}

/// A value in a range bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Edge {
    /// MINVALUE: below all values.
    Min,
    /// A value.
    Value(Value),
    /// MAXVALUE: above all values.
    Max,
}

impl TableDef {
    /// Returns the partition key; `None` if the table is not partitioned.
    pub fn partition_key(&self) -> Option<&PartitionKey> {
        self.hierarchy.as_ref()?.key.as_ref()
    }

    /// Returns whether this is a partitioned table, which has no rows of its own.
    #[inline]
    pub fn is_parent(&self) -> bool {
        self.partition_key().is_some()
    }

    /// Returns the parent and the bound of a partition; `None` for other tables.
    pub fn partition_of_table(&self) -> Option<&PartitionOf> {
        self.hierarchy.as_ref()?.of.as_ref()
    }

    /// Returns the tree of bounds of a partitioned table.
    #[inline]
    pub fn tree(&self) -> Option<&Arc<Tree>> {
        self.hierarchy.as_ref()?.tree.as_ref()
    }

    /// Returns the partitioned table without its partitions, and so without rows.
    pub fn without_partitions(&self) -> TableDef {
        let mut alone = self.clone();
        for index in &mut alone.indexes {
            index.roots = Roots::Each([].into());
        }
        if let Some(hierarchy) = &mut alone.hierarchy
            && let Some(key) = &hierarchy.key
        {
            hierarchy.tree = Some(Arc::new(Tree {
                leaves: Vec::new(),
                columns: key.columns.clone(),
                top: Level::new(self, key, &[]),
            }));
        }
        alone
    }

    /// Returns the leaf partitions.
    pub fn leaves(&self) -> &[Arc<TableDef>] {
        self.tree().map_or(&[], |tree| &tree.leaves)
    }

    /// Returns the oid of the parent's index or constraint from which the one with this oid is
    /// inherited.
    pub fn link(&self, own: u32) -> Option<u32> {
        let of = self.partition_of_table()?;
        let mut links = of.links.iter();
        links.find(|(child, _)| *child == own).map(|(_, of)| *of)
    }

    /// Returns the oid of the index or constraint that is inherited from the parent's with this
    /// oid.
    pub fn linked(&self, parents: u32) -> Option<u32> {
        let of = self.partition_of_table()?;
        let mut links = of.links.iter();
        links.find(|(_, of)| *of == parents).map(|(own, _)| *own)
    }

    /// Returns whether the index reaches all rows (HIERARCHY-4).
    #[inline]
    pub fn is_whole(&self, index: &IndexDef) -> bool {
        match self.tree() {
            None => true,
            Some(tree) => index.roots.all().len() == tree.leaves.len(),
        }
    }

    /// Returns the columns that determine, on any level, the leaf of a row.
    pub fn routing_columns(&self) -> &[usize] {
        match (self.tree(), self.partition_key()) {
            (Some(tree), _) => &tree.columns,
            (None, Some(key)) => &key.columns,
            (None, None) => &[],
        }
    }
}
