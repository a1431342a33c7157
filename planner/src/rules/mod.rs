//! Rules that rewrite a bound SELECT to an equivalent one that is cheaper to run.
//!
//! ```text
//! bound SELECT ─▶ RULES, in order ─▶ bound SELECT ─▶ join order, access paths
//! ```
//! The rules work on one SELECT. Each SELECT inside it is rewritten when it is planned, so what a
//! rule moves into a subquery can move further down there. Applying the rules twice changes nothing
//! more. UPDATE, DELETE and MERGE only move conditions into the subqueries of FROM and USING: their
//! plans depend on the numbers of the slots.

mod distinct_groups;
mod min_max;
mod pull_up;
mod push_down;
mod row_exprs;

use fencepost_sql::bound::{LeafSource, Select};

pub use push_down::push_down;

/// A rule.
struct Rule {
    apply: fn(&mut Select),
}

/// All rules, in the order in which they are applied.
const RULES: [Rule; 4] = [
    // A subquery in FROM that only filters and computes is merged into its query.
    Rule {
        apply: pull_up::pull_up_subqueries,
    },
    // Conditions on a subquery in FROM are tested inside it.
    Rule {
        apply: push_down::push_down_conditions,
    },
    // The smallest and the largest value of a column are at the ends of an index.
    Rule {
        apply: min_max::read_extremes_by_index,
    },
    // The first rows of DISTINCT are the first groups in the order of an index.
    Rule {
        apply: distinct_groups::group_distinct_rows,
    },
];

/// Applies all rules to `select`.
pub fn rewrite(select: &mut Select) {
    let mut has_query = false;
    select.from.for_each_leaf(&mut |leaf| {
        has_query |= matches!(leaf.source, LeafSource::Subquery(_) | LeafSource::Set(_));
    });
    // Most queries have nothing to rewrite.
    if has_query || select.grouping.is_some() || select.distinct {
        RULES.iter().for_each(|rule| (rule.apply)(select));
    }
}
