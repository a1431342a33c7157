//! The node kind of buckets, blocks, directory and root: the interface to the commit protocol.
//!
//! A note says which key was looked up and the result:
//!
//! ```text
//! | flags 32 · key length 32 | hash | root | stride 32 · index 32 | joint versions |
//! | value hash | key |
//! ```
//! For an absent key the note covers the home bucket alone: a transaction that puts a key outside
//! its home changes the home's joint versions.

use fencepost_storage::{Addr, Timestamp, View};
use fencepost_txn::{NodeKind, Refusal, RerouteFuture, Revalidate, Transaction, slot_bytes};
use smallvec::SmallVec;

use crate::image;
use crate::layout::{
    Bucket, DIRECTORY_HEADER, DIRECTORY_MAGIC, Key, Root, Versions, low_bits, shard_of,
};
use crate::op::{self, Code};
use crate::write;

/// The only value of [`TableKind`].
pub(crate) static TABLE: TableKind = TableKind;

/// The node kind of any object of a hash table.
pub(crate) struct TableKind;

/// Number of the kind in log records.
const TABLE_KIND: u8 = 2;

/// The note is for a key that was found.
const FLAG_HIT: u64 = 1;
/// The note is for a patch: a found key may have any value, and an absent key requires that its
/// home has no keys elsewhere.
const FLAG_PATCH: u64 = 2;
const NOTE_FIXED: usize = 6;

/// Words of a note.
pub(crate) type Note = SmallVec<[u64; 16]>;

/// Returns the note of a lookup. `hit` is the hash of the value that was found.
pub(crate) fn note(
    key: &Key<'_>,
    table: Addr,
    root: &Root,
    versions: Versions,
    hit: Option<u64>,
) -> Note {
    let flags = if hit.is_some() { FLAG_HIT } else { 0 };
    let place = ((root.stride as u64) << 32) | root.home(key.hash) as u64;
    let mut note = Note::new();
    note.extend_from_slice(&[
        (flags << 32) | key.len as u64,
        key.hash,
        table.raw(),
        place,
        versions.to_word(),
        hit.unwrap_or(0),
    ]);
    note.extend((0..key.used_words()).map(|i| key.word(i)));
    note
}

impl NodeKind for TableKind {
    fn id(&self) -> u8 {
        TABLE_KIND
    }

    /// Admits newer roots and directories, because they only say where shards are. Buckets are
    /// not admitted.
    fn admits(&self, node: &View<'_>, _r: Timestamp) -> bool {
        Root::open(node).is_some() || node.word(0) >> 48 == DIRECTORY_MAGIC
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        if op::code(op) == Some(Code::Grow) {
            apply_grow(op, image)
        } else {
            apply_pair(op, image)
        }
    }

    fn revalidate(&self, note: &[u64], now: &View<'_>) -> Revalidate {
        revalidate(note, now).unwrap_or(Revalidate::Invalid)
    }

    fn revalidate_removed(&self, note: &[u64]) -> Revalidate {
        note.get(2).map_or(Revalidate::Invalid, |root| {
            Revalidate::ContinueAt(Addr::from_raw(*root))
        })
    }

    fn condition(&self, op: &[u64], image: &[u64]) -> Option<Vec<u64>> {
        let op = op::decode(op)?;
        let hit = if op.code == Code::Insert { 0 } else { FLAG_HIT };
        let stride = slot_bytes(image.len()).ok()? as u64;
        let mut note = vec![
            ((FLAG_PATCH | hit) << 32) | op.key.len as u64,
            op.key.hash,
            op.root.raw(),
            (stride << 32) | op.index as u64,
            0,
            0,
        ];
        note.extend((0..op.key.used_words()).map(|i| op.key.word(i)));
        Some(note)
    }

    fn same_key(&self, one: &[u64], other: &[u64]) -> bool {
        op::same_key(one, other)
    }

    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a> {
        write::reroute(tx, addr)
    }
}

