//! The records and messages in the rings between machines: the log records of SOSP'15 Table 1 that
//! carry data, and the messages of its Table 2.
//!
//! ```text
//! log     LOCK            id | regions: count, ids | writes: address | kind, stamped word, words
//!                              | base | payload
//!         LOCK-MOVED      id | values of patched nodes: address | ranges?, words | payload
//!         COMMIT-BACKUP   id | w | regions | writes: address | kind, class, words
//!                              | incarnation | payload
//!         COMMIT-PRIMARY  id | w
//!         ABORT           id
//!         TRUNCATE        low bound | number | id | number | id | ...
//! message LOCK-REPLY      id | 0, and the slot of each write, with the header that was found for
//!                              a write that is locked at any version; or the reason of the failure
//!                              and the address
//!         LOCK-FOUND      id | the first words of a LOCK-REPLY that does not fit one message
//! ```
//! An id is three words. In LOCK the payload of a new object begins with the address of the object
//! that it is split from, or 0. A payload of ranges ([`crate::changes`]) applies to the base
//! version, which precedes the ranges in COMMIT-BACKUP.
//!
//! A LOCK carries all new values, computed for the base versions: a primary whose backups are all
//! lost can still commit. One word of each value may be left to be stamped with the write
//! timestamp. Only a patched node that was locked at another version than its base gets its value
//! by LOCK-MOVED, before any COMMIT-PRIMARY is written. So does a node whose value does not fit the
//! LOCK.
//!
//! # Failure
//! Records come from peers: decoding bounds every count and answers [`BadRecord`].

use fencepost_storage::classes::Class;
use fencepost_storage::region::Regions;
use fencepost_storage::{Addr, Timestamp};

use crate::record::{BadRecord, TxnId};
use crate::stop::AbortReason;
use crate::words::SHORT;
pub(super) use crate::words::WordReader;

/// Tags of the messages that answer LOCK.
pub(super) const LOCK_REPLY: u8 = 1;
pub(super) const LOCK_FOUND: u8 = 5;
/// Words of found slots and headers in one message.
const FOUND_AT_ONCE: usize = 2048;

/// How an object is locked or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Overwritten at its base version by the payload.
    Whole = 1,
    /// Overwritten at its base version by ranges.
    Ranges = 2,
    /// Locked at any version; the payload is the new value computed for the base version, or empty.
    Patched = 3,
    /// Locked at any version, with a payload of ranges.
    PatchedRanges = 4,
    /// Freed at its base version.
    Freed = 5,
    /// New, with the payload.
    New = 6,
}

impl Kind {
    fn of(number: u64) -> Result<Kind, BadRecord> {
        const ALL: [Kind; 6] = [
            Kind::Whole,
            Kind::Ranges,
            Kind::Patched,
            Kind::PatchedRanges,
            Kind::Freed,
            Kind::New,
        ];
        let kind = ALL.into_iter().find(|kind| *kind as u64 == number);
        kind.ok_or(BadRecord("unknown kind of write"))
    }

    /// Returns whether the object is locked at any version.
    pub fn is_patched(self) -> bool {
        matches!(self, Kind::Patched | Kind::PatchedRanges)
    }

    /// Returns the same kind with a payload of ranges.
    pub fn in_ranges(self) -> Kind {
        match self.is_patched() {
            true => Kind::PatchedRanges,
            false => Kind::Ranges,
        }
    }

    /// Returns whether the payload is ranges.
    pub fn is_ranges(self) -> bool {
        matches!(self, Kind::Ranges | Kind::PatchedRanges)
    }
}

/// A write of a LOCK or COMMIT-BACKUP record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write<'a> {
    pub addr: Addr,
    pub kind: Kind,
    /// Size class of the object's block in COMMIT-BACKUP; in LOCK the stamped word plus 1, or 0.
    pub class: u8,
    /// Header of the base version in LOCK, incarnation in COMMIT-BACKUP.
    pub about: u64,
    /// In LOCK: the lock fails if another transaction has a conflicting intent.
    pub gives_way: bool,
    pub payload: &'a [u64],
}

