//! Scans: from keys to index entries to rows, a batch at a time.

mod encoded;
mod parallel;

use std::sync::Arc;

use fencepost_btree::{Cursor, Direction, ScanBatch};
use fencepost_sql::bound::Expr;
use fencepost_sql::counts::Count;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Isolation, Stop};

use super::anew::{LockedRowState, lock_point, read_standing};
use super::batch::Batch;
use super::cx::Cx;
use super::lock::lock_row;
use super::merge::Merge;
use super::pointer::pointer_value;
use super::range::{Keys, keys};
use super::row_filter::{Cutoff, RowFilter, ScanColumns};
pub use encoded::{EncodedNext, EncodedRows};
use parallel::ParallelScan;

use crate::access::Access;
use crate::index::find;
use crate::plan::{Hints, Scan};
use crate::store::{prefetch_row, read_at_once, read_columns};
use crate::trees::{tree, trees};

const FIRST_CHUNK: usize = 32;
const LAST_CHUNK: usize = 1024;
/// The number of entries of a batch from which a filter for encoded rows pays off.
const FILTERED_ROWS: usize = 16;
/// The number of entries of a range after which helpers read parts of the rest.
const ALONE_ENTRIES: usize = 8192;
/// The distance in rows at which rows are prefetched.
const ROWS_AHEAD: usize = 8;

/// The state of a scan.
pub struct ScanState {
    keys: Option<Keys>,
    position: usize,
    walk: Option<Walk>,
    entries: ScanBatch,
    /// The position of the entry whose row is next.
    entry: usize,
    /// Whether the cursor has more entries.
    more: bool,
    words: Vec<u64>,
    chunk: usize,
    /// The number of entries that were read in the range.
    walked: usize,
    /// The filter for encoded rows, once the scan has found enough rows: `None` in it if no part of
    /// the filter can be tested on them.
    filter: Option<Option<Arc<RowFilter>>>,
    /// The rows that are left out since the scan was opened.
    cutoff: Option<Arc<Cutoff>>,
}

/// A scan of the entries of a range.
enum Walk {
    /// In one tree.
    One(Cursor),
    /// In the trees of all partitions, merged.
    All(Box<Merge>),
    /// In one tree, by several threads.
    Parallel(Box<ParallelScan>),
}

impl Default for ScanState {
    fn default() -> ScanState {
        ScanState {
            keys: None,
            position: 0,
            walk: None,
            entries: ScanBatch::of_values(),
            entry: 0,
            more: false,
            words: Vec::new(),
            chunk: 0,
            walked: 0,
            filter: None,
            cutoff: None,
        }
    }
}

impl ScanState {
    /// Starts or restarts the scan: computes the keys from `row`.
    pub async fn open(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        row: &[Value],
    ) -> Result<(), StatementStop> {
        self.keys = Some(cx.in_parts(|cx| keys(scan, cx, row)).await?);
        self.position = 0;
        self.walk = None;
        self.entries.clear();
        self.entry = 0;
        self.chunk = FIRST_CHUNK;
        self.cutoff = None;
        if !matches!(&self.filter, Some(Some(filter)) if filter.is_fixed()) {
            self.filter = None;
        }
        Ok(())
    }

