//! Machines with disks, all of them repeatedly killed at once: they start again with all
//! acknowledged transactions, and none took effect partly.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use fencepost_benchmarks::sql::SqlSession;
use fencepost_fabric::random::Random;

use crate::common::dev_cluster::{DevCluster, MACHINES, signal};
use crate::common::machines::Machines;
use crate::common::{ClientStopGuard, crash_rounds, insist, program, said};
use crate::crash_bank::{CLIENTS, Client, Journal, create, verify};
use crate::nvram::{kill_all, load_and_kill, survive_in_turn};

/// Arguments of machines that store their configuration by Raft.
const GROUP: [&str; 2] = ["--configuration-store", "raft"];

/// Starts machines that keep their data in `directory`.
fn start(directory: &Path, fabric: &str) -> DevCluster {
    let data = directory.join("data");
    let data = data.to_str().expect("a name");
    let further = ["--data-dir", data, "--replicas", "2"];
    DevCluster::start_in(directory, fabric, &further)
}

fn survive(fabric: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut journal = Journal::default();
    let first = start(directory.path(), fabric);
    create(&first.url(0));
    let mut random = Random::new(3);
    let mut first = Some(first);
    for round in 0..crash_rounds().max(2) {
        let running = first
            .take()
            .unwrap_or_else(|| start(directory.path(), fabric));
        verify(&running.url((round % 3) as u16), &mut journal);
        let mut session = running.session((round % 3) as u16);
        session.script("CHECKPOINT").expect("is taken");
        drop(session);
        let time = Duration::from_millis(300 + random.below(1500));
        load_and_kill(running, round, time, &mut journal);
    }
    let mut cluster = start(directory.path(), fabric);
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
    // The data also survive an end in good order.
    signal("-INT", &cluster.child.id().to_string());
    assert!(cluster.ended());
    let cluster = start(directory.path(), fabric);
    verify(&cluster.url(1), &mut journal);
}

#[test]
fn all_machines_killed_at_once_lose_nothing_acknowledged() {
    survive("shm");
}

#[test]
fn reported_commits_survive_kill_of_all_over_tcp() {
    survive("tcp");
}

/// Runs transfers through machines during `done`.
fn under_load(urls: &[String], round: u64, journal: &mut Journal, done: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let clients = (0..CLIENTS).map(|at| Client::connect(&urls[at as usize % urls.len()]));
    let clients: Vec<Client> = clients.collect();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (index, client) in clients.into_iter().enumerate() {
            let seed = round * CLIENTS + index as u64;
            let (first, stop) = ((seed as i64) << 32, &stop);
            running.push(scope.spawn(move || client.run(first, Random::new(seed), stop)));
        }
        let ends = ClientStopGuard(&stop);
        thread::sleep(Duration::from_millis(700));
        done();
        drop(ends);
        for client in running {
            journal.add(client.join().expect("a client ends"));
        }
    });
}

/// Waits until the first machine accepts a write.
fn is_served(cluster: &DevCluster) {
    let mut session = cluster.session(0);
    insist("a statement", || {
        session.script("UPDATE account SET balance = balance WHERE id < 20")
    });
}