/// Words of a write before its payload.
pub(super) const WRITE_WORDS: usize = 3;
/// Flag in the length word of a write: the write gives way to intents.
const GIVES_WAY: u64 = 1 << 47;
/// Words of a new object in LOCK before its payload: the address that it is split from.
pub(super) const SPLIT_WORDS: usize = 1;
/// Words of a value of LOCK-MOVED before its payload.
pub(super) const MOVED_WORDS: usize = 2;
/// Flag in the length word of a LOCK-MOVED value: the value is encoded as changed ranges.
const RANGES: u64 = 1 << 63;
/// Words of a LOCK record before its regions.
pub(super) const LOCK_WORDS: usize = TxnId::WORDS + 1;
/// Words of a COMMIT-PRIMARY record.
pub(super) const COMMIT_WORDS: usize = TxnId::WORDS + 1;
/// Words of a COMMIT-BACKUP record before its regions.
pub(super) const BACKUP_WORDS: usize = COMMIT_WORDS + 1;

/// Appends the beginning of a LOCK record.
pub(super) fn begin_lock(out: &mut Vec<u64>, id: TxnId, regions: &[u32]) {
    out.extend(id.words());
    put_regions(out, regions);
}

/// Appends the beginning of a COMMIT-BACKUP record.
pub(super) fn begin_backup(out: &mut Vec<u64>, id: TxnId, w: Timestamp, regions: &[u32]) {
    put_commit(out, id, w);
    put_regions(out, regions);
}

/// Appends a COMMIT-PRIMARY record.
pub(super) fn put_commit(out: &mut Vec<u64>, id: TxnId, w: Timestamp) {
    out.extend(id.words());
    out.push(w.raw());
}

/// Appends all regions that a transaction writes: recovery asks their primaries if the coordinator
/// is lost.
fn put_regions(out: &mut Vec<u64>, regions: &[u32]) {
    out.push(regions.len() as u64);
    out.extend(regions.iter().map(|region| u64::from(*region)));
}

/// Appends a write whose payload of `words` words `copy` fills in.
pub(super) fn put_write(
    out: &mut Vec<u64>,
    (addr, kind, class, about): (Addr, Kind, u8, u64),
    words: usize,
    copy: impl FnOnce(&mut [u64]),
) {
    let put = |out: &mut Vec<u64>| {
        let from = out.len();
        out.resize(from + words, 0);
        copy(&mut out[from..]);
        true
    };
    put_write_of(out, (addr, kind, class, about), put);
}

/// Appends a write whose payload `put` appends. Appends nothing if `put` returns `false`.
pub(super) fn put_write_of(
    out: &mut Vec<u64>,
    (addr, kind, class, about): (Addr, Kind, u8, u64),
    put: impl FnOnce(&mut Vec<u64>) -> bool,
) -> bool {
    let from = out.len();
    out.extend([addr.raw(), 0, about]);
    let done = put(out);
    if done {
        let words = out.len() - from - WRITE_WORDS;
        out[from + 1] = ((kind as u64) << 56) | (u64::from(class) << 48) | words as u64;
    } else {
        out.truncate(from);
    }
    done
}

/// Marks the write of a LOCK that begins at `words`: it gives way to intents.
pub(super) fn give_way(words: &mut [u64]) {
    if let Some(tag) = words.get_mut(1) {
        *tag |= GIVES_WAY;
    }
}

/// Appends a value of LOCK-MOVED: the ranges that `put` appends or, if `put` returns `false`, the
/// whole value.
pub(super) fn put_moved(
    out: &mut Vec<u64>,
    addr: Addr,
    whole: &[u64],
    put: impl FnOnce(&mut Vec<u64>) -> bool,
) {
    let from = out.len();
    out.extend([addr.raw(), 0]);
    let ranges = put(out);
    if !ranges {
        out.truncate(from + MOVED_WORDS);
        out.extend_from_slice(whole);
    }
    let words = (out.len() - from - MOVED_WORDS) as u64;
    out[from + 1] = words | if ranges { RANGES } else { 0 };
}

