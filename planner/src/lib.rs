//! Plans bound statements, and runs the plans over transactions.
//!
//! ```text
//! bound::Statement ──plan──▶ Plan (shared, cached) ──Execution::run──▶ rows, count
//!                    access, join, build               exec, write, copy
//! ```
//!
//! A plan states which index serves a condition and which side of a join drives. Running it needs
//! only a transaction, the parameters and a sink. DDL runs from the bound statement itself.

#![forbid(unsafe_code)]

mod access;
mod analytics;
mod analyze;
mod build;
mod by_key;
mod conjuncts;
mod context;
mod copy;
mod ddl;
mod decorrelate;
mod estimate;
mod exec;
mod explain;
mod helper_threads;
mod home;
mod index;
mod inline;
mod join;
mod late;
mod leaves;
mod locate;
mod locking;
mod materialized_rows;
mod outer_slots;
mod place;
mod plan;
mod reclaim;
mod routines;
mod row_count;
mod rules;
mod run;
mod sink;
mod slots;
mod split;
mod statement;
mod statement_snapshot;
mod store;
mod subplans;
mod tag;
mod terms;
mod trees;
mod unions;
mod uses;
mod volatile;
mod wanted_order;
mod write;

pub use analyze::run_analyze;
pub use context::PlanContext;
pub use copy::CopyInput;
pub use ddl::{
    DdlCx, Notice, await_catalog_lock, command_alone, ddl_command, drop_temporary_schema,
    end_temporary, lock_for_ddl, made_until_commit, make_temporary_schema, makes_temporary,
    run_ddl,
};
pub use exec::{
    CancelFlag, Cx, NextPartResult, PartResult, PartStatistics, RemoteParts, Scratch, row_address,
    run_part,
};
pub use explain::{ExplainContext, PlanDescription, RunInformation, explain};
pub use home::HomePartition;
pub use index::is_key_lock;
pub use locate::row_at;
pub use materialized_rows::{MaterializedRows, MaterializedRowsSink};
pub use plan::TablePlan;
pub use reclaim::{ReclaimStep, Reclaimer, pending_objects};
pub use routines::{CallState, OpenCursor, Portals, Procedure, Routines};
pub use row_count::rows_of_mapped_trees;
pub use run::{Execution, Progress};
pub use sink::{FlushFuture, MemorySink, RowSink};
pub use split::Split;
pub use statement::{Plan, check_supported, plan};
pub use store::{chunks_of, read_row};
pub use tag::Tag;
pub use uses::UsedTables;
pub use write::{DeferredMark, DeferredWork, key_text};
