//! A hash join whose right side does not fit into memory: both sides are divided by their keys.
//!
//! ```text
//! right rows ─▶ hash of the key ─▶ right 0 … right 31 ┐
//! left rows  ─▶ hash of the key ─▶ left 0 … left 31   ┴─▶ one pair at a time is joined in memory
//!                                    a pair with a large right side is divided again
//! ```
//! Invariants
//! - JOIN-PART-1: rows with equal keys are in the same pair.
//! - JOIN-PART-2: rows without a key match nothing. If an outer join returns them, they are in the
//!   first pair; otherwise they are dropped.
//! - JOIN-PART-3: a right side with a single key cannot be divided; it must fit into memory.

use fencepost_sql::bound::{Expr, JoinKind};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::batch::Batch;
use super::super::collected_memory::CollectedMemory;
use super::super::cx::Cx;
use super::super::source::SourceState;
use super::super::spill::{BlockFile, PARTITIONS, Partitioner, SpillFile, Stream, StreamReader};
use super::hash_key;
use super::stored::StoredSide;
use crate::plan::{Join, JoinMethod, Source};

/// The number of rows that are read at once.
const CHUNK: usize = 1024;

/// The pairs of partitions that are not joined yet.
pub struct JoinPartitions {
    file: SpillFile,
    partitioner: Partitioner,
    left: Side,
    right: Side,
    waiting: Vec<Pair>,
    /// The memory of right sides with a single key.
    undivided: CollectedMemory,
}

/// How the rows of one side are divided.
struct Side {
    keys: Vec<Expr>,
    /// The slots of a row that the join reads.
    slots: Vec<usize>,
    /// Whether rows without a match are returned.
    is_outer: bool,
    /// The number of values of a row.
    width: usize,
}

/// The rows of both sides whose keys have the same hash.
#[derive(Default)]
struct Pair {
    left: Stream,
    right: Stream,
    /// How often its keys were divided.
    level: u32,
    /// Whether the right side has a single key.
    is_undivided: bool,
}

/// The side of a join to which rows belong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Left,
    Right,
}

impl JoinPartitions {
    /// Creates the pairs of a hash join without rows.
    pub fn new(join: &Join, stored: &StoredSide, width: usize, cx: &Cx<'_>) -> JoinPartitions {
        let (left_keys, right_keys) = match &join.method {
            JoinMethod::Hash {
                left_keys,
                right_keys,
            } => (left_keys.clone(), right_keys.clone()),
            JoinMethod::Index | JoinMethod::Loop => (Vec::new(), Vec::new()),
        };
        let memory = cx.eval.settings.work_memory.hash_bytes();
        let carried = join.carried.iter().filter(|carried| carried.from_left);
        let left_slots = join.left_slots.ranges().flatten();
        let left_slots = left_slots.chain(carried.map(|carried| carried.slot));
        JoinPartitions {
            file: SpillFile::new(BlockFile::new(&cx.temporary_files(), memory, PARTITIONS)),
            partitioner: Partitioner::default(),
            left: Side {
                keys: left_keys,
                slots: left_slots.collect(),
                is_outer: matches!(join.kind, JoinKind::Left | JoinKind::Full),
                width,
            },
            right: Side {
                keys: right_keys,
                slots: stored.slots().to_vec(),
                is_outer: join.kind == JoinKind::Full,
                width,
            },
            waiting: Vec::new(),
            undivided: CollectedMemory::default(),
        }
    }

    /// Divides both sides: the right rows that are stored, those that follow, and all left rows.
    ///
    /// # Errors
    /// Those of the sources and of the temporary file.
    pub async fn divide(
        &mut self,
        join: &Join,
        stored: StoredSide,
        (left, right): (&mut SourceState, &mut SourceState),
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let mut pairs = pairs_of(0);
        self.add_stored(stored, &mut pairs, cx).await?;
        let from = (right, &join.right);
        self.add_source(from, Which::Right, &mut pairs, cx).await?;
        let from = (left, &join.left);
        self.add_source(from, Which::Left, &mut pairs, cx).await?;
        self.waiting.extend(pairs);
        Ok(())
    }

    /// Returns the right rows of the next pair, and the reader of its left rows. Returns `None`
    /// when all pairs are joined.
    ///
    /// # Errors
    /// Those of the temporary file; 53200 if a right side with a single key exceeds the memory
    /// limit.
    pub async fn next_pair(
        &mut self,
        join: &Join,
        memory: &mut CollectedMemory,
        cx: &mut Cx<'_>,
    ) -> Result<Option<(StoredSide, StreamReader)>, StatementStop> {
        while let Some(pair) = self.waiting.pop() {
            if pair.left.rows() == 0 && !self.right.is_outer
                || pair.right.rows() == 0 && !self.left.is_outer && !self.right.is_outer
            {
                continue;
            }
            let mut reader = self.file.reader(pair.right);
            let mut stored = StoredSide::new(join);
            let memory = if pair.is_undivided {
                &mut self.undivided
            } else {
                &mut *memory
            };
            memory.restart();
            let mut chunk = Batch::new(self.right.width);
            let mut more = true;
            while more && !memory.is_full() {
                chunk.clear();
                more = read(&mut self.file, &mut reader, &self.right, &mut chunk, cx).await?;
                stored.add(join, &mut chunk, cx, memory).await?;
            }
            if !more {
                stored.end(join);
                return Ok(Some((stored, self.file.reader(pair.left))));
            }
            self.divide_pair(stored, (reader, pair.left), pair.level + 1, cx)
                .await?;
        }
        Ok(None)
    }

