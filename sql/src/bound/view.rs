//! CREATE and DROP VIEW, and REFRESH MATERIALIZED VIEW.

use std::sync::Arc;

use super::select::Select;
use super::statement::Statement;
use super::trigger::TriggerChange;
use crate::catalog::{TableDef, ViewDef};
use crate::types::Type;

/// CREATE VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// OR REPLACE.
    pub or_replace: bool,
    /// The names and types of its columns.
    pub columns: Vec<(String, Type)>,
    /// The query as SQL text.
    pub text: String,
    /// The oids of the tables that it reads.
    pub tables: Vec<u32>,
    /// The oids of the views that it reads.
    pub views: Vec<u32>,
    /// The oids of the types that it names.
    pub types: Vec<u32>,
    /// Its options and their values.
    pub options: Vec<(String, String)>,
}

/// ALTER VIEW, but for RENAME; ALTER TABLE and statements about triggers, of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    /// The view; `None` where it is missing and may be.
    pub view: Option<Arc<ViewDef>>,
    /// As it was named.
    pub name: String,
    /// What is done.
    pub changes: Vec<ViewChange>,
    /// The command tag.
    pub tag: &'static str,
}

/// What is done to a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewChange {
    /// SET DEFAULT, DROP DEFAULT
    Default {
        /// The column, by position.
        column: usize,
        /// As SQL text.
        default: Option<String>,
    },
    /// SET (…)
    Set(Vec<(String, String)>),
    /// RESET (…)
    Reset(Vec<String>),
    /// About its triggers.
    Trigger(TriggerChange),
}

/// DROP VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct DropView {
    /// The views that exist.
    pub views: Vec<Arc<ViewDef>>,
    /// The names that do not exist and were allowed not to.
    pub missing: Vec<String>,
    /// What depends on them goes, too.
    pub cascade: bool,
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshView {
    /// The materialized view.
    pub table: Arc<TableDef>,
    /// How its rows come to be those of its query.
    pub how: Refresh,
}

/// What REFRESH MATERIALIZED VIEW does.
#[derive(Clone, Debug, PartialEq)]
pub enum Refresh {
    /// All rows are made again.
    Anew(Box<Select>),
    /// CONCURRENTLY: a DELETE of the rows that are not the query's any more, then an INSERT of those that are new.
    Concurrently(Box<[Statement; 2]>),
    /// WITH NO DATA: there are no rows, and nobody may read them.
    Empty,
}
