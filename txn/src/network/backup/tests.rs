//! Tests of chains of writes in every order, of uses of blocks, and of writes that wait for their
//! base.

use std::sync::Arc;

use fencepost_storage::PrivateBacking;
use proptest::strategy::Strategy;

use super::*;
use crate::network::message;

const REGION: RegionId = RegionId(1);

/// Truncates a transaction that wrote `value` at `w` into a slot of an object of `words` words.
fn truncate(regions: &Regions, changed: &BlockUses, w: u64, words: usize, value: u64) {
    truncate_at(regions, changed, w, (words, value), value);
}

fn truncate_at(
    regions: &Regions,
    changed: &BlockUses,
    w: u64,
    (words, at): (usize, u64),
    value: u64,
) {
    let id = TxnId {
        configuration: 1,
        machine: 2,
        thread: 0,
        local: w,
    };
    let class = Class::for_payload(words).expect("fits a block");
    let mut record = Vec::new();
    message::begin_backup(&mut record, id, Timestamp::from_raw(w), &[1]);
    let about = (slot(words, at), Kind::New, class.0, 1);
    message::put_write(&mut record, about, words, |out| out.fill(value));
    let mut backup = Backup::default();
    backup.hold(regions, &record, None, true).expect("whole");
    backup.truncate(regions, changed, id).expect("applies");
}

/// Returns regions with a reserved backup.
fn regions() -> Regions {
    let regions = Regions::with(16 << 20, Arc::new(PrivateBacking));
    regions.reserve(REGION, false).expect("memory");
    regions
}

/// Returns the slot of a value: every value has a slot of its own.
fn slot(words: usize, value: u64) -> Addr {
    let block = BlockId {
        region: REGION,
        block: 1,
    };
    block.slot(Class::for_payload(words).expect("fits"), value as usize)
}

fn holds(regions: &Regions, words: usize, value: u64) -> bool {
    let object = regions.backup(slot(words, value)).expect("a slot");
    object.header().is_allocated() && object.word(0) == value
}

#[test]
fn newest_version_stays_in_any_order_of_truncation() {
    let regions = regions();
    let changed = BlockUses::default();
    const LAST: u64 = 20_000;
    std::thread::scope(|scope| {
        for first in [1, 2] {
            let (regions, changed) = (&regions, &changed);
            scope.spawn(move || {
                for w in (first..=LAST).step_by(2) {
                    truncate_at(regions, changed, w, (3, 0), w);
                    let object = regions.backup(slot(3, 0)).expect("a slot");
                    assert!(object.header().timestamp().raw() >= w, "it went back");
                }
            });
        }
    });
    let object = regions.backup(slot(3, 0)).expect("a slot");
    assert_eq!(object.header().timestamp().raw(), LAST);
    assert_eq!(object.word(0), LAST);
}

/// A transaction of a chain: its timestamp, and which of two objects it overwrites, wholly or in
/// ranges, or frees.
#[derive(Clone, Copy, Debug)]
enum Step {
    Whole(usize),
    Words(usize, usize, usize),
    Both(usize),
    Freed(usize),
}

const OBJECT_WORDS: usize = 60;

