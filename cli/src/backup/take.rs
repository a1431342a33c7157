//! `fencepost backup`: writes all tables of a running database to a directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Instant;

use clap::Args;
use futures_util::TryStreamExt;
use tokio_postgres::Client;

use super::files::{FORMAT, Manifest, Table, Writer, quoted, sync};
use super::link::{Link, refused};
use crate::failure::Failure;

/// Write all tables of a running database, as of one moment, to a directory.
#[derive(Debug, Args)]
pub struct Take {
    /// A new directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where the database is: postgresql://user@host:port/database, or host=… port=….
    #[arg(long, default_value = "postgresql://postgres@127.0.0.1:5433/postgres")]
    url: String,
}

impl Take {
    pub fn run(self) -> crate::Done {
        let began = Instant::now();
        let dir = self.dir.display().to_string();
        if self.dir.exists() {
            return Err(Failure::Broken(format!("{dir} is there already")));
        }
        let link = Link::connect(&self.url)?;
        let partial = Partial::beside(&self.dir)?;
        let manifest = link.run(async |client| take(client, &partial.0).await)?;
        manifest.write(&partial.0)?;
        sync(&partial.0)?;
        partial.becomes(&self.dir)?;
        let rows: u64 = manifest.tables.iter().map(|table| table.rows).sum();
        let bytes: u64 = manifest.tables.iter().map(|table| table.bytes).sum();
        println!(
            "{dir}: {} tables, {} indexes, {rows} rows, {bytes} bytes; in {:.1} s",
            manifest.tables.len(),
            manifest.indexes.len(),
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

/// Where a backup is while it is not whole; removed unless it [becomes](Self::becomes) one.
struct Partial(PathBuf);

impl Partial {
    fn beside(dir: &Path) -> Result<Partial, Failure> {
        let mut name = dir.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!(".partial-{}", std::process::id()));
        let path = dir.with_file_name(name);
        std::fs::create_dir(&path).map_err(Failure::io(path.display().to_string()))?;
        Ok(Partial(path))
    }

    fn becomes(self, dir: &Path) -> Result<(), Failure> {
        let renamed = std::fs::rename(&self.0, dir);
        renamed.map_err(Failure::io(dir.display().to_string()))?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Once it has become a backup it is not there any more.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn take(client: &Client, dir: &Path) -> Result<Manifest, Failure> {
    let server = client.query_one("SELECT version()", &[]).await;
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY";
    client.batch_execute(begin).await.map_err(refused)?;
    let ddl = "SELECT table_name, is_table, statement FROM pg_fencepost_ddl ORDER BY position";
    let ddl = client.query(ddl, &[]).await.map_err(refused)?;
    let mut manifest = Manifest {
        format: FORMAT,
        server: server.map_err(refused)?.get(0),
        tables: Vec::new(),
        indexes: Vec::new(),
    };
    for row in ddl {
        let (name, statement): (String, String) = (row.get(0), row.get(2));
        if !row.get::<_, bool>(1) {
            manifest.indexes.push(statement);
            continue;
        }
        let file = format!("{}.copy", manifest.tables.len());
        let mut writer = Writer::create(dir.join(&file))?;
        let copy = format!("COPY {} TO STDOUT", quoted(&name));
        let mut text = pin!(client.copy_out(&copy).await.map_err(refused)?);
        while let Some(piece) = text.try_next().await.map_err(refused)? {
            writer.append(&piece)?;
        }
        eprintln!("{name}: {} rows, {} bytes", writer.rows, writer.bytes);
        manifest.tables.push(Table {
            name,
            statement,
            file,
            rows: writer.rows,
            bytes: writer.bytes,
            crc32c: writer.crc32c,
        });
        writer.finish()?;
    }
    // Only now it is known that what was read is durable.
    client.batch_execute("COMMIT").await.map_err(refused)?;
    Ok(manifest)
}
