//! Objects in place: the optimistic read, the lock, the install.
//!
//! # Concurrency
//! Any thread may read at any time; only the holder of the lock bit writes. The order is that of a
//! sequence lock. The writer sets the lock bit, then (release fence) changes link, payload and line
//! versions, then stores the new header with release. A reader loads the header with acquire, reads
//! words relaxed, and (acquire fence) accepts only if the header is still the word that it loaded.
//! Every commit has a timestamp of its own, so an unchanged header means an unchanged object.
//! `tests/loom_object.rs` enumerates the schedules.

use crate::header::{Header, LinkWord};
use crate::layout::{self, LINE_WORDS};
use fencepost_fabric::sync::{AtomicU64, Ordering, fence};

/// A slot of a region.
#[derive(Clone, Copy)]
pub struct ObjectRef<'a> {
    words: &'a [AtomicU64],
    /// Index of the word of its cache line at which the slot begins.
    s: usize,
}

impl<'a> ObjectRef<'a> {
    /// Returns the slot over `words`, whose first word is word `s` of a cache line.
    #[inline]
    pub fn new(words: &'a [AtomicU64], s: usize) -> Self {
        Self {
            words,
            s: s % LINE_WORDS,
        }
    }

    /// Loads the header with acquire: all writes before it are visible.
    #[inline]
    pub fn header(&self) -> Header {
        self.words
            .first()
            .map_or(Header(0), |word| Header(word.load(Ordering::Acquire)))
    }

    /// Returns whether the header is still `seen` after all reads before this call.
    #[inline]
    pub fn unchanged(&self, seen: Header) -> bool {
        fence(Ordering::Acquire);
        self.words
            .first()
            .is_some_and(|word| word.load(Ordering::Relaxed) == seen.0)
    }

