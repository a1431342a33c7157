//! Several machines that are one database.

mod between;
mod cluster;
mod cluster_tls;
mod joins;
mod partitions_spread;
mod schema;
mod ship;
mod ship_costs;
mod split;
