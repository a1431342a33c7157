//! Bound statements that change the catalog.

use std::sync::Arc;

use crate::catalog::{ColumnDef, IndexColumn, IndexKind, TableDef};

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// The columns; NOT NULL of the primary key's columns is set.
    pub columns: Vec<ColumnDef>,
    /// PRIMARY KEY.
    pub primary_key: Option<KeyConstraint>,
    /// UNIQUE constraints.
    pub unique: Vec<KeyConstraint>,
    /// The access method of the primary key: `WITH (index = hash)`.
    pub index_kind: IndexKind,
    /// PARTITION BY HASH.
    pub partition_by: Option<PartitionBy>,
}

/// `PARTITION BY HASH (column) WITH (partitions = …, colocate_with = …)`
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionBy {
    /// The partition column, by position in the table.
    pub column: usize,
    /// The number of partitions.
    pub count: u32,
    /// The partitioned table that this one is kept together with.
    pub with: Option<Arc<TableDef>>,
}

/// A PRIMARY KEY or UNIQUE constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConstraint {
    /// Its name if given, else the catalog makes one.
    pub name: Option<String>,
    /// The key columns, by position in the table.
    pub columns: Vec<usize>,
}

/// DROP TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct DropTable {
    /// The tables that exist.
    pub tables: Vec<Arc<TableDef>>,
    /// The names that do not exist and were allowed not to (IF EXISTS): a notice each.
    pub missing: Vec<String>,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The name if given, else the catalog makes one.
    pub name: Option<String>,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// On this table.
    pub table: Arc<TableDef>,
    /// The access method.
    pub kind: IndexKind,
    /// UNIQUE.
    pub unique: bool,
    /// The key columns.
    pub columns: Vec<IndexColumn>,
}

/// DROP INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIndex {
    /// The indexes that exist: owner and name.
    pub indexes: Vec<(Arc<TableDef>, String)>,
    /// The names that do not exist and were allowed not to (IF EXISTS): a notice each.
    pub missing: Vec<String>,
}

/// ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table; `None` where it is missing and was allowed to be (IF EXISTS).
    pub table: Option<Arc<TableDef>>,
    /// The name as given.
    pub name: String,
    /// What to do, in order.
    pub actions: Vec<AlterAction>,
}

/// One action of an ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// ADD [CONSTRAINT name] PRIMARY KEY (…)
    AddPrimaryKey(KeyConstraint),
    /// ADD [CONSTRAINT name] UNIQUE (…)
    AddUnique(KeyConstraint),
    /// SET (fillfactor = …) and other accepted storage options: nothing happens.
    Nothing,
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// The tables.
    pub tables: Vec<Arc<TableDef>>,
}
