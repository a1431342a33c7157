//! Histories of clients of three machines: transfers, and appends to lists that show skews and
//! forks under weaker isolation. All observations of the clients must be strictly serializable.
//!
//! The ignored test `of_given_machines` does the same over running machines. It creates their
//! tables `list` and `account` anew. Set `FENCEPOST_TEST_URLS=postgresql://…,postgresql://…`, then
//! run `cargo test -p fencepost-cli --test cli of_given_machines -- --ignored`.

pub mod client;
mod faults;

use std::io::Write;
use std::thread;
use std::time::Instant;

use fencepost_simulator::appends::check_appends;

use crate::common::dev_cluster::{DevCluster, MACHINES};
use client::{Client, Notes, SharedState};

const CLIENTS_OF_EACH: usize = 2;
const TRANSACTIONS_OF_EACH: usize = 400;

#[test]
fn of_three_machines_over_shm() {
    of_cluster("shm");
}

#[test]
fn of_three_machines_over_tcp() {
    of_cluster("tcp");
}

#[test]
#[ignore = "wants FENCEPOST_TEST_URLS"]
fn of_given_machines() {
    let urls = std::env::var("FENCEPOST_TEST_URLS").expect("FENCEPOST_TEST_URLS");
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    of_machines("given machines", &urls);
}

fn of_cluster(fabric: &str) {
    let cluster = DevCluster::start(fabric);
    let urls: Vec<String> = (0..MACHINES).map(|machine| cluster.url(machine)).collect();
    of_machines(fabric, &urls);
}

fn of_machines(name: &str, urls: &[String]) {
    let began = Instant::now();
    client::load(&urls[0]);
    let common = SharedState::default();
    let run = |url: &str, seed: usize| {
        let mut client = Client::connect(url, &common, seed as u64);
        for _ in 0..TRANSACTIONS_OF_EACH {
            client.go();
        }
        client.notes
    };
    let clients = urls.len() * CLIENTS_OF_EACH;
    let mut notes: Vec<Notes> = thread::scope(|scope| {
        let start = |seed: usize| scope.spawn(move || run(&urls[seed % urls.len()], seed));
        let running: Vec<_> = (0..clients).map(start).collect();
        let ended = running.into_iter().map(|client| client.join());
        ended.map(|notes| notes.expect("a good end")).collect()
    });
    // Each machine returns the same contents at the end.
    for url in urls {
        let mut client = Client::connect(url, &common, 0);
        client.look();
        notes.push(client.notes);
    }
    let sum = |of: fn(&Notes) -> usize| notes.iter().map(of).sum::<usize>();
    let committed = sum(|notes| notes.committed);
    let (transfers, totals) = (sum(|notes| notes.transfers), sum(|notes| notes.totals));
    let history: Vec<_> = notes.into_iter().flat_map(|notes| notes.visits).collect();
    // eprintln would be hidden while the test passes.
    let _ = writeln!(
        std::io::stderr(),
        "histories of {name}: {committed} of {} transactions over lists committed, \
         {transfers} transfers and {totals} totals, in {:.1} s",
        history.len(),
        began.elapsed().as_secs_f64()
    );
    let least = clients * TRANSACTIONS_OF_EACH;
    assert!(committed * 2 > least, "too many conflicts");
    assert!((transfers + totals) * 20 > least, "too many conflicts");
    assert!(transfers > 0 && totals > urls.len());
    if let Err(wrong) = check_appends(&history) {
        panic!("{name}: {wrong}");
    }
    faults::assert_found(&history);
}
