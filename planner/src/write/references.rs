//! The foreign keys that a statement may affect, and how it finds the rows at their two ends.

use std::ops::Bound;
use std::sync::Arc;

use fencepost_btree::{BTree, Direction, ScanBatch};
use fencepost_sql::bound::{Expr, RelatedTable};
use fencepost_sql::catalog::{ForeignKeyDef, IndexKind, TableDef};
use fencepost_sql::key::{encode_plain, successor};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::TypeKind;
use fencepost_sql::value::Value;
use fencepost_storage::FatPtr;

use crate::exec::{Cx, Fit, fit};
use crate::index::is_referenced;
use crate::plan::TablePlan;
use crate::store::read_row;
use crate::trees::{tree, trees};

const CHUNK: usize = 256;

/// Foreign keys, and the tables at their ends.
#[derive(Debug)]
pub struct References {
    /// The tables; the first is the statement's table.
    pub tables: Vec<Arc<TablePlan>>,
    /// The default expressions of each table's columns, if SET DEFAULT may need them.
    pub defaults: Vec<Vec<Expr>>,
    /// The foreign keys among them.
    pub keys: Vec<Key>,
    /// The pairs of a partitioned table and a table of its partition hierarchy, among the tables.
    parts: Vec<HierarchyTable>,
}

/// A partitioned table, and a table of its partition hierarchy.
#[derive(Debug)]
struct HierarchyTable {
    /// The partitioned table, by position.
    whole: usize,
    /// The other table, by position.
    part: usize,
    /// The leaves of the partitioned table that belong to the other table.
    leaves: Vec<u32>,
}

/// A foreign key, with positions of tables and indexes.
#[derive(Debug)]
pub struct Key {
    /// The definition.
    pub def: ForeignKeyDef,
    /// The referencing table, by position.
    pub child: usize,
    /// The referenced table, by position.
    pub parent: usize,
    /// The unique index over the referenced columns.
    parent_index: usize,
    /// An index that begins with the referencing columns, if there is one.
    child_index: Option<usize>,
}

/// A row of a table and its fat pointer.
pub type LocatedRow = (FatPtr, Vec<Value>);

impl References {
    /// Collects the foreign keys among `related`. Returns `None` if there are none.
    pub fn of(related: Vec<RelatedTable>) -> Option<Arc<References>> {
        let mut references = References {
            tables: Vec::with_capacity(related.len()),
            defaults: Vec::with_capacity(related.len()),
            keys: Vec::new(),
            parts: Vec::new(),
        };
        for table in related {
            let plan = TablePlan::written(&table.table, table.rules);
            references.tables.push(Arc::new(plan));
            references.defaults.push(table.defaults);
        }
        let mut keys = Vec::new();
        for (child, table) in references.tables.iter().enumerate() {
            let leads = table.def.rules.foreign_keys.iter();
            // The foreign key of a partitioned table covers the copies that its partitions inherit.
            let own = leads.filter(|key| child == 0 || table.def.link(key.id).is_none());
            keys.extend(own.filter_map(|key| references.key(child, key)));
        }
        references.keys = keys;
        references.parts = references.parts();
        (!references.keys.is_empty()).then(|| Arc::new(references))
    }

    fn parts(&self) -> Vec<HierarchyTable> {
        let mut all = Vec::new();
        for (whole, table) in self.tables.iter().enumerate() {
            let Some(tree) = table.def.tree() else {
                continue;
            };
            for (part, other) in self.tables.iter().enumerate() {
                let leaves = tree.below(other.def.id);
                if !leaves.is_empty() {
                    all.push(HierarchyTable {
                        whole,
                        part,
                        leaves,
                    });
                }
            }
        }
        all
    }

    /// Returns whether a row of the table at position `table` is also a row of the table at `of`.
    pub fn is_row_of(&self, of: usize, table: usize, row: &[Value]) -> bool {
        let contains = |part: &HierarchyTable| part.whole == of && part.part == table;
        of == table || self.parts.iter().any(contains) || self.is_row_below(of, table, row)
    }

    /// Returns whether a row of the table at position `table` must satisfy `key`: a key of the
    /// table, or of a partition that contains the row.
    pub fn binds(&self, key: &Key, table: usize, row: &[Value]) -> bool {
        key.child == table || self.is_row_below(key.child, table, row)
    }

