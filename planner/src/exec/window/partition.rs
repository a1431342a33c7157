//! The rows of a window in its order: partitions, peer groups, and the frame offsets of a call.

use std::ops::Range;

use fencepost_sql::bound::WindowCall;
use fencepost_sql::value::Value;

use super::super::batch::Batch;

/// Rows in the order of a window. A place is a position in that order.
pub(super) struct WindowOrder {
    /// The places of each partition.
    pub(super) partitions: Vec<Range<usize>>,
    /// For each place, the number of its peer group.
    pub(super) groups: Vec<u32>,
    /// The places of each peer group.
    pub(super) group_ranges: Vec<Range<usize>>,
    /// The values of the first ORDER BY expression, by place.
    pub(super) keys: Vec<Value>,
}

/// The offsets of a frame after evaluation.
pub(super) struct Bounds {
    pub(super) start: Value,
    pub(super) end: Value,
}

/// A partition, for one call.
pub(super) struct WindowPartition<'a> {
    pub(super) rows: &'a Batch,
    /// Its rows, in the window's order.
    pub(super) order: &'a [u32],
    /// The place of its first row.
    pub(super) first: usize,
    pub(super) sorted: &'a WindowOrder,
    pub(super) call: &'a WindowCall,
    pub(super) bounds: &'a Bounds,
}

impl WindowPartition<'_> {
    pub(super) fn row(&self, at: usize) -> &[Value] {
        self.rows.row(self.order[at] as usize)
    }

    /// Returns the peers of the row at `at`.
    pub(super) fn peers(&self, at: usize) -> Range<usize> {
        let group = self.sorted.groups[self.first + at] as usize;
        self.group(group)
    }

    pub(super) fn group(&self, group: usize) -> Range<usize> {
        let range = &self.sorted.group_ranges[group];
        range.start - self.first..range.end - self.first
    }
}
