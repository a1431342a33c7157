//! Tests of several machines that form one database.

mod between;
mod circles;
mod cluster;
mod cluster_tls;
mod counts;
mod joins;
#[cfg(feature = "raft")]
mod one_life;
mod partitions_spread;
mod row_locks;
mod schema;
mod sessions;
mod ship;
mod ship_costs;
mod ship_ends;
mod ship_explain;
mod split;
mod table_locks;
