//! Machines that share memory of a directory, all of them repeatedly killed at once: they start
//! again with all acknowledged transactions, and none took effect partly.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use fencepost_benchmarks::sql::{PgSession, SqlSession};
use fencepost_fabric::random::Random;

use crate::common::dev_cluster::{DevCluster, MACHINES, has_ended, signal};
use crate::common::{ClientStopGuard, crash_rounds, program, said};
use crate::crash_bank::{CLIENTS, Client, Journal, create, verify};

const NVRAM: [&str; 4] = ["--durability", "nvram", "--replicas", "2"];

/// Kills the machines and their parent.
pub fn kill_all(mut cluster: DevCluster) {
    let machines = cluster.machines();
    // The parent would end the machines in good order if it noticed the end of one.
    signal("-STOP", &cluster.child.id().to_string());
    let killed = Command::new("kill").arg("-KILL").args(&machines).status();
    assert!(killed.expect("kill runs").success());
    cluster.child.kill().expect("it runs");
    cluster.child.wait().expect("it was running");
    // Killed orphans disappear after they have been reaped.
    while !machines.iter().all(|pid| has_ended(pid)) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Stops a machine for `time` and kills it, then the others, which may have noticed.
pub fn kill_in_turn(cluster: DevCluster, first: usize, time: Duration) {
    let first = &cluster.machines()[first];
    signal("-STOP", &cluster.child.id().to_string());
    signal("-STOP", first);
    thread::sleep(time);
    signal("-KILL", first);
    kill_all(cluster);
}

pub fn load_and_kill(cluster: DevCluster, round: u32, time: Duration, journal: &mut Journal) {
    load_and_end(cluster, round, time, journal, kill_all);
}

/// Runs load for `time`, and until `end` has returned.
pub fn load_and_end(
    cluster: DevCluster,
    round: u32,
    time: Duration,
    journal: &mut Journal,
    end: impl FnOnce(DevCluster),
) {
    let stop = AtomicBool::new(false);
    let clients = (0..CLIENTS).map(|at| Client::connect(&cluster.url(at as u16 % MACHINES)));
    let clients: Vec<Client> = clients.collect();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (index, client) in clients.into_iter().enumerate() {
            let seed = u64::from(round) * CLIENTS + index as u64;
            let first_id = (seed as i64) << 32;
            let stop = &stop;
            running.push(scope.spawn(move || client.run(first_id, Random::new(seed), stop)));
        }
        let ends = ClientStopGuard(&stop);
        thread::sleep(time);
        end(cluster);
        drop(ends);
        for client in running {
            journal.add(client.join().expect("a client ends"));
        }
    });
}

fn start(directory: &Path) -> DevCluster {
    DevCluster::start_in(directory, "shm", &NVRAM)
}

/// Opens a session with a timeout for statements.
pub fn session(cluster: &DevCluster, machine: u16) -> PgSession {
    let mut session = cluster.session(machine);
    session
        .script("SET statement_timeout = '10s'")
        .expect("is set");
    session
}

#[test]
fn all_machines_killed_at_once_lose_nothing_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut journal = Journal::default();
    let first = start(directory.path());
    create(&first.url(0));
    let mut random = Random::new(3);
    let mut first = Some(first);
    for round in 0..crash_rounds().max(2) {
        let running = first.take().unwrap_or_else(|| start(directory.path()));
        verify(&running.url((round % 3) as u16), &mut journal);
        let time = Duration::from_millis(300 + random.below(1500));
        load_and_kill(running, round, time, &mut journal);
    }
    let mut cluster = start(directory.path());
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
    // The data also survive an end in good order.
    signal("-INT", &cluster.child.id().to_string());
    assert!(cluster.ended());
    let cluster = start(directory.path());
    verify(&cluster.url(1), &mut journal);
}

