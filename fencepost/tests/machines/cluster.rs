//! Three machines that form one database.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Cluster, Database, OpenError, SqlState, params};
use parking_lot::Mutex;
use pollster::FutureExt;

use crate::between::{Interconnect, SECRET, addresses, alike, shared};

fn count(db: &Database, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    let row = db.blocking().query_one(&count, &[]).expect("counts");
    row.get(0).expect("a number")
}

#[test]
fn changes_of_one_machine_are_visible_on_all() {
    all_see(&Interconnect::memory());
}

#[test]
fn changes_of_one_machine_are_visible_on_all_over_network() {
    all_see(&Interconnect::network(1));
}

const TABLES: &str = "CREATE TABLE t (a int PRIMARY KEY, b text); \
                      CREATE TABLE h (k int PRIMARY KEY, v int) WITH (index = hash)";

fn all_see(between: &Interconnect) {
    let machines = between.machines(3);
    let mut sessions: Vec<_> = machines.iter().map(Database::blocking).collect();
    sessions[1].batch(TABLES).expect("tables");
    for number in 0..300 {
        let session = &mut sessions[number as usize % 3];
        let key = params![number, format!("row {number}")];
        session
            .execute("INSERT INTO t VALUES ($1, $2)", key)
            .expect("inserts");
        session
            .execute("INSERT INTO h VALUES ($1, $1)", params![number])
            .expect("inserts");
    }
    for (at, session) in sessions.iter_mut().enumerate() {
        for number in (0..300).step_by(7) {
            let row = session
                .query_one("SELECT b FROM t WHERE a = $1", params![number])
                .expect("there");
            assert_eq!(row.get::<String>(0).expect("text"), format!("row {number}"));
        }
        let changed = session
            .execute("UPDATE h SET v = v + 1 WHERE k % 3 = 0", &[])
            .expect("updates");
        assert_eq!(changed, 100, "machine {at}");
    }
    for (end, status) in [("COMMIT", "committed"), ("ROLLBACK", "aborted")] {
        sessions[1]
            .batch("BEGIN; UPDATE h SET v = v")
            .expect("a block");
        let row = sessions[1].query_one("SELECT txid_current()", &[]);
        let number: i64 = row.expect("a row").get(0).expect("a number");
        sessions[1].batch(end).expect("its end");
        for session in &mut sessions {
            let row = session.query_one("SELECT txid_status($1)", params![number]);
            let found: String = row.expect("a row").get(0).expect("a text");
            assert_eq!(found, status);
        }
    }
    let total = sessions[0].query_one("SELECT sum(v) FROM h", &[]);
    let total: i64 = total.expect("adds up").get(0).expect("a number");
    assert_eq!(total, 299 * 150 + 300);
    let taken = sessions[2].execute("INSERT INTO t VALUES (5, 'again')", &[]);
    let taken = taken.expect_err("is there").code();
    assert_eq!(taken, SqlState::UNIQUE_VIOLATION);
    sessions[0]
        .batch("ALTER ROLE postgres PASSWORD 'x'; DROP TABLE h")
        .expect("ddl");
    assert!(sessions[1].query("SELECT 1 FROM h", &[]).is_err());
    sessions[2]
        .query("SELECT * FROM t WHERE a = 1", &[])
        .expect("planned here");
    sessions[0]
        .batch("DROP TABLE t; CREATE TABLE t (a int PRIMARY KEY)")
        .expect("ddl");
    let stale = sessions[2].query("SELECT * FROM t WHERE a = 1", &[]);
    // The old plan may have been tried; parsing the text again gives a new plan.
    let stale = stale.err().map(|error| error.code());
    assert!(stale.is_none_or(|code| code == SqlState::FEATURE_NOT_SUPPORTED));
    sessions[2]
        .query("SELECT * FROM t WHERE a = 1", &[])
        .expect("planned anew");
    assert!(
        machines[2]
            .role("postgres")
            .expect("is there")
            .verifier
            .is_some()
    );
    check_system_tables_agree(&mut sessions);
    drop(sessions);
    alike(&machines);
}

