//! Room that is reserved: what has it never waits, what has none waits in line.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use fencepost_fabric::{Random, SimDisk};
use fencepost_storage::log::{Log, LogError, LogOptions, LogRecovery, LogReservation, RequiredLog};
use pollster::block_on;

use crate::support::{SEGMENT_BYTES, body, open, read};

/// A log with a small buffer and much of it allocated ahead.
fn open_tight(disk: &SimDisk) -> Log {
    let options = LogOptions {
        segment_bytes: SEGMENT_BYTES,
        fill_ahead_bytes: 40 * SEGMENT_BYTES,
        buffer_bytes: 64 << 10,
    };
    let recovery = LogRecovery::open(Arc::new(disk.boot()), &options, RequiredLog::default());
    let log = recovery.expect("fresh").finish(Box::new(|| 0));
    let log = log.expect("a fresh log opens").0;
    // From here on the buffer is the limit, not what the filler has done so far.
    log.give_back(block_on(log.reserve(55_000, 1)).expect("the disk is well"));
    log
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn record_bytes(body: &[u8]) -> usize {
    16 + body.len().next_multiple_of(8)
}

/// Takes all the room there is, in pieces.
fn take_all(log: &Log) -> Vec<LogReservation> {
    let mut reservations = Vec::new();
    while let Some(reservation) = log.try_reserve(100, 1) {
        reservations.push(reservation);
    }
    reservations
}

#[test]
fn reserved_append_succeeds_during_stuck_flush() {
    let disk = SimDisk::new(1);
    let log = open_tight(&disk);
    let mut random = Random::new(1);
    for _ in 0..30 {
        let held = disk.hold_syncs();
        let before = log.flushed();
        let bodies: Vec<Vec<u8>> = (0..12).map(|_| body(&mut random, 3000)).collect();
        let bytes = bodies.iter().map(|body| record_bytes(body)).sum();
        let mut reservation = block_on(log.reserve(bytes, bodies.len())).expect("the disk is well");
        // Others append in between, and what they use is not taken from this.
        for (i, body) in bodies.iter().enumerate() {
            if let Some(mut other) = log.try_reserve(16 + 8, 1) {
                log.append_reserved(&mut other, &[(1, &[b"other"])], true)
                    .expect("there is room");
            }
            let done = i + 1 == bodies.len();
            log.append_reserved(&mut reservation, &[(0, &[body])], done)
                .expect("there is room");
        }
        assert!(reservation.is_empty());
        assert_eq!(log.flushed(), before, "segments were crossed all the same");
        drop(held);
        log.wait_flushed_blocking(log.position())
            .expect("the disk is well");
    }
    drop(log);
    let (found, report) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(found.iter().filter(|record| record.kind == 0).count(), 360);
    assert_eq!(report.torn, None);
}

#[test]
fn reservation_without_space_waits_for_released_space() {
    let disk = SimDisk::new(2);
    let log = open_tight(&disk);
    let held = disk.hold_syncs();
    let mut reservations = take_all(&log);
    let mut first = pin!(log.reserve(5000, 1));
    let mut second = pin!(log.reserve(100, 1));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    let some = reservations.pop().expect("some room");
    log.give_back(some);
    assert!(poll(first.as_mut()).is_pending(), "it needs more than that");
    assert!(poll(second.as_mut()).is_pending(), "it does not overtake");
    assert!(log.try_reserve(100, 1).is_none(), "nor does anybody else");
    assert!(matches!(log.try_append(&[(0, &[b"x"])]), Ok(None)));
    let some = reservations.pop().expect("some room");
    log.give_back(some);
    let Poll::Ready(Ok(reservation)) = poll(first.as_mut()) else {
        panic!("there is room for the first");
    };
    log.give_back(reservation);
    let Poll::Ready(Ok(reservation)) = poll(second.as_mut()) else {
        panic!("and for the second");
    };
    log.give_back(reservation);
    drop(held);
}

#[test]
fn dropped_reservation_lets_later_waiters_pass() {
    let disk = SimDisk::new(3);
    let log = open_tight(&disk);
    let held = disk.hold_syncs();
    let mut reservations = take_all(&log);
    let mut large = Box::pin(log.reserve(12_000, 1));
    let mut small = pin!(log.reserve(100, 1));
    assert!(poll(large.as_mut()).is_pending() && poll(small.as_mut()).is_pending());
    log.give_back(reservations.pop().expect("some room"));
    assert!(poll(small.as_mut()).is_pending());
    drop(large);
    let Poll::Ready(Ok(reservation)) = poll(small.as_mut()) else {
        panic!("there is room");
    };
    // A granted reservation that was not fetched is not lost.
    let mut unfetched = Box::pin(log.reserve(100, 1));
    assert!(poll(unfetched.as_mut()).is_pending());
    log.give_back(reservation);
    drop(unfetched);
    let reservation = log.try_reserve(100, 1);
    assert!(reservation.is_some());
    log.give_back(reservation.unwrap_or_default());
    reservations
        .into_iter()
        .for_each(|reservation| log.give_back(reservation));
    drop(held);
}

#[test]
fn flush_frees_space_and_oversized_reservation_gets_whole_buffer() {
    let disk = SimDisk::new(4);
    let log = open_tight(&disk);
    let held = disk.hold_syncs();
    // The flusher takes the first batch and gets stuck; the next ones fill the buffer.
    let big = [7u8; 6000];
    let mut appended = 0;
    while log
        .try_append(&[(0, &[&big])])
        .expect("the disk is well")
        .is_some()
    {
        appended += 1;
    }
    assert!(appended > 5, "{appended}");
    let mut small = Box::pin(log.reserve(100, 1));
    let mut large = Box::pin(log.reserve(100_000, 20));
    assert!(poll(large.as_mut()).is_pending() && poll(small.as_mut()).is_pending());
    drop(held);
    let mut reservation = block_on(large).expect("it gets its turn");
    for i in 0..20 {
        log.append_reserved(&mut reservation, &[(1, &[&[1u8; 4900]])], i == 19)
            .expect("there is room");
    }
    log.give_back(block_on(small).expect("it gets its turn"));
    drop(log);
    let (found, _) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(found.len(), appended + 20);
}

#[test]
fn closed_log_ends_all_waits() {
    let disk = SimDisk::new(5);
    let log = open_tight(&disk);
    let mut reservations = take_all(&log);
    let mut waits = pin!(log.reserve(100, 1));
    assert!(poll(waits.as_mut()).is_pending());
    thread::scope(|scope| {
        let blocked = scope.spawn(|| log.append(&[(0, &[b"x"])]));
        while log.counters().append_waits < 2 {
            thread::yield_now();
        }
        log.close().expect("nothing to flush");
        let blocked = blocked.join().expect("no panic");
        assert!(matches!(blocked, Err(LogError::Closed)));
    });
    assert!(matches!(
        poll(waits.as_mut()),
        Poll::Ready(Err(LogError::Closed))
    ));
    let mut reservation = reservations.pop().expect("some room");
    let late = log.append_reserved(&mut reservation, &[(0, &[b"x"])], true);
    assert!(matches!(late, Err(LogError::Closed)) && reservation.is_empty());
}

#[test]
fn concurrent_reservations_lose_no_space() {
    let disk = SimDisk::new(6);
    let log = open_tight(&disk);
    let all = take_all(&log)
        .into_iter()
        .map(|reservation| log.give_back(reservation));
    let before = all.count();
    thread::scope(|scope| {
        for thread in 0..6u64 {
            let log = &log;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for i in 0..400u64 {
                    let bytes = body(&mut random, 4000);
                    let size = record_bytes(&bytes);
                    if i % 7 == 0 {
                        // Leaves the line at once, served or not.
                        if let Poll::Ready(reservation) = poll(pin!(log.reserve(size, 1))) {
                            log.give_back(reservation.expect("the disk is well"));
                        }
                    }
                    let mut reservation =
                        block_on(log.reserve(2 * size, 2)).expect("the disk is well");
                    if i % 5 != 0 {
                        let done = i % 3 == 0;
                        log.append_reserved(&mut reservation, &[(0, &[&bytes])], done)
                            .expect("there is room");
                    }
                    log.give_back(reservation);
                }
            });
        }
    });
    log.wait_flushed_blocking(log.position())
        .expect("the disk is well");
    let mut after = 0;
    // The filler may still be on its way.
    while after < before {
        after = take_all(&log)
            .into_iter()
            .map(|reservation| log.give_back(reservation))
            .count();
        thread::yield_now();
    }
    drop(log);
    let (found, _) = read(&disk, RequiredLog::default()).expect("the log is whole");
    assert_eq!(found.len(), 6 * 320);
    open(&disk, RequiredLog::default()).expect("the log is whole");
}
