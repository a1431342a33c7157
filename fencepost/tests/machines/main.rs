//! Tests of several machines that form one database.

mod between;
mod circles;
mod cluster;
mod cluster_tls;
mod counts;
#[cfg(feature = "raft")]
mod dropped;
mod joins;
mod partitions_spread;
#[cfg(feature = "raft")]
mod rejoined_machine;
mod row_locks;
mod schema;
mod sessions;
mod ship;
mod ship_costs;
mod ship_ends;
mod ship_explain;
mod split;
mod table_locks;
