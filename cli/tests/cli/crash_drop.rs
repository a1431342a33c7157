//! Kill -9 while the memory of dropped tables is freed: after each restart `fencepost check` finds
//! no object without an owner and none with two, and in the end all memory is free.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::{PgSession, SqlSession};
use fencepost_fabric::random::Random;

use crate::common::{Server, assert_clean, crash_rounds, program, said};

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The number of objects that the catalog alone may have.
const OBJECTS_MAX: u64 = 2000;
const ROWS: u64 = 40_000;

/// Creates a table with an index and drops or truncates it.
fn create_and_drop(url: &str, ends: &str) {
    let mut session = PgSession::connect(url).expect("a session");
    let rows = format!(
        "CREATE TABLE t (a int PRIMARY KEY, b int, c text);
         CREATE INDEX t_b ON t (b);
         INSERT INTO t SELECT g, g % 100, 'text' || g FROM generate_series(1, {ROWS}) g"
    );
    session.script(&rows).expect("rows");
    session.script(ends).expect("a drop");
}

/// Returns the number of objects that `fencepost check` finds in a sound directory.
fn objects(dir: &Path) -> u64 {
    let output = program(&["check", "--data-dir"]).arg(dir).output();
    let output = output.expect("check runs");
    assert!(
        output.status.success(),
        "fencepost check: {}",
        said(&output)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let before = text
        .split(" objects")
        .next()
        .and_then(|text| text.rsplit(' ').next());
    let count = before.and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no objects in {text:?}"))
}

#[test]
fn kill_9_while_dropped_tables_are_freed_leaks_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(5);
    for round in 0..crash_rounds() {
        let server = Server::start(Some(dir.path()));
        let ends = match round % 2 {
            0 => "DROP TABLE t",
            _ => "BEGIN; TRUNCATE t; DROP TABLE t; COMMIT",
        };
        create_and_drop(&server.url(), ends);
        thread::sleep(Duration::from_millis(random.below(300)));
        server.kill();
        if round % 2 == 1 {
            // The next process is killed while it continues.
            let server = Server::start(Some(dir.path()));
            thread::sleep(Duration::from_millis(random.below(100)));
            server.kill();
        }
        assert_clean(dir.path());
    }
    let until = Instant::now() + TIME_LIMIT;
    while objects(dir.path()) > OBJECTS_MAX {
        assert!(Instant::now() < until, "the memory is not freed");
        let server = Server::start(Some(dir.path()));
        let mut session = PgSession::connect(&server.url()).expect("a session");
        session.script("VACUUM").expect("VACUUM");
        drop(session);
        assert!(server.terminate(), "it ends well");
    }
}
