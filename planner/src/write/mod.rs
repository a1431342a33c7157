//! Statements that change rows.

mod change;
mod deferred;
mod errors;
mod gather;
mod insert;
mod referee;
mod references;
mod returning;
mod rows;
mod rules;
mod upsert;

pub use change::{Action, ChangePlan, plan_delete, plan_update, run_change};
pub use deferred::{Deferred, DeferredMark};
pub use errors::{contains_nulls, key_text, not_unique};
pub use gather::Gather;
pub use insert::{InsertPlan, InsertSource, plan_insert, run_insert};
pub use referee::Referee;
pub use references::References;
pub use returning::Returning;
pub use rows::{RowWriter, Yield};
pub use rules::generate;
