//! The Unix socket of a server: `.s.PGSQL.<port>` in a directory, where PostgreSQL's clients look
//! for it.
//!
//! A lock on the file `.s.PGSQL.<port>.lock` shows that a server uses the socket. A socket without
//! a lock belongs to a server that was killed, and is replaced.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Returns the file name of a server's socket.
fn name_of(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// The Unix socket of a server. Dropping it removes the files.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl LocalSocket {
    /// Listens on the socket of `port` in a directory, with these permissions.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another server uses it.
    pub(crate) fn listen(
        directory: &Path,
        port: u16,
        permissions: u32,
    ) -> io::Result<(LocalSocket, UnixListener)> {
        let path = directory.join(name_of(port));
        let lock_path = directory.join(format!("{}.lock", name_of(port)));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.mode(0o600).open(&lock_path)?;
        // A PostgreSQL server does not hold this lock, but accepts connections.
        if lock.try_lock().is_err() || UnixStream::connect(&path).is_ok() {
            let why = "another server has the socket";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        lock.set_len(0)?;
        // The file begins with the process number, as PostgreSQL's does; its servers check that
        // process.
        lock.write_all(format!("{}\n", std::process::id()).as_bytes())?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(permissions))?;
        listener.set_nonblocking(true)?;
        let socket = LocalSocket {
            path,
            lock_path,
            _lock: lock,
        };
        Ok((socket, listener))
    }

    /// Returns the path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // The next server replaces a file that stays.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_has_one_server_and_is_removed_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let listen = || LocalSocket::listen(dir.path(), 5433, 0o700);
        let (first, _listener) = listen().expect("listens");
        assert!(first.path().ends_with(".s.PGSQL.5433"));
        let mode = std::fs::metadata(first.path())
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(
            listen().expect_err("taken").kind(),
            io::ErrorKind::AddrInUse
        );
        drop(first);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a directory").count(),
            0
        );
        listen().expect("free again");
    }

    #[test]
    fn stale_socket_is_replaced_and_live_socket_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".s.PGSQL.5433");
        let stale = UnixListener::bind(&path).expect("binds");
        assert!(LocalSocket::listen(dir.path(), 5433, 0o777).is_err());
        drop(stale);
        LocalSocket::listen(dir.path(), 5433, 0o777).expect("takes over");
    }
}
