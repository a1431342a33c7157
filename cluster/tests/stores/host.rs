//! Tests of the store that the processes of a host share.

use std::sync::Arc;

use fencepost_cluster::{ConfigStore, DirectoryUse, HostStore, MachineId, StoreError, SwapOutcome};
use fencepost_fabric::OsDisk;
use pollster::block_on;

use super::conformance::{check_store_invariants, founded, joined};

fn open(dir: &tempfile::TempDir, machine: u32) -> Result<HostStore, StoreError> {
    let disk = Arc::new(OsDisk::open(dir.path()).expect("the directory is well"));
    HostStore::open(disk, MachineId(machine))
}

#[test]
fn machines_of_a_host_keep_one_configuration() {
    let dir = tempfile::tempdir().expect("the directory is well");
    let machine =
        |id| Arc::new(open(&dir, id).expect("the directory is well")) as Arc<dyn ConfigStore>;
    check_store_invariants(&(1..=4).map(machine).collect());
}

#[test]
fn configuration_lasts_while_any_machine_runs() {
    let dir = tempfile::tempdir().expect("the directory is well");
    let first = founded(1, "first");
    let second = joined(&first, "second");
    let one = open(&dir, 1).expect("the directory is well");
    assert_eq!(
        block_on(one.compare_and_swap(None, &first)).expect("the directory is well"),
        SwapOutcome::Won
    );
    let two = open(&dir, 2).expect("the directory is well");
    drop(one);
    let one = open(&dir, 1).expect("the directory is well");
    assert_eq!(
        block_on(one.read()).expect("the directory is well"),
        Some(first.clone())
    );
    let swapped = block_on(one.compare_and_swap(Some(first.id()), &second));
    assert_eq!(swapped.expect("the directory is well"), SwapOutcome::Won);
    assert_eq!(
        block_on(two.read()).expect("the directory is well"),
        Some(second)
    );
    drop((one, two));
    // All machines are gone, and so is their configuration.
    let three = open(&dir, 3).expect("the directory is well");
    assert_eq!(block_on(three.read()).expect("the directory is well"), None);
}

#[test]
fn no_two_processes_are_one_machine() {
    let dir = tempfile::tempdir().expect("the directory is well");
    let one = open(&dir, 1).expect("the directory is well");
    assert!(matches!(open(&dir, 1), Err(StoreError::Disk { .. })));
    drop(one);
    open(&dir, 1).expect("the directory is well");
}

#[test]
fn earlier_member_is_distinguished_from_outsider() {
    let dir = tempfile::tempdir().expect("the directory is well");
    let standing = |machine: Option<u32>| {
        let disk = OsDisk::open(dir.path()).expect("the directory is well");
        HostStore::standing(&disk, machine.map(MachineId)).expect("no other process is the machine")
    };
    assert_eq!([None, Some(1)].map(standing), [DirectoryUse::Unused; 2]);
    let one = open(&dir, 1).expect("the directory is well");
    assert_eq!(standing(Some(1)), DirectoryUse::Unused, "no others run");
    assert_eq!([None, Some(2)].map(standing), [DirectoryUse::Others; 2]);
    drop(open(&dir, 2).expect("the directory is well"));
    assert_eq!(standing(Some(2)), DirectoryUse::Before);
    let disk = Arc::new(OsDisk::open(dir.path()).expect("the directory is well"));
    let seven = HostStore::keeping(disk, MachineId(7)).expect("no other process is the machine");
    drop(one);
    assert_eq!(
        standing(Some(2)),
        DirectoryUse::Before,
        "a joined machine counts as an initial member does"
    );
    drop(seven);
    // All machines are gone: the first one that opens the store begins a new incarnation.
    assert_eq!([None, Some(2)].map(standing), [DirectoryUse::Unused; 2]);
    let _one = open(&dir, 1).expect("the directory is well");
    assert_eq!(standing(Some(2)), DirectoryUse::Others);
}
