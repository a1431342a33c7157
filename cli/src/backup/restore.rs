//! `fencepost restore`: restores the objects of a backup in a database that has none of them.
//!
//! ```text
//! every checksum ─► no object exists ─► one statement after the other; a table with its rows
//! ```
//! A table and its rows are restored in one transaction, so a table has all its rows or does not
//! exist. An interrupted restore reports its progress. Roles are shared by all databases, so
//! existing roles stay unchanged.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Instant;

use bytes::Bytes;
use clap::Args;
use futures_util::SinkExt;
use tokio_postgres::Client;

use super::files::{Manifest, Step, Table, quoted};
use crate::admin_connection::{AdminConnection, refused};
use crate::failure::Failure;

/// The size of one write to COPY.
const PIECE: usize = 64 << 10;

/// Restore a backup.
#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Address of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(
        long,
        default_value = "postgresql://postgres@127.0.0.1:5433/postgres",
        conflicts_with = "verify"
    )]
    url: String,
    /// Check the backup only, and restore nothing.
    #[arg(long)]
    verify: bool,
}

impl Restore {
    pub fn run(self) -> crate::CommandResult {
        let began = Instant::now();
        let dir = self.dir.display();
        let manifest = Manifest::read(&self.dir)?;
        manifest.check(&self.dir)?;
        if !self.verify {
            let link = AdminConnection::connect(&self.url)?;
            link.run(async |client| restore(client, &manifest, &self.dir).await)?;
        }
        let done = if self.verify { "are whole" } else { "restored" };
        let took = began.elapsed().as_secs_f64();
        println!("{dir}: {} {done}; in {took:.1} s", manifest.summary());
        Ok(())
    }
}

async fn restore(client: &Client, manifest: &Manifest, dir: &Path) -> Result<(), Failure> {
    let mut made = manifest.steps.iter().filter(|step| is_made(&step.kind));
    let there = "SELECT kind, schema_name, name FROM pg_fencepost_ddl";
    let there = client.query(there, &[]).await.map_err(refused)?;
    let there = there.iter().map(|row| (row.get(0), row.get(1), row.get(2)));
    let there: HashSet<(String, String, String)> = there.collect();
    let is_there =
        |step: &&Step| there.contains(&(step.kind.clone(), step.schema.clone(), step.name.clone()));
    if let Some(step) = made.find(is_there) {
        let why = format!(
            "{} is there already; nothing was restored",
            step.description()
        );
        return Err(Failure::Broken(why));
    }
    let roles = "SELECT rolname::text FROM pg_catalog.pg_roles";
    let roles = client.query(roles, &[]).await.map_err(refused)?;
    let roles: HashSet<String> = roles.iter().map(|row| row.get(0)).collect();
    // Function bodies may refer to objects that are created later.
    let begin = "SET check_function_bodies = off";
    client.batch_execute(begin).await.map_err(refused)?;
    let (mut path, mut left) = (None, HashSet::new());
    for (done, step) in manifest.steps.iter().enumerate() {
        if step.kind == "role" && roles.contains(&step.name) {
            if left.insert(&step.name) {
                eprintln!(
                    "NOTICE: role \"{}\" is there already and stays as it is",
                    step.name
                );
            }
            continue;
        }
        let run = async {
            if path != Some(&step.schema) {
                look_in(client, &step.schema).await?;
                path = Some(&step.schema);
            }
            match &step.rows {
                Some(table) => restore_table(client, step, table, dir).await,
                None => client.batch_execute(&step.statement).await.map_err(refused),
            }
        };
        if let Err(failure) = run.await {
            let (description, all) = (step.description(), manifest.steps.len());
            let why = format!("{description}: {failure}; {done} of {all} statements are done");
            return Err(Failure::Broken(why));
        }
        if let Some(table) = &step.rows {
            eprintln!("{}: {} rows", step.description(), table.rows);
        }
    }
    Ok(())
}

/// Returns whether a step of this kind creates an object whose name must be free.
fn is_made(kind: &str) -> bool {
    // The existing parts of an extension stay unchanged.
    let of_something = [
        "role",
        "extension",
        "identity",
        "refresh",
        "index",
        "partition",
        "foreign key",
    ];
    let more = ["trigger", "about", "sequence's value"];
    !of_something.contains(&kind) && !more.contains(&kind)
}

/// Sets the schema for unqualified names, or `public`.
async fn look_in(client: &Client, schema: &str) -> Result<(), Failure> {
    // A schema that is created next is found once it exists.
    let schema = if schema.is_empty() { "public" } else { schema };
    let path = format!("SET search_path = {}, public", quoted(schema));
    client.batch_execute(&path).await.map_err(refused)
}

/// Restores a table with all its rows, or nothing.
async fn restore_table(
    client: &Client,
    step: &Step,
    table: &Table,
    dir: &Path,
) -> Result<(), Failure> {
    let begin = format!("BEGIN; {}", step.statement);
    client.batch_execute(&begin).await.map_err(refused)?;
    let rows = copy_in(client, step, table, dir).await?;
    if rows != table.rows {
        let why = format!("{rows} rows came, and there are {}", table.rows);
        return Err(Failure::Broken(why));
    }
    client.batch_execute("COMMIT").await.map_err(refused)
}

async fn copy_in(client: &Client, step: &Step, table: &Table, dir: &Path) -> Result<u64, Failure> {
    let mut file = table.open(dir)?;
    let copy = format!("COPY {} FROM STDIN", step.qualified());
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
