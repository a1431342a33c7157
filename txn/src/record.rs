//! Log records (SOSP'15 Table 1) and transaction ids.
//!
//! # Picture
//! ```text
//! LOCK            | transaction id (3 words) | n regions | region ids ... | writes ...      |
//! COMMIT-PRIMARY  | transaction id (3 words) | write timestamp |
//! ABORT           | transaction id (3 words) |
//!
//! write, new      | address | 1<<56 | class<<48 | words | incarnation | words ... |
//! write, changed  | address | 2<<56 | ranges | base version | (from<<32 | words | words ...) ... |
//! write, freed    | address | 3<<56 | base version |
//! ```
//! All words are little-endian. A large transaction has several LOCK records, because it spans
//! chunks. They count only once the transaction's COMMIT-PRIMARY is in the log. On one machine a
//! small transaction appends both at once. A changed object is logged as the ranges that differ
//! from the version that it names as base. An object of up to 256 bytes is logged as one range of
//! all its words (`changes.rs`).
//!
//! # Failure
//! Records are read from a disk: decoding bounds every count and returns [`BadRecord`].

use fencepost_storage::{Addr, Timestamp, View};

use crate::changes;

/// LOCK: the writes of a transaction.
pub const LOCK: u8 = 1;
/// COMMIT-BACKUP: as LOCK, at a backup.
pub const COMMIT_BACKUP: u8 = 2;
/// COMMIT-PRIMARY: the transaction took effect.
pub const COMMIT_PRIMARY: u8 = 3;
/// ABORT: the transaction did not take effect.
pub const ABORT: u8 = 4;
/// TRUNCATE: all replicas have processed the transaction; its records can be removed.
pub const TRUNCATE: u8 = 5;
/// COMMIT-BACKUP of a transaction that has several of them; the backup copies it out of the log.
pub const COMMIT_BACKUP_PART: u8 = 6;
/// The last COMMIT-BACKUP of such a transaction: the backup has all that it needs to commit.
pub const COMMIT_BACKUP_LAST: u8 = 10;
/// LOCK of such a transaction; it must not keep the log from releasing the parts that follow it.
pub const LOCK_OF_PARTS: u8 = 7;
/// UNRESERVE: slots that were reserved for new objects go back to their primary.
pub const UNRESERVE: u8 = 8;
/// LOCK-MOVED: new images of patched nodes that were locked at other versions than their LOCK
/// records name.
pub const LOCK_MOVED: u8 = 9;

/// CONFIGURATION: the records that follow belong to this configuration.
pub const CONFIGURATION: u8 = 11;

/// Returns whether recovery after a power loss decides by records of this kind: the records before
/// COMMIT-PRIMARY.
pub(crate) fn is_evidence(kind: u8) -> bool {
    let of_primary = matches!(kind, LOCK | LOCK_OF_PARTS | LOCK_MOVED);
    of_primary
        || matches!(
            kind,
            COMMIT_BACKUP | COMMIT_BACKUP_PART | COMMIT_BACKUP_LAST
        )
}

const NEW: u64 = 1;
const CHANGED: u64 = 2;
const FREED: u64 = 3;

/// Identity of a transaction: ⟨configuration, machine, thread, local⟩ of its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId {
    /// Configuration in which its commit began.
    pub configuration: u64,
    /// Machine of the coordinator.
    pub machine: u32,
    /// Number of the coordinator on its machine.
    pub thread: u32,
    /// The coordinator's own counter.
    pub local: u64,
}

impl TxnId {
    /// Words of an encoded id.
    pub const WORDS: usize = 3;

    pub(crate) fn words(self) -> [u64; 3] {
        [
            self.configuration,
            (u64::from(self.machine) << 32) | u64::from(self.thread),
            self.local,
        ]
    }

    pub(crate) fn from_words(words: &[u64]) -> Option<Self> {
        let [configuration, who, local] = *words.first_chunk::<3>()?;
        Some(TxnId {
            configuration,
            machine: (who >> 32) as u32,
            thread: who as u32,
            local,
        })
    }
}

