//! A log in a file, which is rotated when due.
//!
//! ```text
//!   FILE ──> FILE.1 ──> FILE.2 ──> … ──> removed
//! ```
//! # Failure
//! If the file cannot be renamed or opened, the log continues in the open file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::size;

/// The time at which a log is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Only on request.
    Never,
    /// With the first line of a day (UTC).
    Daily,
    /// With the line with which the file would exceed this size.
    Bytes(u64),
}

/// Reads the value of `--log-rotation`.
pub fn rotation(text: &str) -> Result<Rotation, String> {
    match text {
        "never" => Ok(Rotation::Never),
        "daily" => Ok(Rotation::Daily),
        text => match size::bytes(text) {
            Ok(0) => Err("a file has at least one byte".to_owned()),
            Ok(bytes) => Ok(Rotation::Bytes(bytes)),
            Err(_) => Err("neither daily, nor never, nor a size".to_owned()),
        },
    }
}

const REOPEN: u8 = 1;
const ROTATE: u8 = 2;

/// The requests to a log file, carried out with its next line.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    asked: AtomicU8,
}

impl Control {
    /// Requests that the file be opened again, because another program may have renamed it.
    pub fn reopen(&self) {
        self.asked.fetch_or(REOPEN, Relaxed);
    }

    /// Requests a rotation.
    pub fn rotate(&self) {
        self.asked.fetch_or(ROTATE, Relaxed);
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A log file.
pub struct LogFile {
    control: Arc<Control>,
    rotation: Rotation,
    old_files_max: u32,
    file: File,
    bytes: u64,
    /// The day of its last line.
    day: u64,
}

impl LogFile {
    /// Opens the file, and creates it if it does not exist; lines are appended.
    pub fn open(path: &Path, rotation: Rotation, old_files_max: u32) -> io::Result<LogFile> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        let day = match metadata.len() {
            0 => day_of(SystemTime::now()),
            _ => day_of(metadata.modified()?),
        };
        Ok(LogFile {
            control: Arc::new(Control {
                path: path.to_owned(),
                asked: AtomicU8::new(0),
            }),
            rotation,
            old_files_max,
            bytes: metadata.len(),
            file,
            day,
        })
    }

    /// Returns the handle for requests.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    fn is_due(&self, more: usize, today: u64) -> bool {
        match self.rotation {
            _ if self.bytes == 0 => false,
            Rotation::Never => false,
            Rotation::Daily => today != self.day,
            Rotation::Bytes(bytes_max) => self.bytes + more as u64 > bytes_max,
        }
    }

    fn rotate(&self) -> io::Result<()> {
        let old = |number: u32| {
            let mut name = self.control.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.old_files_max == 0 {
            return std::fs::remove_file(&self.control.path);
        }
        for number in (1..self.old_files_max).rev() {
            match std::fs::rename(old(number), old(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.control.path, old(1))
    }

    fn reopen(&mut self) {
        // If the open fails, the log continues in the open file.
        if let Ok(file) = open(&self.control.path) {
            self.bytes = file.metadata().map_or(0, |metadata| metadata.len());
            self.file = file;
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let asked = self.control.asked.swap(0, Relaxed);
        let today = day_of(SystemTime::now());
        let is_asked = asked & ROTATE != 0 && self.bytes > 0;
        if (is_asked || self.is_due(line.len(), today)) && self.rotate().is_ok()
            || asked & REOPEN != 0
        {
            self.reopen();
        }
        self.day = today;
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

fn day_of(time: SystemTime) -> u64 {
    let since_1970 = time.duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since| since.as_secs() / 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn old_files_are_numbered_and_few() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path, Rotation::Bytes(10), 2).expect("opens");
        for line in ["one....\n", "two....\n", "three..\n", "four...\n"] {
            log.write_all(line.as_bytes()).expect("written");
        }
        assert_eq!(read(&path), "four...\n");
        assert_eq!(read(&dir.path().join("log.1")), "three..\n");
        assert_eq!(read(&dir.path().join("log.2")), "two....\n");
        assert!(!dir.path().join("log.3").exists());
    }

    #[test]
    fn new_day_or_request_rotates_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path, Rotation::Daily, 7).expect("opens");
        log.write_all(b"old\n").expect("written");
        log.day -= 1;
        log.write_all(b"new\n").expect("written");
        assert_eq!(read(&path), "new\n");
        log.control().rotate();
        log.write_all(b"newer\n").expect("written");
        assert_eq!(read(&path), "newer\n");
        assert_eq!(read(&dir.path().join("log.2")), "old\n");
    }

    #[test]
    fn renamed_log_file_is_reopened() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path, Rotation::Never, 7).expect("opens");
        log.write_all(b"one\n").expect("written");
        let moved = dir.path().join("moved");
        std::fs::rename(&path, &moved).expect("renamed");
        log.control().reopen();
        log.write_all(b"two\n").expect("written");
        assert_eq!(
            (read(&moved).as_str(), read(&path).as_str()),
            ("one\n", "two\n")
        );
    }

    #[test]
    fn rotation_is_a_word_or_a_size() {
        assert_eq!(rotation("daily"), Ok(Rotation::Daily));
        assert_eq!(rotation("never"), Ok(Rotation::Never));
        assert_eq!(rotation("1M"), Ok(Rotation::Bytes(1 << 20)));
        assert!(rotation("often").is_err());
        assert!(rotation("0").is_err());
    }
}
