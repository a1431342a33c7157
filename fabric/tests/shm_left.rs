//! What processes have left of machines that share memory: it goes once they are no members and have ended.

use std::fs::{self, File};
use std::path::Path;

use fencepost_fabric::{Fabric, MachineId, Member, ShmFabric};

/// What a process has left that was killed.
fn killed(root: &Path, name: &str) {
    let home = root.join(name);
    fs::create_dir(&home).expect("a directory");
    for file in ["control", "lock", "0001000000000000"] {
        File::create(home.join(file)).expect("a file");
    }
}

#[test]
fn memory_of_machines_that_are_gone_is_cleared_away_and_no_other() {
    let root = tempfile::tempdir().expect("a directory");
    let open = |id| ShmFabric::open(root.path(), MachineId(id)).expect("nobody else is it");
    let (four, paused) = (open(4), open(2));
    killed(root.path(), "m1");
    killed(root.path(), "m3");
    fs::create_dir(root.path().join("configuration")).expect("a directory");
    let members = [1, 4].map(|id| Member {
        id: MachineId(id),
        address: String::new(),
    });
    four.clear_away(&members).expect("it can be read");
    let left = |name: &str| root.path().join(name).exists();
    // The first is a member of which it may not be known yet that it has ended; the second's process lives.
    assert!(["m1", "m2", "m4", "configuration"].into_iter().all(left));
    assert!(!left("m3"));
    drop(paused);
    assert_eq!(four.me(), MachineId(4));
}
