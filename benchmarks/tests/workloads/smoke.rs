//! Every workload through every interface, with little data: each must run, and its own check must
//! pass.

use std::time::Duration;

use fencepost::Database;
use fencepost_benchmarks::harness::{Report, RunOptions};
use fencepost_benchmarks::tpcc::RemoteShares;
use fencepost_benchmarks::{BenchOptions, FabricKind, Interface, Name, run_named};
use fencepost_pgserver::listen;

fn options(name: Name, via: Interface) -> BenchOptions {
    BenchOptions {
        name,
        via,
        urls: Vec::new(),
        rows: Some(200),
        zipf: None,
        update_percent: 0,
        reads: 4,
        writes: 2,
        warehouses: 2,
        small: true,
        remote: RemoteShares::SPECIFIED,
        isolation: None,
        machines: 1,
        replicas: None,
        fabric: None,
        data_dir: None,
        memory_limit: None,
        region_bytes: Some(16 << 20),
        run: RunOptions {
            threads: 2,
            in_flight: 1,
            seconds: Duration::from_millis(300),
            warmup: Duration::from_millis(50),
            seed: 1,
            progress: false,
            survives: false,
        },
    }
}

/// Runs a benchmark and checks all results except speed.
fn run(options: &BenchOptions) -> Report {
    let report = run_named(options).expect("it runs");
    assert_eq!(report.check, None);
    assert!(report.committed > 0, "{report}");
    assert!(report.attempted >= report.committed);
    let json = report.to_json();
    for field in [
        "workload",
        "via",
        "durability",
        "machines",
        "replicas",
        "threads",
        "seconds",
        "committed_per_s",
    ] {
        assert!(!json[field].is_null(), "{field} in {json}");
    }
    for field in ["p50", "p95", "p99", "p999", "max"] {
        assert!(json["latency_us"][field].is_number(), "{field} in {json}");
    }
    for field in ["reads", "writes", "messages"] {
        assert!(json["fabric"][field].is_number(), "{field} in {json}");
    }
    assert_eq!(json["check"], "ok");
    report
}

/// Runs against a server in this process.
fn run_over_the_wire(name: Name) -> Report {
    let database = Database::options()
        .region_size(16 << 20)
        .open()
        .expect("a database");
    let server = listen(&database, "127.0.0.1:0").expect("a server");
    let address = server.local_addr();
    let url = format!("postgresql://postgres@{address}/postgres");
    run(&BenchOptions {
        urls: vec![url],
        ..options(name, Interface::Pg)
    })
}

#[test]
fn kv_looks_up() {
    let report = run(&options(Name::Kv, Interface::Native));
    assert!(
        report.aborts.is_empty() && report.failed.is_empty(),
        "{report}"
    );
    assert!(
        report.counters.reads >= report.committed,
        "a lookup is a one-sided read at least"
    );
}

#[test]
fn kv_updates_hot_keys() {
    run(&BenchOptions {
        zipf: Some(0.99),
        update_percent: 50,
        ..options(Name::Kv, Interface::Native)
    });
}

#[test]
fn kv_updates_reach_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = Some(dir.path().to_owned());
    let report = run(&BenchOptions {
        update_percent: 50,
        data_dir,
        ..options(Name::Kv, Interface::Native)
    });
    assert_eq!(report.facts.durability, "ssd");
}

#[test]
fn tatp_native() {
    run(&options(Name::Tatp, Interface::Native));
}

#[test]
fn tatp_embedded() {
    run(&options(Name::Tatp, Interface::Embedded));
}

#[test]
fn tatp_over_the_wire() {
    run_over_the_wire(Name::Tatp);
}

#[test]
fn bank_native() {
    run(&options(Name::Bank, Interface::Native));
}

#[test]
fn bank_embedded() {
    run(&options(Name::Bank, Interface::Embedded));
}

#[test]
fn bank_over_the_wire() {
    run_over_the_wire(Name::Bank);
}

#[test]
fn bank_with_hardly_any_accounts_conflicts_and_holds() {
    run(&BenchOptions {
        rows: Some(2),
        ..options(Name::Bank, Interface::Native)
    });
}

#[test]
fn smallbank_native() {
    let report = run(&options(Name::SmallBank, Interface::Native));
    let kinds: u64 = report.kinds.values().sum();
    assert_eq!((report.kinds.len(), kinds), (6, report.committed));
}

#[test]
fn smallbank_embedded() {
    run(&options(Name::SmallBank, Interface::Embedded));
}

#[test]
fn smallbank_over_the_wire() {
    run_over_the_wire(Name::SmallBank);
}

#[test]
fn orw_native() {
    run(&options(Name::Orw, Interface::Native));
}

#[test]
fn orw_with_hardly_any_keys_conflicts_and_holds() {
    run(&BenchOptions {
        rows: Some(5),
        writes: 4,
        ..options(Name::Orw, Interface::Native)
    });
}

#[test]
fn orw_that_only_reads_never_aborts() {
    let report = run(&BenchOptions {
        reads: 1,
        writes: 0,
        ..options(Name::Orw, Interface::Native)
    });
    assert!(report.aborts.is_empty(), "{report}");
}

