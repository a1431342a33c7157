//! Tests of the `fencepost` program as users run it: real processes, stopped and killed.

mod access;
mod backup;
mod cancels;
mod cluster_errors;
mod cluster_full;
mod commands;
mod common;
mod configuration;
mod crash_bank;
mod crash_drop;
mod dev_cluster;
mod disk_full;
mod failover;
mod failover_bench;
mod histories;
mod leaving;
mod logs;
mod monitoring;
mod nvram;
mod nvram_saves;
mod pgbench;
mod scenarios;
mod ssd;
mod stopped;
mod stores;
mod ways_in;