/// Checks that a machine that was replaced starts again, with the data of the others.
#[test]
fn machines_begin_again_after_one_of_them_was_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let leases = [&NVRAM[..], &["--lease-ms", "2000"]].concat();
    let start = || DevCluster::start_in(directory.path(), "shm", &leases);
    let cluster = start();
    create(&cluster.url(0));
    let session: &mut dyn SqlSession = &mut self::session(&cluster, 1);
    signal("-KILL", &cluster.machines()[2]);
    let count = "SELECT count(*) FROM pg_fencepost_machines";
    while session.number(count).ok() != Some(2) {
        thread::sleep(Duration::from_millis(50));
    }
    let table = "CREATE TABLE later (a int PRIMARY KEY)";
    let rows = "INSERT INTO later SELECT g FROM generate_series(1, 500) g";
    for statement in [table, rows] {
        self::session(&cluster, 0)
            .script(statement)
            .expect("they go on");
    }
    kill_all(cluster);
    for round in 0..2 {
        let cluster = start();
        for machine in 0..MACHINES {
            let session: &mut dyn SqlSession = &mut self::session(&cluster, machine);
            assert_eq!(session.number(count).ok(), Some(3));
            let rows = session.number("SELECT count(*) FROM later");
            assert_eq!(rows.ok(), Some(500 + round));
        }
        let mut session = self::session(&cluster, 2);
        let row = format!("INSERT INTO later VALUES ({})", 1000 + round);
        session.script(&row).expect("is written");
        kill_all(cluster);
    }
}

#[test]
fn machine_without_memory_restarts_from_replicas() {
    const THREE: [&str; 4] = ["--durability", "nvram", "--replicas", "3"];
    let directory = tempfile::tempdir().expect("a directory");
    let start = || DevCluster::start_in(directory.path(), "shm", &THREE);
    let cluster = start();
    create(&cluster.url(2));
    let mut journal = Journal::default();
    load_and_kill(cluster, 0, Duration::from_millis(500), &mut journal);
    let nvram = directory.path().join("nvram");
    std::fs::remove_dir_all(nvram.join("regions/m3")).expect("it was there");
    let cluster = start();
    verify(&cluster.url(2), &mut journal);
    kill_all(cluster);
    // Without any regions the start fails, and no new data are created.
    std::fs::remove_dir_all(nvram.join("regions")).expect("it was there");
    let output = program(&["dev-cluster", "--directory"])
        .arg(directory.path())
        .args(THREE)
        .args(["--listen", "127.0.0.1:6400"])
        .output();
    let output = output.expect("it runs");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("no machine has the memory of r0"), "{said}");
}

/// Checks that machines of a network with memory in files start again at the same addresses.
#[test]
fn machines_of_a_network_killed_at_once_lose_nothing_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = || DevCluster::start_in(directory.path(), "tcp", &NVRAM);
    let mut journal = Journal::default();
    let cluster = start();
    create(&cluster.url(0));
    load_and_kill(cluster, 0, Duration::from_millis(700), &mut journal);
    let mut cluster = start();
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
    }
    signal("-INT", &cluster.child.id().to_string());
    assert!(cluster.ended());
    verify(&start().url(1), &mut journal);
}

/// Repeatedly kills machines under load, one of them before the others, which do not replace it.
pub fn survive_in_turn(start: impl Fn() -> DevCluster) {
    let mut journal = Journal::default();
    let cluster = start();
    create(&cluster.url(0));
    let (mut cluster, mut random) = (Some(cluster), Random::new(5));
    for round in 0..crash_rounds() {
        let running = cluster.take().unwrap_or_else(&start);
        verify(&running.url((round % 3) as u16), &mut journal);
        let [load, stopped] = [300, 20].map(|most| Duration::from_millis(random.below(most)));
        let load = load + Duration::from_millis(200);
        let end = |cluster| kill_in_turn(cluster, (round % 3) as usize, stopped);
        load_and_end(running, round, load, &mut journal, end);
    }
    verify(&start().url(0), &mut journal);
    assert!(journal.has_any(), "some transfers were acknowledged");
}

#[test]
fn machines_killed_in_turn_leave_no_partial_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    survive_in_turn(|| DevCluster::start_in(directory.path(), "tcp", &NVRAM));
}
