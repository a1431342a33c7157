//! The engine as a library, one machine: what embedders and, through them, clients meet. One program, as each that holds the
//! engine takes long to be linked.

mod advisory;
#[cfg(feature = "analytics")]
mod analytics;
#[cfg(feature = "analytics")]
mod analytics_generated;
mod api;
mod counts;
mod cursors;
mod databases;
mod ddl_in_line;
mod emptied;
mod enums;
mod explain;
mod loads;
mod long_rows;
mod memory;
mod outcomes;
mod partitions;
mod queueing;
mod references;
mod refused;
mod replays;
mod retries;
mod routines;
mod row_locks;
mod scripts;
mod sequences;
mod snapshots;
mod temporary;
mod upserts;
