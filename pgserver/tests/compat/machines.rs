//! A database of three machines in this process.

use std::path::Path;
use std::thread;

use fencepost::{Cluster, Database};
use tempfile::TempDir;

/// The number of machines.
const MACHINES: u32 = 3;

/// Creates a directory for the memory that the machines share.
pub fn memory() -> TempDir {
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    memory.expect("a directory")
}

/// Opens the machines of a database that share this memory.
pub fn open(memory: &Path) -> Vec<Database> {
    let open = |machine| {
        let cluster = Cluster::of_host(memory, machine, MACHINES).replicas(2);
        let options = Database::options().region_size(16 << 20).cluster(cluster);
        options.open().expect("a machine")
    };
    thread::scope(|scope| {
        let opening: Vec<_> = (1..=MACHINES)
            .map(|machine| scope.spawn(move || open(machine)))
            .collect();
        let opened = opening.into_iter().map(|one| one.join().expect("no panic"));
        opened.collect()
    })
}
