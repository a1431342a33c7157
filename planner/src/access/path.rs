//! The result of the choice of an access path, and the order that a statement wants from it.

use fencepost_sql::bound::Expr;
use fencepost_sql::catalog::{EXPRESSION, IndexDef};

use super::keys::Access;
use crate::slots::{SlotRange, Slots};
use crate::terms::{Term, expression_terms};

/// The conditions on a table, and the slots that they read.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The conjuncts. All of them hold for each row that the statement uses.
    pub conditions: &'a [Expr],
    /// The slots of the table.
    pub own: SlotRange,
    /// The slots with values that are known when the scan opens.
    pub known: &'a Slots,
}

impl Scope<'_> {
    /// Returns the terms on the expressions that `index` has as key columns.
    pub fn expression_terms(&self, index: &IndexDef) -> Vec<Term> {
        let slots = (self.own, self.known);
        let expressions = index.more.expressions.iter().enumerate();
        expressions
            .flat_map(|(at, expression)| {
                expression_terms(self.conditions, slots, &expression.value, EXPRESSION + at)
            })
            .collect()
    }
}

/// One column of the order that a statement wants from a scan.
#[derive(Clone, Copy, Debug)]
pub struct WantedOrder {
    /// The column or expression to order by.
    pub by: OrderedBy,
    /// Whether the order is descending.
    pub desc: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// The subject of an order: a column or an indexed expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// A column, by position in the table.
    Column(usize),
    /// An expression that is a key column of an index.
    Expression {
        /// The index, by position.
        index: usize,
        /// The key column of the index.
        column: usize,
    },
}

impl OrderedBy {
    /// Returns the key column of the index at `position` that this order can use.
    pub fn key_of(self, position: usize) -> Option<usize> {
        match self {
            OrderedBy::Column(column) => Some(column),
            OrderedBy::Expression { index, column } => (index == position).then_some(column),
        }
    }
}

/// The chosen access path.
#[derive(Debug)]
pub struct Path {
    /// The index, by position in `TableDef::indexes`.
    pub index: usize,
    /// How the path reaches its rows.
    pub access: Access,
    /// Whether the scan runs backward, from the end of the index.
    pub backward: bool,
    /// Whether the trees of all partitions are merged.
    pub merged: bool,
    /// Whether the rows come in the wanted order.
    pub ordered: bool,
    /// The conjuncts that the path covers.
    pub served: Vec<usize>,
}

impl Path {
    /// Returns the path through the whole primary index.
    pub fn full_primary() -> Path {
        Path {
            index: 0,
            access: Access::Full,
            backward: false,
            merged: false,
            ordered: false,
            served: Vec::new(),
        }
    }
}
