//! Partitioned tables and their partitions, as PostgreSQL has them: the rows of a partitioned table are those of its
//! *leaves*, which are ordinary tables, and a *tree* of bounds says which leaf a row belongs to.
//!
//! ```text
//! stored     partitioned table: its key         partition: its parent, its bound, whose its indexes and constraints are
//!                       └──────────── Snapshot (`compose`) ───────────┘
//! in memory  partitioned table: a tree with all leaves; each index has the roots that the leaves' indexes have
//! ```
//! So a partitioned table is read as a table with a root for each partition is, and is written leaf by leaf.
//!
//! Invariants
//! - FAMILY-1: a partition has its parent's columns, in their order and of their types; so rows of a leaf are
//!   read by the layout of any table above it.
//! - FAMILY-2: whoever changes a partition's definition raises the versions of all tables above it: who guards a
//!   partitioned table guards its tree and all leaves.
//! - FAMILY-3: a row in a leaf is one that the tree of each table above leads there.
//! - FAMILY-4: an index of a partitioned table is of use where each leaf has one that is linked to it; else it has no
//!   roots (`TableDef::is_whole`).

mod compose;
mod hash;
mod tree;

use std::sync::Arc;

pub use compose::compose;
pub use hash::{can_hash, hash_of};
pub use tree::{Known, Level, Member, Tree};

use super::def::{IndexDef, TableDef};
use super::partition::Roots;
use crate::value::Value;

/// What a table is among partitioned tables and partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// It is partitioned by this.
    pub key: Option<PartitionKey>,
    /// It is a partition.
    pub of: Option<PartitionOf>,
    /// Where the rows of a partitioned table belong; in snapshots only.
    pub tree: Option<Arc<Tree>>,
}

/// How a table is partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// By what.
    pub strategy: Strategy,
    /// The columns, by position in the table.
    pub columns: Vec<usize>,
}

/// How bounds are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// From one row of values up to, not including, another.
    Range,
    /// The values of one column.
    List,
    /// The remainder of a hash.
    Hash,
}

impl Strategy {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Range => "RANGE",
            Strategy::List => "LIST",
            Strategy::Hash => "HASH",
        }
    }
}

/// Whose partition a table is.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOf {
    /// The oid of the partitioned table.
    pub parent: u32,
    /// Which rows of it.
    pub bound: Bound,
    /// Its indexes and constraints that came from the parent: the oid of each, and that of the parent's.
    pub links: Vec<(u32, u32)>,
}

/// Which rows a partition has.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Those of no other.
    Default,
    /// FROM … TO …
    Range {
        /// The first row of values.
        from: Vec<Edge>,
        /// That behind the last.
        to: Vec<Edge>,
    },
    /// IN (…)
    List(Vec<Value>),
    /// WITH (MODULUS …, REMAINDER …)
    Hash {
        /// The hash is divided by this.
        modulus: u32,
        /// This is left over.
        remainder: u32,
    },
}

/// A value of a range's end.
#[derive(Clone, Debug, PartialEq)]
pub enum Edge {
    /// Below all values.
    Min,
    /// A value.
    Value(Value),
    /// Above all values.
    Max,
}

impl TableDef {
    /// What it is partitioned by.
    pub fn partition_key(&self) -> Option<&PartitionKey> {
        self.family.as_ref()?.key.as_ref()
    }

    /// Is it a partitioned table, which has no rows of its own?
    #[inline]
    pub fn is_parent(&self) -> bool {
        self.partition_key().is_some()
    }

    /// Whose partition it is.
    pub fn partition_of_table(&self) -> Option<&PartitionOf> {
        self.family.as_ref()?.of.as_ref()
    }

    /// Where its rows belong, if it is partitioned.
    #[inline]
    pub fn tree(&self) -> Option<&Arc<Tree>> {
        self.family.as_ref()?.tree.as_ref()
    }

    /// A partitioned table with no rows but its own: none.
    pub fn without_partitions(&self) -> TableDef {
        let mut alone = self.clone();
        for index in &mut alone.indexes {
            index.roots = Roots::Each([].into());
        }
        if let Some(family) = &mut alone.family
            && let Some(key) = &family.key
        {
            family.tree = Some(Arc::new(Tree {
                leaves: Vec::new(),
                columns: key.columns.clone(),
                top: Level::new(self, key, &[]),
            }));
        }
        alone
    }

    /// Its leaves.
    pub fn leaves(&self) -> &[Arc<TableDef>] {
        self.tree().map_or(&[], |tree| &tree.leaves)
    }

    /// The oid of the parent's index or constraint that the one with this oid came from.
    pub fn link(&self, own: u32) -> Option<u32> {
        let of = self.partition_of_table()?;
        let mut links = of.links.iter();
        links.find(|(child, _)| *child == own).map(|(_, of)| *of)
    }

    /// The oid of what came from the parent's index or constraint with this oid.
    pub fn linked(&self, parents: u32) -> Option<u32> {
        let of = self.partition_of_table()?;
        let mut links = of.links.iter();
        links.find(|(_, of)| *of == parents).map(|(own, _)| *own)
    }

    /// Reaches the index all rows (FAMILY-4)?
    #[inline]
    pub fn is_whole(&self, index: &IndexDef) -> bool {
        match self.tree() {
            None => true,
            Some(tree) => index.roots.all().len() == tree.leaves.len(),
        }
    }

    /// The columns that decide, here or below, which leaf a row belongs to.
    pub fn routing_columns(&self) -> &[usize] {
        match (self.tree(), self.partition_key()) {
            (Some(tree), _) => &tree.columns,
            (None, Some(key)) => &key.columns,
            (None, None) => &[],
        }
    }
}