fn apply_pair(op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
    let op = op::decode(op).ok_or(Refusal::WrongNode)?;
    let look = |bucket: Bucket<'_, '_>| {
        let home = bucket.is_home(op.key.hash, op.index);
        let away = bucket.may_be_away(&op.key);
        (
            bucket.shape,
            home,
            bucket.find(&op.key),
            bucket.free_slot(),
            away,
            bucket.chain().is_null(),
        )
    };
    let Some((shape, home, found, free, away, no_chain)) = image::with(image, op.root, look) else {
        return Err(Refusal::WrongNode);
    };
    match (op.code, found) {
        (Code::Update, Some(slot)) => image::set_value(image, shape, slot, op.value),
        (Code::Insert, _) if !home => return Err(Refusal::WrongNode),
        (Code::Insert, Some(_)) => return Err(Refusal::Exists),
        (Code::Insert, None) => {
            if away {
                return Err(Refusal::WrongNode);
            }
            let slot = free.ok_or(Refusal::Full)?;
            image::put(image, shape, slot, &image::pair(shape, &op.key, op.value));
        }
        (Code::Remove, Some(slot)) if home && no_chain => {
            image::take(image, shape, slot);
        }
        (Code::Remove, None) if home && !away => return Err(Refusal::Missing),
        _ => return Err(Refusal::WrongNode),
    }
    Ok(())
}

fn apply_grow(op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
    let &[_, prefix, root, depth, old, new, ..] = op else {
        return Err(Refusal::WrongNode);
    };
    let first = image.first().copied().unwrap_or(0);
    let new_depth = (first >> 40) as u8;
    if first >> 48 != DIRECTORY_MAGIC
        || image.get(1) != Some(&root)
        || u64::from(new_depth) <= depth
        || new_depth > 32
    {
        return Err(Refusal::WrongNode);
    }
    let entries = image
        .get_mut(DIRECTORY_HEADER..DIRECTORY_HEADER + (1 << new_depth))
        .ok_or(Refusal::WrongNode)?;
    let ours = |i: usize| low_bits(i as u64, depth as u8 + 1) == prefix;
    if entries
        .iter()
        .enumerate()
        .any(|(i, entry)| ours(i) && *entry != old)
    {
        return Err(Refusal::WrongNode);
    }
    for (i, entry) in entries.iter_mut().enumerate() {
        if ours(i) {
            *entry = new;
        }
    }
    Ok(())
}

fn revalidate(note: &[u64], now: &View<'_>) -> Option<Revalidate> {
    let (fixed, words) = note.split_at_checked(NOTE_FIXED)?;
    let (hit, len) = ((fixed[0] >> 32) & FLAG_HIT != 0, fixed[0] as u32 as usize);
    let patch = (fixed[0] >> 32) & FLAG_PATCH != 0;
    let (hash, table) = (fixed[1], Addr::from_raw(fixed[2]));
    let (stride, index) = (fixed[3] >> 32, fixed[3] as u32 as usize);
    if let Some(root) = Root::open(now) {
        return Some(Revalidate::ContinueAt(root.directory));
    }
    if let Some(first) = shard_of(now, table, hash) {
        return Some(Revalidate::ContinueAt(Addr::from_raw(
            first.raw() + index as u64 * stride,
        )));
    }
    let bucket = Bucket::open(now, table)?;
    let key = Key::from_words(hash, len, words.get(..len.div_ceil(8))?);
    let found = bucket.find(&key);
    let home = bucket.is_home(hash, index);
    let verdict = if hit {
        match found {
            None if !home => return Some(Revalidate::ContinueAt(table)),
            found => found.is_some_and(|slot| patch || bucket.value_hash(slot) == fixed[5]),
        }
    } else if !home {
        // The shard has been split.
        return Some(if bucket.is_block {
            Revalidate::Invalid
        } else {
            Revalidate::ContinueAt(table)
        });
    } else {
        let (then, now) = (Versions::from_word(fixed[4]), bucket.versions());
        let same = !patch && (now.forward, now.chain) == (then.forward, then.chain);
        found.is_none() && (same || !bucket.may_be_away(&key))
    };
    Some(if verdict {
        Revalidate::Valid
    } else {
        Revalidate::Invalid
    })
}
