//! Statements that change rows.

mod bulk_index_builder;
mod change;
mod change_plan;
mod change_row;
mod deferred;
mod errors;
mod find;
mod foreign_key_actions;
mod insert;
mod key_blocks;
mod key_order;
mod merge;
mod references;
mod returning;
mod rows;
mod rules;
mod triggers;
mod unique_recheck;
mod upsert;

pub use bulk_index_builder::EntryBuffer;
pub use change::{finish, run_change};
pub use change_plan::{Action, ChangePlan, plan_delete, plan_update};
pub use deferred::{DeferredMark, DeferredWork};
pub use errors::{
    contains_nulls, key_text, no_partition, not_unique, outside_partition, still_in_partition,
};
pub use foreign_key_actions::ForeignKeyActions;
pub use insert::{InsertPlan, InsertSource, plan_insert, run_insert};
pub use merge::{plan_merge, run_merge};
pub use references::{Key, References};
pub use returning::Returning;
pub use rows::{RowWriter, Yield};
pub use rules::generate;
pub use triggers::{PendingTriggers, StatementEvent};
pub use unique_recheck::recheck_unique_keys;
