//! Analytical execution: large SELECTs run on DataFusion's operators, that is hash joins of whole
//! tables, and aggregation.
//!
//! ```text
//! plan      SelectPlan ── bulk ──▶ the same SELECT with hash joins, its source a Source::Analytics
//! run       choice: estimated number of rows to read     few ─▶ the plan   many ─▶ its bulk
//!
//! session's thread                     threads of DataFusion
//! scan ─▶ columns  (feed) ═══════════▶ leaves ─▶ hash joins ─┬▶ rows
//! WHERE, keys, arguments  ◀══════════▶                       └▶ (work) ─▶ hash aggregation
//! having, targets, sort, limit ◀═════════════════════════════ rows, or partial aggregates
//! ```
//!
//! The scans are those of the row executor, in the transaction of the session: the same snapshot,
//! own writes, read set and cancellation. Expressions are evaluated on the session's thread, for
//! the same rows as in the row executor: by the session's evaluator, or by the same arithmetic on
//! encoded rows. DataFusion compares keys for
//! equality. It counts, sums, and finds the least and greatest values of columns whose Arrow form
//! does that as PostgreSQL does ([`Form`]). Its sums go into the same accumulators as partial
//! aggregates of other machines. Any other operation makes a SELECT ineligible.
//!
//! Invariants
//! - ANA-1: the values of a column in Arrow are equal, and compare, as they do in PostgreSQL.
//! - ANA-2: an expression that may fail is evaluated only for rows for which the row executor
//!   evaluates it.
//! - ANA-3: DataFusion waits for the session only after a request to it, and the session waits only
//!   for requests.
//!
//! # Failure
//! The memory of operators counts against the memory limit: 53200. An abandoned SELECT drops its
//! [`AnalyticExecution`], which ends DataFusion's part at its next batch.
//!
//! No other module uses DataFusion. Without the feature `analytics` no SELECT is eligible.

#[cfg(feature = "analytics")]
mod arrow_feed;
#[cfg(feature = "analytics")]
mod columns;
mod cost_choice;
#[cfg(feature = "analytics")]
mod engine;
#[cfg(feature = "analytics")]
mod execution;
mod form;
#[cfg(feature = "analytics")]
mod operators;
#[cfg(feature = "analytics")]
mod pool;
mod shape;
#[cfg(not(feature = "analytics"))]
mod without;

pub use cost_choice::{may_run, pays, reads_much};
#[cfg(feature = "analytics")]
pub use execution::AnalyticExecution;
pub use shape::{Shape, bulk, key_column};
#[cfg(not(feature = "analytics"))]
pub use without::AnalyticExecution;
