//! Grouping: rewrites expressions over the rows of FROM to expressions over the grouped row, or
//! reports 42803.

use super::aggregate::{AGGREGATE_SLOTS, placeholder};
use super::scope::Scope;
use super::window::WINDOW_SLOTS;
use crate::bound::{Expr, Node, WindowCall};
use crate::error::{SqlError, SqlState};

/// A rewriter of expressions, which then read the grouped row.
pub(super) struct Grouper<'s> {
    pub(super) scope: &'s Scope,
    /// The grouping keys. Columns that functionally depend on a primary key among them are added.
    pub(super) keys: Vec<Expr>,
    /// True if there are several grouping sets; then no column is functionally dependent.
    pub(super) by_sets: bool,
}

impl Grouper<'_> {
    /// Rewrites an expression. The aggregates keep their placeholders until `place`.
    pub(super) fn rewrite(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if placeholder(expr).is_some() {
            return Ok(());
        }
        if let Some(key) = self.keys.iter().position(|k| k.node == expr.node) {
            expr.node = Node::Column(key);
            return Ok(());
        }
        if let Node::Column(slot) = expr.node {
            if !self.depends_on_keys(slot) {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    format!(
                        "column \"{}\" must appear in the GROUP BY clause or be used in an \
                         aggregate function",
                        self.scope.slot_name(slot)
                    ),
                ));
            }
            self.keys.push(expr.clone());
            expr.node = Node::Column(self.keys.len() - 1);
            return Ok(());
        }
        let is_query = matches!(expr.node, Node::Subquery(_));
        let mut result = Ok(());
        expr.for_each_part_mut(|part| {
            if result.is_ok() {
                result = match (is_query, &part.node) {
                    (true, Node::Column(slot)) => {
                        let slot = *slot;
                        self.rewrite(part).map_err(|_| self.ungrouped_around(slot))
                    }
                    _ => self.rewrite(part),
                };
            }
        });
        result
    }

    /// Rewrites the expressions of a window call.
    pub(super) fn rewrite_window(&mut self, call: &mut WindowCall) -> Result<(), SqlError> {
        let mut result = Ok(());
        call.for_each_expr_mut(&mut |expr| {
            if result.is_ok() {
                result = self.rewrite(expr);
            }
        });
        result
    }

    /// Returns the error 42803 for a subquery that reads an ungrouped column.
    fn ungrouped_around(&self, slot: usize) -> SqlError {
        SqlError::new(
            SqlState::GROUPING_ERROR,
            format!(
                "subquery uses ungrouped column \"{}\" from outer query",
                self.scope.slot_name(slot)
            ),
        )
    }

    /// Returns whether the slot is a column of a table whose whole primary key is among the keys.
    fn depends_on_keys(&self, slot: usize) -> bool {
        let Some((leaf, _)) = self.scope.leaf_of_slot(slot).filter(|_| !self.by_sets) else {
            return false;
        };
        let grouped = |slot: &usize| self.keys.iter().any(|k| k.node == Node::Column(*slot));
        !leaf.key.is_empty() && leaf.key.iter().all(grouped)
    }

    /// Replaces the aggregate placeholders by slots after the keys. The number of keys is final
    /// only when all expressions are rewritten.
    pub(super) fn place(&self, expr: &mut Expr) {
        let keys = self.keys.len();
        expr.remap_columns(&mut |slot| match slot.checked_sub(AGGREGATE_SLOTS) {
            Some(_) if slot >= WINDOW_SLOTS => slot,
            Some(aggregate) => keys + aggregate,
            None => slot,
        });
    }
}