#[test]
fn orw_embedded() {
    run(&options(Name::Orw, Interface::Embedded));
}

#[test]
fn orw_over_the_wire() {
    run_over_the_wire(Name::Orw);
}

#[test]
fn tpcc_native() {
    let report = run(&options(Name::Tpcc, Interface::Native));
    let json = report.to_json();
    assert_eq!(json["parameters"]["population_to_specification"], false);
    assert_eq!(report.kinds.len(), 5);
    assert!(report.kinds["new_order"] > 0, "{report}");
}

#[test]
fn tpcc_embedded() {
    run(&options(Name::Tpcc, Interface::Embedded));
}

#[test]
fn tpcc_over_the_wire() {
    let report = run_over_the_wire(Name::Tpcc);
    assert_eq!(report.facts.parameters["isolation"], "repeatable read");
}

fn over_machines(name: Name, fabric: FabricKind) -> BenchOptions {
    BenchOptions {
        machines: 3,
        fabric: Some(fabric),
        ..options(name, Interface::Native)
    }
}

/// Runs over three machines, and checks that the operations they post are counted.
fn run_over_machines(name: Name, fabric: FabricKind) {
    let report = run(&over_machines(name, fabric));
    let json = report.to_json();
    assert_eq!(
        (&json["machines"], &json["replicas"]),
        (&3.into(), &3.into())
    );
    assert_eq!(json["fabric"]["kind"], fabric.name());
    assert!(report.counters.writes > 0, "{report}");
}

#[test]
fn tatp_over_machines() {
    run_over_machines(Name::Tatp, FabricKind::Shm);
}

#[test]
fn smallbank_over_machines() {
    run_over_machines(Name::SmallBank, FabricKind::Local);
}

#[test]
fn orw_over_machines() {
    run_over_machines(Name::Orw, FabricKind::Shm);
}

#[test]
fn bank_over_machines() {
    run_over_machines(Name::Bank, FabricKind::Shm);
}

/// Returns options with three warehouses, one on each machine, and threads that share them.
fn tpcc_over_machines(fabric: FabricKind) -> BenchOptions {
    let mut options = over_machines(Name::Tpcc, fabric);
    options.warehouses = 3;
    options.run.threads = 4;
    options
}

#[test]
fn tpcc_over_machines_that_share_memory() {
    let report = run(&tpcc_over_machines(FabricKind::Shm));
    assert!(report.kinds.values().all(|count| *count > 0), "{report}");
    assert_eq!(report.facts.replicas, 3);
}

#[test]
fn tpcc_over_machines_of_one_process() {
    let mut options = tpcc_over_machines(FabricKind::Local);
    // More warehouses than machines, more machines than threads, and many remote accesses.
    options.warehouses = 4;
    options.run.threads = 2;
    options.remote = RemoteShares {
        lines: 30,
        payments: 50,
    };
    let report = run(&options);
    assert_eq!(report.facts.parameters["remote_lines_percent"], 30);
}

#[test]
fn tpcc_without_remote_lines_and_payments_stays_on_each_machine() {
    let mut options = tpcc_over_machines(FabricKind::Shm);
    options.replicas = Some(1);
    // The initial regions are large enough; for another one, machines would ask the CM.
    options.region_bytes = Some(1 << 30);
    options.remote = RemoteShares {
        lines: 0,
        payments: 0,
    };
    let report = run(&options);
    assert_eq!(report.counters.writes, 0, "{report}");
    options.remote = RemoteShares::SPECIFIED;
    assert!(run(&options).counters.writes > 0);
}

#[test]
fn kv_over_machines_without_backups() {
    let report = run(&BenchOptions {
        machines: 2,
        replicas: Some(1),
        update_percent: 50,
        ..options(Name::Kv, Interface::Native)
    });
    assert_eq!(report.to_json()["fabric"]["kind"], "shm");
}

#[test]
fn wrong_options_are_refused() {
    for wrong in [
        options(Name::Kv, Interface::Pg),
        options(Name::Bank, Interface::Pg),
        BenchOptions {
            machines: 3,
            ..options(Name::Bank, Interface::Embedded)
        },
        BenchOptions {
            machines: 3,
            replicas: Some(4),
            ..options(Name::Bank, Interface::Native)
        },
        BenchOptions {
            machines: 3,
            data_dir: Some("nowhere".into()),
            ..options(Name::Bank, Interface::Native)
        },
        BenchOptions {
            machines: 0,
            ..options(Name::Bank, Interface::Native)
        },
        BenchOptions {
            fabric: Some(FabricKind::Local),
            ..options(Name::Bank, Interface::Native)
        },
        BenchOptions {
            rows: Some(1),
            ..options(Name::Bank, Interface::Native)
        },
        BenchOptions {
            zipf: Some(1.5),
            ..options(Name::Kv, Interface::Native)
        },
        BenchOptions {
            writes: 5,
            ..options(Name::Orw, Interface::Native)
        },
        BenchOptions {
            rows: Some(3),
            ..options(Name::Orw, Interface::Native)
        },
    ] {
        assert!(run_named(&wrong).is_err(), "{wrong:?}");
    }
}
