//! The only module that turns mapped bytes into memory that many threads read and write
//! concurrently.
//!
//! # Picture
//! A [`Memory`] is a zero-filled mapping of whole 64-bit words. It returns only `&[AtomicU64]`: no
//! `&[u8]`, no `&T`, no `&mut T` into the mapping ever exists, so a racing read is an atomic read
//! and never undefined behaviour. All other modules use safe code on atomic words.
//!
//! # Invariants
//! * RAW-1: the mapping lives as long as any clone of its `Memory`; slices borrow from one.
//! * RAW-2: the mapping is page aligned, hence aligned for `AtomicU64`, and a whole number of
//!   words.
//! * RAW-3: a mapping for reading only is never written. A peer's memory that names no writer, or
//!   another writer, is only read ([`crate::fabric`], FAB-6). A violation ends the process; it is
//!   not undefined behaviour.
//!
//! # Failure
//! The kernel may refuse a mapping; the result is then a [`std::io::Error`].

use std::io;

use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;

use crate::sync::{AtomicU64, Ordering, fence};

/// A zero-filled, lazily populated sequence of shared 64-bit words: private to the process, or a
/// file that processes of one host share. Clones refer to the same memory.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The start of the mapping, so that an access to a word follows one pointer.
    #[cfg(not(loom))]
    from: SharedPtr,
    #[cfg(not(loom))]
    map: Arc<memmap2::MmapRaw>,
    #[cfg(loom)]
    map: Arc<[AtomicU64]>,
    words: usize,
    /// Whether the memory is private to this process and not a file.
    anonymous: bool,
}

/// A pointer that threads may share.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
struct SharedPtr(*const AtomicU64);

// SAFETY: it points to atomic words, which any thread may read and write; RAW-1 bounds their
// lifetime.
#[cfg(not(loom))]
#[allow(unsafe_code)]
unsafe impl Send for SharedPtr {}
// SAFETY: as for `Send`.
#[cfg(not(loom))]
#[allow(unsafe_code)]
unsafe impl Sync for SharedPtr {}

/// The bytes of a word.
pub const WORD_BYTES: usize = 8;

#[cfg(not(loom))]
impl Memory {
    /// Maps `words` zeroed words that use no memory until they are touched.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        let map = memmap2::MmapOptions::new()
            .len(words * WORD_BYTES)
            .no_reserve_swap()
            .map_anon()?;
        Ok(Self::of(map.into(), words, true))
    }

    /// Maps all whole words of a file, which no process may shorten: for reading only unless
    /// `writable`. A store to memory for reading only ends the process (RAW-3).
    ///
    /// # Errors
    /// The error of the system.
    pub fn of_file(file: &std::fs::File, writable: bool) -> io::Result<Self> {
        let words = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)? / WORD_BYTES;
        let options = memmap2::MmapOptions::new();
        let map = if writable {
            options.map_raw(file)?
        } else {
            options.map_raw_read_only(file)?
        };
        Ok(Self::of(map, words, false))
    }

    fn of(map: memmap2::MmapRaw, words: usize, anonymous: bool) -> Self {
        Self {
            from: SharedPtr(map.as_ptr().cast::<AtomicU64>()),
            map: Arc::new(map),
            words,
            anonymous,
        }
    }

    /// Returns the low half of a word, on which the kernel waits (see [`crate::bell`]). Such a word
    /// is never accessed in another size.
    ///
    /// # Panics
    /// If the memory has no such word.
    #[allow(unsafe_code)]
    pub fn half_word(&self, word: usize) -> &AtomicU32 {
        assert!(word < self.words, "the word is part of the memory");
        // SAFETY: in bounds by the check above, aligned for 8 bytes hence for 4 (RAW-2), alive as
        // long as `self` (RAW-1); every bit pattern is a value; by contract no access of another
        // size is made.
        unsafe { &*self.map.as_ptr().add(word * WORD_BYTES).cast::<AtomicU32>() }
    }

    /// Returns all words of the mapping. The caller chooses the ordering of each access.
    #[inline]
    #[allow(unsafe_code)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: RAW-1 and RAW-2: the pointer is page aligned and valid for `words` words for as
        // long as `self` is borrowed; `AtomicU64` has the layout of `u64`, every bit pattern is a
        // value, and it allows writes through shared references. No other kind of reference into
        // the mapping exists: `map` is never dereferenced, and lives as long as any clone.
        unsafe { std::slice::from_raw_parts(self.from.0, self.words) }
    }

    /// Returns the pages (4096 bytes) that lie wholly in a range of words to the system. Until the
    /// words are written again, readers may see zeroes or the old values.
    #[allow(unsafe_code)]
    pub fn discard(&self, words: std::ops::Range<usize>) {
        const PAGE_BYTES: usize = 4096;
        let from = (words.start * WORD_BYTES).next_multiple_of(PAGE_BYTES);
        let to = words.end.min(self.words) * WORD_BYTES / PAGE_BYTES * PAGE_BYTES;
        #[cfg(target_os = "linux")]
        let of_file = Some(memmap2::UncheckedAdvice::Remove);
        #[cfg(not(target_os = "linux"))]
        let of_file = None;
        let advice = match self.anonymous {
            true => Some(memmap2::UncheckedAdvice::DontNeed),
            false => of_file,
        };
        if let Some(advice) = advice.filter(|_| from < to) {
            // SAFETY: the mapping is private and anonymous, or of a file in which this makes a
            // hole, so discarded pages read as zeroes: values of the atomic words, like any other
            // racing write. No other reference exists (RAW-2). A kernel that refuses leaves the
            // words as they are.
            let _ = unsafe { self.map.unchecked_advise_range(advice, from, to - from) };
        }
    }

    /// Asks for huge pages. The kernel may ignore this, and nothing depends on it.
    pub fn advise_huge_pages(&self) {
        // A kernel without huge pages returns an error; the mapping works without them.
        let _ = self.map.advise(memmap2::Advice::HugePage);
    }
}

