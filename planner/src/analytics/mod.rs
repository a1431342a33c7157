//! Much work runs on DataFusion's operators: hash joins of whole tables, and what groups add up to.
//!
//! ```text
//! plan      SelectPlan ── bulk ──▶ the same SELECT with hash joins, its source a Source::Analytics
//! run       choice: about how many rows would be read?       few ─▶ the plan   many ─▶ its bulk
//!
//! session's thread                     threads of DataFusion
//! scan ─▶ columns  (feed) ═══════════▶ leaves ─▶ hash joins ─┬▶ rows
//! WHERE, keys, arguments  ◀══════════▶                       └▶ (work) ─▶ hash aggregation
//! having, targets, sort, limit ◀═════════════════════════════ rows, or what the rows of each group add up to
//! ```
//! Scans are the ones of our executor, in the transaction of the session: same snapshot, own writes, read set,
//! cancellation. Whatever an expression comes to is told by our evaluator, on the session's thread, over the very
//! rows that it would be evaluated for otherwise. DataFusion compares keys for equality, counts, adds up and takes
//! least and greatest values of columns whose Arrow form does that as PostgreSQL does ([`Form`]); what it adds up goes
//! into the accumulators that parts of other machines go into, too. All else makes a SELECT not eligible.
//!
//! Invariants
//! - ANA-1: the values of a column in Arrow are equal, and compare, as they do in PostgreSQL.
//! - ANA-2: an expression that may fail is evaluated only for rows that our executor evaluates it for.
//! - ANA-3: nobody waits for the session but by asking it, and the session waits only to be asked.
//!
//! # Failure
//! What operators hold counts against the memory limit: 53200. A SELECT that is given up drops its [`Running`], which
//! ends DataFusion's part at its next batch.
//!
//! Nothing else talks to DataFusion, and without the feature `analytics` nothing is eligible.

mod choice;
#[cfg(feature = "analytics")]
mod columns;
#[cfg(feature = "analytics")]
mod engine;
#[cfg(feature = "analytics")]
mod feed;
#[cfg(feature = "analytics")]
mod operators;
#[cfg(feature = "analytics")]
mod pool;
#[cfg(feature = "analytics")]
mod running;
mod shape;
#[cfg(not(feature = "analytics"))]
mod without;

pub use choice::{may_run, pays, reads_much};
#[cfg(feature = "analytics")]
pub use running::Running;
pub use shape::{Shape, bulk, key_column};
#[cfg(not(feature = "analytics"))]
pub use without::Running;