/// A malformed record: no writer produces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed log record: {0}")]
pub struct BadRecord(pub &'static str);

/// Words of a COMMIT-PRIMARY record.
pub(crate) const COMMIT_WORDS: usize = TxnId::WORDS + 1;
/// Words of a freed object in a LOCK record.
pub(crate) const FREED_WORDS: usize = 3;

/// Words of a LOCK record before its writes.
pub(crate) const fn head_words(regions: usize) -> usize {
    TxnId::WORDS + 1 + regions
}

/// Words of a new object of `len` words in a LOCK record.
pub(crate) const fn new_words(len: usize) -> usize {
    3 + len
}

/// Returns the most words that a changed object of `len` words takes in a LOCK record.
pub(crate) const fn changed_words(len: usize) -> usize {
    3 + changes::most_words(len)
}

/// Builds a LOCK record in a reusable buffer of words.
pub(crate) struct LockRecord<'a> {
    words: &'a mut Vec<u64>,
}

impl<'a> LockRecord<'a> {
    /// Begins a record of `id` that writes to `regions`.
    pub fn begin(words: &'a mut Vec<u64>, id: TxnId, regions: impl Iterator<Item = u32>) -> Self {
        words.clear();
        words.extend_from_slice(&id.words());
        words.push(0);
        let mut distinct = 0;
        for region in regions {
            let seen = words[TxnId::WORDS + 1..].contains(&u64::from(region));
            if !seen {
                words.push(u64::from(region));
                distinct += 1;
            }
        }
        words[TxnId::WORDS] = distinct;
        Self { words }
    }

    /// Appends a new object of `class`.
    pub fn new_object(
        &mut self,
        addr: Addr,
        class: u8,
        incarnation: u16,
        len: usize,
        copy: impl FnOnce(&mut [u64]),
    ) {
        let tag = (NEW << 56) | (u64::from(class) << 48) | len as u64;
        self.words
            .extend_from_slice(&[addr.raw(), tag, u64::from(incarnation)]);
        let from = self.words.len();
        self.words.resize(from + len, 0);
        copy(&mut self.words[from..]);
    }

    /// Appends a changed object: the ranges in which `image` differs from `now`, the object's
    /// version `base`.
    pub fn changed(&mut self, addr: Addr, base: Timestamp, image: &[u64], now: &View<'_>) {
        let head = self.words.len();
        self.words.extend_from_slice(&[addr.raw(), 0, base.raw()]);
        let ranges = match image.len() <= changes::LEAST_WORDS {
            true => changes::put_whole(self.words, image),
            false => changes::put(self.words, image, now),
        };
        self.words[head + 1] = (CHANGED << 56) | ranges;
    }

    /// Appends a freed object.
    pub fn freed(&mut self, addr: Addr, base: Timestamp) {
        self.words
            .extend_from_slice(&[addr.raw(), FREED << 56, base.raw()]);
    }

    /// Returns the number of words so far.
    pub fn len(&self) -> usize {
        self.words.len()
    }
}

/// Returns the body of a COMMIT-PRIMARY record.
pub(crate) fn commit_primary(id: TxnId, w: Timestamp) -> [u64; 4] {
    let [a, b, c] = id.words();
    [a, b, c, w.raw()]
}

/// Returns the body of an ABORT record.
pub(crate) fn abort(id: TxnId) -> [u64; 3] {
    id.words()
}

/// One write of a LOCK record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedWrite<'a> {
    /// A new object.
    New {
        /// Size class of its block.
        class: u8,
        /// Incarnation of its slot.
        incarnation: u16,
        /// Its payload.
        payload: &'a [u64],
    },
    /// Ranges of a changed object, still encoded.
    Changed {
        /// The version the ranges apply to.
        base: Timestamp,
        /// Encoded ranges.
        ranges: &'a [u64],
    },
    /// A tombstone.
    Freed {
        /// The version that was freed.
        base: Timestamp,
    },
}

/// Decodes the transaction of a record. Returns it and the words after its id.
///
/// # Errors
/// [`BadRecord`] if the record is shorter than an id.
pub fn split_id(words: &[u64]) -> Result<(TxnId, &[u64]), BadRecord> {
    let id = TxnId::from_words(words).ok_or(BadRecord("too short for a transaction id"))?;
    Ok((id, &words[TxnId::WORDS..]))
}

/// Decodes the write timestamp of a COMMIT-PRIMARY record from the words after its id.
///
/// # Errors
/// [`BadRecord`] unless the words are exactly one timestamp.
pub fn decode_commit(rest: &[u64]) -> Result<Timestamp, BadRecord> {
    match rest {
        [w] if *w <= Timestamp::MAX.raw() => Ok(Timestamp::from_raw(*w)),
        _ => Err(BadRecord("COMMIT-PRIMARY without a timestamp")),
    }
}

