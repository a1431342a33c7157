//! The files of a backup: how they are written, and how it is seen that they are what was written.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The version of the form that backups have.
pub const FORMAT: u32 = 2;
const MANIFEST: &str = "manifest";
/// Characters of the checksum before the manifest, and the end of its line.
const CHECKSUM_LINE: usize = 9;
const BUFFER: usize = 1 << 20;

/// What a backup says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// What the server said that it is.
    pub server: String,
    /// What makes everything again, in this order.
    pub steps: Vec<Step>,
}

/// A statement that makes something, and the rows that come then.
#[derive(Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it makes, in the server's words.
    pub kind: String,
    /// The schema that its names are of.
    pub schema: String,
    /// The name of what it makes, or makes something of.
    pub name: String,
    /// Its text.
    pub statement: String,
    /// The rows of a table.
    pub rows: Option<Table>,
}

/// What it says of the rows of a table.
#[derive(Debug, Serialize, Deserialize)]
pub struct Table {
    /// The file.
    pub file: String,
    /// How many there are.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C of the file.
    pub crc32c: u32,
}

impl Step {
    /// What it is about in a statement.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// What it is about in a message.
    pub fn shown(&self) -> String {
        match (self.schema.as_str(), self.kind.as_str()) {
            ("" | "public", _) | (_, "schema") => format!("{} \"{}\"", self.kind, self.name),
            (schema, kind) => format!("{kind} \"{schema}.{}\"", self.name),
        }
    }
}

/// A name in a statement.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Writes a file and keeps count of what is in it.
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    pub rows: u64,
    pub bytes: u64,
    pub crc32c: u32,
}

impl Writer {
    /// A new file.
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

    /// Appends what COPY has written.
    pub fn append(&mut self, text: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(text);
        written.map_err(Failure::io(self.path.display().to_string()))?;
        // A line end within a value is written otherwise.
        self.rows += text.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.bytes += text.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, text);
        Ok(())
    }

    /// Returns once it is on the disk.
    pub fn finish(mut self) -> Result<(), Failure> {
        let synced = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(Failure::io(self.path.display().to_string()))
    }
}

impl Manifest {
    /// What it says of the rows of tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.steps.iter().filter_map(|step| step.rows.as_ref())
    }

    /// How much there is of everything, for whoever is told.
    pub fn summary(&self) -> String {
        let rows: u64 = self.tables().map(|table| table.rows).sum();
        let bytes: u64 = self.tables().map(|table| table.bytes).sum();
        let (tables, steps) = (self.tables().count(), self.steps.len());
        format!("{tables} tables, {steps} statements, {rows} rows, {bytes} bytes")
    }

    /// Writes it to `dir`, and returns once it is on the disk.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let json = serde_json::to_vec_pretty(self).map_err(|error| broken(dir, error))?;
        let mut file = Writer::create(dir.join(MANIFEST))?;
        file.append(format!("{:08x}\n", crc32c::crc32c(&json)).as_bytes())?;
        file.append(&json)?;
        file.finish()
    }

    /// Reads that of the backup in `dir`, which is whole.
    ///
    /// # Errors
    /// [`Failure::Broken`] where it is not what was written, or of a version that this program does not know.
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

    /// Reads all files of the backup in `dir` and compares them with what is said here (BACKUP-CHECKED).
    ///
    /// # Errors
    /// [`Failure::Broken`] with the first file that is not what was written.
    pub fn check(&self, dir: &Path) -> Result<(), Failure> {
        self.tables().try_for_each(|table| table.check(dir))
    }
}

impl Table {
    /// Opens its file in `dir`.
    pub fn open(&self, dir: &Path) -> Result<BufReader<File>, Failure> {
        // A name that leads out of the directory is none that was written.
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

/// A file is not what was written.
fn broken(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Broken(format!("{}: {why}", path.display()))
}

/// Returns once what is in a directory is on the disk.
pub fn sync(dir: &Path) -> Result<(), Failure> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(Failure::io(dir.display().to_string()))
}