    /// Reads up to [`CHUNK`] left rows of the current pair. Returns false if no more follow.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn read_left(
        &mut self,
        reader: &mut StreamReader,
        rows: &mut Batch,
        cx: &mut Cx<'_>,
    ) -> Result<bool, StatementStop> {
        read(&mut self.file, reader, &self.left, rows, cx).await
    }

    /// Divides a pair whose right side is too large.
    async fn divide_pair(
        &mut self,
        stored: StoredSide,
        (mut right, left): (StreamReader, Stream),
        level: u32,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let mut pairs = pairs_of(level);
        self.add_stored(stored, &mut pairs, cx).await?;
        let mut chunk = Batch::new(self.right.width);
        let mut more = true;
        while more {
            chunk.clear();
            more = read(&mut self.file, &mut right, &self.right, &mut chunk, cx).await?;
            self.add_rows(&chunk, Which::Right, &mut pairs, cx).await?;
        }
        let mut left = self.file.reader(left);
        more = true;
        while more {
            chunk.clear();
            more = read(&mut self.file, &mut left, &self.left, &mut chunk, cx).await?;
            self.add_rows(&chunk, Which::Left, &mut pairs, cx).await?;
        }
        let rows: u64 = pairs.iter().map(|pair| pair.right.rows()).sum();
        for pair in &mut pairs {
            pair.is_undivided = pair.right.rows() == rows;
        }
        self.waiting.extend(pairs);
        Ok(())
    }

    async fn add_source(
        &mut self,
        (state, source): (&mut SourceState, &Source),
        which: Which,
        pairs: &mut [Pair],
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let mut chunk = Batch::new(self.right.width);
        let mut more = true;
        while more {
            chunk.clear();
            more = state.next(source, cx, &mut chunk, CHUNK).await?;
            self.add_rows(&chunk, which, pairs, cx).await?;
        }
        Ok(())
    }

    async fn add_stored(
        &mut self,
        mut stored: StoredSide,
        pairs: &mut [Pair],
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let mut chunk = Batch::new(self.right.width);
        let mut from = 0;
        while from < stored.len() {
            chunk.clear();
            let to = stored.len().min(from + CHUNK);
            for row in from..to {
                stored.take(row, chunk.push());
            }
            from = to;
            self.add_rows(&chunk, Which::Right, pairs, cx).await?;
        }
        Ok(())
    }

    /// Adds rows of one side to their pairs.
    async fn add_rows(
        &mut self,
        rows: &Batch,
        which: Which,
        pairs: &mut [Pair],
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let side = match which {
            Which::Left => &self.left,
            Which::Right => &self.right,
        };
        let mut key = Vec::new();
        for i in 0..rows.len() {
            cx.breathe().await?;
            let row = rows.row(i);
            let encoded = &mut key;
            let has_key = cx
                .in_parts(|cx| hash_key(&side.keys, cx, row, encoded))
                .await?;
            if !has_key && !side.is_outer {
                continue;
            }
            let number = match (has_key, pairs.first()) {
                (true, Some(first)) => self.partitioner.of(&key, first.level),
                (true, None) | (false, _) => 0,
            };
            let pair = &mut pairs[number];
            let stream = match which {
                Which::Left if pair.right.rows() == 0 && !side.is_outer => continue,
                Which::Left => &mut pair.left,
                Which::Right => &mut pair.right,
            };
            self.file
                .add(stream, side.slots.iter().map(|slot| &row[*slot]))?;
        }
        for pair in pairs {
            self.file.write(&mut pair.left).await?;
            self.file.write(&mut pair.right).await?;
        }
        Ok(())
    }
}

/// Reads up to [`CHUNK`] rows of one side. Returns false if no more follow.
async fn read(
    file: &mut SpillFile,
    reader: &mut StreamReader,
    side: &Side,
    rows: &mut Batch,
    cx: &mut Cx<'_>,
) -> Result<bool, StatementStop> {
    let mut values = vec![Value::Null; side.slots.len()];
    for _ in 0..CHUNK {
        cx.breathe().await?;
        if !file.next(reader, &mut values).await? {
            return Ok(false);
        }
        let row = rows.push();
        for (slot, value) in side.slots.iter().zip(&mut values) {
            row[*slot] = std::mem::take(value);
        }
    }
    Ok(true)
}

fn pairs_of(level: u32) -> Vec<Pair> {
    let pair = || Pair {
        level,
        ..Pair::default()
    };
    std::iter::repeat_with(pair).take(PARTITIONS).collect()
}
