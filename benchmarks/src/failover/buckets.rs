//! Commit counts for each millisecond, in memory that outlives the counting process.
//!
//! ```text
//!   file of a machine   | thread 0: bucket 0, bucket 1, … | thread 1: … |      a word each
//! ```
//!
//! *Concurrency.* A row has one writer, so that no atomic addition is needed; others may read at
//! any time.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::Memory;

use crate::error::BenchError;

/// The length of a bucket.
pub(super) const BUCKET_NS: u64 = 1_000_000;
const WORD_BYTES: u64 = 8;

/// The counts of one machine.
pub(super) struct Buckets {
    memory: Memory,
    buckets: usize,
}

impl Buckets {
    /// Creates a file for this number of threads and buckets, all zero.
    pub fn create(path: &Path, threads: usize, buckets: usize) -> Result<Buckets, BenchError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path);
        let words = (threads * buckets) as u64;
        let file = file.and_then(|file| file.set_len(words * WORD_BYTES).map(|()| file));
        let memory = file.and_then(|file| Memory::of_file(&file, true));
        Ok(Buckets {
            memory: memory.map_err(|error| failed(path, error))?,
            buckets,
        })
    }

    /// Opens a file that another process has created.
    pub fn open(path: &Path, buckets: usize) -> Result<Buckets, BenchError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let memory = file.and_then(|file| Memory::of_file(&file, true));
        Ok(Buckets {
            memory: memory.map_err(|error| failed(path, error))?,
            buckets: buckets.max(1),
        })
    }

    /// Returns the row of a thread; empty if the file has none.
    pub fn row(&self, thread: usize) -> Row<'_> {
        let from = thread * self.buckets;
        let words = self.memory.words().get(from..from + self.buckets);
        Row(words.unwrap_or_default())
    }

    /// Adds the counts of all threads to `sum`.
    pub fn add_to(&self, sum: &mut [u64]) {
        for row in self.memory.words().chunks_exact(self.buckets) {
            for (sum, count) in sum.iter_mut().zip(row) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
    }
}

/// The counts of a thread.
#[derive(Clone, Copy)]
pub(super) struct Row<'a>(&'a [AtomicU64]);

impl Row<'_> {
    /// Counts one commit, `after_ns` after the start of the first bucket. Ignores commits after the
    /// last bucket.
    #[inline]
    pub fn count(&self, after_ns: u64) {
        let at = usize::try_from(after_ns / BUCKET_NS).unwrap_or(usize::MAX);
        if let Some(count) = self.0.get(at) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

fn failed(path: &Path, error: std::io::Error) -> BenchError {
    BenchError::Io {
        what: path.display().to_string(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_other_process_are_summed_by_bucket() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m1");
        let made = Buckets::create(&path, 2, 5).expect("a file");
        let opened = Buckets::open(&path, 5).expect("the file");
        for (thread, ms) in [(0, 0), (0, 4), (1, 4), (1, 1), (1, 1)] {
            opened.row(thread).count(ms * BUCKET_NS + 999_999);
        }
        // A commit that is too late, and a thread without a row.
        opened.row(1).count(5 * BUCKET_NS);
        opened.row(2).count(0);
        let mut sum = vec![10, 0, 0, 0, 0];
        made.add_to(&mut sum);
        assert_eq!(sum, [11, 2, 0, 0, 2]);
        assert!(Buckets::create(&path, 2, 5).is_err(), "it is there");
    }
}