fn survive_one_and_all(fabric: &str, store: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a name").to_string();
    let further = ["--data-dir", &data, "--replicas", "2", "--lease-ms", "2000"];
    let further = [&further, store].concat();
    let start = || DevCluster::start_in(directory.path(), fabric, &further);
    let mut journal = Journal::default();
    let mut cluster = start();
    let both = |cluster: &DevCluster| [cluster.url(0), cluster.url(1)];
    create(&cluster.url(0));
    for round in 0..2 {
        let third = cluster.machines()[2].clone();
        under_load(&both(&cluster), 2 * round, &mut journal, || {
            signal("-KILL", &third);
            is_served(&cluster);
        });
        verify(&cluster.url(1), &mut journal);
        let time = Duration::from_millis(700);
        under_load(&both(&cluster), 2 * round + 1, &mut journal, || {
            thread::sleep(time)
        });
        verify(&cluster.url(1), &mut journal);
        kill_all(cluster);
        // The third machine starts without its former data.
        cluster = start();
        for machine in 0..MACHINES {
            verify(&cluster.url(machine), &mut journal);
        }
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
}

#[test]
fn failover_then_kill_of_all_loses_no_commit_over_shm() {
    survive_one_and_all("shm", &[]);
}

#[test]
fn failover_then_kill_of_all_loses_no_commit_over_tcp() {
    survive_one_and_all("tcp", &GROUP);
}

/// Kills one machine under load, which comes back while clients run, then another one, then all;
/// then once more, with the machines that came back.
pub fn survive_rejoining_machines(fabric: &str, store: &[&str]) {
    let further = [
        "--durability",
        "ssd",
        "--replicas",
        "2",
        "--lease-ms",
        "2000",
    ];
    let mut machines = Machines::start(fabric, 3, &[&further, store].concat());
    let urls = machines.urls();
    let mut journal = Journal::default();
    create(&urls[0]);
    let served = |machines: &Machines, by: usize| {
        let mut session = machines.session(by);
        insist("a statement", || {
            session.script("UPDATE account SET balance = balance WHERE id < 20")
        });
    };
    for (round, killed) in [2, 1].into_iter().enumerate() {
        let other = 3 - killed;
        let round = 10 * round as u64;
        under_load(&urls[..1], round, &mut journal, || {
            machines.kill(&[killed]);
            served(&machines, 0);
            machines.start_again(&[killed]);
            served(&machines, killed);
        });
        let said = machines.said(killed);
        assert!(said.contains("what its disk had is not used"), "{said}");
        verify(&urls[killed], &mut journal);
        let both = [urls[0].clone(), urls[killed].clone()];
        under_load(&both, round + 1, &mut journal, || {
            machines.kill(&[other]);
            served(&machines, killed);
            machines.start_again(&[other]);
        });
        for url in &urls {
            verify(url, &mut journal);
        }
        machines.kill(&[0, 1, 2]);
        machines.start_again(&[0, 1, 2]);
        for url in &urls {
            verify(url, &mut journal);
        }
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
}

#[test]
fn machine_with_disk_rejoins_running_cluster_over_shm() {
    survive_rejoining_machines("shm", &[]);
}

#[test]
fn machine_with_disk_rejoins_running_cluster_over_tcp() {
    survive_rejoining_machines("tcp", &GROUP);
}

#[test]
fn unsupported_options_of_tier_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |arguments: &[&str]| {
        let mut start = program(&["start", "--listen", "127.0.0.1:0", "--machine", "1"]);
        start.args(["--machines", "2", "--cluster"]);
        start.arg(directory.path()).args(arguments);
        let output = start.output().expect("it runs");
        assert!(!output.status.success());
        said(&output)
    };
    let data = directory.path().join("m1");
    let data = data.to_str().expect("a name");
    let taken_back = ["--data-dir", data, "--take-back"];
    assert!(refused(&taken_back).contains("--lease-ms"));
    let said = refused(&["--durability", "ssd"]);
    assert!(said.contains("needs a data directory"), "{said}");
}

/// Checks that a machine whose disk is lost does not start with an empty one.
#[test]
fn machine_with_lost_disk_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = start(directory.path(), "shm");
    create(&cluster.url(2));
    kill_all(cluster);
    let data = directory.path().join("data");
    let (there, aside) = (data.join("m2"), data.join("aside"));
    std::fs::rename(&there, &aside).expect("it was there");
    let output = program(&["dev-cluster", "--replicas", "2", "--memory-limit", "64M"])
        .args(["--listen", "127.0.0.1:6410", "--data-dir"])
        .arg(&data)
        .output();
    let output = output.expect("it runs");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(
        said.contains("m2 found no data, and others have some"),
        "{said}"
    );
    std::fs::remove_dir_all(&there).expect("nothing is in it");
    std::fs::rename(&aside, &there).expect("it was there");
    let cluster = start(directory.path(), "shm");
    verify(&cluster.url(0), &mut Journal::default());
}

#[test]
fn machines_killed_in_turn_leave_no_partial_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    survive_in_turn(|| start(directory.path(), "tcp"));
}
