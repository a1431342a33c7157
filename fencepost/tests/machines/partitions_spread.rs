//! Partitions on three machines: all data of a partition is on its machine, for writers on any
//! machine.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::thread;

use fencepost::{BlockingSession, Database, Row, params};
use fencepost_btree::{BTree, Direction, ScanBatch};
use fencepost_hashtable::HashTable;
use fencepost_planner::chunks_of;
use fencepost_sql::catalog::{Catalog, IndexKind, TableDef};
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Machine, Mode, Transaction};
use pollster::FutureExt;

use crate::between::{Interconnect, MACHINES, number};

/// Returns the machine of partition `partition` of a new table.
fn machine_of(partition: usize) -> u32 {
    partition as u32 % MACHINES + 1
}

/// Counts the rows of each partitioned table, and asserts that all data of a partition is on its
/// machine.
fn rows_in_place(db: &Database) -> BTreeMap<String, u64> {
    let machine = db.machine();
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    async {
        let catalog = Catalog::open(&mut tx, machine.root()).await?;
        let snapshot = catalog.snapshot(&mut tx).await?;
        let mut counts = BTreeMap::new();
        for table in snapshot.tables() {
            if table.partitioning.is_some() {
                let count = table_in_place(machine, &mut tx, &table).await;
                counts.insert(table.name.clone(), count);
            }
        }
        Ok::<_, fencepost_sql::stop::StatementStop>(counts)
    }
    .block_on()
    .expect("readable")
}

async fn table_in_place(machine: &Machine, tx: &mut Transaction, table: &TableDef) -> u64 {
    let mut rows = 0;
    for index in &table.indexes {
        if !index.roots.are_partitioned() {
            continue;
        }
        for (partition, root) in index.roots.all().iter().enumerate() {
            let at = |addr: Addr, what: &str| {
                let name = (&table.name, &index.name, partition);
                assert_eq!(
                    machine.primary_of(addr).expect("known").0,
                    machine_of(partition),
                    "{what} of {name:?}"
                );
            };
            let root = Addr::from_raw(*root);
            if index.kind == IndexKind::Hash {
                let report = HashTable::open(root).check(tx).await.expect("readable");
                assert!(report.problems.is_empty(), "{:?}", report.problems);
                report
                    .addresses
                    .iter()
                    .for_each(|addr| at(*addr, "a bucket"));
                continue;
            }
            let tree = BTree::open(root);
            let report = tree.check(tx).await.expect("readable");
            assert!(report.problems.is_empty(), "{:?}", report.problems);
            report.addresses.iter().for_each(|addr| at(*addr, "a node"));
            let mut batch = ScanBatch::new();
            let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
            while cursor
                .next_batch(tx, &mut batch, 100)
                .await
                .expect("readable")
            {
                for value in batch.values() {
                    let row = FatPtr::from_words(*value).addr;
                    at(row, "a row");
                    for chunk in chunks_of(tx, row).await.expect("readable") {
                        at(chunk.addr, "a chunk");
                    }
                    rows += u64::from(index.id == table.primary().id);
                }
            }
        }
    }
    rows
}

const TABLES: &str = "CREATE TABLE t (a int PRIMARY KEY, b int, c text) PARTITION BY HASH (a) \
             WITH (partitions = 7);
             CREATE INDEX t_ab ON t (a, b);
             CREATE INDEX t_b ON t (b);
             CREATE TABLE h (a int PRIMARY KEY, b int) PARTITION BY HASH (a) \
               WITH (partitions = 4, index = hash)";

