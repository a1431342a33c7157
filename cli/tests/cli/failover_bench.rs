//! A short `fencepost bench failover`: machines are killed, the remaining data are consistent, and
//! the report is written.

use crate::common::{program, said};

/// Long leases and few rows, for a host that is busy with other tests: the speed does not matter
/// here.
const SHORT: [&str; 14] = [
    "--lease-ms",
    "2000",
    "--warmup",
    "1",
    "--seconds",
    "4",
    "--region-size",
    "16M",
    "--replicas",
    "2",
    "--threads",
    "3",
    "--in-flight",
    "2",
];

fn machines_are_killed(arguments: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let (json, out) = (dir.path().join("report.json"), dir.path().join("pictures"));
    let mut bench = program(&["bench", "failover"]);
    bench.args(SHORT).args(arguments);
    bench.arg("--json").arg(&json).arg("--out").arg(&out);
    let output = bench.output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let report = std::fs::read_to_string(&json).expect("a report");
    assert!(report.contains("\"check\": \"ok\""), "{report}");
    assert!(
        !report.contains("\"kill_to_suspicion_ms\": null"),
        "{report}"
    );
    for step in ["suspect", "config", "commit", "all-active"] {
        let missing = format!("\"{step}\": null");
        assert!(!report.contains(&missing), "{step} in {report}");
    }
    for name in ["timeline", "whole", "distribution"] {
        let path = out.join(format!("{name}.svg"));
        let picture = std::fs::read_to_string(path).expect("a picture");
        assert!(picture.contains("</svg>"), "{name}");
    }
}

#[test]
fn tatp_survives_killed_machine() {
    machines_are_killed(&["--rows", "300"]);
}

#[test]
fn transfers_survive_killed_cm_without_loss() {
    machines_are_killed(&["--workload", "bank", "--rows", "300", "--kill", "cm"]);
}

#[test]
fn options_without_survivors_are_refused() {
    for arguments in [
        &["--machines", "2"][..],
        &["--kill", "4"],
        &["--kill", "1,2"],
        &["--replicas", "1"],
        &["--runs", "0"],
    ] {
        let mut bench = program(&["bench", "failover"]);
        let output = bench.args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    }
    let mut bench = program(&["bench", "failover", "--kill", "m1"]);
    let output = bench.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
