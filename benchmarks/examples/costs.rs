//! Measures the cost of commits of the native workloads on several machines of this process, and
//! prints the tables of `benchmarks/costs.md`.

use std::time::Duration;

use fencepost_benchmarks::costs::{Cluster, Cost};
use fencepost_benchmarks::harness::{Report, RunOptions};
use fencepost_benchmarks::tpcc::RemoteShares;
use fencepost_benchmarks::{BenchError, BenchOptions, FabricKind, Interface, Name, run_named};
use fencepost_txn::network::PostKind;

const REPLICAS: usize = 3;

/// The workloads: name, and number of reads and writes for `orw`.
const WORKLOADS: [(Name, u32, u32); 5] = [
    (Name::Tatp, 4, 2),
    (Name::SmallBank, 4, 2),
    (Name::Orw, 1, 1),
    (Name::Orw, 4, 2),
    (Name::Orw, 4, 4),
];

fn options(
    (name, reads, writes): (Name, u32, u32),
    machines: usize,
    fabric: FabricKind,
) -> BenchOptions {
    BenchOptions {
        name,
        via: Interface::Native,
        urls: Vec::new(),
        rows: Some(20_000),
        zipf: None,
        update_percent: 0,
        reads,
        writes,
        warehouses: 1,
        remote: RemoteShares::SPECIFIED,
        small: false,
        isolation: None,
        machines,
        replicas: Some(REPLICAS),
        fabric: Some(fabric),
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

/// Returns the numbers of keys that writing transactions write, each with its share of these
/// transactions.
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
            // Each key is updated with the probability writes / reads.
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

/// Returns the name of a workload with its parameters.
fn title((name, reads, writes): (Name, u32, u32), report: &Report) -> String {
    match name {
        Name::Orw => format!("orw --reads {reads} --writes {writes}"),
        _ => report.workload.clone(),
    }
}

fn counted(report: &Report, name: &str) -> u64 {
    report.counters.others.get(name).copied().unwrap_or(0)
}

/// Prints the one-sided writes of commits, next to the number of SOSP'15.
fn writes() -> Result<(), BenchError> {
    println!(
        "| machines | workload | read-write transactions | P_w(f + 3) | expected here | counted | \
         check |"
    );
    println!("|--:|---|--:|--:|--:|--:|---|");
    for machines in [3, 7] {
        let cluster = Cluster {
            machines,
            backups: REPLICAS - 1,
        };
        for workload in WORKLOADS {
            let report = run_named(&options(workload, machines, FabricKind::Shm))?;
            let (mut cost, mut all) = (Cost::default(), 0.0);
            for (keys, share) in written(workload, &report) {
                let each = cluster.commit_of_keys(keys);
                cost.paper += each.paper * share;
                cost.expected += each.expected * share;
                all += share;
            }
            let writes = counted(&report, "posted_writes");
            let commits = counted(&report, "committed_writes");
            println!(
                "| {machines} | `{}` | {commits} | {:.3} | {:.3} | {:.3} | {} |",
                title(workload, &report),
                cost.paper / all,
                cost.expected / all,
                writes as f64 / commits.max(1) as f64,
                report.check.as_deref().unwrap_or("ok")
            );
        }
    }
    Ok(())
}

/// Prints the operations that are posted when no memory is mapped, by purpose.
fn posted_over_tcp() -> Result<(), BenchError> {
    const READS: [PostKind; 2] = [PostKind::Object, PostKind::Header];
    const RECORDS: [PostKind; 5] = [
        PostKind::Lock,
        PostKind::LockReply,
        PostKind::CommitBackup,
        PostKind::CommitPrimary,
        PostKind::Truncate,
    ];
    let heads = READS.iter().chain(&RECORDS).map(|what| what.name());
    let heads: Vec<_> = heads.collect();
    println!(
        "| workload | read-only | read-write | {} |",
        heads.join(" | ")
    );
    println!("|---|--:|--:|{}", "--:|".repeat(heads.len()));
    for workload in WORKLOADS {
        let report = run_named(&options(workload, 3, FabricKind::Tcp))?;
        let (reads, writes) = (
            counted(&report, "committed_reads"),
            counted(&report, "committed_writes"),
        );
        // All transactions read objects. Operations of commits are counted for each writing
        // transaction.
        let each = |what: &PostKind, of: u64| {
            let count = counted(&report, &format!("posted_{}", what.name()));
            format!("{:.3}", count as f64 / of.max(1) as f64)
        };
        let objects = each(&READS[0], reads + writes);
        let others = READS[1..].iter().chain(&RECORDS);
        let others: Vec<_> = others.map(|what| each(what, writes)).collect();
        let title = title(workload, &report);
        println!(
            "| `{title}` | {reads} | {writes} | {objects} | {} |",
            others.join(" | ")
        );
    }
    Ok(())
}

fn main() -> Result<(), BenchError> {
    writes()?;
    println!();
    posted_over_tcp()
}
