//! Tests of the store of one process, in memory and on disks that crash and fail.

use std::sync::Arc;

use fencepost_cluster::{
    ConfigStore, Configuration, ConfigurationId, DecodeError, LocalStore, StoreError, SwapOutcome,
};
use fencepost_fabric::{CrashLoss, DiskOp, OsDisk, SimDisk};
use pollster::block_on;

use super::conformance::{check_store_invariants, founded, joined};

const FILE: &str = "CONFIGURATION";

fn swap(store: &LocalStore, new: &Configuration) -> Result<SwapOutcome, StoreError> {
    let expected = Some(new.id().0 - 1)
        .filter(|id| *id > 0)
        .map(ConfigurationId);
    block_on(store.compare_and_swap(expected, new))
}

fn read(store: &LocalStore) -> Result<Option<Configuration>, StoreError> {
    block_on(store.read())
}

#[test]
fn memory_store_keeps_invariants() {
    let store: Arc<dyn ConfigStore> = Arc::new(LocalStore::in_memory());
    check_store_invariants(&vec![store; 4]);
}

#[test]
fn directory_store_keeps_invariants() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(OsDisk::open(dir.path()).unwrap());
    let store: Arc<dyn ConfigStore> = Arc::new(LocalStore::open(disk.clone()).unwrap());
    check_store_invariants(&vec![Arc::clone(&store); 4]);
    let kept = block_on(store.read()).unwrap();
    assert!(kept.is_some());
    assert_eq!(read(&LocalStore::open(disk).unwrap()).unwrap(), kept);
}

/// Fails at every disk call, and crashes there: an acknowledged configuration is found again, and a
/// configuration found once is found for ever.
#[test]
fn no_fault_and_no_crash_takes_a_reader_back() {
    let first = founded(1, "first");
    let second = joined(&first, "second");
    let mut faults = 0;
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Names] {
        for (nth, loss, seed) in cases() {
            let disk = SimDisk::new(seed);
            let store = LocalStore::open(Arc::new(disk.boot())).unwrap();
            assert_eq!(swap(&store, &first).unwrap(), SwapOutcome::Won);
            disk.fail_nth(op, nth);
            let swapped = swap(&store, &second);
            disk.clear_faults();
            if swapped.is_err() {
                faults += 1;
                assert!(
                    matches!(read(&store), Err(StoreError::Disk { .. })),
                    "it has stopped"
                );
                assert!(matches!(
                    swap(&store, &second),
                    Err(StoreError::Disk { .. })
                ));
            }
            let restarted = || read(&LocalStore::open(Arc::new(disk.boot())).unwrap()).unwrap();
            // In every second case only the process ends, and its writes survive.
            if seed % 2 == 0 {
                disk.crash(loss);
            }
            let found = restarted().expect("the first configuration was acknowledged");
            assert!(found == first || found == second);
            assert!(
                swapped.is_err() || found == second,
                "an acknowledged swap is kept"
            );
            disk.crash(loss);
            assert_eq!(restarted(), Some(found), "what a reader has seen stays");
        }
    }
    assert!(
        faults >= 5 * 9,
        "a write, a sync, and three calls on names: {faults}"
    );
}

fn cases() -> impl Iterator<Item = (u64, CrashLoss, u64)> {
    (1..=4).flat_map(|nth| {
        let some = (0..7).map(move |seed| (nth, CrashLoss::Some, seed));
        some.chain([(nth, CrashLoss::All, 7), (nth, CrashLoss::All, 8)])
    })
}

#[test]
fn damage_refuses_to_open_and_names_the_file() {
    let disk = SimDisk::new(1);
    let store = LocalStore::open(Arc::new(disk.clone())).unwrap();
    swap(&store, &founded(1, "first")).unwrap();
    for byte in 0..disk.bytes(FILE).expect("it is there").len() as u64 {
        let copy = disk.fork();
        copy.flip(FILE, byte, 0x10);
        let opened = LocalStore::open(Arc::new(copy)).err();
        assert!(matches!(&opened, Some(StoreError::Damaged { place, .. }) if place == FILE));
    }
    disk.set_bytes(FILE, vec![0; 1 << 21]);
    let opened = LocalStore::open(Arc::new(disk)).err();
    let too_long = DecodeError::Trailing;
    assert!(matches!(opened, Some(StoreError::Damaged { what, .. }) if what == too_long));
}
