//! Whole lives against a model: append, flush, truncate, crash, recover, again and again.

use std::thread;
use std::time::Duration;

use fencepost_fabric::{CrashLoss, Disk, DiskOp, Random, SimDisk};
use fencepost_storage::log::{Log, LogError, Lsn, RequiredLog};
use proptest::prelude::*;

use crate::support::{SEGMENT_BYTES, body, from, open, segment_files};

/// The end of an append, and its records.
type Append = (Lsn, Vec<(u8, Vec<u8>)>);

/// The appends that have not been truncated, in order.
#[derive(Default)]
struct Model {
    appends: Vec<Append>,
    acknowledged: Lsn,
    begin: Lsn,
}

impl Model {
    fn append(&mut self, log: &Log, random: &mut Random, most: u64) -> Result<Lsn, LogError> {
        let records: Vec<(u8, Vec<u8>)> = (0..=random.below(3))
            .map(|_| (random.below(256) as u8, body(random, most)))
            .collect();
        let parts: Vec<(u8, [&[u8]; 2])> = records
            .iter()
            .map(|(kind, body)| (*kind, body.split_at(body.len() / 3)))
            .map(|(kind, (a, b))| (kind, [a, b]))
            .collect();
        let refs: Vec<(u8, &[&[u8]])> = parts
            .iter()
            .map(|(kind, parts)| (*kind, parts.as_slice()))
            .collect();
        let end = log.append(&refs)?;
        self.appends.push((end, records));
        Ok(end)
    }

    /// Recovers, compares, and forgets what the crash took.
    fn recover(&mut self, disk: &SimDisk) -> Log {
        let (log, found) = open(disk, from(self.begin)).expect("a crash is no corruption");
        let mut found = found
            .into_iter()
            .map(|record| (record.kind, record.body))
            .peekable();
        self.appends.retain(|(end, _)| *end > self.begin);
        let mut kept = Vec::new();
        let mut whole_until = self.begin;
        for (end, records) in self.appends.drain(..) {
            let given: Vec<_> = found.by_ref().take(records.len()).collect();
            assert_eq!(
                given,
                records[..given.len()],
                "records come back as they were"
            );
            if given.is_empty() {
                break;
            }
            let whole = given.len() == records.len();
            whole_until = if whole { end } else { log.position() };
            kept.push((whole_until, given));
            if !whole {
                break;
            }
        }
        assert_eq!(
            found.peek(),
            None,
            "nothing that was not appended comes back"
        );
        assert!(
            whole_until >= self.acknowledged,
            "{} is lost",
            self.acknowledged
        );
        self.appends = kept;
        self.acknowledged = whole_until;
        log
    }
}

/// One life: some appends, some of them waited for, some truncation; then the power goes.
fn live(model: &mut Model, log: &Log, disk: &SimDisk, random: &mut Random) {
    for _ in 0..random.below(60) {
        let end = model.append(log, random, 500).expect("the disk is well");
        if random.one_in(3) {
            log.wait_flushed_blocking(end).expect("the disk is well");
            model.acknowledged = end;
        }
        if random.one_in(25) {
            model.begin = model.acknowledged;
            log.truncate_before(model.begin).expect("the disk is well");
        }
    }
    let loss = if random.one_in(3) {
        CrashLoss::All
    } else {
        CrashLoss::Some
    };
    disk.crash(loss);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_crash_loses_an_acknowledged_append(seed: u64, slow: bool) {
        run_incarnations(seed, slow);
    }
}

fn run_incarnations(seed: u64, slow: bool) {
    let (disk, mut random) = (SimDisk::new(seed), Random::new(seed));
    disk.set_sync_delay(Duration::from_micros(if slow { 200 } else { 0 }));
    let mut model = Model::default();
    for _ in 0..8 {
        let log = model.recover(&disk);
        live(&mut model, &log, &disk, &mut random);
    }
    model.recover(&disk);
}

