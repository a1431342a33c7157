//! Tests of the engine as a library, on one machine. They form one program, because each program
//! that contains the engine takes long to link.

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
mod dropped;
mod emptied;
mod enums;
mod explain;
mod loads;
mod long_rows;
mod memory;
mod outcomes;
mod parallel_scans;
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
