//! The shared memory of ended machines is removed once they are no longer members.

use std::fs::{self, File};
use std::path::Path;

use fencepost_fabric::{Fabric, MachineId, Member, ShmFabric};

/// Creates the files of a killed process.
fn killed(root: &Path, name: &str) {
    let home = root.join(name);
    fs::create_dir(&home).expect("a directory");
    for file in ["control", "lock", "0001000000000000"] {
        File::create(home.join(file)).expect("a file");
    }
}

#[test]
fn memory_of_ended_machines_alone_is_removed() {
    let root = tempfile::tempdir().expect("a directory");
    let open = |id| ShmFabric::open(root.path(), MachineId(id)).expect("no process has the id");
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
    // m1 is a member, whose end may not be known yet. m2 and m4 have running processes.
    assert!(["m1", "m2", "m4", "configuration"].into_iter().all(left));
    assert!(!left("m3"));
    drop(paused);
    assert_eq!(four.me(), MachineId(4));
}
