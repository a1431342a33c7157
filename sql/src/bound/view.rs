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
    /// The schema of the new view.
    pub schema: String,
    /// The name of the new view.
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
    /// The oids of the types that the query refers to.
    pub types: Vec<u32>,
    /// The options and their values.
    pub options: Vec<(String, String)>,
}

/// ALTER VIEW, except RENAME; ALTER TABLE and trigger statements of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    /// The view; `None` if it is missing and IF EXISTS allows that.
    pub view: Option<Arc<ViewDef>>,
    /// The name as the statement gives it.
    pub name: String,
    /// The changes, in order.
    pub changes: Vec<ViewChange>,
    /// The command tag.
    pub tag: &'static str,
}

/// A change of a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewChange {
    /// SET DEFAULT, DROP DEFAULT
    Default {
        /// The column, by position.
        column: usize,
        /// The default as SQL text; `None` for DROP DEFAULT.
        default: Option<String>,
    },
    /// SET (…)
    Set(Vec<(String, String)>),
    /// RESET (…)
    Reset(Vec<String>),
    /// A change of the triggers.
    Trigger(TriggerChange),
}

/// DROP VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct DropView {
    /// The views that exist.
    pub views: Vec<Arc<ViewDef>>,
    /// The missing names that IF EXISTS allows.
    pub missing: Vec<String>,
    /// CASCADE: dependent objects are dropped, too.
    pub cascade: bool,
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshView {
    /// The materialized view.
    pub table: Arc<TableDef>,
    /// The way in which its rows are replaced.
    pub how: Refresh,
}

/// The kind of a REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub enum Refresh {
    /// Computes all rows again.
    Anew(Box<Select>),
    /// CONCURRENTLY: a DELETE of the rows that the query no longer returns, then an INSERT of the
    /// new rows.
    Concurrently(Box<[Statement; 2]>),
    /// WITH NO DATA: removes all rows, and the view cannot be read.
    Empty,
}
