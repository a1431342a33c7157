//! `fencepost backup`: writes all objects and rows of a running database to a directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Instant;

use clap::Args;
use futures_util::TryStreamExt;
use tokio_postgres::Client;

use super::files::{FORMAT, Manifest, Step, Table, Writer, sync};
use crate::admin_connection::{AdminConnection, refused};
use crate::failure::Failure;

/// Back up a running database, as of one snapshot, to a directory.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Directory to create.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Address of the database: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl BackupArgs {
    pub fn run(self) -> crate::CommandResult {
        let began = Instant::now();
        let dir = self.dir.display().to_string();
        if self.dir.exists() {
            return Err(Failure::Broken(format!("{dir} is there already")));
        }
        let link = AdminConnection::connect(&self.url)?;
        let partial = PartialBackup::beside(&self.dir)?;
        let manifest = link.run(async |client| take(client, &partial.0).await)?;
        manifest.write(&partial.0)?;
        sync(&partial.0)?;
        partial.becomes(&self.dir)?;
        let took = began.elapsed().as_secs_f64();
        println!("{dir}: {}; in {took:.1} s", manifest.summary());
        Ok(())
    }
}

/// The directory of an incomplete backup; removed unless it [becomes](Self::becomes) a complete
/// one.
struct PartialBackup(PathBuf);

impl PartialBackup {
    fn beside(dir: &Path) -> Result<PartialBackup, Failure> {
        let mut name = dir.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!(".partial-{}", std::process::id()));
        let path = dir.with_file_name(name);
        std::fs::create_dir(&path).map_err(Failure::io(path.display().to_string()))?;
        Ok(PartialBackup(path))
    }

    fn becomes(self, dir: &Path) -> Result<(), Failure> {
        let renamed = std::fs::rename(&self.0, dir);
        renamed.map_err(Failure::io(dir.display().to_string()))?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        // After the rename to its final name this directory no longer exists.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn take(client: &Client, dir: &Path) -> Result<Manifest, Failure> {
    let server = client.query_one("SELECT version()", &[]).await;
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY";
    client.batch_execute(begin).await.map_err(refused)?;
    let ddl = "SELECT kind, schema_name, name, statement FROM pg_fencepost_ddl ORDER BY position";
    let ddl = client.query(ddl, &[]).await.map_err(refused)?;
    let steps = ddl.iter().map(|row| Step {
        kind: row.get(0),
        schema: row.get(1),
        name: row.get(2),
        statement: row.get(3),
        rows: None,
    });
    let mut steps: Vec<Step> = steps.collect();
    let tables = steps.iter_mut().filter(|step| step.kind == "table");
    for (file, step) in tables.enumerate() {
        let rows = copy_out(client, step, dir, format!("{file}.copy")).await?;
        step.rows = Some(rows);
    }
    steps.extend(reached(client).await?);
    // Only the commit confirms that the rows that were read are durable.
    client.batch_execute("COMMIT").await.map_err(refused)?;
    Ok(Manifest {
        format: FORMAT,
        server: server.map_err(refused)?.get(0),
        steps,
    })
}

/// Writes the rows of a table to a file.
async fn copy_out(
    client: &Client,
    step: &Step,
    dir: &Path,
    file: String,
) -> Result<Table, Failure> {
    let mut writer = Writer::create(dir.join(&file))?;
    let copy = format!("COPY {} TO STDOUT", step.qualified());
    let mut text = pin!(client.copy_out(&copy).await.map_err(refused)?);
    while let Some(piece) = text.try_next().await.map_err(refused)? {
        writer.append(&piece)?;
    }
    eprintln!(
        "{}: {} rows, {} bytes",
        step.description(),
        writer.rows,
        writer.bytes
    );
    let table = Table {
        file,
        rows: writer.rows,
        bytes: writer.bytes,
        crc32c: writer.crc32c,
    };
    writer.finish()?;
    Ok(table)
}

/// Returns the statements that set sequences to their values.
async fn reached(client: &Client) -> Result<Vec<Step>, Failure> {
    let sequences = "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'S' AND c.relpersistence = 'p' ORDER BY c.oid";
    let sequences = client.query(sequences, &[]).await.map_err(refused)?;
    let mut steps = Vec::new();
    for row in sequences {
        let mut step = Step {
            kind: "sequence's value".to_owned(),
            schema: row.get(0),
            name: row.get(1),
            statement: String::new(),
            rows: None,
        };
        let name = step.qualified();
        let state = format!("SELECT last_value, is_called FROM {name}");
        let state = client.query_one(&state, &[]).await.map_err(refused)?;
        let (last, called): (i64, bool) = (state.get(0), state.get(1));
        let name = name.replace('\'', "''");
        step.statement = format!("SELECT pg_catalog.setval('{name}', {last}, {called})");
        steps.push(step);
    }
    Ok(steps)
}
