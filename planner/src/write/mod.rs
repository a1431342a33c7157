//! Statements that change rows.

mod change;
mod deferred;
mod errors;
mod find;
mod gather;
mod insert;
mod merge;
mod referee;
mod references;
mod returning;
mod rows;
mod rules;
mod triggers;
mod twins;
mod upsert;

pub use change::{Action, ChangePlan, finish, plan_delete, plan_update, run_change};
pub use deferred::{Deferred, DeferredMark};
pub use errors::{
    contains_nulls, key_text, no_partition, not_unique, outside_partition, still_in_partition,
};
pub use gather::Gather;
pub use insert::{InsertPlan, InsertSource, plan_insert, run_insert};
pub use merge::{plan_merge, run_merge};
pub use referee::Referee;
pub use references::{Key, References};
pub use returning::Returning;
pub use rows::{RowWriter, Yield};
pub use rules::generate;
pub use triggers::{Doing, Firing};
pub use twins::check_twins;
