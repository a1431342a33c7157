//! Prepared statements and transactions from async code, on a database that outlives the process.
//!
//! `cargo run -p fencepost --example prepared -- DIRECTORY`

use fencepost::{Database, Error, params};
use pollster::FutureExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = match std::env::args().nth(1) {
        Some(directory) => Database::open(directory)?,
        None => Database::in_memory()?,
    };
    // Any executor will do; this one just blocks the thread.
    visit(&db).block_on()?;
    db.close()?;
    Ok(())
}

async fn visit(db: &Database) -> Result<(), Error> {
    let mut session = db.session();
    session
        .batch("CREATE TABLE IF NOT EXISTS visits (page text PRIMARY KEY, count int NOT NULL)")
        .await?;
    let insert = session.prepare("INSERT INTO visits VALUES ($1, 0) ON CONFLICT DO NOTHING")?;
    let update =
        session.prepare("UPDATE visits SET count = count + 1 WHERE page = $1 RETURNING count")?;

    for page in ["index", "about", "index"] {
        let (insert, update) = (insert.clone(), update.clone());
        let count: i32 = session
            .transaction(move |tx| {
                let (insert, update) = (insert.clone(), update.clone());
                Box::pin(async move {
                    tx.execute(&insert, params![page]).await?;
                    tx.query_one(&update, params![page]).await?.get("count")
                })
            })
            .await?;
        println!("{page}: visit {count}");
    }

    for row in session
        .query("SELECT * FROM visits ORDER BY count DESC", &[])
        .await?
    {
        println!(
            "{} {}",
            row.get::<String>("page")?,
            row.get::<i32>("count")?
        );
    }
    Ok(())
}
