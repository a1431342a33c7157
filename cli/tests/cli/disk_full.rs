//! A full disk: a real one, a small tmpfs. Without the permission to mount it, the tests are
//! skipped.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_benchmarks::sql::{PgSession, SqlSession};

use crate::common::dev_cluster::{DevCluster, MACHINES};
use crate::common::{Server, assert_clean, insist, program, said};
use crate::nvram::kill_all;

/// A small file system; dropping it unmounts it.
struct Disk {
    at: tempfile::TempDir,
}

impl Disk {
    /// Mounts a file system, or reports why it cannot.
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
        // eprintln would be hidden while the test passes.
        let _ = writeln!(std::io::stderr(), "{test}: skipped, no tmpfs: {why}");
        None
    }

    fn path(&self) -> &Path {
        self.at.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills the disk until this many bytes are free.
    fn leave(&self, bytes: u64) {
        let stat = rustix::fs::statvfs(self.path()).expect("it is mounted");
        let free = stat.f_bavail * stat.f_frsize;
        let ballast = free.checked_sub(bytes).expect("there is more room");
        let zeroes = std::io::repeat(0).take(ballast);
        let mut file = File::create(self.ballast()).expect("a file");
        std::io::copy(&mut { zeroes }, &mut file).expect("there is room");
    }

    /// Fills the disk completely.
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

    fn free_disk_space(&self) {
        std::fs::remove_file(self.ballast()).expect("it was there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // No process uses the disk any more.
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn session(server: &Server) -> PgSession {
    let mut session = PgSession::connect(&server.url()).expect("a session");
    let limit = "SET statement_timeout = '30s'";
    session.script(limit).expect("is set");
    session
}

/// Inserts a row of 4 KiB.
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
    // The inserts also fill the space that is allocated already.
    let mut written = 100;
    let full = loop {
        match insert(&mut session, written + 1) {
            Ok(()) => written += 1,
            Err(full) => break full,
        }
        assert!(written < 50_000, "the disk is never full");
    };
    assert_eq!(full.sqlstate, "53100", "{full}");
    // The error persists, also for other sessions, and reads still work.
    let mut other = self::session(&server);
    let full = insert(&mut other, written + 1).expect_err("no room");
    assert_eq!(full.sqlstate, "53100", "{full}");
    for session in [&mut session, &mut other] {
        assert_eq!(number(session, "SELECT count(*) FROM t"), written);
        assert_eq!(number(session, "SELECT max(a) FROM t"), written);
        let long = "SELECT sum(length(b)) FROM t";
        assert_eq!(number(session, long), 4096 * written);
    }

    // A process that ends while the disk is full loses no data. The next one starts, or reports why
    // it cannot.
    server.kill();
    disk.free_disk_space();
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
    // With free space the same process continues.
    disk.free_disk_space();
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

/// Machines that keep their data on one disk refuse writes while it is full, and continue when it
/// is not. Acknowledged data survive when all machines are killed.
#[test]
fn of_the_ssd_tier_of_machines() {
    let Some(disk) = Disk::mount("disk_full::of_the_ssd_tier_of_machines", "320M") else {
        return;
    };
    let shared = tempfile::tempdir().expect("a directory");
    let data = disk.path().join("data");
    let data = data.to_str().expect("a name");
    let further = ["--data-dir", data, "--replicas", "2"];
    let start = || DevCluster::start_in(shared.path(), "shm", &further);
    let cluster = start();
    let mut sessions: Vec<PgSession> = (0..MACHINES).map(|at| cluster.session(at)).collect();
    for session in &mut sessions {
        let limit = "SET statement_timeout = '30s'";
        session.script(limit).expect("is set");
    }
    let table = "CREATE TABLE t (a bigint PRIMARY KEY, b text)";
    sessions[0].script(table).expect("a table");
    let mut written = 0;
    for _ in 0..2 {
        disk.fill();
        let (mut refused, mut round) = (0, 0);
        while refused < 60 {
            let at = round % usize::from(MACHINES);
            match insert(&mut sessions[at], written + 1) {
                Ok(()) => written += 1,
                Err(full) => {
                    assert_eq!(full.sqlstate, "53100", "{full}");
                    refused += 1;
                }
            }
            round += 1;
            assert!(round < 50_000, "the disk is never full");
        }
        for session in &mut sessions {
            assert_eq!(number(session, "SELECT count(*) FROM t"), written);
        }
        disk.free_disk_space();
        for session in &mut sessions {
            insist("a write", || insert(session, written + 1));
            written += 1;
        }
    }
    drop(sessions);
    kill_all(cluster);
    let cluster = start();
    for machine in 0..MACHINES {
        let mut session = cluster.session(machine);
        assert_eq!(number(&mut session, "SELECT count(*) FROM t"), written);
    }
}

const NVRAM: [&str; 4] = ["--durability", "nvram", "--replicas", "2"];

/// Checks that memory in files of a disk cannot grow while the disk is full: a write that needs a
/// new page must be refused.
#[test]
fn of_the_nvram_tier() {
    const ROWS: i64 = 50;
    let Some(disk) = Disk::mount("disk_full::of_the_nvram_tier", "320M") else {
        return;
    };
    let start = || DevCluster::start_in(disk.path(), "shm", &NVRAM);
    let cluster = start();
    let sessions = (0..MACHINES).map(|machine| {
        let mut session = cluster.session(machine);
        let limit = "SET statement_timeout = '30s'";
        session.script(limit).expect("is set");
        session
    });
    let mut sessions: Vec<PgSession> = sessions.collect();
    let table = "CREATE TABLE t (a bigint PRIMARY KEY, b text)";
    sessions[0].script(table).expect("a table");
    disk.leave(48 << 20);
    let mut written = 0;
    let mut refused = 0;
    for round in 0..3000 {
        let session = &mut sessions[round % usize::from(MACHINES)];
        let rows = format!(
            "INSERT INTO t SELECT {written} + g, repeat('x', 4096) \
             FROM generate_series(1, {ROWS}) g"
        );
        match session.script(&rows) {
            Ok(()) => written += ROWS,
            Err(full) => {
                assert_eq!(full.sqlstate, "53200", "{full}");
                refused += 1;
            }
        }
        if refused == 60 {
            break;
        }
    }
    assert_eq!(refused, 60, "the disk is never full: {written}");
    assert!(written > 0, "there was room");
    for session in &mut sessions {
        assert_eq!(number(session, "SELECT count(*) FROM t"), written);
        let long = "SELECT sum(length(b)) FROM t";
        assert_eq!(number(session, long), 4096 * written);
    }
    disk.free_disk_space();
    insist("a write", || insert(&mut sessions[1], written + 1));
    written += 1;
    drop(sessions);
    kill_all(cluster);
    let cluster = start();
    for machine in 0..MACHINES {
        let mut session = cluster.session(machine);
        assert_eq!(number(&mut session, "SELECT count(*) FROM t"), written);
    }
}

#[test]
fn where_memory_of_machines_is_to_be() {
    let Some(disk) = Disk::mount("disk_full::where_memory_of_machines_is_to_be", "16M") else {
        return;
    };
    let output = program(&["dev-cluster", "--directory"])
        .arg(disk.path())
        .args(NVRAM)
        .args(["--listen", "127.0.0.1:6420", "--memory-limit", "64M"])
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("No space left on device"), "{said}");
}
