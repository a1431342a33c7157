//! Long statements beside other sessions of the same worker.
//!
//! The bounds are generous, because a busy host delays everything. A statement that blocks its
//! worker still exceeds them by far. On a quiet host the release build can be measured strictly:
//! ```sh
//! FAIRNESS_P99_MS=20 cargo test --release -p fencepost-pgserver --test wire fairness -- \
//!     --nocapture --test-threads=1
//! ```

use std::time::{Duration, Instant};

use fencepost_pgserver::{ListenOptions, Server};

use crate::common::{Client, bind, error, execute, frame, parse, query, server_with, sync, tags};

/// The run time of each statement before it is cancelled.
const WATCHED: Duration = Duration::from_millis(1500);
/// The smallest number of replies that another session must get meanwhile.
const ANSWERS_MIN: usize = 15;
/// The longest time between two answers.
const GAP_MAX: Duration = Duration::from_millis(750);
/// The longest time between a request to end a statement and its end.
const END_MAX: Duration = Duration::from_secs(2);

/// Starts a server with one worker, and tables of 10,000 rows.
fn one_worker() -> Server {
    let server = server_with(ListenOptions {
        workers: 1,
        ..ListenOptions::new("127.0.0.1:0")
    });
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (i int PRIMARY KEY, s text)");
    client.run("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 10000) g");
    client.run("CREATE TABLE w (i int PRIMARY KEY, s text)");
    server
}

