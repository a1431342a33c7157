//! [`Disk`] over a directory of the operating system.
//!
//! *Failure.* Errors of the system are returned unchanged, with the path added where it would be
//! lost. An interrupted call is repeated.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, DiskLock};

/// A directory of the operating system.
#[derive(Debug, Clone)]
pub struct OsDisk {
    dir: PathBuf,
}

impl OsDisk {
    /// Opens a directory; creates it and its parents if they do not exist. Only the name of the
    /// directory itself is synced, not those of created parents.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        if !dir.is_dir() {
            fs::create_dir_all(&dir).map_err(|error| named(error, &dir))?;
            if let Some(parent) = dir.parent().filter(|p| !p.as_os_str().is_empty()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self { dir })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Disk for OsDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.at(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        Ok(Arc::new(OsFile(file.map_err(|error| named(error, &path))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.at(name);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        Ok(Arc::new(OsFile(file.map_err(|error| named(error, &path))?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(|error| named(error, &self.dir))? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to)).map_err(|error| named(error, &self.at(from)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name)).map_err(|error| named(error, &self.at(name)))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(OsDisk::open(self.at(name))?))
    }

    fn lock(&self, name: &str) -> io::Result<DiskLock> {
        let path = self.at(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| named(error, &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(named(io::ErrorKind::WouldBlock.into(), &path)),
            Err(TryLockError::Error(error)) => Err(named(error, &path)),
        }
    }

    fn path(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }
}

struct OsFile(File);

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.0.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_written_data() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let disk = OsDisk::open(dir.path().join("a/b"))?;
        let file = disk.create("one")?;
        file.write_at(3, b"abc")?;
        file.zero_fill(6, 10)?;
        file.sync()?;
        file.sync_all()?;
        let mut bytes = [9u8; 16];
        assert_eq!(file.read_at(0, &mut bytes)?, 10);
        assert_eq!(&bytes[..10], b"\0\0\0abc\0\0\0\0");
        file.set_len(4)?;
        assert_eq!(file.len()?, 4);
        disk.rename("one", "two")?;
        disk.sync_dir()?;
        disk.subdir("inner")?.create("three")?;
        assert_eq!(disk.list()?, ["two"]);
        assert_eq!(
            disk.open("one").err().map(|e| e.kind()),
            Some(io::ErrorKind::NotFound)
        );
        disk.remove("two")?;
        assert!(disk.list()?.is_empty());
        Ok(())
    }

    #[test]
    fn directory_lock_has_one_owner() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let disk = OsDisk::open(dir.path())?;
        let held = disk.lock("lock")?;
        assert_eq!(
            disk.lock("lock").err().map(|e| e.kind()),
            Some(io::ErrorKind::WouldBlock)
        );
        drop(held);
        disk.lock("lock")?;
        Ok(())
    }
}
