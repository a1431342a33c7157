//! A checkpoint taken in the middle of everything, and the log behind it, give back every object.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_fabric::{CrashLoss, Random, SimDisk};
use fencepost_storage::log::Lsn;

use crate::house::{Model, TestStore};

/// Writes, frees and allocates at random on objects of its own until told to stop.
fn writer(house: &TestStore, lane: usize, seed: u64, model: &mut Model, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut own: Vec<_> = model.keys().copied().collect();
    let mut last = Lsn::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let fresh = own.is_empty() || (own.len() < 400 && random.one_in(3));
        if fresh {
            own.push(house.alloc(lane, 1 + random.below(60) as usize));
        }
        let pick = if fresh {
            own.len() - 1
        } else {
            random.below(own.len() as u64) as usize
        };
        let addr = own[pick];
        let fits = house.regions.object(addr).expect("a slot").len().min(60) as u64;
        let words: Vec<u64> = (0..1 + random.below(fits))
            .map(|_| 1 + random.below(9))
            .collect();
        let payload = (fresh || !random.one_in(6)).then_some(words);
        last = house
            .write(addr, payload.as_deref())
            .expect("the disk is well");
        model.insert(addr, payload);
        if random.one_in(50) {
            thread::sleep(Duration::from_micros(200));
        }
    }
    house
        .log
        .wait_flushed_blocking(last)
        .expect("the disk is well");
}

#[test]
fn writers_do_not_stop_and_nothing_is_lost() {
    const WRITERS: usize = 3;
    for seed in 0..4 {
        let disk = SimDisk::new(seed);
        let mut models: Vec<Model> = (0..WRITERS).map(|_| Model::new()).collect();
        let (mut sequence, mut stored) = (0, 0);
        for incarnation in 0..3u64 {
            let house = TestStore::open(&disk).expect("a crash is no damage");
            for model in &mut models {
                house.check(model);
                // Slots that are free may be anybody's now.
                model.retain(|_, payload| payload.is_some());
            }
            assert_eq!(house.loaded, stored);
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for (lane, model) in models.iter_mut().enumerate() {
                    let (house, stop) = (&house, &stop);
                    let seed = seed * 100 + incarnation * 10 + lane as u64;
                    scope.spawn(move || writer(house, lane, seed, model, stop));
                }
                for _ in 0..4 {
                    thread::sleep(Duration::from_millis(15));
                    let manifest = house.checkpoint().expect("the disk is well");
                    sequence += 1;
                    stored = manifest.objects;
                    assert_eq!(manifest.sequence, sequence);
                    assert!(manifest.begin <= manifest.end && manifest.end <= house.log.flushed());
                }
                thread::sleep(Duration::from_millis(10));
                stop.store(true, Ordering::Relaxed);
            });
            disk.crash(if incarnation % 2 == 0 {
                CrashLoss::All
            } else {
                CrashLoss::Some
            });
        }
        let house = TestStore::open(&disk).expect("a crash is no damage");
        models.iter().for_each(|model| house.check(model));
    }
}

#[test]
fn checkpoint_truncates_log_and_replaces_earlier_one() {
    use fencepost_fabric::Disk;
    let disk = SimDisk::new(1);
    let house = TestStore::open(&disk).expect("fresh");
    let addr = house.alloc(0, 1000);
    let mut model = Model::new();
    for round in 0..5u64 {
        for i in 0..200 {
            let payload = vec![round * 1000 + i; 1000];
            house.write(addr, Some(&payload)).expect("the disk is well");
            model.insert(addr, Some(payload));
        }
        house.checkpoint().expect("the disk is well");
        let logs = disk.inside("log").list().expect("listing works");
        let live = logs.iter().filter(|name| name.starts_with("log-")).count();
        assert!(live <= 3, "{logs:?}");
        let files = disk.inside("checkpoint").list().expect("listing works");
        assert_eq!(files.len(), 2, "{files:?}");
    }
    drop(house);
    let house = TestStore::open(&disk).expect("the disk is well");
    assert_eq!(house.loaded, 1);
    house.check(&model);
}

#[test]
fn checkpoint_of_empty_memory_is_valid() {
    let disk = SimDisk::new(1);
    let house = TestStore::open(&disk).expect("fresh");
    let manifest = house.checkpoint().expect("the disk is well");
    assert_eq!((manifest.objects, manifest.sections), (0, 0));
    drop(house);
    assert_eq!(TestStore::open(&disk).expect("the disk is well").loaded, 0);
}
