//! Simulated clusters: plans from seeds, scenarios that are driven step by step, and histories that
//! the checkers must reject.

mod anomalies;
mod appends;
mod clocks;
mod copies;
mod crashes;
mod driven;
mod failover;
mod far;
mod found;
mod handover;
mod held;
mod in_doubt;
mod leases;
mod leaving;
mod levels;
mod newcomers;
mod schema;
mod seeds;
mod slots;
mod timelines;
