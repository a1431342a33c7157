//! Machines of a network that store their configuration by Raft: they are killed one after the
//! other, also the CM, and started again; there are too few of them; and outsiders are refused.

use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use super::{
    FIRST, MACHINES, MachineParameters, MachineProcess, SECOND, address, becomes, secrets, session,
    under_load,
};
use crate::common::dev_cluster::{DevCluster, signal};
use crate::common::doomed::ShortLivedProgram;
use crate::common::machines::Machines;

/// With three replicas, two machines may be lost, one after the other, before data recovery has
/// completed.
const LEASE: [&str; 4] = ["--replicas", "3", "--lease-ms", "2000"];
const GROUP: [&str; 2] = ["--configuration-store", "raft"];
const LAST: &str = "SELECT max(machine) FROM pg_fencepost_machines";

fn machines(count: usize) -> Machines {
    Machines::start("tcp", count, &[&LEASE[..], &GROUP].concat())
}

/// Kills the machine at the first address `times` times, the CM first; each time it comes back
/// under load.
fn replaced(machines: &mut Machines, times: i64) {
    let urls = machines.urls();
    under_load([&urls[1], &urls[2]], |load| {
        load.goes_on();
        for last in 4..4 + times {
            machines.kill(&[0]);
            becomes(&urls[1], MACHINES, 2);
            load.goes_on();
            machines.start_again(&[0]);
            becomes(&urls[0], MACHINES, 3);
            becomes(&urls[2], LAST, last);
            load.goes_on();
        }
    });
}

#[test]
fn cm_is_replaced_with_raft_store() {
    replaced(&mut machines(3), 1);
}

#[test]
fn all_machines_are_replaced_in_turn_with_raft_store() {
    let mut machines = machines(3);
    replaced(&mut machines, 3);
    let urls = machines.urls();
    // None of the initial machines is left in the end.
    for (machine, last) in [(1, 7), (2, 8)] {
        machines.kill(&[machine]);
        becomes(&urls[0], MACHINES, 2);
        machines.start_again(&[machine]);
        becomes(&urls[machine], MACHINES, 3);
        becomes(&urls[0], LAST, last);
    }
    becomes(&urls[1], "SELECT count(*) FROM account", 20);
}

#[test]
fn two_of_five_are_killed_at_once_and_the_others_go_on() {
    let mut machines = machines(5);
    let urls = machines.urls();
    under_load([&urls[2], &urls[4]], |load| {
        load.goes_on();
        machines.kill(&[0, 3]);
        becomes(&urls[1], MACHINES, 3);
        load.goes_on();
        machines.start_again(&[3, 0]);
        becomes(&urls[0], MACHINES, 5);
        load.goes_on();
    });
}

#[test]
fn minority_neither_continues_nor_restarts() {
    let mut machines = machines(3);
    let urls = machines.urls();
    session(&urls[2])
        .script("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1)")
        .expect("a table");
    machines.kill(&[0, 1]);
    thread::sleep(Duration::from_secs(5));
    // The machine may have been replaced, so it must not answer.
    let (url, (answered, answers)) = (urls[2].clone(), mpsc::channel());
    thread::spawn(move || {
        let served = PgSession::connect(&url).is_ok_and(|mut alone| {
            let alone: &mut dyn SqlSession = &mut alone;
            alone.number("SELECT count(*) FROM kept").is_ok()
        });
        // The receiver is gone once the test has ended.
        let _ = answered.send(served);
    });
    let answer = answers.recv_timeout(Duration::from_secs(5));
    assert_ne!(answer, Ok(true), "the others may have replaced the machine");
    assert!(machines.runs(2), "{}", machines.said(2));
}

#[test]
fn only_machine_with_secret_joins_raft_store() {
    let (_directory, [ours, theirs]) = secrets();
    let [first, second, third] = ["127.0.3.11", "127.0.3.12", "127.0.3.13"].map(address);
    let addresses = format!("{first},{second}");
    let joining = ["--joining", third.as_str()];
    let right = MachineParameters {
        addresses: &addresses,
        secret: &ours,
        store: "raft",
    };
    let wrong = MachineParameters {
        secret: &theirs,
        ..right
    };
    let taken = TcpListener::bind(&first).expect("free");
    let why = format!("cannot listen for other machines on {first}");
    right.fails(FIRST).assert_fails(&why);
    drop(taken);
    for one in [right.fails(FIRST), wrong.fails(SECOND)] {
        one.assert_fails("the secret is another one");
    }
    let mut both = [FIRST, SECOND].map(|who| right.start(who));
    let [url, _] = both.each_mut().map(MachineProcess::url);
    session(&url)
        .script("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1)")
        .expect("a table");
    wrong
        .fails(joining)
        .assert_fails("the secret is another one");
    let three = format!("{addresses},{third}");
    let other = MachineParameters {
        addresses: &three,
        ..right
    };
    other
        .fails(["--machine", "3"])
        .assert_fails("the machine belongs to another cluster");
    becomes(&url, MACHINES, 2);
    let mut third = right.start(joining);
    let url = third.url();
    becomes(&url, MACHINES, 3);
    becomes(&url, "SELECT count(*) FROM kept", 1);
}

#[test]
fn dev_cluster_restarts_machine_with_raft_store() {
    let store = ["--restart", "--configuration-store", "raft"];
    let cluster = DevCluster::start_with("tcp", &[&LEASE[..], &store].concat());
    signal("-KILL", &cluster.machines()[2]);
    becomes(&cluster.url(2), LAST, 4);
    becomes(&cluster.url(0), MACHINES, 3);
}

#[test]
fn joining_machine_that_reaches_no_member_reports_it() {
    let (_directory, [secret, _]) = secrets();
    let silent = address("127.0.3.14");
    let of = MachineParameters {
        addresses: &silent,
        secret: &secret,
        store: "raft",
    };
    let arguments = of.arguments(["--joining", "127.0.3.15:7000"]);
    let of_one = arguments.iter().map(|word| match *word {
        "2" => "1",
        word => word,
    });
    let arguments: Vec<&str> = of_one.collect();
    ShortLivedProgram::start(&arguments).assert_fails(&silent);
}
