use super::*;
use crate::local::LocalNetwork;
use crate::machine::Member;
use crate::random::Random;
use std::collections::VecDeque;

const CAPACITY: usize = 64;

fn pair() -> (RingWriter, RingReader) {
    let network = LocalNetwork::new();
    let fabric = |id| -> Arc<dyn Fabric> {
        let fabric = network.join(MachineId(id)).expect("a new machine");
        let member = |id| Member {
            id: MachineId(id),
            address: String::new(),
        };
        fabric.set_members(&[member(1), member(2)]).expect("is one");
        Arc::new(fabric)
    };
    let (a, b) = (fabric(1), fabric(2));
    let reader = receive(&b, MachineId(1), 0, CAPACITY).expect("provided");
    (
        send(&a, MachineId(2), 0, CAPACITY).expect("provided"),
        reader,
    )
}

fn record(number: u64, words: usize) -> Vec<u64> {
    (0..words as u64).map(|i| number * 1000 + i).collect()
}

#[test]
fn records_arrive_in_order_for_any_release_order() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut writer, mut reader) = pair();
        let (mut sent, mut flushed) = (VecDeque::new(), 0);
        let mut held: Vec<HeldRecord> = Vec::new();
        let (mut number, mut out) = (0, Vec::new());
        for _ in 0..2000 {
            match random.below(4) {
                0 | 1 => {
                    let words = random.below(longest_record(CAPACITY) as u64 + 1) as usize;
                    if writer
                        .push(number as u8 % 7, &[&record(number, words)])
                        .is_ok()
                    {
                        sent.push_back((number, words));
                        number += 1;
                    }
                    if random.one_in(2) {
                        assert_eq!(writer.flush().take(), Some(Ok(())));
                        flushed = sent.len();
                    }
                }
                2 => {
                    let next = reader.next(&mut out).expect("well-formed");
                    assert_eq!(next.is_some(), flushed > 0, "seed {seed}");
                    if let Some((tag, kept)) = next {
                        let (number, words) = sent.pop_front().expect("was sent");
                        flushed -= 1;
                        assert_eq!((tag, &out), (number as u8 % 7, &record(number, words)));
                        held.push(kept);
                    }
                }
                _ => {
                    if !held.is_empty() {
                        let at = random.below(held.len() as u64) as usize;
                        reader.release(held.swap_remove(at));
                    }
                }
            }
        }
        assert!(number > 100, "seed {seed}: the ring must not get stuck");
    }
}

#[test]
fn longest_record_fits_at_any_ring_position() {
    let (mut writer, mut reader) = pair();
    let mut out = Vec::new();
    for number in 0..500 {
        let words = if number % 3 == 0 {
            longest_record(CAPACITY)
        } else {
            number as usize % 9
        };
        writer
            .push(1, &[&record(number, words)])
            .expect("there is room");
        assert_eq!(writer.flush().take(), Some(Ok(())));
        let (_, kept) = reader
            .next(&mut out)
            .expect("well-formed")
            .expect("is there");
        assert_eq!(out, record(number, words));
        reader.release(kept);
    }
    let long = vec![0; longest_record(CAPACITY) + 1];
    assert_eq!(writer.push(1, &[&long]), Err(RingFull));
}

#[test]
fn reserved_ring_space_stays_reserved() {
    let (mut writer, mut reader) = pair();
    writer.reserve(8).expect("empty");
    while writer.push(1, &[&[7; 3]]).is_ok() {}
    writer.push_reserved(2, &[&[9; 8]]);
    assert_eq!(writer.flush().take(), Some(Ok(())));
    let (mut out, mut last) = (Vec::new(), 0);
    while let Some((tag, _)) = reader.next(&mut out).expect("well-formed") {
        last = tag;
    }
    assert_eq!((last, out.as_slice()), (2, &[9; 8][..]));
}

#[test]
fn staged_records_are_split_again() {
    let (mut writer, _reader) = pair();
    let mut pushed = Vec::new();
    for words in [3, 0, 5] {
        let record = record(1, words);
        writer.push(words as u8, &[&record]).expect("fits");
        pushed.push((words as u8, record));
    }
    let found = records(&writer.staged).map(|(tag, record)| (tag, record.to_vec()));
    assert_eq!(found.collect::<Vec<_>>(), pushed);
    // A cut-off or invalid record ends the iteration.
    assert_eq!(records(&writer.staged[..3]).count(), 0);
    assert_eq!(records(&[0, 1, 2]).count(), 0);
}

#[test]
fn malformed_header_is_detected() {
    for header in [CAPACITY as u64 + 1, u64::MAX, 3 << TAG_SHIFT] {
        let (_writer, mut reader) = pair();
        reader.memory.words()[0].store(header, Ordering::Release);
        assert_eq!(reader.next(&mut Vec::new()), Err(Malformed(MachineId(1))));
    }
}
