//! Simulated clusters: plans from seeds, scenarios that are driven step by step, and histories that
//! the checkers must reject.

mod anomalies;
mod appends;
mod clocks;
mod crashes;
mod driven;
mod failover;
mod far;
mod handover;
mod held;
mod in_doubt;
mod inner_node_cache;
mod joining_machines;
mod leases;
mod leaving;
mod levels;
mod regressions;
mod schema;
mod seeds;
mod slots;
mod timelines;
