//! Composition of partition hierarchies from stored definitions, when a snapshot is built.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::tree::{Level, PartitionNode, Tree};
use crate::catalog::def::TableDef;
use crate::catalog::partition::Roots;

/// Gives each partitioned table in `tables` its tree, and gives its indexes the roots of the
/// leaves' indexes.
pub fn compose(tables: &mut [TableDef]) {
    if tables.iter().all(|table| table.hierarchy.is_none()) {
        return;
    }
    let mut partitions: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, table) in tables.iter().enumerate() {
        if let Some(of) = table.partition_of_table() {
            partitions.entry(of.parent).or_default().push(at);
        }
    }
    let all = HierarchySource {
        tables,
        partitions: &partitions,
    };
    let mut made = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let Some(top) = all.level(table) else {
            continue;
        };
        let mut tree = Tree {
            leaves: Vec::new(),
            columns: Vec::new(),
            top,
        };
        let mut level = std::mem::replace(&mut tree.top, Level::new(table, &key_of(table), &[]));
        all.descend(&mut level, &mut tree);
        tree.top = level;
        tree.columns.sort_unstable();
        tree.columns.dedup();
        made.push((at, all.roots(table, &tree), tree));
    }
    for (at, roots, tree) in made {
        let table = &mut tables[at];
        for (index, roots) in table.indexes.iter_mut().zip(roots) {
            index.roots = Roots::Each(roots.into());
        }
        if let Some(hierarchy) = &mut table.hierarchy {
            hierarchy.tree = Some(Arc::new(tree));
        }
    }
}

fn key_of(table: &TableDef) -> super::PartitionKey {
    table
        .partition_key()
        .cloned()
        .unwrap_or(super::PartitionKey {
            strategy: super::Strategy::List,
            columns: Vec::new(),
        })
}

struct HierarchySource<'a> {
    tables: &'a [TableDef],
    partitions: &'a HashMap<u32, Vec<usize>>,
}

impl HierarchySource<'_> {
    /// Returns the partitions of a partitioned table; `None` for other tables.
    fn level(&self, table: &TableDef) -> Option<Level> {
        let key = table.partition_key()?;
        let below = self.partitions.get(&table.id);
        let below = below.into_iter().flatten().filter_map(|at| {
            let table = &self.tables[*at];
            Some((table, &table.partition_of_table()?.bound))
        });
        Some(Level::new(table, key, &below.collect::<Vec<_>>()))
    }

    fn table(&self, id: u32) -> Option<&TableDef> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// Sets the targets of the partitions of a level, and adds its leaves to the tree.
    fn descend(&self, level: &mut Level, tree: &mut Tree) {
        tree.columns.extend(&level.key.columns);
        for member in &mut level.members {
            let Some(table) = self.table(member.table) else {
                continue;
            };
            match self.level(table) {
                None => {
                    member.next = PartitionNode::Leaf(tree.leaves.len() as u32);
                    tree.leaves.push(Arc::new(table.clone()));
                }
                Some(mut below) => {
                    self.descend(&mut below, tree);
                    member.next = PartitionNode::Level(Box::new(below));
                }
            }
        }
    }

    /// Returns the roots of each index of a partitioned table; none if a leaf has no linked index.
    fn roots(&self, table: &TableDef, tree: &Tree) -> Vec<Vec<u64>> {
        let of_index = |index: &super::IndexDef| {
            let roots = tree.leaves.iter().map(|leaf| {
                let own = match index.is_hidden() {
                    true => Some(leaf.primary()),
                    false => self.linked(leaf, table.id, index.id),
                };
                own.map(|own| own.roots.of(0))
            });
            roots.collect::<Option<Vec<u64>>>().unwrap_or_default()
        };
        table.indexes.iter().map(of_index).collect()
    }

    /// Returns the index of `leaf` that is inherited from that of the table `above`, directly or
    /// through other tables.
    fn linked<'t>(
        &self,
        leaf: &'t TableDef,
        above: u32,
        index: u32,
    ) -> Option<&'t super::IndexDef> {
        leaf.indexes.iter().find(|own| {
            let (mut table, mut id) = (leaf, own.id);
            loop {
                let (Some(of), Some(link)) = (table.partition_of_table(), table.link(id)) else {
                    return false;
                };
                if of.parent == above {
                    return link == index;
                }
                match self.table(of.parent) {
                    Some(next) => (table, id) = (next, link),
                    None => return false,
                }
            }
        })
    }
}
