//! Machines whose memory is saved to a disk after all have ended, and loaded when the memory is
//! gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use fencepost_benchmarks::sql::SqlSession;
use fencepost_fabric::random::Random;

use crate::common::dev_cluster::{DevCluster, MACHINES, signal};
use crate::common::{program, said};
use crate::crash_bank::{Journal, create, verify};
use crate::nvram::{kill_all, load_and_kill, session};

const NVRAM: [&str; 4] = ["--durability", "nvram", "--replicas", "3"];

/// The longest wait for a save.
const SAVE_LIMIT: Duration = Duration::from_secs(120);

/// A simulated host with memory and a disk.
struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        Host { directory }
    }

    fn memory(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    fn saves(&self) -> PathBuf {
        self.directory.path().join("saves")
    }

    fn start(&self) -> DevCluster {
        let saves = self.saves();
        let saves = saves.to_str().expect("a name");
        let further = [&NVRAM[..], &["--save-dir", saves]].concat();
        fs::create_dir_all(self.memory()).expect("a directory");
        DevCluster::start_in(&self.memory(), "shm", &further)
    }

    /// Returns the error of a cluster with the same directories that does not start.
    fn refused(&self) -> String {
        let output = program(&["dev-cluster", "--listen", "127.0.0.1:6420", "--directory"])
            .arg(self.memory())
            .args(NVRAM)
            .arg("--save-dir")
            .arg(self.saves())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        said(&output)
    }

    /// Simulates a boot of the host: the memory is lost.
    fn boot(&self) {
        fs::remove_dir_all(self.memory()).expect("it was there");
    }

    /// Returns the files with this name in the last save of each machine.
    fn saved(&self, name: &str) -> Vec<PathBuf> {
        let incarnations = fs::read_dir(self.saves().join("nvram")).expect("a list");
        let paths = incarnations.map(|entry| entry.expect("an entry").path());
        let of = |incarnation: &Path, machine| incarnation.join(format!("m{machine}")).join(name);
        let all = paths.flat_map(|path| (1..=MACHINES).map(move |machine| of(&path, machine)));
        all.filter(|file| file.exists()).collect()
    }

    /// Waits until at least `count` machines have saved this file.
    fn wait_for(&self, name: &str, count: usize) {
        let deadline = Instant::now() + SAVE_LIMIT;
        while self.saved(name).len() < count {
            assert!(Instant::now() < deadline, "a machine saves no {name}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn end(mut cluster: DevCluster) {
    signal("-TERM", &cluster.child.id().to_string());
    assert!(cluster.ended());
}

#[test]
fn saved_memory_survives_host_reboot() {
    let host = Host::new();
    let mut journal = Journal::default();
    let cluster = host.start();
    create(&cluster.url(0));
    load_and_kill(cluster, 0, Duration::from_millis(500), &mut journal);
    // There is no save, and the memory remains.
    assert_eq!(host.saved("manifest"), [""; 0].map(PathBuf::from));
    for round in 0..2 {
        let cluster = host.start();
        verify(&cluster.url(round), &mut journal);
        let mut session = session(&cluster, 2);
        let table = format!("CREATE TABLE t{round} (a int PRIMARY KEY)");
        session.script(&table).expect("is made");
        drop(session);
        end(cluster);
        assert_eq!(host.saved("manifest").len(), usize::from(MACHINES));
        host.boot();
    }
    let cluster = host.start();
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
        let mut session = session(&cluster, machine);
        session
            .script("SELECT * FROM t0, t1")
            .expect("they are there");
    }
    assert!(journal.has_any(), "some transfers were acknowledged");
    // A save of an earlier incarnation is removed: it is used once.
    assert_eq!(host.saved("manifest"), [""; 0].map(PathBuf::from));
    kill_all(cluster);
    host.boot();
    let said = host.refused();
    assert!(said.contains("no machine has"), "{said}");
}

#[test]
fn memory_of_killed_machine_is_saved_by_others() {
    let host = Host::new();
    let mut journal = Journal::default();
    let cluster = host.start();
    create(&cluster.url(0));
    let machines = cluster.machines();
    // The parent would end the machines before they get their signals.
    signal("-STOP", &cluster.child.id().to_string());
    signal("-KILL", &machines[1]);
    for machine in [&machines[0], &machines[2]] {
        signal("-TERM", machine);
    }
    host.wait_for("manifest", usize::from(MACHINES));
    kill_all(cluster);
    host.boot();
    let cluster = host.start();
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
    }
}

#[test]
fn damaged_save_is_rebuilt_from_replicas_or_refused() {
    let host = Host::new();
    let mut journal = Journal::default();
    let cluster = host.start();
    create(&cluster.url(0));
    end(cluster);
    host.boot();
    let memory = host.saved("memory");
    let bend = |file: &Path| {
        let mut bytes = fs::read(file).expect("is read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).expect("is written");
    };
    memory.iter().for_each(|file| bend(file));
    let said = host.refused();
    for file in &memory {
        let damaged = format!("{}: byte ", file.display());
        assert!(said.contains(&damaged), "{said}");
    }
    assert!(said.contains("the checksum is not what it was"), "{said}");
    // One intact save is not enough if the others' are damaged.
    memory[1..].iter().for_each(|file| bend(file));
    let cluster = host.start();
    for machine in 0..MACHINES {
        verify(&cluster.url(machine), &mut journal);
    }
}

/// Checks that either all memory is saved, or none is and the start reports that.
#[test]
fn kill_during_save_leaves_all_or_nothing() {
    let host = Host::new();
    let mut journal = Journal::default();
    let cluster = host.start();
    create(&cluster.url(0));
    let mut random = Random::new(11);
    let mut cluster = Some(cluster);
    for round in 0..4 {
        let running = cluster.take().unwrap_or_else(|| host.start());
        verify(&running.url(round % 3), &mut journal);
        signal("-STOP", &running.child.id().to_string());
        for machine in running.machines() {
            signal("-TERM", &machine);
        }
        host.wait_for("saving", 1);
        thread::sleep(Duration::from_millis(random.below(40)));
        kill_all(running);
    }
    let running = host.start();
    verify(&running.url(0), &mut journal);
    signal("-STOP", &running.child.id().to_string());
    for machine in running.machines() {
        signal("-TERM", &machine);
    }
    host.wait_for("memory", 1);
    kill_all(running);
    host.boot();
    match host.saved("manifest").len() {
        0 => {
            let said = host.refused();
            assert!(said.contains("no machine has"), "{said}");
        }
        saved if saved == usize::from(MACHINES) => verify(&host.start().url(0), &mut journal),
        // This is the same as damaged saves of the others.
        _ => {}
    }
}
