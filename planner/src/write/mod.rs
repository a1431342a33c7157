//! Statements that change rows.

mod change;
mod errors;
mod gather;
mod insert;
mod returning;
mod rows;

pub use change::{Action, ChangePlan, plan_delete, plan_update, run_change};
pub use errors::{contains_nulls, key_text, not_unique};
pub use gather::Gather;
pub use insert::{InsertPlan, InsertSource, plan_insert, run_insert};
pub use returning::Returning;
pub use rows::{RowWriter, Yield};
