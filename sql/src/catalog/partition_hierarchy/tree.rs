//! Searches in partition bounds: the leaf of a row, and the leaves that can contain the rows of a
//! query.
//!
//! The key of a row is the bytes of its values, whose order is the order of the values (KEY-1).
//! Range bounds are such bytes, too. MINVALUE and MAXVALUE are a byte below or above the bytes of
//! every value.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::{Bound, Edge, PartitionKey, Strategy, hash_of};
use crate::catalog::alter::move_all;
use crate::catalog::def::TableDef;
use crate::key::{encode_plain, successor};
use crate::types::TypeKind;
use crate::value::Value;

const BELOW: u8 = 0;
const ABOVE: u8 = 2;

/// The partitions of a table, down to its leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The leaves in the order of their bounds; a default partition comes last.
    pub leaves: Vec<Arc<TableDef>>,
    /// The columns that determine the leaf, on any level.
    pub columns: Vec<usize>,
    /// The direct partitions of the table.
    pub top: Level,
}

/// The direct partitions of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The oid of the table.
    pub table: u32,
    /// The partition key.
    pub key: PartitionKey,
    kinds: Vec<TypeKind>,
    /// The partitions, in the order of their bounds.
    pub members: Vec<Member>,
    default: Option<usize>,
    /// LIST: the positions of the partitions, by the bytes of each value.
    listed: HashMap<Vec<u8>, usize>,
}

/// A partition on one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The oid of the partition.
    pub table: u32,
    /// The name of the partition.
    pub name: String,
    /// The bound of the partition.
    pub bound: Bound,
    /// RANGE: the bytes of the lower and the upper bound.
    ends: (Vec<u8>, Vec<u8>),
    /// The leaf or the further level that the partition is.
    pub next: PartitionNode,
}

/// The target of a partition.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionNode {
    /// A leaf, by position.
    Leaf(u32),
    /// A partitioned table with partitions of its own.
    Level(Box<Level>),
}

/// The knowledge about a column of the requested rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ColumnConstraint {
    /// Nothing is known.
    #[default]
    Nothing,
    /// The column has one of these values.
    Among(Vec<Value>),
    /// The column is not NULL and between these values; each flag tells whether that value is
    /// included.
    Between(Option<(Value, bool)>, Option<(Value, bool)>),
}

impl Member {
    /// Returns a partition with its bound; its target is set later.
    pub(super) fn new(table: &TableDef, bound: &Bound, kinds: &[TypeKind]) -> Member {
        let ends = match bound {
            Bound::Range { from, to } => (edge(from, kinds), edge(to, kinds)),
            _ => (Vec::new(), Vec::new()),
        };
        Member {
            table: table.id,
            name: table.name.clone(),
            bound: bound.clone(),
            ends,
            next: PartitionNode::Leaf(0),
        }
    }

    fn leaves(&self, all: &mut Vec<u32>) {
        match &self.next {
            PartitionNode::Leaf(leaf) => all.push(*leaf),
            PartitionNode::Level(level) => {
                level.members.iter().for_each(|member| member.leaves(all))
            }
        }
    }
}

/// Returns the bytes of a range bound.
pub(super) fn edge(edges: &[Edge], kinds: &[TypeKind]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (edge, kind) in edges.iter().zip(kinds) {
        match edge {
            Edge::Min => bytes.push(BELOW),
            Edge::Max => bytes.push(ABOVE),
            Edge::Value(value) => encode_plain(value, *kind == TypeKind::BpChar, &mut bytes),
        }
        if !matches!(edge, Edge::Value(_)) {
            break;
        }
    }
    bytes
}

impl Tree {
    /// Adjusts the tree after column `removed` of the table was dropped.
    pub(in crate::catalog) fn lost_column(&mut self, removed: usize) {
        move_all(&mut self.columns, removed);
        self.top.lost_column(removed);
    }
}

impl Level {
    fn lost_column(&mut self, removed: usize) {
        move_all(&mut self.key.columns, removed);
        for member in &mut self.members {
            if let PartitionNode::Level(level) = &mut member.next {
                level.lost_column(removed);
            }
        }
    }

