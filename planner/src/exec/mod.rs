//! The executor: it runs plans, a batch of rows at a time.
//!
//! Each operator has a state that mirrors its plan. The plan is shared and passed to every call. A
//! state borrows neither the plan nor the transaction, so a portal can keep it between two calls.

mod anew;
mod apart;
mod batch;
mod collected_memory;
mod cx;
mod distinct;
mod encoded_number;
mod gather;
mod group;
mod join;
mod live;
mod lock;
mod locks;
mod merge;
mod order;
mod pace;
mod part;
mod pointer;
mod range;
mod recursive;
mod routed;
mod row_filter;
mod rows;
mod scan;
mod select;
mod sequence;
mod set;
mod sort;
mod source;
mod spill;
mod statistics;
mod status;
mod subquery;
mod system;
mod targets;
mod window;

pub use anew::{LockTarget, LockedRowState, RowState, decided_by, lock_anew};
pub use batch::Batch;
pub use collected_memory::CollectedMemory;
pub use cx::{CancelFlag, Cx, Scratch};
#[cfg(feature = "analytics")]
pub use encoded_number::NumberExpr;
pub use gather::{NextPartResult, PartResult, PartStatistics, RemoteParts};
pub use group::Groups;
pub use part::run_part;
pub use pointer::{pointer_of, pointer_value, row_address};
pub use range::{Fit, fit, point_key};
pub use routed::{Prune, leaves};
#[cfg(feature = "analytics")]
pub use scan::{EncodedNext, EncodedRows, ScanState};
pub use scan::{PointRow, fetch_point};
pub use select::SelectState;
pub use source::SourceState;
pub use subquery::Queries;
