//! Statements that access one key of one table.

use fencepost_sql::catalog::IndexDef;

use crate::plan::{Scan, Source};
use crate::statement::Plan;
use crate::write::InsertSource;

impl Plan {
    /// Returns whether the statement is short: it finds one row by its key, or inserts one row.
    pub fn is_short(&self) -> bool {
        let one_row = match self {
            Plan::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) => rows.len() == 1,
                InsertSource::Select { .. } => false,
            },
            _ => true,
        };
        one_row && self.by_key().is_some()
    }

    /// Returns the index by whose whole key the statement finds its one row. For an INSERT of its
    /// own rows, returns the first index of the table; for any other statement, `None`.
    pub fn by_key(&self) -> Option<&IndexDef> {
        if self.has_references() || self.queries().is_some() {
            return None;
        }
        match self {
            Plan::Point(select) => select.point_scan().map(index),
            Plan::Update(change) | Plan::Delete(change) => match &change.source {
                Source::Scan(scan) if scan.single_point().is_some() => Some(index(scan)),
                _ => None,
            },
            Plan::Insert(insert) => match insert.source {
                InsertSource::Values(_) => insert.table.def.indexes.first(),
                InsertSource::Select { .. } => None,
            },
            Plan::Row(_)
            | Plan::Select(_)
            | Plan::Merge(_)
            | Plan::CopyOut(..)
            | Plan::CopyIn(_) => None,
        }
    }
}

fn index(scan: &Scan) -> &IndexDef {
    scan.table.index_def(scan.index)
}
