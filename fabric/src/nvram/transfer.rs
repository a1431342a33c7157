//! The transfer of chunks between memory and a disk: several at a time, bypassing the system's
//! cache.
//!
//! A disk is fastest if it always has requests, so some threads copy and check while others wait
//! for it. I/O that bypasses the cache needs no additional memory, which may be scarce beside the
//! saved memory.
//!
//! # Failure
//! The first error ends the transfer. On a file system without direct I/O the cache is used.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use super::layout::{BLOCK_BYTES, CHUNK_BYTES};

/// The number of threads per machine.
const WORKERS: usize = 3;

/// The flag for I/O that bypasses the cache.
#[cfg(target_os = "linux")]
const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
#[cfg(not(target_os = "linux"))]
const DIRECT: i32 = 0;

/// The buffer and file of a thread.
pub struct Worker {
    /// The buffer of a chunk, which begins at the aligned index `from`.
    bytes: Vec<u8>,
    from: usize,
    /// The file of memory used last, which mostly contains the next part, too.
    last: Option<(u32, File)>,
}

impl Worker {
    fn new() -> Worker {
        let bytes = vec![0; (CHUNK_BYTES + BLOCK_BYTES) as usize];
        let at = bytes.as_ptr().addr();
        Worker {
            from: at.next_multiple_of(BLOCK_BYTES as usize) - at,
            bytes,
            last: None,
        }
    }

    /// Returns a buffer of `bytes` bytes, at most a chunk's.
    pub fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.bytes[self.from..][..bytes]
    }

    /// Returns a file of memory and the buffer of a chunk.
    pub fn file(
        &mut self,
        number: u32,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<(&File, &mut [u8])> {
        let file = match self.last.take() {
            Some((last, file)) if last == number => file,
            _ => open()?,
        };
        let (_, file) = self.last.insert((number, file));
        Ok((file, &mut self.bytes[self.from..]))
    }
}

/// Opens a file for I/O that bypasses the cache, if the file system supports that.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match options.clone().custom_flags(DIRECT).open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => options.open(path),
        opened => opened,
    }
}

/// Calls `work` for each of `chunks` chunks, on several threads.
pub fn each<E: Send>(
    chunks: usize,
    work: impl Fn(usize, &mut Worker) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut worker = Worker::new();
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= chunks {
                return Ok(());
            }
            if let Err(error) = work(chunk, &mut worker) {
                next.store(chunks, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS.min(chunks)).map(|_| scope.spawn(run)).collect();
        let mut done = Ok(());
        for worker in workers {
            let ended = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            done = done.and(ended);
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_chunk_is_transferred_once_and_first_failure_ends_all() {
        let seen = Mutex::new(Vec::new());
        let work = |chunk, worker: &mut Worker| {
            let bytes = worker.bytes(CHUNK_BYTES as usize);
            assert_eq!(bytes.len(), CHUNK_BYTES as usize);
            let at = bytes.as_ptr().addr();
            assert!(at.is_multiple_of(BLOCK_BYTES as usize));
            seen.lock().expect("no panic").push(chunk);
            if chunk == 40 { Err("no room") } else { Ok(()) }
        };
        assert_eq!(each(0, work), Ok(()));
        assert_eq!(each(20, work), Ok(()));
        let mut all = std::mem::take(&mut *seen.lock().expect("no panic"));
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_eq!(each(100_000, work), Err("no room"));
        assert!(seen.lock().expect("no panic").len() < 100_000);
    }
}