/// Returns the records of a chain, and the values of both objects at its end.
fn chain(steps: &[Step]) -> (Vec<Vec<u64>>, [Option<Vec<u64>>; 2]) {
    let class = Class::for_payload(OBJECT_WORDS).expect("fits a block");
    let mut objects: [(u64, Option<Vec<u64>>); 2] = [(0, None), (0, None)];
    let mut records = Vec::new();
    for (step, w) in steps.iter().zip(10u64..) {
        let mut record = Vec::new();
        message::begin_backup(&mut record, id_of(w), Timestamp::from_raw(w), &[1]);
        let (which, words) = match *step {
            Step::Whole(object) | Step::Freed(object) => (vec![object], 0..OBJECT_WORDS),
            Step::Words(object, from, count) => {
                (vec![object], from..(from + count).min(OBJECT_WORDS))
            }
            Step::Both(from) => (vec![0, 1], from..from + 3),
        };
        for object in which {
            let (version, there) = &mut objects[object];
            let addr = slot(OBJECT_WORDS, object as u64);
            let about = |kind| (addr, kind, class.0, 1);
            let before = there.clone();
            let new = there.get_or_insert_with(|| vec![0; OBJECT_WORDS]);
            new[words.clone()].fill(w);
            let freed = matches!(step, Step::Freed(_)) && before.is_some();
            let ranges = |out: &mut Vec<u64>| {
                out.push(*version);
                let before = before.as_deref().filter(|_| !freed);
                before.is_some_and(|before| {
                    changes::put_if_less(out, new, &fencepost_storage::View::Own(before))
                })
            };
            if !message::put_write_of(&mut record, about(Kind::Ranges), ranges) {
                match freed {
                    true => message::put_write(&mut record, about(Kind::Freed), 0, |_| ()),
                    false => {
                        let copy = |out: &mut [u64]| out.copy_from_slice(new);
                        message::put_write(&mut record, about(Kind::New), OBJECT_WORDS, copy);
                    }
                }
            }
            if freed {
                *there = None;
            }
            *version = w;
        }
        records.push(record);
    }
    (records, objects.map(|(_, there)| there))
}

fn id_of(w: u64) -> TxnId {
    TxnId {
        configuration: 1,
        machine: 2,
        thread: 0,
        local: w,
    }
}

proptest::proptest! {
    #[test]
    fn chain_truncated_in_any_order_ends_at_last_version(
        steps in proptest::collection::vec(
            proptest::prop_oneof![
                2 => (0..2usize).prop_map(Step::Whole),
                8 => (0..2usize, 0..OBJECT_WORDS, 1..20usize)
                    .prop_map(|(o, f, c)| Step::Words(o, f, c)),
                3 => (0..50usize).prop_map(Step::Both),
                1 => (0..2usize).prop_map(Step::Freed),
            ],
            1..14,
        ),
        order in proptest::collection::vec(proptest::prelude::any::<u32>(), 14),
    ) {
        let (records, end) = chain(&steps);
        let regions = regions();
        let changed = BlockUses::default();
        // Every third transaction has the same coordinator machine.
        let mut backups: [Backup; 3] = Default::default();
        for (at, record) in records.iter().enumerate() {
            backups[at % 3].hold(&regions, record, None, true).expect("whole");
        }
        let mut sequence: Vec<usize> = (0..records.len()).collect();
        sequence.sort_by_key(|at| order[*at]);
        for at in sequence {
            let id = id_of(10 + at as u64);
            backups[at % 3].truncate(&regions, &changed, id).expect("applies");
            for backup in &mut backups {
                backup.look_again(&regions, &changed).expect("applies");
            }
        }
        // A version that one backup has applied may be awaited by another.
        while backups.iter().any(|backup| backup.left() > 0) {
            let before = changed.applied.load(Ordering::Relaxed);
            for backup in &mut backups {
                backup.look_again(&regions, &changed).expect("applies");
            }
            let after = changed.applied.load(Ordering::Relaxed);
            proptest::prop_assert!(after > before, "something waits for ever");
        }
        for (object, end) in end.iter().enumerate() {
            let there = regions.backup(slot(OBJECT_WORDS, object as u64));
            let there = there.filter(|there| there.header().is_allocated());
            let words = there.map(|there| (0..OBJECT_WORDS).map(|at| there.word(at)).collect());
            proptest::prop_assert_eq!(&words, end);
        }
    }
}

