//! The storage of rows: a short row in one object, a long row in a head and chunks.
//!
//! ```text
//! short   the words of the row (see `sql::row`)
//! long    head   word 0 of the row, marked long | number of chunks | fat pointer of each
//!         chunk  a piece of the row's words; all but the last have CHUNK_WORDS
//! ```
//!
//! Invariants
//! - STORE-1: a row is long exactly when its encoding has more than `CHUNK_WORDS` words.
//! - STORE-2: a chunk belongs to one head, is never changed, and is freed only by a transaction
//!   that writes or frees the head. So a transaction with the head in its read set need not have
//!   the chunks there. A version of the head leads to chunks of the same snapshot.
//!
//! Failure: a head that does not fit its chunks is error XX001.

use fencepost_sql::row::{ROW_BYTES_MAX, RowLayout, is_long, long_head, row_words};
use fencepost_storage::classes::MAX_SLOT_WORDS;
use fencepost_storage::layout::class_payload_words;
use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{ObjectLocation, ReadEntry, Stop, Transaction};

/// Payload words of the largest object.
const CHUNK_WORDS: usize = class_payload_words(MAX_SLOT_WORDS);
/// Words of a head before the fat pointers.
const HEAD_WORDS: usize = 2;
const WORD_BYTES: usize = 8;
/// The maximal number of bytes of a row to prefetch.
const PREFETCHED_BYTES_MAX: usize = 256;

/// Copies the words of the row at `addr` to `words`. Returns false if there is no row.
pub async fn read_row(
    tx: &mut Transaction,
    addr: Addr,
    words: &mut Vec<u64>,
) -> Result<bool, Stop> {
    Ok(read(tx, addr, None, words).await?.is_some())
}

/// Reads as [`read_row`] does, but only those chunks of a long row that `columns` need (for
/// `RowLayout::decode_some`).
pub async fn read_columns(
    tx: &mut Transaction,
    addr: Addr,
    (layout, columns): (&RowLayout, &[usize]),
    words: &mut Vec<u64>,
) -> Result<bool, Stop> {
    Ok(read_version(tx, addr, (layout, columns), words)
        .await?
        .is_some())
}

/// Prefetches the beginning of a row that is read soon, if it is mapped here.
#[inline]
pub fn prefetch_row(tx: &Transaction, row: FatPtr) {
    tx.prefetch(row.addr, (row.size as usize).min(PREFETCHED_BYTES_MAX));
}

/// Reads as [`read_columns`] does, if nothing must be awaited: the row is short, and in memory that
/// is mapped here. Returns `None` otherwise.
#[inline]
pub fn read_at_once(
    tx: &mut Transaction,
    addr: Addr,
    words: &mut Vec<u64>,
) -> Option<Result<bool, Stop>> {
    let mark = tx.reads_mark();
    let found = tx.read_at_once(addr, words)?;
    if matches!(found, Ok(true)) && is_long(words) {
        tx.forget_reads(mark);
        return None;
    }
    Some(found)
}

/// Reads as [`read_columns`] does, and returns the version of the row, or of its head.
pub async fn read_version(
    tx: &mut Transaction,
    addr: Addr,
    (layout, columns): (&RowLayout, &[usize]),
    words: &mut Vec<u64>,
) -> Result<Option<ReadEntry>, Stop> {
    read(tx, addr, Some((layout, columns)), words).await
}

/// The part of a row that is read; `None` means the whole row.
type RowProjection<'a> = Option<(&'a RowLayout, &'a [usize])>;

async fn read(
    tx: &mut Transaction,
    addr: Addr,
    wanted: RowProjection<'_>,
    words: &mut Vec<u64>,
) -> Result<Option<ReadEntry>, Stop> {
    let seen = tx.read_version(addr, words).await?;
    if seen.is_some() && is_long(words) {
        Box::pin(gather(tx, wanted, words)).await?;
    }
    Ok(seen)
}