/// Decodes the writes of a LOCK record from the words after its id, and calls `f` for each of them
/// in order.
///
/// # Errors
/// [`BadRecord`] where a count points outside the record, or the error of `f`.
pub fn decode_lock<'a>(
    rest: &'a [u64],
    mut f: impl FnMut(Addr, LoggedWrite<'a>) -> Result<(), BadRecord>,
) -> Result<(), BadRecord> {
    const SHORT: BadRecord = BadRecord("LOCK record ends inside a write");
    let regions = *rest.first().ok_or(SHORT)? as usize;
    let mut rest = rest.get(1..).and_then(|r| r.get(regions..)).ok_or(SHORT)?;
    while !rest.is_empty() {
        let [addr, tag, third] = *rest.first_chunk::<3>().ok_or(SHORT)?;
        let (addr, body) = (Addr::from_raw(addr), &rest[3..]);
        rest = match tag >> 56 {
            NEW => {
                let (class, len) = ((tag >> 48) as u8, (tag & 0xFFFF_FFFF_FFFF) as usize);
                let (payload, rest) = body.split_at_checked(len).ok_or(SHORT)?;
                f(
                    addr,
                    LoggedWrite::New {
                        class,
                        incarnation: third as u16,
                        payload,
                    },
                )?;
                rest
            }
            CHANGED => {
                let (ranges, rest) = changes::split(body, tag & 0xFFFF_FFFF)?;
                f(
                    addr,
                    LoggedWrite::Changed {
                        base: Timestamp::from_raw(third),
                        ranges,
                    },
                )?;
                rest
            }
            FREED => {
                f(
                    addr,
                    LoggedWrite::Freed {
                        base: Timestamp::from_raw(third),
                    },
                )?;
                body
            }
            _ => return Err(BadRecord("unknown kind of write")),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use fencepost_storage::{ObjectRef, RegionId};
    use proptest::prelude::*;

    const ID: TxnId = TxnId {
        configuration: 1,
        machine: 2,
        thread: 3,
        local: 4,
    };

    proptest! {
        #[test]
        fn changed_ranges_round_trip(
            before in proptest::collection::vec(0u64..4, 1..300),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..4), 0..40),
        ) {
            let mut image = before.clone();
            for (at, value) in edits {
                let at = at.index(image.len());
                image[at] = value;
            }
            let mut words = Vec::new();
            let addr = Addr::new(RegionId(1), 1 << 20);
            let mut record = LockRecord::begin(&mut words, ID, [1, 1, 2].into_iter());
            record.changed(addr, Timestamp::from_raw(7), &image, &View::Own(&before));
            record.freed(addr, Timestamp::from_raw(8));
            record.new_object(addr, 9, 10, image.len(), |out| out.copy_from_slice(&image));
            let (id, rest) = split_id(&words).expect("whole");
            prop_assert_eq!(id, ID);
            let mut seen = Vec::new();
            decode_lock(rest, |at, write| {
                assert_eq!(at, addr);
                seen.push(write);
                Ok(())
            }).expect("whole");
            let LoggedWrite::Changed { base, ranges: encoded } = seen[0] else {
                panic!("changed first")
            };
            prop_assert_eq!(base.raw(), 7);
            let memory = (0..before.len() * 2 + 20).map(|_| AtomicU64::new(0));
            let memory: Vec<AtomicU64> = memory.collect();
            let replayed = ObjectRef::new(&memory, 0);
            replayed.put(0, &before);
            changes::install(replayed, encoded);
            let mut words = vec![0; image.len()];
            replayed.copy(0, &mut words);
            prop_assert_eq!(&words, &image);
            prop_assert_eq!(seen[1], LoggedWrite::Freed { base: Timestamp::from_raw(8) });
            let new = LoggedWrite::New { class: 9, incarnation: 10, payload: &image };
            prop_assert_eq!(seen[2], new);
        }

        #[test]
        fn garbage_is_refused_and_never_panics(
            words in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            if let Ok((_, rest)) = split_id(&words) {
                let _ = decode_lock(rest, |_, write| {
                    match write {
                        LoggedWrite::Changed { ranges, .. } => changes::check(ranges, usize::MAX),
                        _ => Ok(()),
                    }
                });
                let _ = decode_commit(rest);
            }
        }
    }
}
