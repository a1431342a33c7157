//! A machine that fails after it has dropped a table leaves the memory of the table to the others.

use std::time::Duration;

use fencepost::Database;
use fencepost_planner::pending_objects;
use fencepost_sql::catalog::Catalog;
use fencepost_txn::Mode;
use pollster::FutureExt;

use crate::between::{Interconnect, MACHINES, number, until};

/// Long enough for a host that is busy with other tests.
const LEASE: Duration = Duration::from_secs(2);
const ROWS: usize = 5000;

/// Returns the number of dropped objects that are not free; `None` if they cannot be read now.
fn pending(db: &Database) -> Option<usize> {
    let mut tx = db.machine().coordinator().begin(Mode::ReadOnly);
    let objects = async {
        let catalog = Catalog::open(&mut tx, db.machine().root()).await.ok()?;
        pending_objects(&mut tx, catalog.reclaim_list()).await.ok()
    };
    Some(objects.block_on()?.len())
}

fn survivors_free(between: &Interconnect) {
    let mut machines = between.machines_with(2, |_, cluster| {
        let options = Database::options().region_size(16 << 20);
        options.cluster(cluster.lease(LEASE))
    });
    let last = machines.pop().expect("three machines");
    let mut session = last.blocking();
    let table = format!(
        "CREATE TABLE t (a int PRIMARY KEY, b int);
         CREATE INDEX t_b ON t (b);
         INSERT INTO t SELECT g, g % 10 FROM generate_series(1, {ROWS}) g"
    );
    session.batch(&table).expect("a table");
    session
        .batch("CREATE TABLE other (a int)")
        .expect("a table");
    let mut reader = machines[0].blocking();
    // The reader keeps the table until the machine has failed.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other";
    reader.batch(begin).expect("a reader");
    session.batch("DROP TABLE t").expect("a drop");
    assert!(pending(&machines[0]).is_some_and(|objects| objects > ROWS));
    drop(session);
    drop(last);
    let evicted = |db: &Database| {
        let members = db.machine().members().machines;
        members.iter().all(|member| member.id != MACHINES)
    };
    until(|| machines.iter().all(evicted));
    drop(reader);
    until(|| pending(&machines[1]) == Some(0));
    let mut session = machines[1].blocking();
    session.batch(&table).expect("the table again");
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), ROWS as i64);
}

#[test]
fn survivors_free_table_that_failed_machine_dropped() {
    survivors_free(&Interconnect::network(63));
}
