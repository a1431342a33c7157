//! An embedded bank: threads move money, the total holds.
//!
//! `cargo run -p fencepost --example bank`

use std::thread;

use fencepost::{Database, Error, params};

const ACCOUNTS: i32 = 100;
const THREADS: i32 = 4;
const TRANSFERS: i32 = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Database::in_memory()?;
    let mut session = db.blocking();
    session.execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)",
        &[],
    )?;
    session.execute(
        "INSERT INTO accounts SELECT g, 1000 FROM generate_series(0, $1 - 1) AS g",
        params![ACCOUNTS],
    )?;

    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let db = db.clone();
                scope.spawn(move || work(&db, worker))
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;

    let row = session.query_one("SELECT sum(balance)::bigint AS total FROM accounts", &[])?;
    let total: i64 = row.get("total")?;
    println!("{} transfers, total {total}", THREADS * TRANSFERS);
    assert_eq!(total, i64::from(ACCOUNTS) * 1000);
    Ok(())
}

/// Moves money between accounts. A transaction that meets a conflict is run again by the library.
fn work(db: &Database, worker: i32) -> Result<(), Error> {
    let mut session = db.blocking();
    let take = session.prepare("UPDATE accounts SET balance = balance - $2 WHERE id = $1")?;
    let give = session.prepare("UPDATE accounts SET balance = balance + $2 WHERE id = $1")?;
    for i in 0..TRANSFERS {
        let from = (worker * 31 + i * 7) % ACCOUNTS;
        let to = (worker * 17 + i * 13 + 1) % ACCOUNTS;
        session.transaction(|tx| {
            tx.execute(&take, params![from, 5])?;
            tx.execute(&give, params![to, 5])
        })?;
    }
    Ok(())
}
