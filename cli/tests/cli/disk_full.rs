//! A disk that is full, a real one: a small tmpfs. Where this host does not let it be mounted nothing is done.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::{Server, assert_clean, insist};

/// A small file system; dropping it takes it away.
struct Disk {
    at: tempfile::TempDir,
}

impl Disk {
    /// Mounts one, or says why not.
    fn mount(test: &str, size: &str) -> Option<Disk> {
        let at = tempfile::tempdir().expect("a directory");
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "fencepost"])
            .arg(at.path())
            .output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Disk { at }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
            Err(error) => error.to_string(),
        };
        // Not eprintln: that is hidden while the test passes.
        let _ = writeln!(std::io::stderr(), "{test}: skipped, no tmpfs: {why}");
        None
    }

    fn path(&self) -> &Path {
        self.at.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Leaves room for nothing.
    fn fill(&self) {
        let mut file = File::create(self.ballast()).expect("a file");
        let zeroes = [0; 4096];
        let full = loop {
            if let Err(error) = file.write_all(&zeroes) {
                break error;
            }
        };
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).expect("it was there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nothing runs on it any more.
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn session(server: &Server) -> PgSession {
    let mut session = PgSession::connect(&server.url()).expect("a session");
    let limit = "SET statement_timeout = '30s'";
    session.script(limit).expect("is set");
    session
}

/// A row of 4 KiB.
fn insert(session: &mut PgSession, id: i64) -> Result<(), fencepost_benchmarks::sql::SqlFailure> {
    session.script(&format!("INSERT INTO t VALUES ({id}, repeat('x', 4096))"))
}

fn number(session: &mut PgSession, query: &str) -> i64 {
    let session: &mut dyn SqlSession = session;
    session.number(query).expect(query)
}

#[test]
fn of_the_ssd_tier() {
    let Some(disk) = Disk::mount("disk_full::of_the_ssd_tier", "160M") else {
        return;
    };
    let data = disk.path().join("data");
    let server = Server::start(Some(&data));
    let mut session = self::session(&server);
    let table = "CREATE TABLE t (a bigint PRIMARY KEY, b text)";
    session.script(table).expect("a table");
    for id in 1..=100 {
        insert(&mut session, id).expect("there is room");
    }
    disk.fill();
    // Until what is allocated already is full, too.
    let mut written = 100;
    let full = loop {
        match insert(&mut session, written + 1) {
            Ok(()) => written += 1,
            Err(full) => break full,
        }
        assert!(written < 50_000, "the disk is never full");
    };
    assert_eq!(full.sqlstate, "53100", "{full}");
    // The same again, for everybody, and reads go on.
    let mut other = self::session(&server);
    let full = insert(&mut other, written + 1).expect_err("no room");
    assert_eq!(full.sqlstate, "53100", "{full}");
    for session in [&mut session, &mut other] {
        assert_eq!(number(session, "SELECT count(*) FROM t"), written);
        assert_eq!(number(session, "SELECT max(a) FROM t"), written);
        let long = "SELECT sum(length(b)) FROM t";
        assert_eq!(number(session, long), 4096 * written);
    }

    // A process that ends while the disk is full loses nothing; the next one begins, or says why it cannot.
    server.kill();
    disk.make_room();
    let server = Server::start(Some(&data));
    let mut session = self::session(&server);
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), written);
    disk.fill();
    let mut more = 0;
    while insert(&mut session, written + more + 1).is_ok() {
        more += 1;
        assert!(more < 50_000, "the disk is never full");
    }
    written += more;
    // With room again the same process goes on.
    disk.make_room();
    insist("a write", || insert(&mut session, written + 1));
    written += 1;
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), written);
    server.kill();
    let server = Server::start(Some(&data));
    let mut session = self::session(&server);
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), written);
    drop(session);
    assert!(server.terminate(), "it ends well");
    assert_clean(&data);
}