#[test]
fn write_awaiting_base_version_keeps_its_records() {
    let (records, end) = chain(&[Step::Whole(0), Step::Words(0, 5, 2), Step::Words(0, 9, 1)]);
    let regions = regions();
    let changed = BlockUses::default();
    let mut backup = Backup::default();
    for record in &records {
        backup.hold(&regions, record, None, true).expect("whole");
    }
    for w in [12, 11] {
        assert!(matches!(
            backup.truncate(&regions, &changed, id_of(w)),
            Ok(None)
        ));
        assert!(regions.backup(slot(OBJECT_WORDS, 0)).is_none());
    }
    assert_eq!(backup.left(), 3);
    let awaits =
        |among: &dyn Fn(RegionId) -> bool| backup.awaits_versions(&regions, &changed, among);
    assert!(awaits(&|region| region == REGION));
    assert!(!awaits(&|region| region != REGION), "no other region waits");
    assert!(matches!(
        backup.truncate(&regions, &changed, id_of(10)),
        Ok(Some(_))
    ));
    assert_eq!(backup.left(), 2);
    backup.look_again(&regions, &changed).expect("applies");
    assert_eq!(backup.left(), 0);
    let there = regions.backup(slot(OBJECT_WORDS, 0)).expect("a slot");
    let words: Vec<u64> = (0..OBJECT_WORDS).map(|at| there.word(at)).collect();
    assert_eq!(Some(words), end[0]);
}

#[test]
fn ranges_of_a_version_that_never_was_are_refused() {
    let (records, _) = chain(&[Step::Whole(0), Step::Words(0, 5, 2)]);
    let regions = regions();
    let changed = BlockUses::default();
    let mut backup = Backup::default();
    let mut wrong = records[1].clone();
    // The base, one earlier than the first version.
    wrong[message::BACKUP_WORDS + 1 + message::WRITE_WORDS] = 9;
    for record in [&records[0], &wrong] {
        backup.hold(&regions, record, None, true).expect("whole");
    }
    backup
        .truncate(&regions, &changed, id_of(10))
        .expect("applies");
    assert!(backup.truncate(&regions, &changed, id_of(11)).is_err());
}

#[test]
fn late_truncation_applies_only_to_its_use_of_block() {
    const SMALL: usize = 3;
    const LARGE: usize = 40;
    let regions = regions();
    let changed = BlockUses::default();
    truncate(&regions, &changed, 10, SMALL, 1);
    truncate(&regions, &changed, 30, LARGE, 2);
    // This write is of the same use as the one before, though its timestamp is lower.
    truncate(&regions, &changed, 20, LARGE, 3);
    assert!(holds(&regions, LARGE, 2) && holds(&regions, LARGE, 3));
    // This write is of the first use.
    truncate(&regions, &changed, 11, SMALL, 4);
    assert!(holds(&regions, LARGE, 2) && holds(&regions, LARGE, 3));
    truncate(&regions, &changed, 50, SMALL, 5);
    truncate(&regions, &changed, 40, SMALL, 6);
    assert!(holds(&regions, SMALL, 5) && holds(&regions, SMALL, 6));
    // These writes are of the first and of the second use.
    truncate(&regions, &changed, 12, SMALL, 7);
    truncate(&regions, &changed, 21, LARGE, 8);
    assert!(holds(&regions, SMALL, 5) && !holds(&regions, SMALL, 7));
}

/// Tests a checkpoint that contains a later state of a block than the beginning of the log.
#[test]
fn objects_before_load_of_block_stay_removed() {
    let regions = regions();
    let before = BlockUses::default();
    truncate(&regions, &before, 10, 20, 3);
    truncate(&regions, &before, 30, 20, 2);
    // As after a load: the uses of its blocks are known only from the objects in them.
    let changed = BlockUses::of(&regions);
    truncate(&regions, &changed, 5, 3, 4);
    assert!(holds(&regions, 20, 3) && holds(&regions, 20, 2));
    truncate(&regions, &changed, 20, 20, 5);
    assert!(holds(&regions, 20, 5));
    truncate(&regions, &changed, 40, 3, 4);
    assert!(holds(&regions, 3, 4));
}
