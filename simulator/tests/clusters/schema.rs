//! Clients create, change and drop tables while others use them. Every scan of a table agrees with
//! its counters and its second index. No transaction uses an outdated definition, and no object of
//! a dropped table remains.
//!
//! More seeds: `SEEDS=from..to`, or `cargo run --release -p fencepost-simulator -- --kind schema
//! --seeds 5000`.

use fencepost_simulator::plan::Plan;

use crate::held::hold;

#[test]
fn ddl_beside_transactions_keeps_tables_whole() {
    hold(0..40, Plan::draw_with_schema);
}

#[test]
fn ddl_interrupted_by_a_crash_is_whole_or_has_no_effect() {
    hold(0..20, Plan::draw_with_schema_and_crash);
}

#[test]
fn hash_table_that_is_dropped_under_a_split_makes_a_conflict() {
    for seed in [863, 1232, 1437, 1985, 2173] {
        hold(seed..seed + 1, Plan::draw_with_schema);
    }
}

#[test]
fn insert_into_uncommitted_tree_carries_commit_timestamp() {
    hold(2604..2605, Plan::draw_with_schema);
}