    /// Returns whether the tables at two positions can have a row in common.
    pub fn share_rows(&self, a: usize, b: usize) -> bool {
        let both = |part: &HierarchyTable| [(a, b), (b, a)].contains(&(part.whole, part.part));
        a == b || self.parts.iter().any(both)
    }

    /// Returns the leaf of the table at position `table` that contains a row; `None` if the table
    /// is not partitioned.
    pub fn leaf_of_row(&self, table: usize, row: &[Value]) -> Option<u32> {
        let tree = self.tables[table].def.tree()?;
        tree.leaf_of(&|column| &row[column]).ok()
    }

    /// Returns whether a row of a partitioned table is in the table at `below` of its partition
    /// hierarchy.
    fn is_row_below(&self, below: usize, table: usize, row: &[Value]) -> bool {
        let mut parts = self.parts.iter();
        let part = parts.find(|part| part.whole == table && part.part == below);
        part.is_some_and(|part| {
            let leaf = self.leaf_of_row(table, row);
            leaf.is_some_and(|leaf| part.leaves.contains(&leaf))
        })
    }

    fn key(&self, child: usize, def: &ForeignKeyDef) -> Option<Key> {
        let mut tables = self.tables.iter();
        let parent = tables.position(|table| table.def.id == def.parent)?;
        let parent_index = self.tables[parent].def.referenced_index(def)?;
        let mut indexes = self.tables[child].def.indexes.iter();
        let child_index = indexes.position(|index| {
            let first = index.columns.get(..def.columns.len());
            let begins = |first: &[fencepost_sql::catalog::IndexColumn]| {
                first.iter().all(|c| def.columns.contains(&c.column))
            };
            let all = self.tables[child].def.is_whole(index);
            let whole = index.kind == IndexKind::BTree && !index.is_partial() && all;
            whole && first.is_some_and(begins)
        });
        Some(Key {
            def: def.clone(),
            child,
            parent,
            parent_index,
            child_index,
        })
    }

    /// Returns the definitions of a key's referencing and referenced tables.
    pub fn ends(&self, key: &Key) -> (&TableDef, &TableDef) {
        (&self.tables[key.child].def, &self.tables[key.parent].def)
    }

    /// Returns whether a row exists that a row with `values` references. The commit validates the
    /// answer.
    pub async fn is_present(
        &self,
        cx: &mut Cx<'_>,
        key: &Key,
        values: &[Value],
    ) -> Result<bool, StatementStop> {
        let parent = &self.tables[key.parent];
        let Some(values) = fitted(values, &parent.def, &key.def.parent_columns) else {
            return Ok(false);
        };
        let index = parent.index_def(key.parent_index);
        let mut bytes = Vec::new();
        for (position, column) in index.columns.iter().enumerate() {
            let value = value_of(&key.def.parent_columns, column.column, &values);
            parent.keys[key.parent_index].push(position, value, &mut bytes);
        }
        let of = |column: usize| value_of(&key.def.parent_columns, column, &values);
        if let Some(tree) = parent.def.tree() {
            let Ok(leaf) = tree.leaf_of(&of) else {
                return Ok(false);
            };
            return is_referenced(cx, (index, leaf), &bytes).await;
        }
        let partition = match &parent.def.partitioning {
            None => 0,
            Some(by) => {
                let value = value_of(&key.def.parent_columns, by.column, &values);
                by.of_value(value, &mut Vec::new())
            }
        };
        is_referenced(cx, (index, partition), &bytes).await
    }

    /// Returns the leaf of the referenced table that a row with `values` references; `None` if that
    /// table is not partitioned.
    pub fn leaf_of(&self, key: &Key, values: &[Value]) -> Option<u32> {
        let parent = &self.tables[key.parent].def;
        let values = fitted(values, parent, &key.def.parent_columns)?;
        let of = |column: usize| value_of(&key.def.parent_columns, column, &values);
        parent.tree()?.leaf_of(&of).ok()
    }

