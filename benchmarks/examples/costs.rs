//! Counts what commits of the native workloads cost on several machines of this process, and prints the
//! table of `benchmarks/costs.md`.

use std::time::Duration;

use fencepost_benchmarks::costs::{Cluster, Cost};
use fencepost_benchmarks::harness::{Report, RunOptions};
use fencepost_benchmarks::tpcc::Remote;
use fencepost_benchmarks::{BenchError, BenchOptions, Name, Via, run_named};

const REPLICAS: usize = 3;

/// A workload: its name and reads and writes of `orw`.
const WORKLOADS: [(Name, u32, u32); 5] = [
    (Name::Tatp, 4, 2),
    (Name::SmallBank, 4, 2),
    (Name::Orw, 1, 1),
    (Name::Orw, 4, 2),
    (Name::Orw, 4, 4),
];

fn options((name, reads, writes): (Name, u32, u32), machines: usize) -> BenchOptions {
    BenchOptions {
        name,
        via: Via::Native,
        urls: Vec::new(),
        rows: Some(20_000),
        zipf: None,
        update_percent: 0,
        reads,
        writes,
        warehouses: 1,
        remote: Remote::SPECIFIED,
        small: false,
        isolation: None,
        machines,
        replicas: Some(REPLICAS),
        fabric: None,
        data_dir: None,
        memory_limit: None,
        region_bytes: None,
        run: RunOptions {
            seconds: Duration::from_secs(4),
            warmup: Duration::from_secs(1),
            progress: false,
            ..RunOptions::default()
        },
    }
}

/// Keys that transactions which write anything write, each number with its share of them.
fn written((name, reads, writes): (Name, u32, u32), report: &Report) -> Vec<(u32, f64)> {
    match name {
        Name::SmallBank => {
            let count = |kinds: &[&str]| kinds.iter().map(|kind| report.kind_per_s(kind)).sum();
            let of_one = ["deposit_checking", "transact_savings", "write_check"];
            vec![
                (1, count(&of_one)),
                (2, count(&["amalgamate", "send_payment"])),
            ]
        }
        Name::Orw => {
            // Each key is updated with the chance of writes in reads.
            let chance = f64::from(writes) / f64::from(reads);
            let mut ways = 1.0;
            let share = (1..=reads).map(|keys| {
                ways *= f64::from(reads - keys + 1) / f64::from(keys);
                let others = (1.0 - chance).powi((reads - keys) as i32);
                (keys, ways * chance.powi(keys as i32) * others)
            });
            share.collect()
        }
        // All rows of a subscriber are on one machine.
        _ => vec![(1, 1.0)],
    }
}

fn main() -> Result<(), BenchError> {
    println!(
        "| machines | workload | read-write transactions | P_w(f + 3) | expected here | counted | check |"
    );
    println!("|--:|---|--:|--:|--:|--:|---|");
    for machines in [3, 7] {
        let cluster = Cluster {
            machines,
            backups: REPLICAS - 1,
        };
        for workload in WORKLOADS {
            let report = run_named(&options(workload, machines))?;
            let (mut cost, mut all) = (Cost::default(), 0.0);
            for (keys, share) in written(workload, &report) {
                let each = cluster.commit_of_keys(keys);
                cost.paper += each.paper * share;
                cost.here += each.here * share;
                all += share;
            }
            let count = |name| report.counters.others.get(name).copied().unwrap_or(0);
            let (writes, commits) = (count("posted_writes"), count("committed_writes"));
            let name = match workload {
                (Name::Orw, reads, writes) => format!("orw --reads {reads} --writes {writes}"),
                _ => report.workload.clone(),
            };
            println!(
                "| {machines} | `{name}` | {commits} | {:.3} | {:.3} | {:.3} | {} |",
                cost.paper / all,
                cost.here / all,
                writes as f64 / commits.max(1) as f64,
                report.check.as_deref().unwrap_or("ok")
            );
        }
    }
    Ok(())
}
