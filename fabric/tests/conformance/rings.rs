//! Rings from sender to receiver, and the bells that wake waiting threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_fabric::random::Random;
use fencepost_fabric::ring::{longest_record, receive, record_words, send};
use fencepost_fabric::{BellValue, Fabric, RingFull, RingReader, RingWriter};

use crate::kind::{Kind, cluster, until, wait};

const CAPACITY: usize = 128;
const LANE: u16 = 2;
/// A time limit that no wait reaches, because the bell ends it before.
const LONG: Duration = Duration::from_secs(60);

fn ring(from: &Arc<dyn Fabric>, to: &Arc<dyn Fabric>) -> (RingWriter, RingReader) {
    let reader = receive(to, from.me(), LANE, CAPACITY).expect("provided");
    (
        send(from, to.me(), LANE, CAPACITY).expect("provided"),
        reader,
    )
}

/// Returns record `number`, whose length depends on the number.
fn record(number: u64) -> Vec<u64> {
    let words = Random::new(number).below(longest_record(CAPACITY) as u64 + 1);
    (0..words).map(|word| number * 100 + word).collect()
}

/// Reads all available records, and checks that they follow `next`.
fn take(reader: &mut RingReader, next: &mut u64) {
    let mut out = Vec::new();
    while let Some((tag, kept)) = reader.next(&mut out).expect("well-formed") {
        assert_eq!((tag, &out), (*next as u8 % 5, &record(*next)));
        *next += 1;
        reader.release(kept);
    }
}

pub fn records_arrive_in_order_and_whole(kind: &impl Kind) {
    const RECORDS: u64 = 2000;
    let machines = cluster(kind, 2);
    let (mut writer, mut reader) = ring(&machines[0], &machines[1]);
    let (mut sent, mut taken, mut random) = (0, 0, Random::new(5));
    until(kind, || {
        for _ in 0..random.below(6) {
            if sent < RECORDS && writer.push(sent as u8 % 5, &[&record(sent)]).is_ok() {
                sent += 1;
            }
        }
        drop(writer.flush());
        take(&mut reader, &mut taken);
        taken == RECORDS
    });
}

pub fn full_ring_refuses_until_release(kind: &impl Kind) {
    const WORDS: usize = 3;
    let machines = cluster(kind, 2);
    let (mut writer, mut reader) = ring(&machines[0], &machines[1]);
    let mut sent = 0;
    for _ in 0..20 {
        let before = sent;
        until(kind, || {
            while writer.push(1, &[&[sent; WORDS]]).is_ok() {
                sent += 1;
            }
            sent > before
        });
        assert!((sent - before) as usize * record_words(WORDS) <= CAPACITY);
        assert_eq!(writer.push(1, &[&[0; WORDS]]), Err(RingFull));
        assert_eq!(wait(kind, writer.flush()), Ok(()));
        assert_eq!(wait(kind, writer.flush()), Ok(()), "nothing is left");

        let (mut out, mut kept) = (Vec::new(), Vec::new());
        for number in before..sent {
            let (_, record) = reader.next(&mut out).expect("well-formed").expect("there");
            assert_eq!(out, [number; WORDS]);
            kept.push(record);
        }
        // Only released records give space, not read ones.
        assert_eq!(writer.push(1, &[&[0; WORDS]]), Err(RingFull));
        kept.into_iter().for_each(|record| reader.release(record));
    }
}

pub fn both_directions_of_a_pair(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (mut there, mut arrived) = ring(&machines[0], &machines[1]);
    let (mut back, mut answered) = ring(&machines[1], &machines[0]);
    let mut out = Vec::new();
    for number in 0..300 {
        there.push(1, &[&[number]]).expect("there is room");
        drop(there.flush());
        for (reader, reply) in [(&mut arrived, Some(&mut back)), (&mut answered, None)] {
            until(kind, || {
                let next = reader.next(&mut out).expect("well-formed");
                next.inspect(|(_, kept)| reader.release(*kept)).is_some()
            });
            assert_eq!(out, [number]);
            if let Some(reply) = reply {
                reply.push(2, &[&out]).expect("there is room");
                drop(reply.flush());
            }
        }
    }
}

fn wait_for_bell(machine: &Arc<dyn Fabric>, armed: BellValue) {
    let begun = Instant::now();
    machine.bell().wait(armed, LONG);
    assert!(begun.elapsed() < LONG, "the bell did not ring");
}

/// Sends records `0..records`; waits for the bell while the ring is full.
fn send_all(machine: &Arc<dyn Fabric>, writer: &mut RingWriter, records: u64) {
    for number in 0..records {
        let record = record(number);
        while writer.push(number as u8 % 5, &[&record]).is_err() {
            drop(writer.flush());
            let armed = machine.bell().arm();
            if writer.push(number as u8 % 5, &[&record]).is_ok() {
                machine.bell().disarm();
                break;
            }
            wait_for_bell(machine, armed);
        }
        if number % 3 == 0 {
            drop(writer.flush());
        }
    }
    drop(writer.flush());
}

/// Reads `records` records from each ring; waits for the bell while there are none.
fn take_all(
    machine: &Arc<dyn Fabric>,
    readers: &mut [RingReader],
    records: u64,
    mut slow: impl FnMut(),
) {
    let mut next = vec![0; readers.len()];
    let mut look = |readers: &mut [RingReader]| {
        let before: u64 = next.iter().sum();
        for (reader, next) in readers.iter_mut().zip(&mut next) {
            take(reader, next);
        }
        let (after, all) = (next.iter().sum::<u64>(), records * next.len() as u64);
        (after > before, after == all)
    };
    loop {
        slow();
        let (_, all) = look(readers);
        if all {
            return;
        }
        let armed = machine.bell().arm();
        match look(readers) {
            (_, true) => return,
            (true, _) => machine.bell().disarm(),
            (false, _) => wait_for_bell(machine, armed),
        }
    }
}

pub fn parked_pollers_are_woken(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (mut writer, reader) = ring(&machines[0], &machines[1]);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&machines[0], &mut writer, 5000));
        take_all(&machines[1], &mut [reader], 5000, || ());
    });
}

pub fn slow_receiver_slows_its_senders(kind: &impl Kind) {
    let machines = cluster(kind, 3);
    let (mut first, from_first) = ring(&machines[0], &machines[2]);
    let (mut second, from_second) = ring(&machines[1], &machines[2]);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&machines[0], &mut first, 1000));
        scope.spawn(|| send_all(&machines[1], &mut second, 1000));
        let mut readers = [from_first, from_second];
        take_all(&machines[2], &mut readers, 1000, std::thread::yield_now);
    });
}