/// Replaces the head in `words` by the row that it describes: the whole row, or only the first
/// chunk if that has the wanted columns.
async fn gather(
    tx: &mut Transaction,
    wanted: RowProjection<'_>,
    words: &mut Vec<u64>,
) -> Result<(), Stop> {
    let total = row_words(words);
    let chunks = pointers(&View::Own(words)).ok_or(Stop::Damaged)?;
    let pieces: usize = chunks.iter().map(length).sum();
    if pieces != total || total > ROW_BYTES_MAX / WORD_BYTES {
        return Err(Stop::Damaged);
    }
    words.clear();
    for (i, chunk) in chunks.iter().enumerate() {
        let from = words.len();
        let words_left = if i == 0 { length(chunk) } else { total - from };
        words
            .try_reserve_exact(words_left)
            .map_err(|_| Stop::OutOfMemory)?;
        words.resize(from + length(chunk), 0);
        let part = &mut words[from..];
        let whole = tx.view(chunk.addr, None, |view| {
            view.copy(0, part);
            view.len() >= part.len()
        });
        if !whole.await?.is_some_and(|(whole, _)| whole) {
            return Err(Stop::Damaged);
        }
        if wanted.is_some_and(|(layout, columns)| layout.reaches(words, columns)) {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the number of words of a chunk.
fn length(chunk: &FatPtr) -> usize {
    chunk.size as usize / WORD_BYTES
}

/// Returns the chunks of a head; `None` if the object is not a valid head.
fn pointers(head: &View<'_>) -> Option<Vec<FatPtr>> {
    let count = usize::try_from(head.word(1)).ok()?;
    let capacity = head.len().checked_sub(HEAD_WORDS)? / 2;
    let at = |i: usize| {
        let from = HEAD_WORDS + 2 * i;
        FatPtr::from_words([head.word(from), head.word(from + 1)])
    };
    (count <= capacity).then(|| (0..count).map(at).collect())
}

/// Returns the chunks of the row at `addr`; a short row has none.
pub async fn chunks_of(tx: &mut Transaction, addr: Addr) -> Result<Vec<FatPtr>, Stop> {
    match tx.view(addr, None, chunks_in).await? {
        Some((chunks, _)) => chunks.ok_or(Stop::Damaged),
        None => Ok(Vec::new()),
    }
}

fn chunks_in(row: &View<'_>) -> Option<Vec<FatPtr>> {
    match is_long(&[row.word(0)]) {
        true => pointers(row),
        false => Some(Vec::new()),
    }
}

/// Stores a new row, all of it near `near`.
pub async fn insert_row(
    tx: &mut Transaction,
    words: &[u64],
    near: ObjectLocation,
) -> Result<FatPtr, Stop> {
    if words.len() > CHUNK_WORDS {
        return Box::pin(insert_long(tx, words, near)).await;
    }
    insert_object(tx, words, near).await
}

async fn insert_object(
    tx: &mut Transaction,
    words: &[u64],
    near: ObjectLocation,
) -> Result<FatPtr, Stop> {
    let place = tx.alloc(words.len(), near).await?;
    tx.write_new(place, words)?;
    Ok(place)
}

async fn insert_long(
    tx: &mut Transaction,
    words: &[u64],
    near: ObjectLocation,
) -> Result<FatPtr, Stop> {
    let mut head = begin_head(words);
    for piece in words.chunks(CHUNK_WORDS) {
        head.extend(insert_object(tx, piece, near).await?.to_words());
    }
    insert_object(tx, &head, near).await
}

fn begin_head(words: &[u64]) -> Vec<u64> {
    let count = words.len().div_ceil(CHUNK_WORDS);
    let mut head = Vec::with_capacity(HEAD_WORDS + 2 * count);
    head.extend([long_head(words), count as u64]);
    head
}

/// Overwrites the row at `place` with `words`. Returns false and changes nothing if its object is
/// too small. New chunks of a long row are stored near `near`.
pub async fn update_row(
    tx: &mut Transaction,
    place: FatPtr,
    words: &[u64],
    near: ObjectLocation,
) -> Result<bool, Stop> {
    if words.len() <= CHUNK_WORDS {
        if words.len() * WORD_BYTES > place.size as usize {
            return Ok(false);
        }
        let was_long = tx.update(place.addr, |image| {
            let long = is_long(image);
            match image.get_mut(..words.len()) {
                Some(part) if !long => part.copy_from_slice(words),
                Some(_) => {}
                None => return Err(Stop::Damaged),
            }
            Ok(long)
        });
        if !was_long.await?? {
            return Ok(true);
        }
    }
    Box::pin(update_long(tx, place, words, near)).await
}

/// Updates as [`update_row`] does, if the row was long or becomes long. Unchanged chunks stay.
async fn update_long(
    tx: &mut Transaction,
    place: FatPtr,
    words: &[u64],
    near: ObjectLocation,
) -> Result<bool, Stop> {
    let mut old = chunks_of(tx, place.addr).await?;
    if words.len() <= CHUNK_WORDS {
        tx.write(place.addr, words).await?;
    } else {
        let mut head = begin_head(words);
        if head.capacity() * WORD_BYTES > place.size as usize {
            return Ok(false);
        }
        for (i, piece) in words.chunks(CHUNK_WORDS).enumerate() {
            let same = match old.get(i) {
                Some(chunk) if length(chunk) == piece.len() => {
                    let equal =
                        |view: &View<'_>| (0..piece.len()).all(|w| view.word(w) == piece[w]);
                    let seen = tx.view(chunk.addr, None, equal).await?;
                    seen.is_some_and(|(equal, _)| equal)
                }
                _ => false,
            };
            let chunk = match same {
                true => std::mem::replace(&mut old[i], NO_CHUNK),
                false => insert_object(tx, piece, near).await?,
            };
            head.extend(chunk.to_words());
        }
        tx.write(place.addr, &head).await?;
    }
    for chunk in old.iter().filter(|chunk| !chunk.addr.is_null()) {
        tx.free(chunk.addr).await?;
    }
    Ok(true)
}

/// Marks an old chunk that the new head keeps.
const NO_CHUNK: FatPtr = FatPtr {
    addr: Addr::NULL,
    size: 0,
    incarnation: 0,
};

/// Frees the row at `addr` and its chunks.
pub async fn free_row(tx: &mut Transaction, addr: Addr) -> Result<(), Stop> {
    let chunks = tx.free_seen(addr, chunks_in).await?.ok_or(Stop::Damaged)?;
    for chunk in chunks {
        tx.free(chunk.addr).await?;
    }
    Ok(())
}
