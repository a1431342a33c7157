//! The one module that turns mapped bytes into memory that many threads read and write at once.
//!
//! # Picture
//! A [`Memory`] is a zero-filled mapping of whole 64-bit words. It hands out `&[AtomicU64]` and
//! nothing else: no `&[u8]`, no `&T`, no `&mut T` into the mapping ever exists, so a racing read is
//! an atomic read and never undefined behaviour. Everything above is safe code on atomic words.
//!
//! # Invariants
//! * RAW-1: the mapping lives as long as the `Memory` that owns it; slices borrow from it.
//! * RAW-2: the mapping is page aligned, hence aligned for `AtomicU64`, and a whole number of words.
//!
//! # Failure
//! The kernel may refuse a mapping; [`Memory::anonymous`] then answers [`std::io::Error`].

use std::io;

use crate::sync::AtomicU64;

/// A zero-filled, lazily populated run of shared 64-bit words.
#[derive(Debug)]
pub struct Memory {
    #[cfg(not(loom))]
    map: memmap2::MmapMut,
    #[cfg(loom)]
    map: Vec<AtomicU64>,
    words: usize,
}

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

#[cfg(not(loom))]
impl Memory {
    /// Maps `words` zeroed words that cost nothing until they are touched.
    ///
    /// # Errors
    /// What the kernel answered to `mmap`.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        let map = memmap2::MmapOptions::new()
            .len(words * WORD_BYTES)
            .no_reserve_swap()
            .map_anon()?;
        Ok(Self { map, words })
    }

    /// All words of the mapping.
    #[inline]
    #[allow(unsafe_code)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: RAW-1 and RAW-2: the pointer is page aligned and valid for `words` words for as
        // long as `self` is borrowed; `AtomicU64` has the layout of `u64`, every bit pattern is a
        // value, and it allows writes through shared references. No other kind of reference into
        // the mapping exists: `map` is never dereferenced elsewhere.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// Gives the pages that lie wholly in a run of words back to the system. The words are zero, or
    /// what they were, until somebody writes them; whoever reads them meanwhile must expect that.
    #[allow(unsafe_code)]
    pub fn discard(&self, words: std::ops::Range<usize>) {
        const PAGE_BYTES: usize = 4096;
        let from = (words.start * WORD_BYTES).next_multiple_of(PAGE_BYTES);
        let to = words.end.min(self.words) * WORD_BYTES / PAGE_BYTES * PAGE_BYTES;
        if from < to {
            // SAFETY: the mapping is private and anonymous, so discarded pages read as zeroes: values
            // of the atomic words, like any other racing write. No other reference exists (RAW-2).
            // A kernel that refuses leaves the words as they are.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, to - from)
            };
        }
    }

    /// Asks for huge pages; the kernel may ignore it, and nothing depends on it.
    pub fn advise_huge_pages(&self) {
        // A kernel without huge pages answers an error; the mapping works all the same.
        let _ = self.map.advise(memmap2::Advice::HugePage);
    }
}

/// Asks the processor for the cache lines of `words` at once, so that a reader waits for memory once
/// and not line by line. A hint: nothing depends on it.
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

/// Nothing to fetch under loom.
#[cfg(loom)]
pub fn prefetch(_words: &[AtomicU64]) {}

#[cfg(loom)]
impl Memory {
    /// `words` zeroed words of loom's atomics.
    ///
    /// # Errors
    /// Never; the signature is that of the real mapping.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        Ok(Self {
            map: (0..words).map(|_| AtomicU64::new(0)).collect(),
            words,
        })
    }

    /// All words.
    pub fn words(&self) -> &[AtomicU64] {
        &self.map[..self.words]
    }

    /// Nothing to give back under loom.
    pub fn discard(&self, _words: std::ops::Range<usize>) {}

    /// Nothing to advise under loom.
    pub fn advise_huge_pages(&self) {}
}