#[test]
fn copies_of_a_region_are_in_different_domains() {
    let between = Interconnect::memory();
    let machines = between.machines_with(2, |_, cluster| {
        let cluster = cluster.domains(["x", "x", "y"]);
        Database::options().region_size(16 << 20).cluster(cluster)
    });
    let mut session = machines[1].blocking();
    let table = "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY HASH (a) WITH (partitions = 3)";
    session.batch(table).expect("a table");
    let mut text = |sql: &str| {
        let row = session.query_one(sql, &[]).expect("a row");
        row.get::<String>(0).expect("a text")
    };
    for (machine, backup) in [(1, "3"), (2, "3"), (3, "1")] {
        let backups =
            format!("SELECT backups FROM pg_fencepost_regions WHERE primary_machine = {machine}");
        assert_eq!(text(&backups), backup, "m{machine}");
    }
    let domains = "SELECT domains FROM pg_fencepost_configurations";
    assert_eq!(text(domains), "x,x,y");
}

#[test]
fn where_a_backup_has_no_memory_statements_say_so_and_leave_nothing() {
    let between = Interconnect::memory();
    let machines = between.machines_with(3, |machine, cluster| {
        let limit = if machine == 2 { 6 << 20 } else { 1 << 30 };
        let options = Database::options().region_size(16 << 20);
        options.memory_limit(limit).cluster(cluster)
    });
    let mut sessions: Vec<_> = machines.iter().map(Database::blocking).collect();
    sessions[0]
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
        .expect("a table");
    let add = |session: &mut BlockingSession, after: i32, rows: i32| {
        let rows = format!(
            "INSERT INTO t SELECT {after} + g, repeat('x', 4000) FROM generate_series(1, {rows}) g"
        );
        session.batch(&rows).map_err(|error| error.code())
    };
    let mut rows = 100;
    add(&mut sessions[2], 0, rows).expect("memory");
    // The second machine runs out of memory first, to the last row; then the first one, its backup.
    for (machine, each) in [(1, 100), (1, 1), (0, 100)] {
        let refused = loop {
            match add(&mut sessions[machine], rows, each) {
                Ok(()) => rows += each,
                Err(code) => break code,
            }
            assert!(rows < 10_000, "there is no limit");
        };
        assert_eq!(refused, SqlState::OUT_OF_MEMORY);
    }
    let used = machines[0].machine().account().used();
    assert!(used < 64 << 20, "it is for want of a region: {used}");
    for session in &mut sessions {
        let total = session.query_one("SELECT sum(length(b))::bigint FROM t", &[]);
        let total: i64 = total.expect("reads go on").get(0).expect("a number");
        assert_eq!(total, i64::from(rows) * 4000);
    }
    drop(sessions);
    alike(&machines);
    for db in &machines {
        assert_eq!(db.machine().inventory().locked, []);
    }
    // The third machine has space in its own region.
    let more = add(&mut machines[2].blocking(), rows, 100);
    assert_eq!(more, Ok(()));
}

/// Checks that each machine shows the same machines and regions.
fn check_system_tables_agree(sessions: &mut [BlockingSession]) {
    for (at, session) in sessions.iter_mut().enumerate() {
        let mut text = |sql: &str| {
            let row = session.query_one(sql, &[]).expect("a row");
            row.get::<String>(0).expect("a text")
        };
        let configuration =
            "SELECT configuration || ' ' || machines || ' ' || manager || ' ' || replicas || ' ' \
             || domains
            FROM pg_fencepost_configurations";
        assert_eq!(text(configuration), "1 1,2,3 1 3 m1,m2,m3");
        let this = "SELECT machine::text FROM pg_catalog.pg_fencepost_machines WHERE is_this";
        assert_eq!(text(this), (at + 1).to_string());
        let there = "SELECT count(*)::text FROM pg_fencepost_machines m WHERE m.is_reachable";
        assert_eq!(text(there), "3");
        // All machines of this host have exact clocks, but report that a little later.
        let exact =
            "SELECT count(*)::text FROM pg_fencepost_machines WHERE clock_uncertainty_us = 0";
        await_text(&mut text, exact, "3");
        let regions = "SELECT count(*)::text FROM pg_fencepost_regions r
            JOIN pg_fencepost_machines m ON m.machine = r.primary_machine";
        await_text(&mut text, regions, "3");
        let second = "SELECT backups FROM pg_fencepost_regions WHERE primary_machine = 2";
        assert_eq!(text(second), "3,1");
        let first = "SELECT backups FROM pg_fencepost_regions WHERE region = 0";
        assert_eq!(text(first), "2,3");
        let counted_here = "SELECT count(*)::text FROM pg_fencepost_machines WHERE regions = 1";
        assert_eq!(text(counted_here), "3");
        // Only a machine itself shows its memory use.
        let full = "SELECT string_agg(machine || ' ' || (memory_used > 0) || ' ' || (memory_limit \
                    IS NULL), ',')
            FROM pg_fencepost_machines WHERE memory_used IS NOT NULL";
        assert_eq!(text(full), format!("{} true true", at + 1));
        assert!(
            session
                .execute("DELETE FROM pg_fencepost_machines", &[])
                .is_err()
        );
    }
}

