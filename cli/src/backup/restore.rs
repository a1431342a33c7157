//! `fencepost restore`: makes the tables of a backup again, in a database that has none of their names.
//!
//! ```text
//! every checksum ─► no table of these names ─► for each table: BEGIN, CREATE TABLE, COPY, COMMIT ─► indexes
//! ```
//! A table is there with all its rows or not at all. What ends in between says which tables are there.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Instant;

use bytes::Bytes;
use clap::Args;
use futures_util::SinkExt;
use tokio_postgres::Client;

use super::files::{Manifest, Table};
use super::link::{Link, refused};
use crate::failure::Failure;

/// Bytes that are sent at once.
const PIECE: usize = 64 << 10;

/// Make the tables of a backup again.
#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where the database is: postgresql://user@host:port/database, or host=… port=….
    #[arg(
        long,
        default_value = "postgresql://postgres@127.0.0.1:5433/postgres",
        conflicts_with = "verify"
    )]
    url: String,
    /// Look whether the backup is whole, and restore nothing.
    #[arg(long)]
    verify: bool,
}

impl Restore {
    pub fn run(self) -> crate::Done {
        let began = Instant::now();
        let dir = self.dir.display();
        let manifest = Manifest::read(&self.dir)?;
        manifest.check(&self.dir)?;
        if !self.verify {
            let link = Link::connect(&self.url)?;
            link.run(async |client| restore(client, &manifest, &self.dir).await)?;
        }
        let rows: u64 = manifest.tables.iter().map(|table| table.rows).sum();
        println!(
            "{dir}: {} tables, {} indexes, {rows} rows {}; in {:.1} s",
            manifest.tables.len(),
            manifest.indexes.len(),
            if self.verify { "are whole" } else { "restored" },
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

async fn restore(client: &Client, manifest: &Manifest, dir: &Path) -> Result<(), Failure> {
    let there = "SELECT table_name FROM pg_fencepost_ddl WHERE is_table";
    let there = client.query(there, &[]).await.map_err(refused)?;
    let there: Vec<String> = there.iter().map(|row| row.get(0)).collect();
    let mut tables = manifest.tables.iter();
    if let Some(table) = tables.find(|table| there.contains(&table.name)) {
        let name = &table.name;
        let why = format!("table \"{name}\" is there already; nothing was restored");
        return Err(Failure::Broken(why));
    }
    for (done, table) in manifest.tables.iter().enumerate() {
        if let Err(failure) = restore_table(client, table, dir).await {
            let name = &table.name;
            let why = format!("table \"{name}\": {failure}; {done} tables before it are restored");
            return Err(Failure::Broken(why));
        }
        eprintln!("{}: {} rows", table.name, table.rows);
    }
    for index in &manifest.indexes {
        let made = client.batch_execute(index).await.map_err(refused);
        made.map_err(|failure| {
            Failure::Broken(format!(
                "all rows are restored, but this failed: {index}: {failure}"
            ))
        })?;
    }
    Ok(())
}

/// Makes a table with all its rows, or nothing.
async fn restore_table(client: &Client, table: &Table, dir: &Path) -> Result<(), Failure> {
    let begin = format!("BEGIN; {}", table.statement);
    client.batch_execute(&begin).await.map_err(refused)?;
    let rows = copy_in(client, table, dir).await?;
    if rows != table.rows {
        let why = format!("{rows} rows came, and there are {}", table.rows);
        return Err(Failure::Broken(why));
    }
    client.batch_execute("COMMIT").await.map_err(refused)
}

async fn copy_in(client: &Client, table: &Table, dir: &Path) -> Result<u64, Failure> {
    let mut file = table.open(dir)?;
    let copy = format!("COPY {} FROM STDIN", table.quoted());
    let mut sink = pin!(client.copy_in(&copy).await.map_err(refused)?);
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        if read.map_err(Failure::io(table.file.clone()))? == 0 {
            return sink.finish().await.map_err(refused);
        }
        sink.send(Bytes::from(piece)).await.map_err(refused)?;
    }
}