#[test]
fn reused_segments_do_not_revive_old_records() {
    let (disk, mut random) = (SimDisk::new(9), Random::new(9));
    let mut model = Model::default();
    let log = model.recover(&disk);
    for round in 0..400 {
        let end = model
            .append(&log, &mut random, 900)
            .expect("the disk is well");
        log.wait_flushed_blocking(end).expect("the disk is well");
        model.acknowledged = end;
        if round % 20 == 19 {
            model.begin = end;
            log.truncate_before(end).expect("the disk is well");
        }
        let files = disk.list().expect("listing works").len();
        assert!(files <= 10, "{files} files");
    }
    assert!(log.flushed().raw() > 20 * SEGMENT_BYTES);
    assert!(!segment_files(&disk).contains(&"log-000000000000.seg".to_owned()));
    drop(log);
    disk.crash(CrashLoss::Some);
    model.recover(&disk);
}

#[test]
fn full_disk_refuses_appends_and_keeps_accepted_records() {
    let (disk, mut random) = (SimDisk::new(5), Random::new(5));
    let mut model = Model::default();
    let log = model.recover(&disk);
    disk.set_free_bytes(Some(3 * SEGMENT_BYTES));
    let full = loop {
        match model.append(&log, &mut random, 700) {
            Ok(end) => model.acknowledged = end,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, LogError::Full), "{full}");
    log.wait_flushed_blocking(model.acknowledged)
        .expect("what was accepted has its place");
    assert!(log.counters().refused > 0 && !log.has_failed());
    disk.set_free_bytes(None);
    let end = loop {
        match model.append(&log, &mut random, 700) {
            Ok(end) => break end,
            Err(LogError::Full) => thread::sleep(Duration::from_millis(1)),
            Err(other) => panic!("{other}"),
        }
    };
    log.wait_flushed_blocking(end).expect("there is room again");
    model.acknowledged = end;
    drop(log);
    disk.crash(CrashLoss::All);
    model.recover(&disk);
}

#[test]
fn failed_flush_is_final() {
    for op in [DiskOp::Write, DiskOp::Sync] {
        let (disk, mut random) = (SimDisk::new(6), Random::new(6));
        let mut model = Model::default();
        let log = model.recover(&disk);
        let first = model
            .append(&log, &mut random, 100)
            .expect("the disk is well");
        log.wait_flushed_blocking(first).expect("the disk is well");
        // The filler has allocated ahead by now, so that the next call of its kind is a flush.
        thread::sleep(Duration::from_millis(20));
        disk.fail_nth(op, 1);
        let second = model
            .append(&log, &mut random, 100)
            .expect("it is taken before the flush");
        let failed = log
            .wait_flushed_blocking(second)
            .expect_err("the flush failed");
        assert!(matches!(failed, LogError::Failed(_)), "{failed}");
        assert!(
            log.wait_flushed_blocking(first).is_ok(),
            "what was durable stays durable"
        );
        let refused = model
            .append(&log, &mut random, 100)
            .expect_err("the log has failed");
        assert!(matches!(refused, LogError::Failed(_)), "{refused}");
        assert!(log.close().is_err());
        model.acknowledged = first;
        drop(log);
        disk.crash(CrashLoss::All);
        model.recover(&disk);
    }
}

#[test]
fn opening_twice_changes_nothing() {
    let (disk, mut random) = (SimDisk::new(7), Random::new(7));
    let mut model = Model::default();
    let log = model.recover(&disk);
    for _ in 0..100 {
        model.acknowledged = model
            .append(&log, &mut random, 400)
            .expect("the disk is well");
    }
    log.close().expect("closing flushes");
    drop(log);
    for _ in 0..5 {
        let log = model.recover(&disk);
        assert_eq!(log.position(), model.acknowledged);
    }
    let (_, found) = open(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(
        found.len(),
        model
            .appends
            .iter()
            .map(|(_, records)| records.len())
            .sum::<usize>()
    );
}
