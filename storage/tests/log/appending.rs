//! Many appenders and many waiters at once.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fencepost_fabric::{Disk, OsDisk, SimDisk};
use fencepost_storage::log::{Log, LogError, LogOptions, LogRecovery, Lsn, RequiredLog};

use crate::support::{open, read, small};

#[test]
fn appends_of_many_threads_stay_whole_and_in_order() {
    const THREADS: u64 = 6;
    const APPENDS: u64 = 300;
    let disk = SimDisk::new(1);
    let (log, _) = open(&disk, RequiredLog::default()).expect("a fresh log opens");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for i in 0..APPENDS {
                    let (t, n) = (thread.to_le_bytes(), i.to_le_bytes());
                    let filler = vec![7u8; (i % 50) as usize];
                    let end = log.append(&[(0, &[&t, &n]), (1, &[&filler]), (2, &[&t, &n])]);
                    let end = end.expect("the disk is well");
                    if i % 16 == 0 {
                        pollster::block_on(log.wait_flushed(end)).expect("the disk is well");
                        assert!(log.flushed() >= end);
                    }
                }
            });
        }
    });
    log.close().expect("closing flushes");
    assert!(matches!(log.append(&[(0, &[b"x"])]), Err(LogError::Closed)));
    let later = Lsn::from_raw(log.position().raw() + 8);
    assert!(matches!(
        log.wait_flushed_blocking(later),
        Err(LogError::Closed)
    ));
    let (found, _) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(found.len() as u64, THREADS * APPENDS * 3);
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for triple in found.chunks(3) {
        assert_eq!(
            triple.iter().map(|record| record.kind).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(triple[0].body, triple[2].body);
        let word =
            |at: usize| u64::from_le_bytes(triple[0].body[at..at + 8].try_into().expect("8"));
        let expected = next.entry(word(0)).or_default();
        assert_eq!(word(8), *expected);
        *expected += 1;
    }
}

#[test]
fn many_commits_share_one_flush() {
    let disk = SimDisk::new(2);
    disk.set_sync_delay(Duration::from_millis(2));
    let (log, _) = open(&disk, RequiredLog::default()).expect("a fresh log opens");
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let end = log.append(&[(0, &[b"commit"])]).expect("the disk is well");
                    pollster::block_on(log.wait_flushed(end)).expect("the disk is well");
                }
            });
        }
    });
    let counters = log.counters();
    assert_eq!(counters.flushed_records, 320);
    assert!(counters.flushes < 160, "{counters:?}");
}

#[test]
fn dropped_flush_wait_has_no_effect() {
    let disk = SimDisk::new(3);
    disk.set_sync_delay(Duration::from_millis(5));
    let (log, _) = open(&disk, RequiredLog::default()).expect("a fresh log opens");
    let end = log.append(&[(0, &[b"one"])]).expect("the disk is well");
    for _ in 0..10 {
        let mut wait = pin!(log.wait_flushed(end));
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    pollster::block_on(log.wait_flushed(end)).expect("the disk is well");
    pollster::block_on(log.wait_flushed(Lsn::ZERO)).expect("long since durable");
}

#[test]
fn watermark_covers_only_durable_records() {
    let disk = SimDisk::new(4);
    let clock = Arc::new(AtomicU64::new(0));
    let asked = Arc::clone(&clock);
    let recovery = LogRecovery::open(Arc::new(disk.clone()), &small(), RequiredLog::default());
    let watermark = Box::new(move || asked.load(Ordering::Acquire));
    let (log, _) = recovery
        .expect("fresh")
        .finish(watermark)
        .expect("a fresh log opens");
    for timestamp in 1..200u64 {
        let end = log
            .append(&[(0, &[&timestamp.to_le_bytes()])])
            .expect("the disk is well");
        clock.store(timestamp, Ordering::Release);
        if timestamp % 3 == 0 {
            log.wait_flushed_blocking(end).expect("the disk is well");
        }
        let covered = log.durable_watermark();
        let (found, _) = read(&disk.fork(), RequiredLog::default()).expect("the log is whole");
        assert!(
            found.len() as u64 >= covered,
            "{covered} of {}",
            found.len()
        );
    }
}

#[test]
fn appends_have_a_limit_and_empty_ones_are_nothing() {
    let disk = SimDisk::new(5);
    let (log, _) = open(&disk, RequiredLog::default()).expect("a fresh log opens");
    assert_eq!(log.append(&[]).expect("nothing fits"), log.position());
    let most = vec![1u8; log.append_limit() - 16];
    for _ in 0..3 {
        log.append(&[(0, &[&most])]).expect("the limit itself fits");
        log.append(&[(0, &[b"small"])]).expect("the disk is well");
    }
    let over = vec![1u8; most.len() + 1];
    assert!(matches!(
        log.append(&[(0, &[&over])]),
        Err(LogError::TooLarge { .. })
    ));
    drop(log);
    let (found, _) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(
        found.iter().map(|record| record.body.len()).max(),
        Some(most.len())
    );
    assert_eq!(found.len(), 6);
}

#[test]
fn large_appends_cross_windows_and_segments_of_a_real_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(dir.path()).expect("a directory"));
    let options = LogOptions {
        segment_bytes: 24 << 20,
        fill_ahead_bytes: 1 << 20,
        ..LogOptions::default()
    };
    let start = |needed| -> (Log, u64) {
        let mut recovery =
            LogRecovery::open(Arc::clone(&disk), &options, needed).expect("the log is whole");
        let mut bytes = 0;
        while let Some(chunk) = recovery.next_chunk().expect("the log is whole") {
            for record in chunk.records() {
                bytes += record.body.len() as u64;
                assert!(record.body.iter().all(|&byte| byte == record.kind));
            }
        }
        (
            recovery.finish(Box::new(|| 0)).expect("the log opens").0,
            bytes,
        )
    };
    let (log, _) = start(RequiredLog::default());
    let mut total = 0;
    for kind in 1..=12u8 {
        let body = vec![kind; 1_000_000 * (kind as usize % 8) + 3];
        total += body.len() as u64;
        log.append(&[(kind, &[&body])]).expect("there is room");
    }
    drop(log);
    let (log, bytes) = start(RequiredLog::default());
    assert_eq!(bytes, total);
    let begin = log.position();
    log.truncate_before(begin).expect("the disk is well");
    drop(log);
    let (_, bytes) = start(RequiredLog {
        from: begin,
        through: begin,
    });
    assert_eq!(bytes, 0);
}