/// Prefetches all cache lines of `words` at once, so that a reader waits for memory once and not
/// for each line. This is a hint: nothing depends on it.
#[cfg(not(loom))]
#[inline]
#[allow(unsafe_code)]
pub fn prefetch(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    for line in words.chunks(64 / WORD_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads no value and faults on no address; this one is of a live slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Does nothing under loom.
#[cfg(loom)]
pub fn prefetch(_words: &[AtomicU64]) {}

#[cfg(loom)]
impl Memory {
    /// Returns `words` zeroed words of loom's atomics.
    ///
    /// # Errors
    /// Never; the signature is that of the real mapping.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        Ok(Self {
            map: (0..words).map(|_| AtomicU64::new(0)).collect(),
            words,
            anonymous: true,
        })
    }

    /// Returns all words.
    pub fn words(&self) -> &[AtomicU64] {
        &self.map[..self.words]
    }

    /// Does nothing under loom.
    pub fn discard(&self, _words: std::ops::Range<usize>) {}

    /// Does nothing under loom.
    pub fn advise_huge_pages(&self) {}
}

impl Memory {
    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words
    }

    /// Returns whether the memory has no words.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Copies words from `from` on, each word atomically, but not all of them at one time. Returns
    /// false and copies nothing if the memory ends before.
    ///
    /// The loads are relaxed, between two acquire fences. So they come after the caller's earlier
    /// loads and before its later ones. A caller that loads a version before and after the copy
    /// knows by equal versions that the copied words belong together.
    pub fn copy_out(&self, from: usize, out: &mut [u64]) -> bool {
        let Some(words) = from
            .checked_add(out.len())
            .and_then(|end| self.words().get(from..end))
        else {
            return false;
        };
        fence(Ordering::Acquire);
        for (out, word) in out.iter_mut().zip(words) {
            *out = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        true
    }

    /// Writes words from `from` on. The first word is written last, with release ordering: a thread
    /// that loads its new value with acquire ordering sees the other words, too. Returns false and
    /// writes nothing if the memory ends before.
    pub fn copy_in(&self, from: usize, values: &[u64]) -> bool {
        let Some(words) = from
            .checked_add(values.len())
            .and_then(|end| self.words().get(from..end))
        else {
            return false;
        };
        for (word, value) in words.iter().zip(values).skip(1) {
            word.store(*value, Ordering::Relaxed);
        }
        if let (Some(word), Some(value)) = (words.first(), values.first()) {
            word.store(*value, Ordering::Release);
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn discarded_pages_of_a_file_are_a_hole() {
        const WORDS: usize = 1 << 17;
        let file = tempfile::tempfile().expect("a file");
        file.set_len((WORDS * WORD_BYTES) as u64).expect("grows");
        let memory = Memory::of_file(&file, true).expect("maps");
        assert!(memory.copy_in(0, &[7; WORDS]));
        let blocks = || file.metadata().expect("metadata").blocks();
        let full = blocks();
        memory.discard(0..WORDS / 2);
        let mut words = vec![1; WORDS];
        assert!(memory.copy_out(0, &mut words));
        // A file system without support for holes keeps the words.
        if words[0] == 0 {
            assert!(words[..WORDS / 2].iter().all(|word| *word == 0));
            assert!(blocks() < full);
        }
        assert!(words[WORDS / 2..].iter().all(|word| *word == 7));
    }
}
