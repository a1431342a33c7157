//! Sorted runs in a temporary file, and their merge.
//!
//! ```text
//! rows of a full memory ─▶ sorted ─▶ run 1 ┐
//!                                    run 2 ├─▶ merge of FAN_IN runs ─▶ … ─▶ rows in order
//!                                    run 3 ┘
//! ```
//! Invariants
//! - RUN-1: each run is sorted, and its rows arrived after those of the runs before it. Of equal
//!   rows, that of the earlier run is returned first: the sort is stable.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use fencepost_sql::bound::OrderKey;
use fencepost_sql::error::SqlError;
use fencepost_sql::value::Value;

use super::super::batch::Batch;
use super::super::cx::Cx;
use super::super::spill::{BlockFile, SpillFile, Stream, StreamReader};
use super::compare_rows;

/// The number of runs that are merged at once.
const FAN_IN: usize = 32;

/// The runs of a sort.
pub struct SortedRuns {
    keys: Arc<[OrderKey]>,
    width: usize,
    file: SpillFile,
    runs: Vec<Stream>,
}

impl SortedRuns {
    /// Creates a file without runs, for rows with `width` values.
    pub fn new(cx: &Cx<'_>, keys: &[OrderKey], width: usize) -> SortedRuns {
        let memory = cx.eval.settings.work_memory.sort_bytes();
        SortedRuns {
            keys: keys.into(),
            width,
            file: SpillFile::new(BlockFile::new(&cx.temporary_files(), memory, FAN_IN)),
            runs: Vec::new(),
        }
    }

    /// Writes a run: the rows of `rows` in the order `order`.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn add(
        &mut self,
        cx: &mut Cx<'_>,
        rows: &Batch,
        order: &[u32],
    ) -> Result<(), SqlError> {
        let mut run = Stream::default();
        for row in order {
            cx.breathe().await?;
            self.file.add(&mut run, rows.row(*row as usize))?;
            self.file.write(&mut run).await?;
        }
        self.runs.push(run);
        Ok(())
    }

    /// Merges all runs, of which only the first `keep` rows matter.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn merge(mut self, cx: &mut Cx<'_>, keep: u64) -> Result<RunMerge, SqlError> {
        // The shortest prefix is merged first, so that the last merge has FAN_IN runs.
        while self.runs.len() > FAN_IN {
            let count = (self.runs.len() - FAN_IN + 1).min(FAN_IN);
            let rest = self.runs.split_off(count);
            let runs = std::mem::replace(&mut self.runs, rest);
            let merged = self.merge_some(cx, runs, keep).await?;
            self.runs.insert(0, merged);
        }
        let runs = std::mem::take(&mut self.runs);
        let heap = self.open(runs).await?;
        Ok(RunMerge {
            runs: self,
            heap,
            left: keep,
            tied: None,
            with_ties: false,
        })
    }

    /// Merges neighbouring runs to one.
    async fn merge_some(
        &mut self,
        cx: &mut Cx<'_>,
        runs: Vec<Stream>,
        keep: u64,
    ) -> Result<Stream, SqlError> {
        let mut heap = self.open(runs).await?;
        let mut merged = Stream::default();
        let mut row = vec![Value::Null; self.width];
        while merged.rows() < keep
            && let Some(first) = heap.peek_mut()
        {
            cx.breathe().await?;
            take_first(&mut self.file, first, &mut row).await?;
            self.file.add(&mut merged, &row)?;
            self.file.write(&mut merged).await?;
        }
        Ok(merged)
    }

    /// Begins to read runs, and returns the first row of each.
    async fn open(&mut self, runs: Vec<Stream>) -> Result<Heap, SqlError> {
        let mut heap = Heap::with_capacity(runs.len());
        for (number, run) in runs.into_iter().enumerate() {
            let mut head = Head {
                keys: Arc::clone(&self.keys),
                row: vec![Value::Null; self.width],
                run: number,
                reader: self.file.reader(run),
            };
            if self.file.next(&mut head.reader, &mut head.row).await? {
                heap.push(Reverse(head));
            }
        }
        Ok(heap)
    }
}

/// The next row of each run, the first one at the top.
type Heap = BinaryHeap<Reverse<Head>>;

/// The next row of a run.
struct Head {
    keys: Arc<[OrderKey]>,
    row: Vec<Value>,
    /// The number of the run.
    run: usize,
    reader: StreamReader,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        compare_rows(&self.row, &other.row, &self.keys).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

/// The rows of all runs, in order.
pub struct RunMerge {
    runs: SortedRuns,
    heap: Heap,
    /// The number of rows that may still be returned.
    left: u64,
    /// The last of these rows, if rows that tie with it are returned as well.
    tied: Option<Vec<Value>>,
    with_ties: bool,
}

impl RunMerge {
    /// Returns only the next `count` rows, and those that tie with the last of them.
    pub fn keep_ties(&mut self, count: u64) {
        self.left = count;
        self.with_ties = true;
    }

    /// Moves the next row to `row`. Returns false if there is none.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn next(&mut self, row: &mut [Value]) -> Result<bool, SqlError> {
        let Some(first) = self.heap.peek_mut() else {
            return Ok(false);
        };
        if self.left == 0 {
            let head = &first.0;
            let tied = self.tied.as_ref();
            if !tied.is_some_and(|tied| compare_rows(tied, &head.row, &head.keys).is_eq()) {
                return Ok(false);
            }
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.with_ties {
            self.tied.get_or_insert_with(|| first.0.row.clone());
        }
        take_first(&mut self.runs.file, first, row).await?;
        Ok(true)
    }
}

/// Moves the first row of all runs to `row`, and reads the one behind it.
async fn take_first(
    file: &mut SpillFile,
    mut first: PeekMut<'_, Reverse<Head>>,
    row: &mut [Value],
) -> Result<(), SqlError> {
    let Head {
        reader, row: head, ..
    } = &mut first.0;
    row.swap_with_slice(head);
    if !file.next(reader, head).await? {
        PeekMut::pop(first);
    }
    Ok(())
}