/// The new value of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The payload from its beginning.
    Whole(&'a [u64]),
    /// Changed ranges, to apply to the base version.
    Ranges(&'a [u64]),
}

impl<'a> WordReader<'a> {
    /// Skips the regions of a LOCK or COMMIT-BACKUP record, behind its id and timestamp.
    pub(super) fn skip_regions(&mut self) -> Result<(), BadRecord> {
        self.counted().map(drop)
    }

    /// Reads the next write; `None` at the end.
    pub(super) fn write(&mut self) -> Result<Option<Write<'a>>, BadRecord> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let [addr, tag, about] = *self.take(WRITE_WORDS)?.first_chunk().ok_or(SHORT)?;
        let words = usize::try_from(tag & (GIVES_WAY - 1)).map_err(|_| SHORT)?;
        Ok(Some(Write {
            addr: Addr::from_raw(addr),
            kind: Kind::of(tag >> 56)?,
            class: (tag >> 48) as u8,
            about,
            gives_way: tag & GIVES_WAY != 0,
            payload: self.take(words)?,
        }))
    }

    /// Reads the next value of LOCK-MOVED; `None` at the end.
    pub(super) fn moved(&mut self) -> Result<Option<(Addr, Value<'a>)>, BadRecord> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let [addr, words] = *self.take(MOVED_WORDS)?.first_chunk().ok_or(SHORT)?;
        let payload = self.take(usize::try_from(words & !RANGES).map_err(|_| SHORT)?)?;
        let value = match words & RANGES {
            0 => Value::Whole(payload),
            _ => Value::Ranges(payload),
        };
        Ok(Some((Addr::from_raw(addr), value)))
    }
}

/// The attributes of an object's slot that backups need and only the primary knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Size class of its block.
    pub class: Class,
    /// How many objects the slot has held.
    pub incarnation: u16,
}

impl Slot {
    /// Returns the slot at an address of this machine.
    pub fn of(regions: &Regions, addr: Addr) -> Option<Slot> {
        Some(Slot {
            class: regions.class_of(addr)?,
            incarnation: regions.object(addr)?.link().incarnation(),
        })
    }

    /// Encodes the slot as one word of a message.
    pub fn word(self) -> u64 {
        (u64::from(self.class.0) << 16) | u64::from(self.incarnation)
    }

    /// Decodes a word made by [`Self::word`].
    pub fn from_word(word: u64) -> Slot {
        Slot {
            class: Class((word >> 16) as u8),
            incarnation: word as u16,
        }
    }
}

/// The reply of a primary to LOCK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockReply {
    /// All locks were taken. For each write, in the order of the LOCK: its slot and, if it was
    /// locked at any version, the header found.
    Locked(Vec<u64>),
    /// No lock was taken.
    Failed(AbortReason, Addr),
}

impl LockReply {
    /// Passes the messages with their tags to `send`: all but the last are LOCK-FOUND.
    pub(super) fn send(&self, id: TxnId, mut send: impl FnMut(u8, &[u64])) {
        let mut words = id.words().to_vec();
        match self {
            LockReply::Locked(found) => {
                let last = found.len() - found.len() % FOUND_AT_ONCE;
                for part in found[..last].chunks(FOUND_AT_ONCE) {
                    words.extend_from_slice(part);
                    send(LOCK_FOUND, &words);
                    words.truncate(TxnId::WORDS);
                }
                words.push(0);
                words.extend_from_slice(&found[last..]);
            }
            LockReply::Failed(reason, addr) => words.extend([*reason as u64 + 1, addr.raw()]),
        }
        send(LOCK_REPLY, &words);
    }