    /// Adds up to `max` rows, or a few more, to `out`. Returns false when no more rows follow.
    pub async fn next(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if self.keys.is_none() {
            self.open(scan, cx, &[]).await?;
        }
        let target = out.len() + max;
        let heavy = out.weight_limit();
        while out.len() < target && out.weight() < heavy {
            cx.breathe().await?;
            let more = match &self.keys {
                Some(Keys::Points(_)) => self.next_point(scan, cx, out).await?,
                Some(Keys::Place(_)) => self.row_at_place(scan, cx, out).await?,
                _ => self.next_entries(scan, cx, out, (target, heavy)).await?,
            };
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn next_point(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
    ) -> Result<bool, StatementStop> {
        let Some(Keys::Points(points)) = &self.keys else {
            return Ok(false);
        };
        let next = match scan.backward {
            false => points.get(self.position),
            true => points
                .len()
                .checked_sub(self.position + 1)
                .map(|i| &points[i]),
        };
        let Some(point) = next else {
            return Ok(false);
        };
        self.position += 1;
        let key = (point.key.as_slice(), point.partition);
        if let Some(row) = fetch_point(scan, cx, key, &mut self.words).await? {
            emit(scan, scan.filter.as_ref(), cx, row.place, &self.words, out).await?;
        }
        Ok(true)
    }

    /// Adds the row of WHERE CURRENT OF, if it still exists.
    async fn row_at_place(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
    ) -> Result<bool, StatementStop> {
        let Some(Keys::Place(place)) = &mut self.keys else {
            return Ok(false);
        };
        let Some(row) = place.take() else {
            return Ok(false);
        };
        if let Some(hold) = scan.locks
            && !lock_row(cx, &scan.table, row.addr, hold).await?
        {
            return Ok(false);
        }
        let wanted = (&scan.table.layout, scan.columns.as_slice());
        if read_columns(&mut cx.seen(), row.addr, wanted, &mut self.words).await? {
            emit(scan, scan.filter.as_ref(), cx, row, &self.words, out).await?;
        }
        Ok(false)
    }

    async fn next_entries(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        (target, heavy): (usize, usize),
    ) -> Result<bool, StatementStop> {
        let wanted = self.chunk.min(target - out.len());
        if !self.read_entries(scan, cx, wanted).await? {
            return Ok(false);
        }
        match &mut self.walk {
            Some(Walk::Parallel(parallel)) => {
                let filter = self.filter.as_ref().and_then(Option::as_ref);
                let rest = match filter {
                    None => scan.filter.as_ref(),
                    Some(filter) => filter.rest(),
                };
                let tests = (rest, self.cutoff.as_deref());
                emit_block((scan, tests), cx, parallel, out, (target, heavy)).await?;
            }
            _ => self.read_rows(scan, cx, out, heavy).await?,
        }
        self.end_range();
        Ok(true)
    }

    /// Reads the next entries, about `wanted` of them, if all earlier ones are consumed. Returns
    /// false if there are no more ranges.
    async fn read_entries(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        wanted: usize,
    ) -> Result<bool, StatementStop> {
        if self.walk.is_none() && !self.open_range(scan, cx) {
            return Ok(false);
        }
        if self.walked >= ALONE_ENTRIES && self.entry == self.entries.len() {
            self.share_range(scan, cx).await?;
        }
        let Some(walk) = &mut self.walk else {
            return Ok(false);
        };
        if self.entry < self.entries.len() {
            return Ok(true);
        }
        self.entries.clear();
        self.entry = 0;
        if let Walk::Parallel(parallel) = walk {
            if parallel.rows_left() == 0 {
                let read = parallel.load(cx).await?;
                self.more = read.is_some();
                count_entries(scan, cx, read.unwrap_or(0));
            }
            return Ok(true);
        }
        let mark = cx.tx.reads_mark();
        self.more = {
            let (tx, entries) = (&mut cx.seen(), &mut self.entries);
            match walk {
                Walk::One(cursor) => cursor.next_batch(tx, entries, wanted).await?,
                Walk::All(merge) => merge.next_batch(tx, entries, wanted).await?,
                Walk::Parallel(_) => false,
            }
        };
        for first in self.entries.values().iter().take(ROWS_AHEAD) {
            prefetch_row(cx.tx, FatPtr::from_words(*first));
        }
        self.chunk = (self.chunk * 2).min(LAST_CHUNK);
        self.walked += self.entries.len();
        count_entries(scan, cx, self.entries.len());
        if scan.hints == Hints::All {
            cx.tx.forget_reads(mark);
        }
        Ok(true)
    }

    /// Ends the walk through a range after its last entry.
    fn end_range(&mut self) {
        if !self.more && self.entry == self.entries.len() {
            self.walk = None;
        }
    }

    /// Leaves out rows from now on, until the scan is opened again.
    pub fn cut_off(&mut self, cutoff: Cutoff) {
        let cutoff = self.cutoff.insert(Arc::new(cutoff));
        if let Some(Walk::Parallel(parallel)) = &self.walk {
            parallel.cut_off(cutoff);
        }
    }

    /// Lets helpers read parts of the rest of a long range.
    async fn share_range(&mut self, scan: &Scan, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        self.walked = 0;
        let Some(Walk::One(cursor)) = &self.walk else {
            return Ok(());
        };
        let filter = self.filter.as_ref().and_then(Option::as_ref);
        let tests = (filter, self.cutoff.as_ref());
        if let Some(parallel) = ParallelScan::begin(scan, cx, cursor, tests).await? {
            self.walk = Some(Walk::Parallel(Box::new(parallel)));
        }
        Ok(())
    }

    /// Prefetches a row that is read soon.
    #[inline]
    fn prefetch(&self, cx: &Cx<'_>) {
        if let Some(next) = self.entries.values().get(self.entry + ROWS_AHEAD) {
            prefetch_row(cx.tx, FatPtr::from_words(*next));
        }
    }

    /// Reads the rows of the remaining entries.
    async fn read_rows(
        &mut self,
        scan: &Scan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        heavy: usize,
    ) -> Result<(), StatementStop> {
        if self.filter.is_none() && self.entries.len() >= FILTERED_ROWS && scan.filter.is_some() {
            self.filter = Some(row_filter(scan, cx));
        }
        let filter = self.filter.as_ref().and_then(Option::as_ref);
        while self.entry < self.entries.len() && out.weight() < heavy {
            if cx.is_due() {
                cx.pause().await?;
            }
            self.prefetch(cx);
            let row = FatPtr::from_words(self.entries.value(self.entry));
            self.entry += 1;
            let locks = scan.locks.filter(|_| queues_first(scan));
            if let Some(hold) = locks
                && !lock_row(cx, &scan.table, row.addr, hold).await?
            {
                continue;
            }
            let mark = cx.tx.reads_mark();
            if !read_words(scan, cx, row.addr, &mut self.words).await? {
                continue;
            }
            let words = &self.words;
            if is_behind(scan, self.cutoff.as_deref(), words)? {
                continue;
            }
            let passes = match filter {
                None => emit(scan, scan.filter.as_ref(), cx, row, words, out).await?,
                Some(filter) => {
                    filter.holds(&scan.table.layout.partial_reader(words)?)?
                        && emit(scan, filter.rest(), cx, row, words, out).await?
                }
            };
            if scan.hints == Hints::All || passes && scan.hints == Hints::Passing {
                cx.tx.forget_reads(mark);
            }
        }
        Ok(())
    }

    fn open_range(&mut self, scan: &Scan, cx: &mut Cx<'_>) -> bool {
        let Some(Keys::Ranges(ranges)) = &self.keys else {
            return false;
        };
        let next = match scan.backward {
            false => ranges.get(self.position),
            true => ranges
                .len()
                .checked_sub(self.position + 1)
                .map(|i| &ranges[i]),
        };
        let Some(range) = next else {
            return false;
        };
        self.position += 1;
        self.walked = 0;
        cx.count(counted(scan), Count::Scans, 1);
        let direction = match scan.backward {
            false => Direction::Forward,
            true => Direction::Backward,
        };
        let index = scan.table.index_def(scan.index);
        let (lower, upper) = (range.lower(), range.upper());
        self.walk = Some(match range.partition {
            Some(partition) => Walk::One(tree(index, partition).scan(lower, upper, direction)),
            None => {
                let read = (0..).zip(trees(index));
                let read = read.filter(|(nth, _)| range.merges(*nth, cx));
                let cursors = read.map(|(_, tree)| tree.scan(lower, upper, direction));
                Walk::All(Box::new(Merge::new(cursors, direction)))
            }
        });
        true
    }
}

/// A row found by a whole key.
#[derive(Clone, Copy, Debug)]
pub struct PointRow {
    /// The row's fat pointer.
    pub place: FatPtr,
    /// [`LockedRowState::Changed`] if the row was locked and is newer than the snapshot.
    pub stands: LockedRowState,
}

/// Finds the row with the whole key `key` in its partition. Fills `words` with the part of its
/// encoding that the scan's columns need.
pub async fn fetch_point(
    scan: &Scan,
    cx: &mut Cx<'_>,
    (key, partition): (&[u8], u32),
    words: &mut Vec<u64>,
) -> Result<Option<PointRow>, StatementStop> {
    let index = scan.table.index_def(scan.index);
    cx.count(index.id, Count::Scans, 1);
    let mut last = Addr::NULL;
    loop {
        let Some(entry) = find(&mut cx.seen(), (index, partition), key).await? else {
            return Ok(None);
        };
        let row = FatPtr::from_words(entry);
        let locks = scan.locks.filter(|_| queues_first(scan));
        if locks.is_some()
            && scan.filters_first
            && cx.tx.isolation() != Isolation::Serializable
            && is_rejected(scan, cx, row.addr, words).await?
        {
            return Ok(None);
        }
        if let Some(hold) = locks
            && !lock_row(cx, &scan.table, row.addr, hold).await?
        {
            return Ok(None);
        }
        let wanted = (&scan.table.layout, scan.columns.as_slice());
        let there = match locks {
            Some(hold) if cx.tx.isolation() != Isolation::Serializable => {
                if read_standing(cx, row.addr, wanted, words).await? != LockedRowState::Same {
                    let found = lock_point(cx, (scan, hold), (key, partition), words);
                    return Box::pin(found).await;
                }
                true
            }
            _ => read_words(scan, cx, row.addr, words).await?,
        };
        if there {
            let page = cx.scratch.counting.of(index.id);
            page.add(Count::Returned, 1);
            page.add(Count::Fetched, 1);
            return Ok(Some(PointRow {
                place: row,
                stands: LockedRowState::Same,
            }));
        }
        // The row was deleted or moved while this transaction waited for its lock: read the index
        // again.
        if row.addr == last {
            return Ok(None);
        }
        last = row.addr;
    }
}

/// Returns whether the filter of a scan rejects a row as the snapshot has it.
async fn is_rejected(
    scan: &Scan,
    cx: &mut Cx<'_>,
    row: Addr,
    words: &mut Vec<u64>,
) -> Result<bool, StatementStop> {
    let wanted = (&scan.table.layout, scan.columns.as_slice());
    if !read_columns(&mut cx.seen(), row, wanted, words).await? {
        return Ok(false);
    }
    let mut slots = std::mem::take(&mut cx.scratch.filtered);
    slots.clear();
    slots.resize(scan.first_slot + scan.table.layout.width(), Value::Null);
    let own = &mut slots[scan.first_slot..];
    scan.table.layout.decode_some(words, &scan.columns, own)?;
    let passes = cx.holds(scan.filter.as_ref(), &slots).await;
    cx.scratch.filtered = slots;
    Ok(!passes?)
}

/// Returns whether the scan reads the whole table, and not in the order of an index.
fn is_whole(scan: &Scan) -> bool {
    scan.index == 0 && matches!(scan.access, Access::Full)
}

/// Returns the object whose scan counter is incremented: the table for a full scan, otherwise the
/// index.
fn counted(scan: &Scan) -> u32 {
    match is_whole(scan) {
        true => scan.table.def.id,
        false => scan.table.index_def(scan.index).id,
    }
}

/// Returns whether a locking scan locks a row before it reads it. It does if the access alone
/// decides about the row.
fn queues_first(scan: &Scan) -> bool {
    scan.locks.is_some() && ((scan.filter.is_none() && !scan.chosen_above) || scan.is_point())
}

/// Returns the part of a scan's filter that is tested on encoded rows; `None` if there is none.
fn row_filter(scan: &Scan, cx: &Cx<'_>) -> Option<Arc<RowFilter>> {
    let columns = ScanColumns {
        first_slot: scan.first_slot,
        read: &scan.columns,
        layout: &scan.table.layout,
    };
    let constant = |expr: &Expr| cx.value_here(expr, &[]);
    RowFilter::new(scan.filter.as_ref(), columns, &constant).map(Arc::new)
}

/// Returns whether a cutoff leaves out an encoded row.
#[inline]
fn is_behind(scan: &Scan, cutoff: Option<&Cutoff>, words: &[u64]) -> Result<bool, SqlError> {
    match cutoff {
        Some(cutoff) => Ok(!cutoff.admits(&scan.table.layout.partial_reader(words)?)?),
        None => Ok(false),
    }
}

/// Counts entries that a scan has read.
fn count_entries(scan: &Scan, cx: &mut Cx<'_>, entries: usize) {
    let page = cx.scratch.counting.of(counted(scan));
    page.add(Count::Returned, entries as u64);
    if !is_whole(scan) {
        page.add(Count::Fetched, entries as u64);
    }
}

/// Reads the part of a row that the scan's columns need. Returns false if there is no row.
#[inline]
async fn read_words(
    scan: &Scan,
    cx: &mut Cx<'_>,
    row: Addr,
    words: &mut Vec<u64>,
) -> Result<bool, Stop> {
    let read = read_at_once(&mut cx.seen(), row, words);
    match read {
        Some(there) => there,
        None => {
            let wanted = (&scan.table.layout, scan.columns.as_slice());
            read_columns(&mut cx.seen(), row, wanted, words).await
        }
    }
}

/// Decodes a row, and removes it again if `filter` rejects it. Returns whether it stays.
#[inline]
async fn emit(
    scan: &Scan,
    filter: Option<&Expr>,
    cx: &mut Cx<'_>,
    row: FatPtr,
    words: &[u64],
    out: &mut Batch,
) -> Result<bool, StatementStop> {
    let slots = out.push();
    let own = &mut slots[scan.first_slot..];
    scan.table.layout.decode_some(words, &scan.columns, own)?;
    if let Some(slot) = scan.pointer_slot {
        slots[slot] = pointer_value(row);
    }
    let passes = cx.holds(filter, slots).await?;
    if passes {
        out.weigh(words.len() * 8);
    } else {
        out.pop();
    }
    Ok(passes)
}

/// Decodes rows of a block, as [`emit`] does, until `out` has `target` rows or `heavy` bytes.
async fn emit_block(
    (scan, (filter, cutoff)): (&Scan, (Option<&Expr>, Option<&Cutoff>)),
    cx: &mut Cx<'_>,
    parallel: &mut ParallelScan,
    out: &mut Batch,
    (target, heavy): (usize, usize),
) -> Result<(), StatementStop> {
    let only_counts = parallel.only_counts();
    while out.len() < target && out.weight() < heavy {
        let Some(words) = parallel.next_row() else {
            break;
        };
        if cx.is_due() {
            cx.pause().await?;
        }
        if only_counts {
            out.push();
        } else if !is_behind(scan, cutoff, words)? {
            emit(scan, filter, cx, FatPtr::NULL, words, out).await?;
        }
    }
    Ok(())
}
