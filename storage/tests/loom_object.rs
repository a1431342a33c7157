//! Every schedule of a reader and writers on one object: no read is torn or half written.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p fencepost-storage --test loom_object`.
#![cfg(loom)]

use fencepost_fabric::Memory;
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::{ObjectRef, Timestamp};
use loom::sync::Arc;
use loom::thread;

/// Slot of ten words at word 6 of its line: a line version lies inside the payload.
const WORDS: usize = 10;
const AT: usize = 6;

fn slot(memory: &Memory) -> ObjectRef<'_> {
    ObjectRef::new(memory.words(), AT)
}

fn write(memory: &Memory, seen: Header, ts: u64) -> bool {
    let object = slot(memory);
    if object.try_lock(seen).is_err() {
        return false;
    }
    object.begin_install();
    object.put(0, &[ts, ts]);
    object.finish_install(
        seen.succeed(Timestamp::from_raw(ts), true),
        LinkWord::new(ts as u16, OldVersionPtr::NONE),
    );
    true
}

/// One optimistic read: `None` where it must be done again.
fn read(memory: &Memory) -> Option<(u64, [u64; 2], u16)> {
    let object = slot(memory);
    let header = object.header();
    if header.is_locked() {
        return None;
    }
    let payload = [object.word(0), object.word(1)];
    let incarnation = object.link().incarnation();
    object
        .unchanged(header)
        .then(|| (header.timestamp().raw(), payload, incarnation))
}

#[test]
fn reader_sees_one_version_or_none() {
    loom::model(|| {
        let memory = Arc::new(Memory::anonymous(WORDS).expect("heap"));
        let writer = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || assert!(write(&memory, Header(0), 7)))
        };
        if let Some((ts, payload, incarnation)) = read(&memory) {
            assert!(ts == 0 || ts == 7);
            assert_eq!((payload, incarnation), ([ts, ts], ts as u16));
        }
        writer.join().expect("no panic");
        assert_eq!(read(&memory), Some((7, [7, 7], 7)));
    });
}

#[test]
fn one_of_two_writers_of_version_wins() {
    loom::model(|| {
        let memory = Arc::new(Memory::anonymous(WORDS).expect("heap"));
        let other = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || write(&memory, Header(0), 8))
        };
        let mine = write(&memory, Header(0), 7);
        let theirs = other.join().expect("no panic");
        assert!(
            mine != theirs,
            "exactly one takes the lock at the version both saw"
        );
        let ts = if mine { 7 } else { 8 };
        assert_eq!(read(&memory), Some((ts, [ts, ts], ts as u16)));
    });
}

#[test]
fn abandoned_lock_changes_nothing() {
    loom::model(|| {
        let memory = Arc::new(Memory::anonymous(WORDS).expect("heap"));
        let other = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let object = slot(&memory);
                if object.try_lock(Header(0)).is_ok() {
                    object.unlock(Header(0));
                }
            })
        };
        if let Some(seen) = read(&memory) {
            assert_eq!(seen, (0, [0, 0], 0));
        }
        other.join().expect("no panic");
        assert!(write(&memory, Header(0), 9));
    });
}
