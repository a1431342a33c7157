//! A short run of the query generator with a fixed seed: all plans of a query give the same rows.

use std::path::Path;
use std::time::Duration;

use fencepost_fuzz::queries::{self, QueryOptions, QueryServer, Settings};
use fencepost_fuzz::sql::Process;

#[test]
fn queries_answer_alike_under_all_planner_settings() {
    let program = Path::new(env!("CARGO_BIN_EXE_fencepost-fuzz"));
    let server = Process::start(program).expect("a server");
    let (ip, port) = (server.addr.ip(), server.addr.port());
    let url = format!("host={ip} port={port} user=postgres dbname=postgres");
    let tested = QueryServer::connect("fencepost", &url, Settings::of_planner());
    let options = QueryOptions {
        seed: 1,
        first_round: 0,
        queries: 150,
        queries_per_round: 30,
        time: Duration::MAX,
    };
    let mut servers = [tested.expect("a connection")];
    let summary = queries::run(&mut servers, &options, |_| ()).expect("a connection that lasts");
    assert!(
        summary.differences.is_empty(),
        "{}",
        summary.differences.join("\n")
    );
    // Queries that are all skipped would find nothing.
    assert!(summary.compared > 100, "{summary:?}");
}
