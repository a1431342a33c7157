//! Benchmark harness and workloads.