/// Runs `sql` beside another session, and cancels it after a while.
fn others_go_on_beside(server: &Server, sql: &str) {
    let mut long = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    long.send(&query(sql));
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < WATCHED {
        let asked = Instant::now();
        assert_eq!(other.value("SELECT 1"), "1");
        times.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    let asked = Instant::now();
    let mut new_client = Client::start(server.local_addr());
    assert_eq!(new_client.value("SELECT 2"), "2");
    let connected = asked.elapsed();
    let asked = Instant::now();
    long.cancel();
    let ended = error(&long.until('Z')).0;
    let waited = asked.elapsed();
    assert_eq!(ended, "57014", "{sql}: it ended before the cancel");
    println!("connect {connected:?} cancel {waited:?}: {sql}");
    assert!(connected < GAP_MAX, "{sql}: log-in took {connected:?}");
    assert!(waited < END_MAX, "{sql}: the cancel took {waited:?}");
    check_times(times, sql);
}

/// Checks the reply times of the other session beside `what`.
fn check_times(mut times: Vec<Duration>, what: &str) {
    let answers = times.len();
    assert!(answers >= ANSWERS_MIN, "{what}: {answers} answers");
    times.sort_unstable();
    let (p99, gap) = (times[answers * 99 / 100], times[answers - 1]);
    println!("p99 {p99:?} max {gap:?}: {what}");
    assert!(gap < GAP_MAX, "{what}: an answer took {gap:?}");
    let strict = std::env::var("FAIRNESS_P99_MS").ok();
    let strict = strict.map(|ms| Duration::from_millis(ms.parse().expect("milliseconds")));
    assert!(strict.is_none_or(|strict| p99 <= strict), "{what}: {p99:?}");
}

#[test]
fn joins_and_groups_do_not_starve_other_clients() {
    let server = one_worker();
    for sql in [
        "SELECT count(*) FROM t a, t b WHERE a.i * b.i % 7 = 1",
        "SELECT count(*) FROM t a, t b, t c WHERE a.i = b.i + 1",
        "SELECT count(*) FROM (SELECT DISTINCT a.i % 1000, b.i % 100 FROM t a, t b) s",
        "SELECT a.i % 10, count(*), max(b.s) FROM t a, t b GROUP BY 1",
        "SELECT count(*) FROM (SELECT a.i FROM t a, t b EXCEPT SELECT i FROM t) s",
        "SELECT count(DISTINCT g) FROM generate_series(1, 30000000) g",
    ] {
        others_go_on_beside(&server, sql);
    }
}

#[test]
fn sorts_windows_and_recursion_do_not_starve_other_clients() {
    let server = one_worker();
    for sql in [
        "SELECT md5(g::text) FROM generate_series(1, 5000000) g ORDER BY 1 OFFSET 4999999",
        "SELECT sum(g) OVER (PARTITION BY g % 10 ORDER BY g * 7 % 1000)
         FROM generate_series(1, 5000000) g OFFSET 4999999",
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "SELECT count(*) FROM generate_series(1, 2000000000)",
        "DO $$ DECLARE x int := 0; BEGIN LOOP x := (x + 1) % 7; END LOOP; END $$",
    ] {
        others_go_on_beside(&server, sql);
    }
}

#[test]
fn writes_do_not_starve_other_clients() {
    let server = one_worker();
    for sql in [
        "INSERT INTO w SELECT g, md5(g::text) FROM generate_series(1, 3000000) g",
        "UPDATE t SET s = s || 'x' FROM generate_series(1, 3000000) g WHERE i = g % 10000",
    ] {
        others_go_on_beside(&server, sql);
    }
}

#[test]
fn long_calls_do_not_starve_other_clients() {
    let server = one_worker();
    for sql in [
        "SELECT length(regexp_replace(repeat('hello world ', 3000000) || g, 'o', '00', 'g'))
         FROM generate_series(1, 1000) g",
        "SELECT count(*) FROM generate_series(1, 1000) g,
         regexp_split_to_table(repeat('hello world ', 3000000) || g, '\\s+')",
        "SELECT ('[' || repeat('{\"a\": [1, 2, \"x\"]},', 500000) || g || ']')::jsonb IS NULL
         FROM generate_series(1, 1000) g",
    ] {
        others_go_on_beside(&server, sql);
    }
}

#[test]
fn long_calls_anywhere_do_not_starve_other_clients() {
    let server = one_worker();
    for sql in [
        "SELECT count(*) FROM t WHERE LONG(i) = 1",
        "SELECT i FROM t WHERE i = 7 AND repeat('a', 60000) || i ~ repeat('a', 60000)",
        "UPDATE t SET s = (repeat('a', 60000) || i ~ repeat('a', 60000))::text WHERE i = 7",
        "SELECT sum(LONG(g)) FROM generate_series(1, 1000) g",
        "SELECT max(LONG(i)), min(s) FILTER (WHERE LONG(i) > 3) FROM t GROUP BY s",
        "SELECT count(*) FROM t GROUP BY LONG(i)",
        "SELECT i FROM t GROUP BY i HAVING LONG(i) = 1",
        "SELECT count(*) FROM t a JOIN t b ON a.i = b.i AND LONG(a.i + b.i) = 1",
        "SELECT count(*) FROM t a JOIN t b ON LONG(a.i) = LONG(b.i)",
        "SELECT lag(LONG(i)) OVER (ORDER BY i), sum(LONG(i)) OVER (ORDER BY i) FROM t",
        "SELECT i FROM t ORDER BY LONG(i)",
        "UPDATE t SET s = LONG(i)::text",
        "DELETE FROM t WHERE LONG(i) = 1",
        "INSERT INTO w SELECT g FROM generate_series(1, 1000) g RETURNING LONG(i)",
        "ALTER TABLE t ADD CHECK (LONG(i) > 1)",
        "ALTER TABLE t ALTER s TYPE int USING LONG(i)",
        "CREATE INDEX ON t (LONG(i))",
        "CREATE INDEX ON t (i) WHERE LONG(i) > 1",
    ] {
        others_go_on_beside(&server, &with_long_calls(sql));
    }
}

/// Replaces each `LONG(x)` by a call that takes long.
fn with_long_calls(sql: &str) -> String {
    let mut parts = sql.split("LONG(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (x, rest) = part.split_once(')').expect("LONG(x)");
        let subject = format!("repeat('hello world ', 1000000) || ({x})");
        text += &format!("length(regexp_replace({subject}, 'o', '00', 'g')){rest}");
    }
    text
}

/// Returns a JSON document of 12 MB.
fn document() -> String {
    format!("[{}0]", r#"{"a": [1, 2, "x"]},"#.repeat(600_000))
}

#[test]
fn long_client_documents_do_not_starve_other_clients() {
    let server = one_worker();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE docs (d jsonb)");
    let document = document();
    client.send(&parse("length", "SELECT jsonb_array_length($1)"));
    let copy = query("COPY docs FROM STDIN WHERE false");
    let line = document.replace('\\', "\\\\");
    let data = frame(b'd', format!("{line}\n").as_bytes());
    let ask = [
        bind("", "length", &[Some(&document)]),
        execute("", 0),
        sync(),
    ];
    let feeding = std::thread::spawn(move || {
        for _ in 0..5 {
            client.send_all(&ask);
            assert_eq!(tags(&client.until('Z')).replace('1', ""), "2DCZ");
            client.send(&copy);
            client.until('G');
            client.send_all(&[data.clone(), frame(b'c', b"")]);
            assert_eq!(tags(&client.until('Z')), "CZ");
        }
    });
    let mut other = Client::start(server.local_addr());
    let mut times = Vec::new();
    while !feeding.is_finished() {
        let asked = Instant::now();
        assert_eq!(other.value("SELECT 1"), "1");
        times.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    feeding.join().expect("the documents are read");
    check_times(times, "documents of 12 MB");
}

#[test]
fn statement_timeout_ends_computing_statements() {
    let server = one_worker();
    let mut client = Client::start(server.local_addr());
    client.run("SET statement_timeout = '200ms'");
    for sql in [
        "SELECT count(*) FROM t a, t b WHERE a.i * b.i % 7 = 1",
        "SELECT md5(g::text) FROM generate_series(1, 5000000) g ORDER BY 1 OFFSET 4999999",
        "SELECT length(regexp_replace(repeat('hello world ', 3000000), 'o', '00', 'g'))",
        "SELECT repeat('a', 60000) ~ repeat('a', 60000)",
    ] {
        let begun = Instant::now();
        assert_eq!(client.fails(sql), "57014", "{sql}");
        assert!(begun.elapsed() < END_MAX, "{sql}: {:?}", begun.elapsed());
    }
}