/// Waits until a query returns this text.
fn await_text(text: &mut impl FnMut(&str) -> String, sql: &str, expected: &str) {
    for _ in 0..5000 {
        if text(sql) == expected {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{sql} answers {}", text(sql));
}

#[test]
fn transfers_on_all_machines_at_once_keep_the_total() {
    transfer(&Interconnect::memory());
}

#[test]
fn transfers_on_all_machines_of_a_network_keep_the_total() {
    transfer(&Interconnect::network(2));
}

fn transfer(between: &Interconnect) {
    const ACCOUNTS: i32 = 30;
    let machines = between.machines(2);
    machines[0]
        .blocking()
        .batch(
            "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);
             INSERT INTO accounts SELECT g, 100 FROM generate_series(0, 29) g",
        )
        .expect("accounts");
    thread::scope(|scope| {
        for (index, db) in machines.iter().enumerate() {
            scope.spawn(move || {
                let mut session = db.blocking();
                for step in 0..150 {
                    let (from, to) = (
                        (step * 7 + index as i32) % ACCOUNTS,
                        (step * 11 + 3) % ACCOUNTS,
                    );
                    let moved = session.transaction(|tx| {
                        let take = "UPDATE accounts SET balance = balance - 1 WHERE id = $1";
                        let give = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";
                        tx.execute(take, params![from])?;
                        tx.execute(give, params![to])?;
                        Ok(())
                    });
                    moved.expect("in the end");
                    if step % 10 == 0 {
                        let total =
                            session.query_one("SELECT sum(balance)::bigint FROM accounts", &[]);
                        let total = total.expect("adds up").get::<i64>(0);
                        assert_eq!(total.expect("a number"), 3000);
                    }
                }
            });
        }
    });
    assert!(
        machines
            .iter()
            .all(|db| count(db, "accounts") == i64::from(ACCOUNTS))
    );
}

#[test]
fn sessions_of_all_machines_stand_in_line_for_a_row() {
    stand_in_line(&Interconnect::memory());
}

#[test]
fn sessions_of_all_machines_of_a_network_stand_in_line_for_a_row() {
    stand_in_line(&Interconnect::network(3));
}

fn stand_in_line(between: &Interconnect) {
    const EACH: i64 = 60;
    let machines = between.machines(3);
    machines[0]
        .blocking()
        .batch("CREATE TABLE c (id int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0), (2, 0)")
        .expect("counters");
    thread::scope(|scope| {
        for (index, db) in machines.iter().enumerate() {
            scope.spawn(move || {
                let mut session = db.blocking();
                for step in 0..EACH {
                    // The rows are usually updated in the same order, and sometimes in the reverse
                    // order, so that deadlocks occur.
                    let rows = if (step + index as i64) % 9 == 0 {
                        [2, 1]
                    } else {
                        [1, 2]
                    };
                    let counted = session.transaction(|tx| {
                        for row in rows {
                            tx.execute("UPDATE c SET n = n + 1 WHERE id = $1", params![row])?;
                        }
                        Ok(())
                    });
                    counted.expect("in the end");
                }
            });
        }
    });
    let mut session = machines[1].blocking();
    for row in session.query("SELECT n FROM c", &[]).expect("rows") {
        assert_eq!(row.get::<i32>(0).expect("a number"), 3 * EACH as i32);
    }
    let elsewhere = machines[1].machine().counters().totals();
    assert!(
        elsewhere.intent_waits >= EACH as u64,
        "it asked the row's machine"
    );
}

/// Allows much time for the suspicion, because it depends on the system.
#[test]
fn ended_machine_is_suspected_by_lease_expiry() {
    for between in [Interconnect::memory(), Interconnect::network(5)] {
        let mut machines = between.machines_with(2, |_, cluster| {
            let cluster = cluster.lease(Duration::from_millis(100));
            Database::options().region_size(16 << 20).cluster(cluster)
        });
        let until = |what: &str, so: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !so() {
                assert!(began.elapsed() < Duration::from_secs(120), "{what}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for database in &machines {
            until("a lease", &|| database.machine().holds_lease());
        }
        let last = machines.pop().expect("three machines");
        let machine = Arc::clone(last.machine());
        last.close().expect("ends");
        assert!(!machine.holds_lease());
        let suspected = |database: &Database| {
            let counts = database.machine().lease_counts();
            counts.expect("it has leases").suspected
        };
        // After the machine is replaced, it is no longer suspected.
        let replaced = || machines[0].machine().members().configuration > 1;
        until("suspicion", &|| {
            suspected(&machines[0]).contains(&3) || replaced()
        });
        assert!(!suspected(&machines[1]).contains(&3), "the CM alone");
    }
}

#[test]
fn invalid_cluster_options_are_refused() {
    let shared = shared();
    let join = |machine, machines, replicas| {
        Database::join(Cluster::of_host(shared.path(), machine, machines).replicas(replicas))
    };
    assert!(matches!(
        join(4, 3, 1),
        Err(OpenError::NoSuchMachine { machine: 4, .. })
    ));
    assert!(matches!(
        join(1, 2, 3),
        Err(OpenError::TooFewMachines {
            machines: 2,
            replicas: 3
        })
    ));
    let racks = |domains: &[&str]| {
        let cluster = Cluster::of_host(shared.path(), 1, 3).replicas(2);
        Database::join(cluster.domains(domains.iter().copied()))
    };
    assert!(matches!(
        racks(&["a", "a", "a"]),
        Err(OpenError::TooFewDomains {
            domains: 1,
            replicas: 2
        })
    ));
    assert!(matches!(
        racks(&["a", "b"]),
        Err(OpenError::Configuration(_))
    ));
    for ms in [4, 3_600_001] {
        let cluster = Cluster::of_host(shared.path(), 1, 3).lease(Duration::from_millis(ms));
        assert!(matches!(
            Database::join(cluster),
            Err(OpenError::Configuration(_))
        ));
    }
    let alone = join(1, 1, 1).expect("one machine is enough for one replica");
    let again = join(1, 1, 1)
        .err()
        .expect("it is there already")
        .to_string();
    assert!(again.contains("another process is this machine"), "{again}");
    drop(alone);
    join(1, 1, 1).expect("its place is free again");
}

#[test]
fn machine_outside_network_learns_the_reason() {
    let addresses = addresses(4, 3);
    let join = |machine, secret: &'static [u8], name| {
        let cluster = Cluster::of_network(addresses.clone(), machine, secret);
        let options = Database::options().region_size(16 << 20);
        options.cluster(cluster.name(name)).open()
    };
    assert!(matches!(
        join(1, b"too short", "one"),
        Err(OpenError::SecretTooShort(_))
    ));
    let taken = TcpListener::bind(&addresses[0]).expect("free so far");
    assert!(matches!(
        join(1, SECRET, "one"),
        Err(OpenError::Listen { .. })
    ));
    drop(taken);
    thread::scope(|scope| {
        let join = &join;
        let good = [1, 2].map(|machine| scope.spawn(move || join(machine, SECRET, "one")));
        for (secret, name, why) in [
            (
                &b"known to another cluster"[..],
                "one",
                "the secret is another one",
            ),
            (SECRET, "another", "belongs to another cluster"),
        ] {
            let refused = join(3, secret, name).err().expect("is refused");
            assert!(matches!(refused, OpenError::Refused(_)), "{refused}");
            assert!(refused.to_string().contains(why), "{refused}");
        }
        // The other machines still wait for the right one.
        let third = join(3, SECRET, "one").expect("opens");
        let good = good.map(|machine| machine.join().expect("no panic").expect("opens"));
        drop((third, good));
    });
}

#[test]
fn cancel_reaches_machine_of_session() {
    type ReceivedCancels = Arc<Mutex<Vec<(i32, i32)>>>;
    let between = Interconnect::memory();
    let machines = between.machines(1);
    let heard: [ReceivedCancels; 3] = Default::default();
    let hook = |machine: usize| {
        let heard = Arc::clone(&heard[machine]);
        machines[machine].on_cancel(move |pid, secret| heard.lock().push((pid, secret)))
    };
    let (first, second, again) = (hook(0), hook(1), hook(1));
    let pids = [0, 1, 2].map(|machine: usize| machines[machine].next_session_number());
    for machine in &machines {
        for pid in pids {
            machine.cancel(pid, -5).block_on();
        }
        // This machine does not exist.
        machine.cancel(77 << 20, 1).block_on();
    }
    assert_eq!(*heard[0].lock(), vec![(pids[0], -5); 3]);
    assert_eq!(*heard[1].lock(), vec![(pids[1], -5); 6], "each of two");
    drop((first, again));
    for pid in pids {
        machines[2].cancel(pid, 6).block_on();
    }
    assert_eq!(heard.map(|heard| heard.lock().len()), [3, 7, 0]);
    drop(second);
}
