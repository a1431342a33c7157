//! The files of a backup, and the checks that they are intact.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The format version of backups.
pub const FORMAT: u32 = 2;
const MANIFEST: &str = "manifest";
/// The length of the checksum line before the manifest.
const CHECKSUM_LINE: usize = 9;
const BUFFER: usize = 1 << 20;

/// The manifest of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The format version, [`FORMAT`].
    pub format: u32,
    /// The version text of the server.
    pub server: String,
    /// The steps that restore all objects, in this order.
    pub steps: Vec<Step>,
}

/// A statement that creates an object, and the rows of a table.
#[derive(Debug, Serialize, Deserialize)]
pub struct Step {
    /// The kind of the object, as the server names it.
    pub kind: String,
    /// The schema of the object.
    pub schema: String,
    /// The name of the object that the statement creates or changes.
    pub name: String,
    /// The text of the statement.
    pub statement: String,
    /// The rows, if the object is a table.
    pub rows: Option<Table>,
}

/// The description of a table's rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Table {
    /// The name of the file.
    pub file: String,
    /// The number of rows.
    pub rows: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The CRC-32C of the file.
    pub crc32c: u32,
}

impl Step {
    /// Returns the qualified name of the object, for statements.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// Returns the kind and name of the object, for messages.
    pub fn description(&self) -> String {
        match (self.schema.as_str(), self.kind.as_str()) {
            ("" | "public", _) | (_, "schema") => format!("{} \"{}\"", self.kind, self.name),
            (schema, kind) => format!("{kind} \"{schema}.{}\"", self.name),
        }
    }
}

/// Quotes a name for a statement.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A file writer that counts rows and bytes, and computes the checksum.
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    pub rows: u64,
    pub bytes: u64,
    pub crc32c: u32,
}

impl Writer {
    /// Creates a new file.
    pub fn create(path: PathBuf) -> Result<Writer, Failure> {
        let file = File::create_new(&path).map_err(Failure::io(path.display().to_string()))?;
        Ok(Writer {
            file: BufWriter::with_capacity(BUFFER, file),
            path,
            rows: 0,
            bytes: 0,
            crc32c: 0,
        })
    }

    /// Appends output of COPY.
    pub fn append(&mut self, text: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(text);
        written.map_err(Failure::io(self.path.display().to_string()))?;
        // Line ends within values are escaped, so each newline ends a row.
        self.rows += text.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.bytes += text.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, text);
        Ok(())
    }

    /// Writes the rest and syncs the file.
    pub fn finish(mut self) -> Result<(), Failure> {
        let synced = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(Failure::io(self.path.display().to_string()))
    }
}

impl Manifest {
    /// Returns the descriptions of all tables' rows.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.steps.iter().filter_map(|step| step.rows.as_ref())
    }

    /// Returns the totals of the backup, for messages.
    pub fn summary(&self) -> String {
        let rows: u64 = self.tables().map(|table| table.rows).sum();
        let bytes: u64 = self.tables().map(|table| table.bytes).sum();
        let (tables, steps) = (self.tables().count(), self.steps.len());
        format!("{tables} tables, {steps} statements, {rows} rows, {bytes} bytes")
    }

    /// Writes the manifest to `dir`, and syncs it.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let json = serde_json::to_vec_pretty(self).map_err(|error| broken(dir, error))?;
        let mut file = Writer::create(dir.join(MANIFEST))?;
        file.append(format!("{:08x}\n", crc32c::crc32c(&json)).as_bytes())?;
        file.append(&json)?;
        file.finish()
    }

    /// Reads the manifest of the backup in `dir`.
    ///
    /// # Errors
    /// [`Failure::Broken`] if it is damaged, or of a version that this program does not know.
    pub fn read(dir: &Path) -> Result<Manifest, Failure> {
        let path = dir.join(MANIFEST);
        let bytes = std::fs::read(&path).map_err(Failure::io(path.display().to_string()))?;
        let (line, json) = bytes.split_at(CHECKSUM_LINE.min(bytes.len()));
        let said = std::str::from_utf8(line).ok();
        let said = said.and_then(|line| u32::from_str_radix(line.trim_end(), 16).ok());
        if said != Some(crc32c::crc32c(json)) {
            return Err(broken(&path, "the checksum is another"));
        }
        let manifest: Manifest =
            serde_json::from_slice(json).map_err(|error| broken(&path, error))?;
        match manifest.format {
            FORMAT => Ok(manifest),
            other => Err(broken(&path, format!("of version {other}, not {FORMAT}"))),
        }
    }

    /// Reads all files of the backup in `dir`, and compares them with the manifest
    /// (BACKUP-CHECKED).
    ///
    /// # Errors
    /// [`Failure::Broken`] with the first damaged file.
    pub fn check(&self, dir: &Path) -> Result<(), Failure> {
        self.tables().try_for_each(|table| table.check(dir))
    }
}

impl Table {
    /// Opens the table's file in `dir`.
    pub fn open(&self, dir: &Path) -> Result<BufReader<File>, Failure> {
        // A name that leads out of the directory is not from a backup.
        let path = dir.join(&self.file);
        if Path::new(&self.file).file_name() != Some(self.file.as_ref()) {
            return Err(broken(&path, "not a file of a backup"));
        }
        let file = File::open(&path).map_err(Failure::io(path.display().to_string()))?;
        Ok(BufReader::with_capacity(BUFFER, file))
    }

    fn check(&self, dir: &Path) -> Result<(), Failure> {
        let path = dir.join(&self.file);
        let mut file = self.open(dir)?;
        let mut chunk = vec![0; BUFFER];
        let (mut crc32c, mut bytes) = (0, 0);
        loop {
            let read = file.read(&mut chunk);
            let count = read.map_err(Failure::io(path.display().to_string()))?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            crc32c = crc32c::crc32c_append(crc32c, &chunk[..count]);
        }
        if bytes != self.bytes {
            let sizes = format!("has {bytes} bytes and should have {}", self.bytes);
            return Err(broken(&path, sizes));
        }
        match crc32c == self.crc32c {
            true => Ok(()),
            false => Err(broken(&path, "the checksum is another")),
        }
    }
}

/// Returns the failure for a damaged file.
fn broken(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Broken(format!("{}: {why}", path.display()))
}

/// Syncs a directory.
pub fn sync(dir: &Path) -> Result<(), Failure> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(Failure::io(dir.display().to_string()))
}
