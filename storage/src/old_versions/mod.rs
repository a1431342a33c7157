//! Previous versions of objects, kept in memory until no active reader can need them.
//!
//! # Picture
//! ```text
//! block   | record | record | record | ...        bump-allocated by one lane
//! record  | header word | place of previous version | replaced at | payload words | payload ... |
//! ```
//! A record is needed by readers whose read timestamp lies between its own timestamp and that of
//! the version that replaced it. A block remembers the newest replacing timestamp in it. When the
//! oldest reader has passed that timestamp, any lane may reuse the whole block, in its next
//! *generation*.
//!
//! # Concurrency
//! A block is written by the lane that has it and read by any thread. A reader checks the
//! generation before it follows a place and again after it has read. So it notices a reused block,
//! and learns that its snapshot is too old. A place has 12 bits of the generation. If they wrap
//! around, the record there was replaced at another timestamp than that of the version that led to
//! it. Full blocks wait in one queue of the machine, so that all lanes can reuse any block that is
//! no longer needed. The queue's lock is taken once for each block.
//!
//! Blocks that are no longer needed keep their pages for the next commits, until
//! [`OldVersions::trim`] returns the pages to the system and releases their charge.

#[cfg(all(test, not(loom)))]
mod tests;
mod trim;

pub mod copy;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64 as Counter};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::account::{Account, OutOfMemory};
use crate::backing::{Backing, Piece, PrivateBacking};
use crate::header::{Header, OldVersionPtr};
use crate::timestamp::Timestamp;
use fencepost_fabric::memory::{Memory, WORD_BYTES};
use fencepost_fabric::sync::{AtomicU64, Ordering, fence};

/// Words of an ordinary block; a longer record gets a block of its own.
const BLOCK_WORDS: usize = 8 * 1024;
/// Words before a record's payload.
const RECORD_HEAD: usize = 4;
/// The last word at which a record may begin: the largest offset in a place.
const MAX_OFFSET: usize = 0xFFFF;
/// Full blocks that are checked before all others count as needed too.
const SEARCHED: usize = 16;
/// Number of blocks of one page of the block table.
const PAGE: usize = 1024;

/// Blocks whose generations are in one piece of memory, which peers can find.
struct Page {
    generations: Memory,
    blocks: Box<[OnceLock<Memory>]>,
}

/// A block and its generation.
struct Block<'a> {
    memory: &'a Memory,
    generation: &'a AtomicU64,
}

/// All old-version blocks of a machine.
pub struct OldVersions {
    pages: Box<[OnceLock<Page>]>,
    next: AtomicU32,
    /// Full blocks, in the order in which they were filled.
    full: Mutex<VecDeque<FullBlock>>,
    /// Blocks that have no pages.
    bare: Mutex<Vec<ReleasedBlock>>,
    limit_bytes: u64,
    used_bytes: Counter,
    /// Held while a page is made.
    making: Mutex<()>,
    backing: Arc<dyn Backing>,
}

/// A block whose pages were returned to the system.
struct ReleasedBlock {
    block: u32,
    words: usize,
}

/// A full block: no lane writes it.
struct FullBlock {
    block: u32,
    words: usize,
    newest: Timestamp,
}

/// A version that a commit is about to replace.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedVersion {
    /// The header of the version.
    pub header: Header,
    /// The place of the version before it.
    pub before: OldVersionPtr,
    /// Number of payload words.
    pub payload_words: usize,
    /// Timestamp of the commit that replaces it.
    pub at: Timestamp,
}

/// The result of a search in an object's chain.
pub enum ChainSearch<T> {
    /// The newest version that is not newer than the read timestamp.
    Version(T, Header),
    /// The object did not exist at that time, by the record of a version.
    Absent,
    /// All known versions are newer; the oldest was committed at this time.
    Later(Timestamp),
    /// The version was dropped: the snapshot is too old.
    Reclaimed,
}

/// A lane's part: the block that it fills.
#[derive(Default)]
pub struct OldVersionLane {
    open: Option<Open>,
}

struct Open {
    block: u32,
    words: usize,
    at: usize,
    newest: Timestamp,
}

impl Page {
    fn of(generations: Memory) -> Page {
        Page {
            generations,
            blocks: (0..PAGE).map(|_| OnceLock::new()).collect(),
        }
    }
}

/// Returns the bits of a block's generation that a place contains.
fn generation(counted: u64) -> u32 {
    (counted % u64::from(OldVersionPtr::GENERATIONS)) as u32
}

