//! A process that was killed while the machines were starting leaves state in shared memory. That
//! state does not prevent the start after the machine has returned.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::{Fabric, ShmFabric, SimDisk};
use fencepost_txn::MachineId;
use fencepost_txn::network::disk::{Beginning, Contents, ReadmitPolicy, StoreState};
use fencepost_txn::network::{Configuration, members};

use crate::disk::durable;

const LOOKS: u32 = 100;

/// Starts one of two machines.
fn begin(root: &Path, me: u32, disk: &SimDisk) -> Beginning {
    let initial_members = Configuration::of_process(2).expect("machines");
    let fabric = ShmFabric::open(root, MachineId(me)).expect("a machine");
    let fabric: Arc<dyn Fabric> = Arc::new(fabric);
    fabric
        .set_members(&members(&initial_members))
        .expect("a member");
    let contents = Contents::read(&durable(disk)).expect("its disk");
    let stored = StoreState::Last(ConfigurationId(0));
    let both = (&initial_members, &initial_members);
    Beginning::open(contents, &fabric, both, ReadmitPolicy::Never, stored).expect("it begins")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it is read").path();
        let name = path.file_name().expect("it has a name");
        fs::copy(&path, to.join(name)).expect("a file");
    }
}

#[test]
fn machine_killed_before_all_connected_is_met_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("shared");
    fs::create_dir_all(&root).expect("a directory");
    let disks = [SimDisk::new(1), SimDisk::new(2)];
    // A process that is killed leaves its files as they are.
    let (there, aside) = (root.join("m2"), directory.path().join("aside"));
    let killed = begin(&root, 2, &disks[1].fork());
    copy(&there, &aside);
    drop(killed);
    copy(&aside, &there);
    let mut first = begin(&root, 1, &disks[0]);
    assert!(first.look().expect("it looks").is_none());
    let mut second = begin(&root, 2, &disks[1]);
    let mut found = (None, None);
    for _ in 0..LOOKS {
        found.0 = found.0.or(first.look().expect("it looks"));
        found.1 = found.1.or(second.look().expect("it looks"));
    }
    assert!(found.0.is_some() && found.1.is_some(), "they begin");
}
