//! Serializable blocks that meet conflicts: they continue if all results that their client received
//! still hold, and fail with 40001 otherwise.

use fencepost::{BlockingSession, Database, Row, SqlState, Value};

/// A session in a serializable block, and another session.
struct SessionPair {
    db: Database,
    block: BlockingSession,
    beside: BlockingSession,
}

fn two(schema: &str) -> SessionPair {
    let db = Database::in_memory().expect("a database");
    db.blocking().batch(schema).expect("the schema");
    let (mut block, beside) = (db.blocking(), db.blocking());
    run(&mut block, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    SessionPair { db, block, beside }
}

const ACCOUNTS: &str =
    "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, cents numeric NOT NULL);
    INSERT INTO account SELECT g, 'owner ' || g, 100.0 FROM generate_series(1, 3) g";

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.execute(sql, &[]) {
        panic!("{sql}: {error}");
    }
}

fn text(session: &mut BlockingSession, sql: &str) -> String {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get(0).expect("a text")
}

fn fails(session: &mut BlockingSession, sql: &str) {
    let error = session.execute(sql, &[]).expect_err("a conflict");
    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
}

fn balances(two: &mut SessionPair) -> String {
    let all = "SELECT string_agg(cents::text, ' ' ORDER BY id) FROM account";
    text(&mut two.beside, all)
}

#[test]
fn commit_conflict_with_same_results_is_replayed() {
    let mut two = two(ACCOUNTS);
    let read = "SELECT owner FROM account WHERE id = 1";
    assert_eq!(text(&mut two.block, read), "owner 1");
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 2");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "8 7 100.0");
    let counted = "SELECT relname || ' ' || query || ' ' || conflicts || ' ' || reported \
         FROM pg_stat_conflicts";
    assert_eq!(text(&mut two.beside, counted), "account COMMIT 1 0");
    let metrics = two.db.metrics();
    let saved = "fencepost_database_conflicts_saved_total";
    let metric = metrics.iter().find(|metric| metric.name == saved);
    let sample = &metric.expect("the metric").samples[0];
    assert_eq!(sample.value, 1.0);
}

#[test]
fn statement_conflict_with_same_results_is_replayed() {
    let mut two = two(ACCOUNTS);
    let read = "SELECT owner FROM account WHERE id = 1";
    assert_eq!(text(&mut two.block, read), "owner 1");
    run(
        &mut two.beside,
        "UPDATE account SET cents = cents + 1 WHERE id = 1",
    );
    let add = "UPDATE account SET cents = cents + 10 WHERE id = 1 RETURNING cents::text";
    assert_eq!(text(&mut two.block, add), "111.0");
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "111.0 100.0 100.0");
}

#[test]
fn changed_result_reports_serialization_failure() {
    for (read, change) in [
        (
            "SELECT cents::text FROM account WHERE id = 1",
            "UPDATE account SET cents = 100.00 WHERE id = 1",
        ),
        (
            "SELECT count(*)::text FROM account",
            "INSERT INTO account VALUES (4, 'owner 4', 0)",
        ),
        (
            "SELECT owner FROM account WHERE cents > 99 ORDER BY id",
            "UPDATE account SET cents = 98 WHERE id = 1",
        ),
    ] {
        let mut two = two(ACCOUNTS);
        two.block.query(read, &[]).expect("rows");
        run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
        run(&mut two.beside, change);
        fails(&mut two.block, "COMMIT");
    }
}

#[test]
fn changed_row_count_reports_serialization_failure() {
    let mut two = two(ACCOUNTS);
    run(&mut two.block, "DELETE FROM account WHERE cents < 50");
    run(
        &mut two.beside,
        "UPDATE account SET cents = 49 WHERE id = 1",
    );
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    fails(&mut two.block, "COMMIT");
}

#[test]
fn replay_binds_the_parameters_of_each_run() {
    let mut two = two(ACCOUNTS);
    let read = two
        .block
        .prepare("SELECT owner FROM account WHERE id = $1")
        .expect("a statement");
    for id in [1, 2] {
        let row = two
            .block
            .query_one(&read, &[Value::Int4(id)])
            .expect("a row");
        assert_eq!(row.get::<String>(0).expect("a text"), format!("owner {id}"));
    }
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    run(
        &mut two.beside,
        "UPDATE account SET cents = 8 WHERE id IN (1, 2)",
    );
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "8 8 7");
}

#[test]
fn replay_restores_savepoints() {
    let mut two = two(ACCOUNTS);
    run(
        &mut two.block,
        "INSERT INTO account VALUES (4, 'owner 4', 4)",
    );
    run(&mut two.block, "SAVEPOINT a");
    run(
        &mut two.block,
        "INSERT INTO account VALUES (5, 'owner 5', 5)",
    );
    run(&mut two.block, "SAVEPOINT b");
    let read = "SELECT owner FROM account WHERE id = 1";
    assert_eq!(text(&mut two.block, read), "owner 1");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    run(
        &mut two.block,
        "UPDATE account SET cents = cents + 1 WHERE id = 1",
    );
    run(&mut two.block, "RELEASE SAVEPOINT b");
    run(&mut two.block, "ROLLBACK TO SAVEPOINT a");
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "8 100.0 100.0 4");
}