impl OldVersions {
    /// Returns an empty store for `limit_bytes` of old versions; blocks are charged to the account
    /// as they are added.
    pub fn new(limit_bytes: u64) -> Self {
        Self::with(limit_bytes, Arc::new(PrivateBacking))
    }

    /// Returns a store as [`Self::new`] does, with memory from `backing`. The store of a peer finds
    /// the peer's memory, for [`Self::find`] alone.
    pub fn with(limit_bytes: u64, backing: Arc<dyn Backing>) -> Self {
        let pages = OldVersionPtr::BLOCKS as usize / PAGE;
        Self {
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            next: AtomicU32::new(1),
            full: Mutex::default(),
            bare: Mutex::default(),
            limit_bytes,
            used_bytes: Counter::new(0),
            making: Mutex::default(),
            backing,
        }
    }

    /// Returns the bytes held for old versions.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn block(&self, number: u32) -> Option<Block<'_>> {
        let at = number as usize / PAGE;
        let cell = self.pages.get(at)?;
        let page = cell.get().or_else(|| {
            let generations = self.backing.find(Piece::Generations(at as u32))?.memory;
            Some(cell.get_or_init(|| Page::of(generations)))
        })?;
        let cell = page.blocks.get(number as usize % PAGE)?;
        let memory = cell.get().or_else(|| {
            let memory = self.backing.find(Piece::OldVersions(number))?.memory;
            Some(cell.get_or_init(|| memory))
        })?;
        Some(Block {
            memory,
            generation: page.generations.words().get(number as usize % PAGE)?,
        })
    }

    /// Follows the chain from `place`, whose version was `replaced` at that time, to the newest
    /// version not newer than `at`, and calls `f` with it. Any thread may call it; it takes no
    /// lock.
    ///
    /// `f` may get the words of a block that is being reused. It must accept any words, and its
    /// result is dropped then ([`ChainSearch::Reclaimed`]).
    pub fn find<T>(
        &self,
        mut place: OldVersionPtr,
        mut replaced: Timestamp,
        at: Timestamp,
        mut f: impl FnMut(&[AtomicU64]) -> T,
    ) -> ChainSearch<T> {
        loop {
            if place.is_none() {
                return ChainSearch::Later(replaced);
            }
            let Some(block) = self.block(place.block()) else {
                return ChainSearch::Reclaimed;
            };
            if generation(block.generation.load(Ordering::Acquire)) != place.generation() {
                return ChainSearch::Reclaimed;
            }
            let words = block.memory.words();
            let from = place.offset();
            let load = |i: usize| {
                words
                    .get(from + i)
                    .map_or(0, |word| word.load(Ordering::Relaxed))
            };
            let header = Header(load(0));
            let before = OldVersionPtr(load(1));
            if load(2) != replaced.raw() {
                return ChainSearch::Reclaimed;
            }
            let hit = (header.timestamp() <= at).then(|| {
                let len = load(3) as usize;
                let end = (from + RECORD_HEAD).saturating_add(len);
                let payload = words.get(from + RECORD_HEAD..end).unwrap_or(&[]);
                header.is_allocated().then(|| f(payload))
            });
            fence(Ordering::Acquire);
            if generation(block.generation.load(Ordering::Relaxed)) != place.generation() {
                return ChainSearch::Reclaimed;
            }
            match hit {
                Some(Some(value)) => return ChainSearch::Version(value, header),
                Some(None) => return ChainSearch::Absent,
                None => (place, replaced) = (before, header.timestamp()),
            }
        }
    }

    /// Keeps a version. `copy` receives a function that stores a run of the payload.
    ///
    /// `oldest` returns a timestamp below which no transaction reads, now or later; it is called
    /// only when a block is full. Past the limit the oldest block is reused. A reader that needs it
    /// learns that its snapshot is too old.
    ///
    /// # Errors
    /// [`OutOfMemory`] when neither the account nor the queue of full blocks can give a block. The
    /// commit may go on with [`OldVersionPtr::LOST`], at the cost of old snapshots.
    ///
    /// # Panics
    /// If `copy` stores a run that begins beyond the payload words of `version`.
    pub fn keep(
        &self,
        lane: &mut OldVersionLane,
        account: &Account,
        version: ReplacedVersion,
        oldest: &dyn Fn() -> Timestamp,
        copy: impl FnOnce(&mut dyn FnMut(usize, &[u64])),
    ) -> Result<OldVersionPtr, OutOfMemory> {
        let ReplacedVersion {
            header,
            before,
            payload_words,
            at: replaced_at,
        } = version;
        let need = RECORD_HEAD + payload_words;
        let fits = |open: &Open| open.at + need <= open.words && open.at <= MAX_OFFSET;
        if !lane.open.as_ref().is_some_and(fits) {
            let fresh = self.next_block(account, need, oldest)?;
            if let Some(open) = lane.open.replace(fresh) {
                self.full.lock().push_back(FullBlock {
                    block: open.block,
                    words: open.words,
                    newest: open.newest,
                });
            }
        }
        let open = lane.open.as_mut().ok_or(OutOfMemory)?;
        let block = self.block(open.block).ok_or(OutOfMemory)?;
        let words = &block.memory.words()[open.at..open.at + need];
        words[0].store(header.unlocked().0, Ordering::Relaxed);
        words[1].store(before.0, Ordering::Relaxed);
        words[2].store(replaced_at.raw(), Ordering::Relaxed);
        words[3].store(payload_words as u64, Ordering::Relaxed);
        copy(&mut |from, part| {
            for (word, value) in words[RECORD_HEAD + from..].iter().zip(part) {
                word.store(*value, Ordering::Relaxed);
            }
        });
        let place = OldVersionPtr::new(
            open.block,
            generation(block.generation.load(Ordering::Relaxed)),
            open.at as u16,
        );
        open.at += need;
        open.newest = open.newest.max(replaced_at);
        Ok(place)
    }

    fn next_block(
        &self,
        account: &Account,
        need: usize,
        oldest: &dyn Fn() -> Timestamp,
    ) -> Result<Open, OutOfMemory> {
        if let Some(open) = self.recycle(need, oldest()) {
            return Ok(open);
        }
        if self.used_bytes() >= self.limit_bytes
            && let Some(open) = self.recycle(need, Timestamp::MAX)
        {
            return Ok(open);
        }
        let words = need.max(BLOCK_WORDS);
        let bytes = (words * WORD_BYTES) as u64;
        match account.charge(bytes) {
            Ok(()) => match self.take_bare(need) {
                Some(open) => {
                    account.release(bytes);
                    account.charge_unchecked((open.words * WORD_BYTES) as u64);
                    Ok(open)
                }
                None => self
                    .add_block(words)
                    .inspect_err(|_| account.release(bytes)),
            },
            Err(full) => self.recycle(need, Timestamp::MAX).ok_or(full),
        }
    }

    /// Takes the oldest full block that readers have `passed` into its next generation.
    fn recycle(&self, need: usize, passed: Timestamp) -> Option<Open> {
        let mut full = self.full.lock();
        // The queue is almost in the order of `newest`: if the first few are needed, all are.
        let waiting = full.iter().take(SEARCHED).all(|full| full.newest > passed);
        let position = (!waiting).then(|| {
            full.iter()
                .position(|full| full.newest <= passed && full.words >= need)
        })??;
        let FullBlock { block, words, .. } = full.remove(position)?;
        drop(full);
        self.block(block)?
            .generation
            .fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        Some(Open {
            block,
            words,
            at: 0,
            newest: Timestamp::ZERO,
        })
    }

    fn add_block(&self, words: usize) -> Result<Open, OutOfMemory> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= OldVersionPtr::BLOCKS {
            return Err(OutOfMemory);
        }
        let at = number as usize / PAGE;
        if self.pages[at].get().is_none() {
            let _one = self.making.lock();
            if self.pages[at].get().is_none()
                && let Ok(made) = self.backing.make(Piece::Generations(at as u32), PAGE)
            {
                // Only the holder of the lock gets here, so the cell is empty.
                let _ = self.pages[at].set(Page::of(made));
            }
        }
        let page = self.pages[at].get().ok_or(OutOfMemory)?;
        let memory = self.backing.make(Piece::OldVersions(number), words);
        let memory = memory.map_err(|_| OutOfMemory)?;
        self.used_bytes
            .fetch_add((words * WORD_BYTES) as u64, Ordering::Relaxed);
        page.generations.words()[number as usize % PAGE].store(1, Ordering::Relaxed);
        // Each number is used once, so the cell is empty.
        let _ = page.blocks[number as usize % PAGE].set(memory);
        Ok(Open {
            block: number,
            words,
            at: 0,
            newest: Timestamp::ZERO,
        })
    }
}
