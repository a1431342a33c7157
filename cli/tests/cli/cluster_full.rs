//! A cluster whose memory is full: writes fail with 53200 on every machine, and reads work.

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::dev_cluster::{DevCluster, MACHINES};

/// The rows of one statement.
const ROWS: i64 = 100;

#[test]
fn full_cluster_over_shm_refuses_writes_and_answers_reads() {
    is_full("shm");
}

#[test]
fn full_cluster_over_tcp_refuses_writes_and_answers_reads() {
    is_full("tcp");
}

fn is_full(fabric: &str) {
    let cluster = DevCluster::start(fabric);
    let mut sessions: Vec<PgSession> = (0..MACHINES).map(|m| cluster.session(m)).collect();
    let table = "CREATE TABLE t (a int PRIMARY KEY, b text)";
    sessions[0].script(table).expect("a table");
    let mut rows = 0;
    for session in &mut sessions {
        while add(session, rows) {
            rows += ROWS;
            assert!(rows < 1_000_000, "there is no limit");
        }
    }
    assert!(rows > 0);
    for session in &mut sessions {
        assert!(!add(session, rows), "it is full");
        let session: &mut dyn SqlSession = session;
        for (query, right) in [
            ("SELECT count(*) FROM t".to_string(), rows),
            ("SELECT sum(length(b)) FROM t".to_string(), rows * 4000),
            (format!("SELECT a FROM t WHERE a = {rows}"), rows),
        ] {
            assert_eq!(session.number(&query), Ok(right), "{fabric}: {query}");
        }
    }
}

/// Adds rows after the first `after`; returns whether there was enough memory.
fn add(session: &mut PgSession, after: i64) -> bool {
    let many = format!(
        "INSERT INTO t SELECT {after} + g, repeat('x', 4000) FROM generate_series(1, {ROWS}) g"
    );
    match session.script(&many) {
        Ok(()) => true,
        Err(failure) => {
            assert_eq!(failure.sqlstate, "53200", "{failure}");
            false
        }
    }
}