    /// Returns the level for the partitions of `table` with their bounds.
    pub fn new(table: &TableDef, key: &PartitionKey, partitions: &[(&TableDef, &Bound)]) -> Level {
        let kinds: Vec<TypeKind> = key
            .columns
            .iter()
            .map(|column| table.columns[*column].ty.kind)
            .collect();
        let members = partitions.iter();
        let mut members: Vec<Member> = members
            .map(|(table, bound)| Member::new(table, bound, &kinds))
            .collect();
        members.sort_by_cached_key(|member| match &member.bound {
            Bound::Range { .. } => (0, member.ends.0.clone(), 0, 0),
            Bound::List(values) => {
                let bytes = values.iter().filter(|value| !value.is_null());
                let first = bytes.map(|value| plain(value, kinds[0])).min();
                (u8::from(first.is_none()), first.unwrap_or_default(), 0, 0)
            }
            Bound::Hash { modulus, remainder } => (0, Vec::new(), *modulus, *remainder),
            Bound::Default => (2, Vec::new(), 0, 0),
        });
        let mut listed = HashMap::new();
        for (at, member) in members.iter().enumerate() {
            if let Bound::List(values) = &member.bound {
                listed.extend(values.iter().map(|value| (plain(value, kinds[0]), at)));
            }
        }
        Level {
            table: table.id,
            key: key.clone(),
            default: members.iter().position(|m| m.bound == Bound::Default),
            kinds,
            members,
            listed,
        }
    }

    /// Returns the default partition.
    pub fn default(&self) -> Option<&Member> {
        self.default.map(|at| &self.members[at])
    }

    /// Returns the partition of a row whose key has these values.
    fn member_of(&self, values: &[&Value]) -> Option<&Member> {
        let found = match self.key.strategy {
            Strategy::Hash => {
                let hash = hash_of(values.iter().copied());
                self.members.iter().position(|member| match member.bound {
                    Bound::Hash { modulus, remainder } => {
                        hash % u64::from(modulus) == u64::from(remainder)
                    }
                    _ => false,
                })
            }
            Strategy::List => self.listed.get(&plain(values[0], self.kinds[0])).copied(),
            Strategy::Range if values.iter().any(|value| value.is_null()) => None,
            Strategy::Range => {
                let mut key = Vec::new();
                for (value, kind) in values.iter().zip(&self.kinds) {
                    encode_plain(value, *kind == TypeKind::BpChar, &mut key);
                }
                let ranges =
                    &self.members[..self.members.len() - usize::from(self.default.is_some())];
                let above = ranges.partition_point(|member| member.ends.0 <= key);
                above.checked_sub(1).filter(|at| key < ranges[*at].ends.1)
            }
        };
        found.or(self.default).map(|at| &self.members[at])
    }

    /// Returns the partition of a row.
    pub fn member_of_row(&self, row: &[Value]) -> Option<&Member> {
        let values: Vec<&Value> = self.key.columns.iter().map(|c| &row[*c]).collect();
        self.member_of(&values)
    }

    /// Returns a partition whose bound overlaps `bound`. A default partition overlaps only another
    /// default.
    pub fn overlapped(&self, bound: &Bound) -> Option<&Member> {
        let mut members = self.members.iter();
        match bound {
            Bound::Default => self.default(),
            Bound::List(values) => {
                let mut found = values.iter();
                let found = found.find_map(|value| self.listed.get(&plain(value, self.kinds[0])));
                found.map(|at| &self.members[*at])
            }
            Bound::Range { from, to } => {
                let (from, to) = (edge(from, &self.kinds), edge(to, &self.kinds));
                members.find(|member| {
                    matches!(member.bound, Bound::Range { .. })
                        && member.ends.0 < to
                        && from < member.ends.1
                })
            }
            Bound::Hash { modulus, remainder } => members.find(|member| match member.bound {
                Bound::Hash {
                    modulus: other,
                    remainder: theirs,
                } => {
                    let common = modulus.min(&other);
                    remainder % common == theirs % common
                }
                _ => false,
            }),
        }
    }

    /// Returns whether a range contains no value.
    pub fn is_empty(&self, from: &[Edge], to: &[Edge]) -> bool {
        edge(from, &self.kinds) >= edge(to, &self.kinds)
    }

    fn prune(&self, known: &dyn Fn(usize) -> ColumnConstraint, all: &mut Vec<u32>) {
        let mut keep = vec![false; self.members.len()];
        let columns: Vec<ColumnConstraint> = self
            .key
            .columns
            .iter()
            .map(|column| known(*column))
            .collect();
        self.mark(&columns, &mut Vec::new(), &mut keep);
        for (member, _) in self.members.iter().zip(&keep).filter(|(_, keep)| **keep) {
            match &member.next {
                PartitionNode::Leaf(leaf) => all.push(*leaf),
                PartitionNode::Level(level) => level.prune(known, all),
            }
        }
    }

