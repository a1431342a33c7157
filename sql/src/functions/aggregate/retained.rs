//! The rows that an aggregate retains until it can sort them.

use std::cmp::Ordering;

use crate::bound::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::functions::{SortDirection, compare, sort_compare, sort_heads};
use crate::value::Value;

/// The retained rows of a group: sort keys and arguments, side by side.
#[derive(Clone, Debug)]
pub(super) struct RetainedRows {
    values: Vec<Value>,
    /// The number of sort keys of a row.
    keys: usize,
    /// The number of sort keys and arguments of a row.
    width: usize,
    /// Bytes that the values take elsewhere.
    bytes_apart: usize,
    /// The direct arguments of an ordered-set aggregate, which are equal for all rows of a group.
    direct: Vec<Value>,
}

impl RetainedRows {
    pub fn new(aggregate: &Aggregate) -> RetainedRows {
        let keys = aggregate.order_by.len();
        let is_ordered_set = matches!(aggregate.kind, AggregateKind::OrderedSet(_));
        let args = if is_ordered_set {
            0
        } else {
            aggregate.args.len()
        };
        RetainedRows {
            values: Vec::new(),
            keys,
            width: keys + args,
            bytes_apart: 0,
            direct: Vec::new(),
        }
    }

    /// Adds a row whose sort keys and arguments `fill` appends. After an error there is no row.
    pub fn push(
        &mut self,
        fill: impl FnOnce(&mut Vec<Value>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let from = self.values.len();
        let filled = fill(&mut self.values);
        if filled.is_err() {
            self.values.truncate(from);
        }
        let new = self.values[from..].iter();
        self.bytes_apart += new.map(Value::bytes_apart).sum::<usize>();
        filled
    }

    /// Returns the direct arguments; empty before the first row.
    pub fn direct(&self) -> &[Value] {
        &self.direct
    }

    pub fn set_direct(&mut self, direct: Vec<Value>) {
        self.direct = direct;
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes_apart + size_of_val(self.values.as_slice())
    }

    /// Returns the sort keys of a row.
    pub fn keys(&self, row: u32) -> &[Value] {
        let from = row as usize * self.width;
        &self.values[from..from + self.keys]
    }

    /// Returns the arguments of a row.
    pub fn args(&self, row: u32) -> &[Value] {
        let from = row as usize * self.width;
        &self.values[from + self.keys..from + self.width]
    }

    /// Returns the numbers of each row by which it is compared first ([`sort_heads`]).
    pub fn heads(&self, aggregate: &Aggregate) -> Vec<[u64; 2]> {
        let directions = aggregate.order_by.iter();
        let directions = directions.map(|(_, desc, nulls_first)| SortDirection {
            desc: *desc,
            nulls_first: *nulls_first,
        });
        let heads = |row: u32| sort_heads(self.keys(row).iter().zip(directions.clone()));
        (0..self.len() as u32).map(heads).collect()
    }

    /// Compares two rows by their sort keys and, for DISTINCT, their arguments.
    pub fn compare(&self, aggregate: &Aggregate, a: u32, b: u32) -> Ordering {
        let keys = self.keys(a).iter().zip(self.keys(b));
        for ((_, desc, nulls_first), (a, b)) in aggregate.order_by.iter().zip(keys) {
            let ordering = sort_compare(a, b, *desc, *nulls_first);
            if ordering.is_ne() {
                return ordering;
            }
        }
        if aggregate.distinct {
            compare_all(self.args(a), self.args(b))
        } else {
            Ordering::Equal
        }
    }

    /// Returns the rows in their order.
    pub fn sorted(&self, aggregate: &Aggregate) -> Vec<u32> {
        let heads = self.heads(aggregate);
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by(|a, b| {
            let by_head = heads[*a as usize].cmp(&heads[*b as usize]);
            by_head.then_with(|| self.compare(aggregate, *a, *b))
        });
        order
    }
}

/// Compares the arguments of two rows.
pub(super) fn compare_all(a: &[Value], b: &[Value]) -> Ordering {
    a.iter().zip(b).fold(Ordering::Equal, |so_far, (a, b)| {
        so_far.then_with(|| compare(a, b))
    })
}