    #[inline]
    fn logical(&self, i: usize) -> Option<&'a AtomicU64> {
        self.words.get(layout::physical(self.s, i))
    }

    /// Returns the incarnation and the place of the previous version; check the header afterwards.
    #[inline]
    pub fn link(&self) -> LinkWord {
        self.logical(0)
            .map_or(LinkWord(0), |word| LinkWord(word.load(Ordering::Relaxed)))
    }

    /// Returns the number of payload words in the slot.
    #[inline]
    pub fn len(&self) -> usize {
        layout::payload_words(self.s, self.words.len())
    }

    /// Returns whether the slot has no payload words; no real slot does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns payload word `i`, or 0 beyond the end; check the header afterwards.
    #[inline]
    pub fn word(&self, i: usize) -> u64 {
        self.logical(i + 1)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Copies payload words from `from` on; beyond the end writes zeros. Check the header
    /// afterwards.
    #[inline]
    pub fn copy(&self, from: usize, out: &mut [u64]) {
        let mut at = layout::physical(self.s, from + 1);
        let mut rest = out;
        while !rest.is_empty() {
            let mut in_line = (self.s + at) % LINE_WORDS;
            // A cache line after the first begins with its version.
            if in_line == 0 {
                at += 1;
                in_line = 1;
            }
            let (run, behind) = rest.split_at_mut((LINE_WORDS - in_line).min(rest.len()));
            match self.words.get(at..at + run.len()) {
                Some(words) => {
                    for (out, word) in run.iter_mut().zip(words) {
                        *out = word.load(Ordering::Relaxed);
                    }
                }
                None => {
                    for (i, out) in run.iter_mut().enumerate() {
                        let word = self.words.get(at + i);
                        *out = word.map_or(0, |word| word.load(Ordering::Relaxed));
                    }
                }
            }
            at += run.len();
            rest = behind;
        }
    }

    /// Calls `f` with the whole payload in runs of up to a cache line, and the index of the first
    /// word of each.
    pub fn copy_runs(&self, mut f: impl FnMut(usize, &[u64])) {
        let mut run = [0u64; LINE_WORDS];
        let (len, mut from) = (self.len(), 0);
        while from < len {
            let n = LINE_WORDS.min(len - from);
            self.copy(from, &mut run[..n]);
            f(from, &run[..n]);
            from += n;
        }
    }

    /// Takes the lock if the header is `seen`, which must be unlocked: the compare-and-swap of LOCK
    /// (SOSP'15 §4, step 1). Does not wait. Success has acquire ordering.
    ///
    /// # Errors
    /// The present header, which differs: the object is locked, or has another version.
    #[inline]
    pub fn try_lock(&self, seen: Header) -> Result<(), Header> {
        let word = self.words.first().ok_or(Header(0))?;
        word.compare_exchange(
            seen.0,
            seen.locked().0,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .map(|_| ())
        .map_err(Header)
    }

    /// Locks a slot that no other thread may lock, because no pointer leads to it.
    pub fn lock_own(&self) {
        if let Some(word) = self.words.first() {
            word.store(self.header().locked().0, Ordering::Release);
        }
    }

    /// Releases the lock with nothing changed, with release ordering. Only the holder of the lock
    /// calls it.
    #[inline]
    pub fn unlock(&self, seen: Header) {
        if let Some(word) = self.words.first() {
            word.store(seen.unlocked().0, Ordering::Release);
        }
    }

    /// Begins to change a locked object, with a release fence: a reader that saw an older header
    /// will not accept the writes that follow.
    #[inline]
    pub fn begin_install(&self) {
        fence(Ordering::Release);
    }

    /// Writes payload words from `from` on. The caller holds the lock and has begun the install, or
    /// owns a slot that no pointer leads to yet.
    pub fn put(&self, from: usize, payload: &[u64]) {
        let mut done = 0;
        while done < payload.len() {
            let at = layout::physical(self.s, from + done + 1);
            let run = (LINE_WORDS - (self.s + at) % LINE_WORDS).min(payload.len() - done);
            let there = self.words.get(at..).unwrap_or(&[]);
            for (word, value) in there.iter().zip(&payload[done..done + run]) {
                word.store(*value, Ordering::Relaxed);
            }
            done += run;
        }
    }

    /// Writes the link alone; for a slot that was never used.
    pub fn put_link(&self, link: LinkWord) {
        if let Some(word) = self.logical(0) {
            word.store(link.0, Ordering::Relaxed);
        }
    }

    /// Zeroes the whole payload; the conditions of [`Self::put`] apply.
    pub fn clear(&self) {
        let zeroes = [0u64; 7];
        let mut at = 0;
        while at < self.len() {
            let run = zeroes.len().min(self.len() - at);
            self.put(at, &zeroes[..run]);
            at += run;
        }
    }

    /// Ends an install: writes the link, the line versions, and last the header, which unlocks. The
    /// header is stored with release ordering, so a reader that sees it sees the whole version
    /// (SOSP'15 §4, step 4).
    pub fn finish_install(&self, header: Header, link: LinkWord) {
        self.put_link(link);
        let mut line = LINE_WORDS - self.s;
        while let Some(word) = self.words.get(line) {
            word.store(header.0, Ordering::Relaxed);
            line += LINE_WORDS;
        }
        if let Some(word) = self.words.first() {
            word.store(header.0, Ordering::Release);
        }
    }

    /// Returns whether every line version agrees with `header`: the check after a one-sided read
    /// (NSDI'14 §3.5).
    pub fn lines_agree(&self, header: Header) -> bool {
        let mut line = LINE_WORDS - self.s;
        while let Some(word) = self.words.get(line) {
            if word.load(Ordering::Relaxed) != header.0 {
                return false;
            }
            line += LINE_WORDS;
        }
        true
    }
}

/// One version of an object, wherever it is kept. Reads beyond its end return 0: an optimistic
/// reader may have used words that never existed together.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// The newest version, in its slot; torn until its header has been checked.
    Live(ObjectRef<'a>),
    /// A previous version; invalid until the generation of its block has been checked.
    Old(&'a [AtomicU64]),
    /// A transaction's own image.
    Own(&'a [u64]),
}

impl View<'_> {
    /// Returns the number of payload words.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            View::Live(object) => object.len(),
            View::Old(words) => words.len(),
            View::Own(words) => words.len(),
        }
    }

    /// Returns whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns payload word `i`; 0 beyond the end.
    #[inline]
    pub fn word(&self, i: usize) -> u64 {
        match self {
            View::Live(object) => object.word(i),
            View::Old(words) => words.get(i).map_or(0, |word| word.load(Ordering::Relaxed)),
            View::Own(words) => words.get(i).copied().unwrap_or(0),
        }
    }

    /// Copies payload words from `from` on; writes zeros beyond the end.
    #[inline]
    pub fn copy(&self, from: usize, out: &mut [u64]) {
        match self {
            View::Live(object) => object.copy(from, out),
            View::Old(_) | View::Own(_) => {
                for (i, word) in out.iter_mut().enumerate() {
                    *word = self.word(from + i);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::header::OldVersionPtr;
    use crate::timestamp::Timestamp;

    #[test]
    fn payload_is_read_back_and_line_versions_follow_header() {
        for s in 0..LINE_WORDS {
            for words in [9, 15, 16, 40, 131] {
                let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
                let object = ObjectRef::new(&memory, s);
                let payload: Vec<u64> = (1..=object.len() as u64).collect();
                object.put(0, &payload);
                let header = Header(0).succeed(Timestamp::from_raw(9), true);
                let link = LinkWord::new(3, OldVersionPtr::new(1, 2, 3));
                object.finish_install(header, link);
                let mut out = vec![0; payload.len()];
                object.copy(0, &mut out);
                assert_eq!(out, payload);
                assert!((0..payload.len()).all(|i| object.word(i) == payload[i]));
                assert_eq!((object.header(), object.link()), (header, link));
                assert!(object.lines_agree(header) && object.unchanged(header));
                object.put(2, &[77, 78]);
                assert_eq!(
                    (object.word(1), object.word(2), object.word(3)),
                    (2, 77, 78)
                );
                assert_eq!(object.word(payload.len()), 0);
            }
        }
    }

    #[test]
    fn lock_succeeds_only_at_seen_version() {
        let memory: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let object = ObjectRef::new(&memory, 0);
        let seen = object.header();
        assert_eq!(object.try_lock(seen), Ok(()));
        assert_eq!(object.try_lock(seen), Err(seen.locked()));
        assert!(!object.unchanged(seen));
        object.unlock(seen);
        assert!(object.unchanged(seen));
    }
}
