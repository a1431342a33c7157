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
    /// CHECK constraints.
    pub checks: Vec<NewCheck>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<NewForeignKey>,
    /// Sequences of SERIAL and IDENTITY columns.
    pub sequences: Vec<NewSequence>,
    /// The access method of the primary key: `WITH (index = hash)`.
    pub index_kind: IndexKind,
    /// AS: the query that says what its columns are.
    pub source: Option<Box<Select>>,
    /// WITH DATA: it begins with the rows of that query.
    pub with_data: bool,
    /// ON COMMIT of a temporary table.
    pub on_commit: OnCommit,
    /// CREATE MATERIALIZED VIEW.
    pub materialized: Option<Box<Materialized>>,
    /// PARTITION BY HASH … WITH (partitions = …): its rows are spread over the machines.
    pub partition_by: Option<PartitionBy>,
    /// PARTITION BY: its rows are those of its partitions.
    pub partition_key: Option<PartitionKey>,
    /// PARTITION OF.
    pub partition_of: Option<NewPartition>,
    /// What LIKE brings along.
    pub alike: Alike,
    /// What is said of how its rows are kept.
    pub storage: Storage,
}

/// What LIKE brings along that is no part of a CREATE TABLE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alike {
    /// Indexes, without names.
    pub indexes: Vec<IndexDef>,
    /// Comments on columns, by position.
    pub comments: Vec<(usize, String)>,
}

/// What becomes of a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// Nothing.
    #[default]
    PreserveRows,
    /// It is emptied.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// `PARTITION OF parent FOR VALUES …`
#[derive(Clone, Debug, PartialEq)]
pub struct NewPartition {
    /// The partitioned table.
    pub parent: Arc<TableDef>,
    /// Which of its rows.
    pub bound: Bound,
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
    /// DEFERRABLE, and whether INITIALLY DEFERRED.
    pub deferrable: Option<bool>,
    /// NULLS NOT DISTINCT
    pub nulls_equal: bool,
    /// Storage parameters.
    pub options: StorageOptions,
    /// The columns of INCLUDE, by position in the table.
    pub include: Vec<usize>,
}

/// A CHECK constraint to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCheck {
    /// Its name if given, else the catalog makes one.
    pub name: Option<String>,
    /// The condition as SQL text.
    pub text: String,
    /// The columns that it reads, by position in the table.
    pub columns: Vec<usize>,
    /// The condition, over the table's row.
    pub condition: Expr,
    /// NO INHERIT
    pub no_inherit: bool,
}

/// A FOREIGN KEY constraint to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewForeignKey {
    /// Its name if given, else the catalog makes one.
    pub name: Option<String>,
    /// The referencing columns, by position in the table.
    pub columns: Vec<usize>,
    /// The table it leads to; `None` is the table itself.
    pub parent: Option<Arc<TableDef>>,
    /// The referenced columns, by position in that table.
    pub parent_columns: Vec<usize>,
    /// No columns are given: it depends on the primary key, not on any unique index.
    pub of_primary_key: bool,
    /// ON DELETE.
    pub on_delete: Referential,
    /// The columns that ON DELETE SET changes, by position in `columns`; empty if it changes all.
    pub delete_columns: Vec<usize>,
    /// ON UPDATE.
    pub on_update: Referential,
    /// MATCH FULL.
    pub full: bool,
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub deferred: bool,
}

/// DROP TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct DropTable {
    /// The tables that exist.
    pub tables: Vec<Arc<TableDef>>,
    /// They are materialized views.
    pub materialized: bool,
    /// What depends on them goes, too.
    pub cascade: bool,
    /// The names that do not exist and were allowed not to (IF EXISTS): a notice each.
    pub missing: Vec<String>,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// The name if given, else the catalog makes one.
    pub name: Option<String>,
    /// CONCURRENTLY: no transaction block has it.
    pub concurrently: bool,
    /// Nothing happens where it exists.
    pub if_not_exists: bool,
    /// On this table.
    pub table: Arc<TableDef>,
    /// The access method.
    pub kind: IndexKind,
    /// UNIQUE.
    pub unique: bool,
    /// ON ONLY: not on the partitions.
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
    /// CONCURRENTLY: no transaction block has it.
    pub concurrently: bool,
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
    /// ALTER MATERIALIZED VIEW.
    pub materialized: bool,
    /// ONLY: what keys are added are not the partitions'.
    pub only: bool,
    /// What to do, in order.
    pub actions: Vec<AlterAction>,
    /// The statements of the passes behind this one, as text.
    pub later: Vec<String>,
}

impl AlterTable {
    /// Returns whether plans made before it stay right: it changes neither what a statement does to the table nor what it
    /// checks. So it need not be noticed by transactions that use the table.
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
    /// The command tag, where it does not tell how many rows there are.
    pub fn tag(&self) -> &'static str {
        match (&self.materialized, &self.source) {
            (Some(_), _) => "CREATE MATERIALIZED VIEW",
            (None, Some(_)) => "CREATE TABLE AS",
            (None, None) => "CREATE TABLE",
        }
    }
}

impl DropTable {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self.materialized {
            true => "DROP MATERIALIZED VIEW",
            false => "DROP TABLE",
        }
    }
}

impl AlterTable {
    /// The command tag.
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
    /// How many of them were named.
    pub named: usize,
    /// RESTART IDENTITY
    pub restart: bool,
    /// The triggers of each of the tables.
    pub triggers: Vec<Vec<Trigger>>,
}
