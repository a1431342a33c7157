//! Bound statements that change the catalog.

use std::sync::Arc;

use super::alter::AlterAction;
use super::expr::Expr;
use super::select::Select;
use super::sequence::NewSequence;
use super::trigger::{Trigger, TriggerChange};
use crate::catalog::{
    Bound, ColumnDef, IndexColumn, IndexDef, IndexKind, IndexMore, Materialized, PartitionKey,
    Referential, Storage, TableDef,
};
use crate::parser::StorageOptions;

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The schema of the new table.
    pub schema: String,
    /// The name of the new table.
    pub name: String,
    /// IF NOT EXISTS: an existing table is only a notice.
    pub if_not_exists: bool,
    /// The columns; NOT NULL of the primary key's columns is set.
    pub columns: Vec<ColumnDef>,
    /// The PRIMARY KEY constraint.
    pub primary_key: Option<KeyConstraint>,
    /// UNIQUE constraints.
    pub unique: Vec<KeyConstraint>,
    /// CHECK constraints.
    pub checks: Vec<NewCheck>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<NewForeignKey>,
    /// Sequences of SERIAL and IDENTITY columns.
    pub sequences: Vec<NewSequence>,
    /// The access method of the primary key: `WITH (index = hash)`.
    pub index_kind: IndexKind,
    /// AS: the query that defines the columns.
    pub source: Option<Box<Select>>,
    /// WITH DATA: the table is filled with the rows of that query.
    pub with_data: bool,
    /// ON COMMIT of a temporary table.
    pub on_commit: OnCommit,
    /// The definition of a materialized view; `None` for a table.
    pub materialized: Option<Box<Materialized>>,
    /// PARTITION BY HASH … WITH (partitions = …): the rows are distributed over the machines.
    pub partition_by: Option<PartitionBy>,
    /// PARTITION BY: the partitions contain the rows.
    pub partition_key: Option<PartitionKey>,
    /// PARTITION OF: the parent and the partition bound.
    pub partition_of: Option<NewPartition>,
    /// The indexes and comments that LIKE copies.
    pub alike: LikeProperties,
    /// The storage options.
    pub storage: Storage,
}

/// The properties copied by LIKE that are not part of a CREATE TABLE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LikeProperties {
    /// Indexes, without names.
    pub indexes: Vec<IndexDef>,
    /// Comments on columns, by position.
    pub comments: Vec<(usize, String)>,
}

/// The action on a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// The table stays unchanged.
    #[default]
    PreserveRows,
    /// The rows are deleted.
    DeleteRows,
    /// The table is dropped.
    Drop,
}

/// `PARTITION OF parent FOR VALUES …`
#[derive(Clone, Debug, PartialEq)]
pub struct NewPartition {
    /// The partitioned table.
    pub parent: Arc<TableDef>,
    /// The partition bound.
    pub bound: Bound,
}

/// `PARTITION BY HASH (column) WITH (partitions = …, colocate_with = …)`
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionBy {
    /// The partition column, by position in the table.
    pub column: usize,
    /// The number of partitions.
    pub count: u32,
    /// The partitioned table with which this table is colocated.
    pub with: Option<Arc<TableDef>>,
}

/// A PRIMARY KEY or UNIQUE constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConstraint {
    /// The name; `None` lets the catalog choose one.
    pub name: Option<String>,
    /// The key columns, by position in the table.
    pub columns: Vec<usize>,
    /// `None` for a key that is not DEFERRABLE, else whether it is INITIALLY DEFERRED.
    pub deferrable: Option<bool>,
    /// Whether the key is NULLS NOT DISTINCT.
    pub nulls_equal: bool,
    /// The storage parameters of the index.
    pub options: StorageOptions,
    /// The columns of INCLUDE, by position in the table.
    pub include: Vec<usize>,
}

/// A new CHECK constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCheck {
    /// The name; `None` lets the catalog choose one.
    pub name: Option<String>,
    /// The condition as SQL text.
    pub text: String,
    /// The columns that the condition reads, by position in the table.
    pub columns: Vec<usize>,
    /// The condition, over the table's row.
    pub condition: Expr,
    /// Whether the constraint is NO INHERIT.
    pub no_inherit: bool,
}

