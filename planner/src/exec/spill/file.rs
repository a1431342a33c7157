//! A temporary file of fixed-size blocks, shared by the streams of one operator.
//!
//! ```text
//! stream 1   block 0 ─▶ block 2 ─▶ bytes in memory
//! stream 2   block 1 ─▶ bytes in memory
//! file       0 1 2 …      a block that has been read is free for another stream
//! ```
//! The file has no name, so it vanishes with the process. It is created with the first full block.
//! A thread of the pool for blocking calls reads and writes; the session's thread continues with
//! other sessions meanwhile. One write is under way at a time, while the next blocks are filled.
//!
//! # Failure
//! A full disk is 53100, another error of the disk 58030, more bytes than `temp_file_limit` 53400.
//! The statement fails, and the file is gone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use blocking::{Task, unblock};
use fencepost_fabric::processors::anywhere;
use fencepost_sql::error::{SqlError, SqlState};

/// The smallest and the largest block, in bytes.
const BLOCK_BYTES: (usize, usize) = (8 << 10, 256 << 10);

/// The bytes in the temporary files of one session.
pub type TemporaryBytes = Arc<AtomicU64>;

/// Where the temporary files of a session are, and how large they may be.
#[derive(Clone, Debug)]
pub struct TemporaryFiles {
    /// Their directory.
    pub directory: PathBuf,
    /// The bytes in all of them.
    pub bytes: TemporaryBytes,
    /// The limit of these bytes.
    pub bytes_max: Option<u64>,
}

/// The number of a block in its file.
pub type Block = u32;

/// A temporary file.
pub struct BlockFile {
    place: TemporaryFiles,
    /// The file, once a block is written.
    file: Option<Arc<File>>,
    block_bytes: usize,
    /// The number of blocks of the file.
    blocks: Block,
    free: Vec<Block>,
    writing: Option<Task<io::Result<Arc<File>>>>,
}

impl BlockFile {
    /// Creates the file of an operator that has `memory` bytes for the blocks of `streams` streams.
    pub fn new(place: &TemporaryFiles, memory: usize, streams: usize) -> BlockFile {
        let share = memory / (2 * streams.max(1));
        BlockFile {
            place: place.clone(),
            file: None,
            block_bytes: share.clamp(BLOCK_BYTES.0, BLOCK_BYTES.1) & !4095,
            blocks: 0,
            free: Vec::new(),
            writing: None,
        }
    }

    /// Returns the size of a block, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the size of the file, in bytes.
    fn bytes(&self) -> u64 {
        u64::from(self.blocks) * self.block_bytes as u64
    }

    fn allocate(&mut self) -> Result<Block, SqlError> {
        if let Some(block) = self.free.pop() {
            return Ok(block);
        }
        let block = self.blocks;
        let bytes = self.block_bytes as u64;
        let session_bytes = self.place.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.blocks = block.checked_add(1).ok_or_else(|| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a temporary file has too many blocks",
            )
        })?;
        match self.place.bytes_max {
            Some(max) if session_bytes > max => Err(SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                format!(
                    "temporary file size exceeds temp_file_limit ({}kB)",
                    max / 1024
                ),
            )),
            _ => Ok(block),
        }
    }

    /// Begins to write full blocks, and returns their numbers. Waits until the write before is
    /// over.
    ///
    /// # Errors
    /// 53100, 53400, 58030: see the module.
    pub async fn write(&mut self, bytes: Vec<u8>) -> Result<Vec<Block>, SqlError> {
        self.written().await?;
        let size = self.block_bytes;
        let blocks = (0..bytes.len() / size).map(|_| self.allocate());
        let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        let (file, directory) = (self.file.clone(), self.place.directory.clone());
        let places = blocks.clone();
        let work = move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(tempfile::tempfile_in(directory)?),
            };
            for (block, bytes) in places.into_iter().zip(bytes.chunks_exact(size)) {
                file.write_all_at(bytes, u64::from(block) * size as u64)?;
            }
            Ok(file)
        };
        self.writing = Some(anywhere(|| unblock(work)));
        Ok(blocks)
    }

    /// Waits until the last write is over.
    ///
    /// # Errors
    /// Those of the write.
    async fn written(&mut self) -> Result<(), SqlError> {
        if let Some(writing) = self.writing.take() {
            self.file = Some(writing.await.map_err(failed("write to"))?);
        }
        Ok(())
    }

    /// Begins to read a block. Waits until the last write is over.
    ///
    /// # Errors
    /// Those of the last write.
    pub async fn read(&mut self, block: Block) -> Result<BlockRead, SqlError> {
        self.written().await?;
        let file = self.file.clone();
        let file = file.ok_or_else(|| SqlError::internal("a temporary file has no blocks"))?;
        let size = self.block_bytes;
        let work = move || {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, u64::from(block) * size as u64)?;
            Ok(bytes)
        };
        Ok(BlockRead {
            block,
            bytes: anywhere(|| unblock(work)),
        })
    }

    /// Waits for a block, and frees its place in the file.
    ///
    /// # Errors
    /// 58030 if it cannot be read.
    pub async fn take(&mut self, read: BlockRead) -> Result<Vec<u8>, SqlError> {
        let bytes = read.bytes.await.map_err(failed("read from"))?;
        self.free.push(read.block);
        Ok(bytes)
    }
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        self.place.bytes.fetch_sub(self.bytes(), Relaxed);
    }
}

/// A block that is being read.
pub struct BlockRead {
    block: Block,
    bytes: Task<io::Result<Vec<u8>>>,
}

fn failed(verb: &'static str) -> impl Fn(io::Error) -> SqlError {
    move |error| {
        let state = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
            _ => SqlState::IO_ERROR,
        };
        SqlError::new(state, format!("could not {verb} temporary file: {error}"))
    }
}
