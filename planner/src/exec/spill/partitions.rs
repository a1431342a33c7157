//! Rows divided by the hash of their key.

use std::hash::BuildHasher;

use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;
use foldhash::fast::RandomState;

use super::file::{BlockFile, TemporaryFiles};
use super::stream::{SpillFile, Stream, StreamReader};

/// The number of partitions into which rows are divided at once.
pub const PARTITIONS: usize = 32;

/// Divides keys into partitions. A partition that is still too large is divided again, at the next
/// level, by another hash.
#[derive(Debug, Default)]
pub struct Partitioner {
    hasher: RandomState,
}

impl Partitioner {
    /// Returns the partition of a key, below [`PARTITIONS`].
    #[inline]
    pub fn of(&self, key: &[u8], level: u32) -> usize {
        self.hasher.hash_one((level, key)) as usize % PARTITIONS
    }
}

/// The rows that a hash table in memory has no room for, each partition in `STREAMS` streams.
///
/// The hash table is filled, and rows with other keys are added here. Then each partition becomes
/// the input of another hash table in memory, whose rows without room are divided again.
pub struct Partitions<const STREAMS: usize> {
    file: SpillFile,
    partitioner: Partitioner,
    /// How often the keys of `open` were divided.
    level: u32,
    /// The partitions that are being written; empty if there are none.
    open: Vec<[Stream; STREAMS]>,
    /// The partitions that wait to be read, each with its level.
    waiting: Vec<([Stream; STREAMS], u32)>,
}

impl<const STREAMS: usize> Partitions<STREAMS> {
    /// Creates the file of a hash table of `memory` bytes, without rows.
    pub fn new(place: &TemporaryFiles, memory: usize) -> Partitions<STREAMS> {
        Partitions {
            file: SpillFile::new(BlockFile::new(place, memory, PARTITIONS)),
            partitioner: Partitioner::default(),
            level: 0,
            open: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Adds a row to a stream of the partition of its key, in memory.
    ///
    /// # Errors
    /// 54000 if the row is too long.
    pub fn add<'a>(
        &mut self,
        stream: usize,
        key: &[u8],
        row: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), SqlError> {
        if self.open.is_empty() {
            let partition = || std::array::from_fn(|_| Stream::default());
            self.open.resize_with(PARTITIONS, partition);
        }
        let partition = self.partitioner.of(key, self.level);
        self.file.add(&mut self.open[partition][stream], row)
    }

    /// Writes what was added to the file.
    ///
    /// # Errors
    /// Those of the file.
    pub async fn write(&mut self) -> Result<(), SqlError> {
        for stream in self.open.as_flattened_mut() {
            self.file.write(stream).await?;
        }
        Ok(())
    }

    /// Returns whether a partition waits.
    pub fn has_partition(&self) -> bool {
        !self.waiting.is_empty() || self.open.iter().any(has_rows)
    }

    /// Returns readers of the streams of the next partition. Rows that are added from now on are
    /// divided at the level after its own.
    pub fn take_partition(&mut self) -> Option<[StreamReader; STREAMS]> {
        let level = self.level;
        let open = std::mem::take(&mut self.open).into_iter();
        let open = open.filter(has_rows).map(|partition| (partition, level));
        self.waiting.extend(open);
        let (partition, level) = self.waiting.pop()?;
        self.level = level + 1;
        Some(partition.map(|stream| self.file.reader(stream)))
    }

    /// Reads a row as [`SpillFile::next`] does.
    ///
    /// # Errors
    /// Those of reading the file.
    pub async fn next<'a>(
        &mut self,
        reader: &mut StreamReader,
        slots: impl IntoIterator<Item = &'a mut Value>,
    ) -> Result<bool, SqlError> {
        self.file.next(reader, slots).await
    }
}

fn has_rows<const STREAMS: usize>(partition: &[Stream; STREAMS]) -> bool {
    partition.iter().any(|stream| stream.rows() > 0)
}