#[test]
fn rows_are_on_the_machine_of_their_partition() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    let mut sessions: Vec<_> = machines.iter().map(Database::blocking).collect();
    sessions[1].batch(TABLES).expect("tables");
    sessions[2]
        .batch(
            "CREATE TABLE u (k int, n int, PRIMARY KEY (k, n)) PARTITION BY HASH (k) \
             WITH (colocate_with = 't')",
        )
        .expect("a table beside another");
    // Single rows, and many rows at once, into empty tables and others.
    for (at, session) in sessions.iter_mut().enumerate() {
        for n in 0..40 {
            let key = params![at as i32 * 1000 + n];
            for insert in [
                "INSERT INTO t VALUES ($1, $1 % 7, 'x')",
                "INSERT INTO h VALUES ($1, 1)",
                "INSERT INTO u VALUES ($1, 1)",
            ] {
                session.execute(insert, key).expect("inserts");
            }
        }
        let from = (at + 1) * 10_000;
        let many = format!(
            "INSERT INTO t SELECT g, g % 7, 'y' FROM generate_series({from}, {}) g",
            from + 700
        );
        session.execute(&many, &[]).expect("inserts");
        let many = format!(
            "INSERT INTO h SELECT g, 1 FROM generate_series({from}, {}) g",
            from + 300
        );
        session.execute(&many, &[]).expect("inserts");
    }
    sessions[0]
        .execute("INSERT INTO t VALUES (-1, 0, repeat('long', 300000))", &[])
        .expect("a long row");
    let expected = [("h", 120 + 903), ("t", 121 + 2103), ("u", 120)];
    let expected: BTreeMap<_, _> = expected.map(|(name, rows)| (name.to_owned(), rows)).into();
    assert_eq!(rows_in_place(&machines[0]), expected);
    // Rows move when their partition column changes, and grow in place otherwise.
    for (session, from) in sessions.iter_mut().zip([0, 1000, 2000]) {
        let moved = format!(
            "UPDATE t SET a = a + 100000 WHERE a BETWEEN {from} AND {}",
            from + 30
        );
        assert_eq!(session.execute(&moved, &[]).expect("moved"), 31);
    }
    sessions[1]
        .execute("UPDATE t SET a = -2, c = c || 'er' WHERE a = -1", &[])
        .expect("moved");
    sessions[2]
        .execute("UPDATE t SET c = repeat('z', 500) WHERE b = 3", &[])
        .expect("grown");
    assert_eq!(rows_in_place(&machines[1]), expected);
    for session in &mut sessions {
        assert_eq!(
            number(
                session,
                "SELECT count(*) FROM t WHERE b = 3 AND c LIKE 'zz%'"
            ),
            number(session, "SELECT count(*) FROM t WHERE b = 3")
        );
        assert_eq!(
            number(session, "SELECT count(*) FROM t WHERE a >= 100000"),
            93
        );
        assert_eq!(
            number(
                session,
                "SELECT count(*) FROM t JOIN u ON u.k = t.a WHERE t.a = 2035"
            ),
            1
        );
        assert_eq!(
            number(session, "SELECT length(c)::bigint FROM t WHERE a = -2"),
            1_200_002
        );
    }
    // An index that is created later, and the trees after TRUNCATE.
    sessions[2]
        .batch("CREATE INDEX t_ac ON t (a DESC, b)")
        .expect("an index");
    assert_eq!(rows_in_place(&machines[2]), expected);
    sessions[1].batch("TRUNCATE h").expect("emptied");
    sessions[0]
        .execute(
            "INSERT INTO h SELECT g, 1 FROM generate_series(1, 50) g",
            &[],
        )
        .expect("filled again");
    assert_eq!(rows_in_place(&machines[0])["h"], 50);
    for session in &mut sessions {
        shows_partitions(session);
    }
}

/// Checks the partitions that a machine shows.
fn shows_partitions(session: &mut BlockingSession) {
    let rows = session
        .query(
            "SELECT table_name, partition, machine FROM pg_fencepost_partitions
             ORDER BY table_name, partition",
            &[],
        )
        .expect("partitions");
    assert_eq!(rows.len(), 4 + 7 + 7);
    let mut machine_of_t = BTreeMap::new();
    for row in rows {
        let partition: i32 = row.get(1).expect("a partition");
        let machine: i32 = row.get(2).expect("a machine");
        assert_eq!(machine as u32, machine_of(partition as usize));
        machine_of_t.insert(partition, machine);
    }
    for key in [0, 5, 17] {
        let explain = format!("EXPLAIN SELECT * FROM t WHERE a = {key}");
        let lines = session.query(&explain, &[]).expect("a plan");
        let text = |line: &Row| -> String { line.get(0).expect("a line") };
        let line = lines
            .iter()
            .map(text)
            .find(|line| line.starts_with("  Partition: "));
        let (partition, machine) = line
            .as_deref()
            .and_then(|line| line.strip_prefix("  Partition: "))
            .and_then(|rest| rest.split_once(" (m"))
            .expect("a partition and its machine");
        let partition: i32 = partition.parse().expect("a number");
        assert_eq!(machine, format!("{})", machine_of_t[&partition]));
    }
}

#[test]
fn machines_at_once_fill_each_others_partitions() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    machines[0]
        .blocking()
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 6)",
        )
        .expect("a table");
    thread::scope(|scope| {
        for (at, db) in machines.iter().enumerate() {
            scope.spawn(move || {
                let mut session = db.blocking();
                for n in 0..200 {
                    let key = params![n * MACHINES as i32 + at as i32];
                    session
                        .execute("INSERT INTO t VALUES ($1, 0)", key)
                        .expect("inserts");
                    session
                        .execute("UPDATE t SET b = b + 1 WHERE a IN ($1, $1 / 2)", key)
                        .expect("updates");
                }
            });
        }
    });
    for db in &machines {
        assert_eq!(rows_in_place(db)["t"], 600);
    }
}

#[test]
fn load_fills_partitions_on_their_machines() {
    const ROWS: u64 = 6000;
    let between = Interconnect::memory();
    let machines = between.machines(2);
    let mut session = machines[1].blocking();
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 5);
             CREATE INDEX t_ab ON t (a DESC, b)",
        )
        .expect("a table");
    let load = format!("INSERT INTO t SELECT g, g % 10 FROM generate_series(1, {ROWS}) g");
    session.execute(&load, &[]).expect("a load");
    for db in &machines {
        assert_eq!(rows_in_place(db)["t"], ROWS);
        let mut session = db.blocking();
        assert_eq!(
            number(
                &mut session,
                "SELECT a::bigint FROM t ORDER BY a DESC LIMIT 1"
            ),
            6000
        );
        assert_eq!(
            number(
                &mut session,
                "SELECT count(*) FROM t WHERE a IN (1, 2, 5999, 7000)"
            ),
            3
        );
        let moved = session.execute("UPDATE t SET b = b + 1 WHERE a > 5000 AND a <= 5100", &[]);
        assert_eq!(moved.expect("updates"), 100);
    }
}