    /// Marks the partitions that can contain rows with `values` in the first key columns, and
    /// further columns as described.
    fn mark(&self, columns: &[ColumnConstraint], values: &mut Vec<Value>, keep: &mut [bool]) {
        let Some(next) = columns.get(values.len()) else {
            let values: Vec<&Value> = values.iter().collect();
            if let Some(member) = self.member_of(&values) {
                let at = self.members.iter().position(|m| m.table == member.table);
                at.into_iter().for_each(|at| keep[at] = true);
            }
            return;
        };
        if let ColumnConstraint::Among(some) = next {
            for value in some {
                values.push(value.clone());
                self.mark(columns, values, keep);
                values.pop();
            }
            return;
        }
        let mut prefix = Vec::new();
        for (value, kind) in values.iter().zip(&self.kinds) {
            encode_plain(value, *kind == TypeKind::BpChar, &mut prefix);
        }
        let kind = self.kinds[values.len()];
        let (lower, upper) = match next {
            ColumnConstraint::Between(lower, upper) => (lower.as_ref(), upper.as_ref()),
            _ => (None, None),
        };
        let end = |(value, _): &(Value, bool)| {
            let mut bytes = prefix.clone();
            encode_plain(value, kind == TypeKind::BpChar, &mut bytes);
            bytes
        };
        let first = lower.map_or_else(|| prefix.clone(), end);
        // Keys that begin with the upper bound are included: further columns may follow.
        let last = upper.map_or_else(|| prefix.clone(), end);
        let behind = |mut bytes: Vec<u8>| successor(&mut bytes).then_some(bytes);
        let last = behind(last);
        let bounded = lower.is_some() || upper.is_some();
        for (member, keep) in self.members.iter().zip(keep) {
            *keep |= match &member.bound {
                Bound::Default | Bound::Hash { .. } => true,
                Bound::Range { .. } => {
                    last.as_ref().is_none_or(|last| member.ends.0 < *last) && first < member.ends.1
                }
                Bound::List(_) if !bounded => true,
                Bound::List(values) => values.iter().filter(|v| !v.is_null()).any(|value| {
                    let value = plain(value, kind);
                    first <= value && last.as_ref().is_none_or(|last| value < *last)
                }),
            };
        }
    }
}

fn plain(value: &Value, kind: TypeKind) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_plain(value, kind == TypeKind::BpChar, &mut bytes);
    bytes
}

impl Tree {
    /// Returns the position of the leaf for a row with these values, or the level without a
    /// partition for the row.
    pub fn leaf_of<'v>(&self, value: &dyn Fn(usize) -> &'v Value) -> Result<u32, &Level> {
        let mut level = &self.top;
        loop {
            let values: Vec<&Value> = level.key.columns.iter().map(|c| value(*c)).collect();
            match level.member_of(&values).map(|member| &member.next) {
                None => return Err(level),
                Some(PartitionNode::Leaf(leaf)) => return Ok(*leaf),
                Some(PartitionNode::Level(next)) => level = next,
            }
        }
    }

    /// Returns the leaves that can contain rows with these properties, in their order.
    pub fn leaves_with(&self, known: &dyn Fn(usize) -> ColumnConstraint) -> Vec<u32> {
        let mut all = Vec::new();
        self.top.prune(known, &mut all);
        all
    }

    /// Returns the name of a table of the tree, except the root.
    pub fn name_of(&self, table: u32) -> Option<&str> {
        fn find(level: &Level, table: u32) -> Option<&str> {
            level.members.iter().find_map(|member| match &member.next {
                _ if member.table == table => Some(member.name.as_str()),
                PartitionNode::Level(next) => find(next, table),
                PartitionNode::Leaf(_) => None,
            })
        }
        find(&self.top, table)
    }

    /// Returns the oids of all tables of the tree, except the root.
    pub fn tables(&self) -> Vec<u32> {
        fn find(level: &Level, all: &mut Vec<u32>) {
            for member in &level.members {
                all.push(member.table);
                if let PartitionNode::Level(next) = &member.next {
                    find(next, all);
                }
            }
        }
        let mut all = Vec::new();
        find(&self.top, &mut all);
        all
    }

    /// Returns the leaves below a table of the tree.
    pub fn below(&self, table: u32) -> Vec<u32> {
        fn find(level: &Level, table: u32, all: &mut Vec<u32>) {
            for member in &level.members {
                if member.table == table {
                    member.leaves(all);
                } else if let PartitionNode::Level(next) = &member.next {
                    find(next, table, all);
                }
            }
        }
        let mut all = Vec::new();
        find(&self.top, table, &mut all);
        all
    }
}
