//! A checkpoint that fails leaves the one before; one that is damaged is refused by name.

use fencepost_fabric::{CrashLoss, Disk, DiskOp, Random, SimDisk};
use fencepost_storage::Timestamp;
use fencepost_storage::checkpoint::{CheckpointError, Manifest, Plan, load, read_manifest, write};
use fencepost_storage::region::{MAX_REGION_BYTES, Regions};

use crate::house::{Model, TestStore};

/// A database with some objects, and what is in it.
fn furnished(disk: &SimDisk, seed: u64) -> (TestStore, Model) {
    let house = TestStore::open(disk).expect("a crash is no damage");
    let (mut random, mut model) = (Random::new(seed), Model::new());
    for i in 0..300 {
        let addr = house.alloc(i, 1 + random.below(100) as usize);
        let payload: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        house
            .write(addr, Some(&payload[..1 + random.below(5) as usize]))
            .expect("disk is well");
        house.write(addr, Some(&payload)).expect("the disk is well");
        let freed = random.one_in(5);
        if freed {
            house.write(addr, None).expect("the disk is well");
        }
        model.insert(addr, (!freed).then_some(payload));
    }
    house
        .log
        .wait_flushed_blocking(house.log.position())
        .expect("the disk is well");
    (house, model)
}

#[test]
fn whichever_disk_operation_fails_nothing_is_lost() {
    let mut failures = 0;
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Names] {
        for nth in 1..25 {
            let disk = SimDisk::new(nth);
            let (house, model) = furnished(&disk, nth);
            house.checkpoint().expect("the disk is well");
            let addr = *model.keys().next().expect("some objects");
            let mut model = model;
            let last = house.write(addr, Some(&[nth])).expect("the disk is well");
            house
                .log
                .wait_flushed_blocking(last)
                .expect("the disk is well");
            model.insert(addr, Some(vec![nth]));
            disk.fail_nth(op, nth);
            let outcome = house.checkpoint();
            failures += u32::from(outcome.is_err());
            disk.clear_faults();
            disk.crash(if nth % 2 == 0 {
                CrashLoss::Some
            } else {
                CrashLoss::All
            });
            drop(house);
            let house = TestStore::open(&disk).expect("a fault is no damage");
            assert!(house.loaded > 0);
            house.check(&model);
            house.checkpoint().expect("the fault is over");
        }
    }
    assert!(failures > 10, "{failures}");
}

#[test]
fn full_disk_stops_only_the_checkpoint() {
    let disk = SimDisk::new(1);
    let (house, model) = furnished(&disk, 1);
    disk.set_free_bytes(Some(9000));
    let full = house.checkpoint().expect_err("there is no room");
    assert!(matches!(full, CheckpointError::Io { .. }), "{full}");
    assert_eq!(
        disk.inside("checkpoint").list().expect("listing works"),
        [""; 0]
    );
    disk.set_free_bytes(None);
    let objects = house.checkpoint().expect("there is room").objects;
    assert_eq!(objects, model.values().flatten().count() as u64);
    drop(house);
    TestStore::open(&disk)
        .expect("the disk is well")
        .check(&model);
}

#[test]
fn any_flipped_or_missing_byte_is_refused_by_name() {
    let disk = SimDisk::new(2);
    let (house, _) = furnished(&disk, 2);
    let manifest = house.checkpoint().expect("the disk is well");
    drop(house);
    let disk = disk.inside("checkpoint");
    let names = disk.list().expect("listing works");
    assert_eq!(names.len(), 2);
    let mut random = Random::new(2);
    for name in &names {
        let len = disk.bytes(name).expect("the file is there").len() as u64;
        for at in 0..len {
            // All of the small file and of both ends of the large one, some of its middle.
            if len > 8000 && at > 200 && at + 200 < len && !random.one_in(40) {
                continue;
            }
            for cut in [false, true] {
                let bad = disk.fork();
                if cut {
                    bad.cut(name, at);
                } else {
                    bad.flip(name, at, 1 << random.below(8));
                }
                let regions = Regions::new(manifest.region_bytes as usize);
                let loaded = read_manifest(&bad).and_then(|manifest| {
                    load(&bad, &manifest.expect("there"), &regions, 2, &|_| true)
                });
                match loaded {
                    Err(CheckpointError::Corrupt { file, offset, .. }) => {
                        assert_eq!(file, bad.path(name));
                        assert!(offset <= at || cut, "{name}: {at} told as {offset}");
                    }
                    other => panic!("{name} at {at}, cut {cut}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn manifest_that_names_more_than_the_file_has_is_refused() {
    let disk = SimDisk::new(4);
    let (house, _) = furnished(&disk, 4);
    let manifest = house.checkpoint().expect("the disk is well");
    drop(house);
    let disk = disk.inside("checkpoint");
    let Manifest { index_offset, .. } = manifest;
    for (index_offset, bytes) in [
        (index_offset, u64::MAX),
        (0, u64::MAX),
        (u64::MAX - 8, u64::MAX),
        (index_offset, index_offset + (1 << 40)),
    ] {
        let named = Manifest {
            index_offset,
            bytes,
            ..manifest
        };
        let regions = Regions::new(manifest.region_bytes as usize);
        let loaded = load(&disk, &named, &regions, 2, &|_| true);
        assert!(matches!(loaded, Err(CheckpointError::Corrupt { .. })));
    }
}

#[test]
fn checkpoint_stops_on_request_and_needs_matching_regions() {
    let disk = SimDisk::new(3);
    let (house, _) = furnished(&disk, 3);
    let plan = Plan {
        begin: house.log.position(),
        clock: &|| Timestamp::ZERO,
        threads: 2,
        bytes_per_second: Some(1 << 20),
        stop: &|| true,
    };
    let stopped = write(
        &disk.inside("checkpoint"),
        &house.regions,
        &house.log,
        &plan,
    );
    assert!(
        matches!(stopped, Err(CheckpointError::Stopped)),
        "{stopped:?}"
    );
    let manifest = house.checkpoint().expect("no fault stops the checkpoint");
    let larger = Regions::new(MAX_REGION_BYTES.min(4 * manifest.region_bytes as usize));
    load(&disk.inside("checkpoint"), &manifest, &larger, 1, &|_| true)
        .expect("larger regions hold it");
}