    /// Returns at most `limit` rows that reference a row with `values`. The commit validates the
    /// answer.
    pub async fn referencing(
        &self,
        cx: &mut Cx<'_>,
        key: &Key,
        values: &[Value],
        limit: usize,
    ) -> Result<Vec<LocatedRow>, StatementStop> {
        let child = &self.tables[key.child];
        let mut found = Vec::new();
        let Some(values) = fitted(values, &child.def, &key.def.columns) else {
            return Ok(found);
        };
        let wanted = plain(&values, &child.def, &key.def.columns);
        let (index, prefix) = match key.child_index {
            None => (child.def.primary(), Vec::new()),
            Some(at) => {
                let index = child.index_def(at);
                let mut prefix = Vec::new();
                let first = index.columns.iter().take(key.def.columns.len());
                for (position, column) in first.enumerate() {
                    let value = value_of(&key.def.columns, column.column, &values);
                    child.keys[at].push(position, value, &mut prefix);
                }
                (index, prefix)
            }
        };
        let by = child.def.partitioning.as_ref();
        let pinned = by.filter(|by| key.def.columns.contains(&by.column));
        let walked: Vec<BTree> = match pinned {
            Some(by) if index.roots.are_partitioned() => {
                let value = value_of(&key.def.columns, by.column, &values);
                vec![tree(index, by.of_value(value, &mut Vec::new()))]
            }
            _ => trees(index).collect(),
        };
        for tree in walked {
            self.walk(cx, key, (&tree, &prefix), &wanted, (&mut found, limit))
                .await?;
        }
        Ok(found)
    }

    /// Adds the rows of one tree under `prefix` whose key is `wanted`.
    async fn walk(
        &self,
        cx: &mut Cx<'_>,
        key: &Key,
        (tree, prefix): (&BTree, &[u8]),
        wanted: &[u8],
        (found, limit): (&mut Vec<LocatedRow>, usize),
    ) -> Result<(), StatementStop> {
        let child = &self.tables[key.child];
        let mut end = prefix.to_vec();
        let lower = match prefix.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Included(prefix),
        };
        let upper = match successor(&mut end) {
            true => Bound::Excluded(end.as_slice()),
            false => Bound::Unbounded,
        };
        let mut cursor = tree.scan(lower, upper, Direction::Forward);
        let mut entries = ScanBatch::new();
        let mut words = Vec::new();
        let mut row = vec![Value::Null; child.layout.width()];
        let mut more = true;
        while more && found.len() < limit {
            cx.breathe().await?;
            entries.clear();
            more = cursor.next_batch(cx.tx, &mut entries, CHUNK).await?;
            for i in 0..entries.len() {
                cx.breathe().await?;
                let place = FatPtr::from_words(entries.value(i));
                if !read_row(cx.tx, place.addr, &mut words).await? {
                    continue;
                }
                child.layout.decode(&words, &mut row)?;
                let own: Vec<Value> = key.def.columns.iter().map(|c| row[*c].clone()).collect();
                if plain(&own, &child.def, &key.def.columns) != wanted {
                    continue;
                }
                found.push((place, row.clone()));
                if found.len() == limit {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Returns the value of `column`, given the `values` of `columns`.
fn value_of<'a>(columns: &[usize], column: usize, values: &'a [Value]) -> &'a Value {
    let at = columns.iter().position(|c| *c == column);
    at.map_or(&Value::Null, |at| &values[at])
}

/// Converts `values` to the types of columns of `table`. Returns `None` if one does not fit or is
/// NULL.
fn fitted(values: &[Value], table: &TableDef, columns: &[usize]) -> Option<Vec<Value>> {
    let pairs = values.iter().zip(columns);
    pairs
        .map(
            |(value, column)| match fit(value.clone(), table.columns[*column].ty.kind) {
                Fit::Value(value) => Some(value),
                _ => None,
            },
        )
        .collect()
}

/// Encodes values so that equal values have equal bytes.
fn plain(values: &[Value], table: &TableDef, columns: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (value, column) in values.iter().zip(columns) {
        let padded = table.columns[*column].ty.kind == TypeKind::BpChar;
        encode_plain(value, padded, &mut bytes);
    }
    bytes
}

/// Returns whether two rows of `table` agree in these columns.
pub fn same(table: &TableDef, columns: &[usize], (a, b): (&[Value], &[Value])) -> bool {
    let of = |row: &[Value]| -> Vec<Value> { columns.iter().map(|c| row[*c].clone()).collect() };
    plain(&of(a), table, columns) == plain(&of(b), table, columns)
}

/// Returns the values of a row in these columns.
pub fn picked(row: &[Value], columns: &[usize]) -> Vec<Value> {
    columns.iter().map(|c| row[*c].clone()).collect()
}

/// Converts a value to a column of `kind`. Returns `None` if it does not fit.
pub fn as_kind(value: &Value, kind: TypeKind) -> Option<Value> {
    match fit(value.clone(), kind) {
        Fit::Value(value) => Some(value),
        Fit::Null => Some(Value::Null),
        Fit::Below | Fit::Above => None,
    }
}