    pub(super) fn decode(words: &[u64]) -> Result<(TxnId, LockReply), BadRecord> {
        let mut reader = WordReader(words);
        let (id, status) = (reader.id()?, reader.word()?);
        let Some(reason) = status.checked_sub(1) else {
            return Ok((id, LockReply::Locked(reader.0.to_vec())));
        };
        let reason = usize::try_from(reason)
            .ok()
            .and_then(|reason| AbortReason::ALL.get(reason).copied())
            .ok_or(BadRecord("unknown reason of an abort"))?;
        Ok((
            id,
            LockReply::Failed(reason, Addr::from_raw(reader.word()?)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: TxnId = TxnId {
        configuration: 1,
        machine: 2,
        thread: 3,
        local: 4,
    };

    #[test]
    fn log_records_round_trip() {
        let addr = Addr::from_raw(77);
        let mut words = Vec::new();
        begin_lock(&mut words, ID, &[4, 9]);
        put_write(&mut words, (addr, Kind::Whole, 0, 5), 3, |out| out.fill(8));
        let from = words.len();
        put_write(&mut words, (addr, Kind::Freed, 7, 6), 0, |_| ());
        give_way(&mut words[from..]);
        let mut reader = WordReader(&words);
        assert_eq!(reader.id(), Ok(ID));
        assert_eq!(reader.skip_regions(), Ok(()));
        let first = reader.write().expect("whole").expect("one");
        assert_eq!(
            (first.kind, first.about, first.payload, first.gives_way),
            (Kind::Whole, 5, &[8, 8, 8][..], false)
        );
        let second = reader.write().expect("whole").expect("two");
        assert_eq!(
            (second.kind, second.class, second.gives_way),
            (Kind::Freed, 7, true)
        );
        assert_eq!(reader.write(), Ok(None));
        for reply in [
            LockReply::Locked(vec![1, 2]),
            LockReply::Failed(AbortReason::LockBusy, addr),
        ] {
            let mut sent = Vec::new();
            reply.send(ID, |tag, words| sent.push((tag, words.to_vec())));
            assert_eq!(sent.len(), 1);
            assert_eq!(LockReply::decode(&sent[0].1), Ok((ID, reply)));
        }
    }

    #[test]
    fn much_that_was_found_comes_in_parts() {
        let found: Vec<u64> = (0..3 * FOUND_AT_ONCE as u64 + 5).collect();
        let (mut back, mut tags) = (Vec::new(), Vec::new());
        LockReply::Locked(found.clone()).send(ID, |tag, words| {
            tags.push(tag);
            match LockReply::decode(words) {
                Ok((_, LockReply::Locked(last))) if tag == LOCK_REPLY => back.extend(last),
                _ => back.extend_from_slice(&words[TxnId::WORDS..]),
            }
        });
        assert_eq!(back, found);
        assert_eq!(tags, [LOCK_FOUND, LOCK_FOUND, LOCK_FOUND, LOCK_REPLY]);
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(
            words in proptest::collection::vec(any::<u64>(), 0..60),
        ) {
            let _ = LockReply::decode(&words);
            let mut reader = WordReader(&words);
            let _ = reader.id();
            let _ = reader.skip_regions();
            while let Ok(Some(_)) = reader.write() {}
            let mut reader = WordReader(&words);
            let _ = reader.timestamp();
            while let Ok(Some(_)) = reader.moved() {}
        }

        #[test]
        fn values_that_moved_come_back_whole_or_as_ranges(
            values in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec(any::<u64>(), 0..9)),
                0..9,
            ),
        ) {
            let mut words = Vec::new();
            for (at, (ranges, value)) in values.iter().enumerate() {
                let put = |out: &mut Vec<u64>| {
                    // A value that `put` rejects leaves no words behind.
                    out.extend(value);
                    *ranges
                };
                put_moved(&mut words, Addr::from_raw(at as u64), value, put);
            }
            let mut reader = WordReader(&words);
            for (at, (ranges, value)) in values.iter().enumerate() {
                let expected = match ranges {
                    true => Value::Ranges(value),
                    false => Value::Whole(value),
                };
                prop_assert_eq!(reader.moved(), Ok(Some((Addr::from_raw(at as u64), expected))));
            }
            prop_assert_eq!(reader.moved(), Ok(None));
        }
    }
}