#[test]
fn rollback_to_savepoint_prevents_replay() {
    let mut two = two(ACCOUNTS);
    run(&mut two.block, "SAVEPOINT a");
    let read = "SELECT cents::text FROM account WHERE id = 1";
    assert_eq!(text(&mut two.block, read), "100.0");
    run(&mut two.block, "ROLLBACK TO SAVEPOINT a");
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    fails(&mut two.block, "COMMIT");
}

#[test]
fn volatile_function_prevents_replay() {
    let mut two = two(ACCOUNTS);
    let read = "SELECT owner FROM account WHERE id = 1 AND random() < 2";
    assert_eq!(text(&mut two.block, read), "owner 1");
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    fails(&mut two.block, "COMMIT");
}

#[test]
fn replay_draws_the_same_sequence_values() {
    let mut two = two(
        "CREATE TABLE account (id serial PRIMARY KEY, owner text NOT NULL, cents numeric NOT NULL);
        INSERT INTO account (owner, cents) SELECT 'owner', 100.0 FROM generate_series(1, 3)",
    );
    let add = "INSERT INTO account (owner, cents) VALUES ('new', 0), ('new', 0) RETURNING id::text";
    let ids = |rows: Vec<Row>| -> Vec<String> {
        rows.iter().map(|row| row.get(0).expect("a text")).collect()
    };
    assert_eq!(ids(two.block.query(add, &[]).expect("rows")), ["4", "5"]);
    let last = "SELECT currval('account_id_seq')::text || owner FROM account WHERE id = 1";
    assert_eq!(text(&mut two.block, last), "5owner");
    assert_eq!(ids(two.beside.query(add, &[]).expect("rows")), ["6", "7"]);
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    // The conflict is in this statement, which has drawn sequence values itself.
    let more = "WITH changed AS (UPDATE account SET cents = cents + 1 WHERE id = 1 RETURNING cents)
        INSERT INTO account (owner, cents) SELECT 'more', cents FROM changed RETURNING id::text";
    assert_eq!(text(&mut two.block, more), "8");
    run(&mut two.block, "COMMIT");
    let all = "SELECT string_agg(id || ' ' || cents, ', ' ORDER BY id) FROM account \
               WHERE id IN (1, 4, 5, 8)";
    assert_eq!(text(&mut two.beside, all), "1 9, 4 0, 5 0, 8 9");
    assert_eq!(ids(two.block.query(add, &[]).expect("rows")), ["9", "10"]);
}

#[test]
fn replay_keeps_transaction_and_statement_time() {
    let mut two = two(ACCOUNTS);
    let read = "SELECT owner || now() || statement_timestamp() FROM account WHERE id = 1";
    text(&mut two.block, read);
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "8 100.0 7");
}

#[test]
fn changed_setting_prevents_replay() {
    let mut two = two(ACCOUNTS);
    let read = "SELECT owner FROM account WHERE id = 1";
    text(&mut two.block, read);
    run(&mut two.block, "SET LOCAL TimeZone = 'Asia/Tokyo'");
    run(&mut two.block, "UPDATE account SET cents = 7 WHERE id = 3");
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    fails(&mut two.block, "COMMIT");
}

#[test]
fn replay_checks_deferred_constraints() {
    let mut two = two("CREATE TABLE parent (id int PRIMARY KEY, n int NOT NULL);
        CREATE TABLE child (id int PRIMARY KEY,
            parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO parent VALUES (1, 0), (2, 0)");
    run(&mut two.block, "INSERT INTO child VALUES (1, 3)");
    let read = "SELECT id::text FROM parent WHERE id = 1";
    assert_eq!(text(&mut two.block, read), "1");
    run(&mut two.block, "INSERT INTO parent VALUES (3, 0)");
    run(&mut two.beside, "UPDATE parent SET n = 1 WHERE id = 1");
    run(&mut two.block, "COMMIT");
    let child = "SELECT parent::text FROM child";
    assert_eq!(text(&mut two.beside, child), "3");
    run(&mut two.beside, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    run(&mut two.beside, "INSERT INTO child VALUES (2, 4)");
    assert_eq!(text(&mut two.beside, read), "1");
    run(&mut two.block, "UPDATE parent SET n = 2 WHERE id = 1");
    let error = two.beside.execute("COMMIT", &[]).expect_err("no parent");
    assert_eq!(error.code(), SqlState::FOREIGN_KEY_VIOLATION);
}

#[test]
fn modifying_cte_reads_leaf_changed_by_both_transactions() {
    let mut two = two(ACCOUNTS);
    run(
        &mut two.block,
        "INSERT INTO account VALUES (4, 'owner 4', 4)",
    );
    run(
        &mut two.beside,
        "INSERT INTO account VALUES (5, 'owner 5', 5)",
    );
    run(&mut two.beside, "UPDATE account SET cents = 8 WHERE id = 1");
    let moved =
        "WITH changed AS (UPDATE account SET cents = cents + 1 WHERE id = 1 RETURNING cents)
        INSERT INTO account SELECT 6, 'more', cents FROM changed RETURNING cents::text";
    assert_eq!(text(&mut two.block, moved), "9");
    run(&mut two.block, "COMMIT");
    assert_eq!(balances(&mut two), "9 100.0 100.0 4 5 9");
}