/// A new FOREIGN KEY constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct NewForeignKey {
    /// The name; `None` lets the catalog choose one.
    pub name: Option<String>,
    /// The referencing columns, by position in the table.
    pub columns: Vec<usize>,
    /// The referenced table; `None` is the table itself.
    pub parent: Option<Arc<TableDef>>,
    /// The referenced columns, by position in that table.
    pub parent_columns: Vec<usize>,
    /// Whether no referenced columns are given: the constraint depends on the primary key, not on
    /// another unique index.
    pub of_primary_key: bool,
    /// The ON DELETE action.
    pub on_delete: Referential,
    /// The columns that ON DELETE SET changes, by position in `columns`; empty if it changes all.
    pub delete_columns: Vec<usize>,
    /// The ON UPDATE action.
    pub on_update: Referential,
    /// Whether it is MATCH FULL.
    pub full: bool,
    /// Whether it is DEFERRABLE.
    pub deferrable: bool,
    /// Whether it is INITIALLY DEFERRED.
    pub deferred: bool,
}

/// DROP TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct DropTable {
    /// The tables that exist.
    pub tables: Vec<Arc<TableDef>>,
    /// Whether they are materialized views.
    pub materialized: bool,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
    /// The missing names that IF EXISTS allows; each gives a notice.
    pub missing: Vec<String>,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The name; `None` lets the catalog choose one.
    pub name: Option<String>,
    /// CONCURRENTLY: the statement is refused in a transaction block.
    pub concurrently: bool,
    /// IF NOT EXISTS: an existing index is only a notice.
    pub if_not_exists: bool,
    /// The indexed table.
    pub table: Arc<TableDef>,
    /// The access method.
    pub kind: IndexKind,
    /// UNIQUE.
    pub unique: bool,
    /// ON ONLY: the partitions get no index.
    pub only: bool,
    /// The key columns.
    pub columns: Vec<IndexColumn>,
    /// INCLUDE and WHERE.
    pub more: IndexMore,
}

/// DROP INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIndex {
    /// The indexes that exist: owner and name.
    pub indexes: Vec<(Arc<TableDef>, String)>,
    /// CASCADE: foreign keys that depend on them are dropped, too.
    pub cascade: bool,
    /// CONCURRENTLY: the statement is refused in a transaction block.
    pub concurrently: bool,
    /// The missing names that IF EXISTS allows; each gives a notice.
    pub missing: Vec<String>,
}

/// ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table; `None` if it is missing and IF EXISTS allows that.
    pub table: Option<Arc<TableDef>>,
    /// The name as the statement gives it.
    pub name: String,
    /// Whether the statement is ALTER MATERIALIZED VIEW.
    pub materialized: bool,
    /// ONLY: added keys do not apply to the partitions.
    pub only: bool,
    /// The actions, in order.
    pub actions: Vec<AlterAction>,
    /// The statements of the later passes, as text.
    pub later: Vec<String>,
}

impl AlterTable {
    /// Returns whether existing plans stay valid: the statement changes neither how plans access
    /// the table nor what they check. Transactions that use the table then need not detect it.
    pub fn keeps_plans(&self) -> bool {
        let keeps = |action: &AlterAction| {
            matches!(
                action,
                AlterAction::ValidateCheck { .. }
                    | AlterAction::ValidateForeignKey { .. }
                    | AlterAction::Comment { .. }
                    | AlterAction::Trigger(TriggerChange::Comment { .. })
                    | AlterAction::Notice(..)
            )
        };
        self.later.is_empty() && self.actions.iter().all(keeps)
    }
}

impl CreateTable {
    /// Returns the command tag for a result without a row count.
    pub fn tag(&self) -> &'static str {
        match (&self.materialized, &self.source) {
            (Some(_), _) => "CREATE MATERIALIZED VIEW",
            (None, Some(_)) => "CREATE TABLE AS",
            (None, None) => "CREATE TABLE",
        }
    }
}

impl DropTable {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self.materialized {
            true => "DROP MATERIALIZED VIEW",
            false => "DROP TABLE",
        }
    }
}

impl AlterTable {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match &self.actions[..] {
            [AlterAction::Trigger(change)] => change.tag(),
            [
                AlterAction::RenameIndex { .. }
                | AlterAction::AttachIndex { .. }
                | AlterAction::Keep { index: Some(_), .. },
            ] => "ALTER INDEX",
            [AlterAction::Comment { .. }] => "COMMENT",
            _ if self.materialized => "ALTER MATERIALIZED VIEW",
            _ => "ALTER TABLE",
        }
    }
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// The tables, with CASCADE also those that reference them.
    pub tables: Vec<Arc<TableDef>>,
    /// The number of tables that the statement names.
    pub named: usize,
    /// Whether RESTART IDENTITY is given.
    pub restart: bool,
    /// The triggers of each of the tables.
    pub triggers: Vec<Vec<Trigger>>,
}
