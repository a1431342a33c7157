//! A SELECT whose parts other machines run, and what of it is left for this one.
//!
//! ```text
//! asked ─► own partitions ─► what others have made of theirs ─► partitions that were left undone
//! in the order of an index:  what others have made ─► merged with own and undone partitions as they are read
//! ```
//! So all machines are at work at once; but in an index's order nothing of the own partitions can be given before
//! the others' first rows are known.
//!
//! # Failure
//! A part that nobody else runs is run here, in the same transaction, on the same snapshot.

use fencepost_sql::bound::OrderKey;
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_txn::Work;

use super::batch::Batch;
use super::cx::Cx;
use super::gathered::Gathered;
use super::sort::{Sorter, compare_rows};

/// What has become of a part.
pub enum Part {
    /// The values of its rows, side by side.
    Rows(Vec<Value>),
    /// These partitions were not read.
    Undone(Vec<u32>),
}

/// The next of them; `None` after the last.
pub type NextPart<'a> = Work<'a, Result<Option<Part>, Halt>>;

/// What came back of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// The number of the machine.
    pub machine: u32,
    /// Its rows and their bytes; `None` where the part was run here after all.
    pub rows: Option<(u64, u64)>,
}

/// The parts of a statement that other machines run.
pub trait Parts: Send {
    /// The partitions that nobody else is asked for, in order.
    fn own(&self) -> Vec<u32>;

    /// Asks for the others; the number of messages.
    fn ask(&mut self) -> u32;

    /// Waits for what has become of the next part.
    fn next(&mut self) -> NextPart<'_>;

    /// What has come back so far.
    fn came(&self) -> Vec<Came>;
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Own partitions are read.
    Own,
    /// Others' parts are waited for.
    Others,
    /// What they have left is read; then it is over.
    Rest,
}

/// Where the gathering of a SELECT stands.
pub struct Gather {
    pub stage: Stage,
    pub undone: Vec<u32>,
    merging: Option<Merging>,
}

/// Others' rows in the order of the index, and those of this machine.
pub struct Merging {
    theirs: Sorter,
    ours: Batch,
    at: usize,
    more: bool,
}

impl Gather {
    /// Asks other machines for their parts.
    pub fn begin(cx: &mut Cx<'_>) -> Option<Gather> {
        let parts = cx.parts.as_mut()?;
        let messages = parts.ask();
        cx.part = Some(parts.own());
        cx.tx.count_messages(messages);
        Some(Gather {
            stage: Stage::Own,
            undone: Vec::new(),
            merging: None,
        })
    }

    /// What has become of the next part, apart from what was left undone.
    pub async fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Vec<Value>>, Halt> {
        loop {
            let Some(parts) = cx.parts.as_mut() else {
                return Ok(None);
            };
            match parts.next().await? {
                None => return Ok(None),
                Some(Part::Rows(values)) => return Ok(Some(values)),
                Some(Part::Undone(partitions)) => self.undone.extend(partitions),
            }
        }
    }

    /// What others have left is to be read now; whether there is any.
    pub fn begin_rest(&mut self, cx: &mut Cx<'_>) -> bool {
        self.stage = Stage::Rest;
        let mut undone = std::mem::take(&mut self.undone);
        undone.sort_unstable();
        let some = !undone.is_empty();
        cx.part = Some(undone);
        some
    }

    /// The merging of rows in an order; before the first of them all parts of others are waited for.
    pub async fn merging(
        &mut self,
        cx: &mut Cx<'_>,
        (order, width): (&[OrderKey], usize),
    ) -> Result<Option<&mut Merging>, Halt> {
        if self.merging.is_none() {
            let mut theirs = Sorter::by(order.to_vec(), width, u64::MAX);
            let mut gathered = Gathered::default();
            while let Some(mut values) = self.next(cx).await? {
                let from = theirs.rows().len();
                push_rows(&mut values, theirs.rows());
                gathered.add_rows(cx, theirs.rows(), from)?;
            }
            theirs.finish(cx, 0).await?;
            let own = cx.part.take().unwrap_or_default();
            self.undone.extend(own);
            self.merging = Some(Merging {
                theirs,
                ours: Batch::new(width),
                at: 0,
                more: self.begin_rest(cx),
            });
        }
        Ok(self.merging.as_mut())
    }
}

impl Merging {
    /// Where rows of this machine are to be added before any more can be given; `None` where that is not so.
    pub fn wants(&mut self) -> Option<&mut Batch> {
        if self.at < self.ours.len() || !self.more {
            return None;
        }
        self.at = 0;
        self.ours.clear();
        Some(&mut self.ours)
    }

    /// Rows were added, and there may be more.
    pub fn added(&mut self, more: bool) {
        self.more = more;
    }

    /// Moves rows to `out` up to `target` of them, or until more are wanted; false where there are none any more.
    pub fn give(&mut self, order: &[OrderKey], out: &mut Batch, target: usize) -> bool {
        while out.len() < target {
            let ours = (self.at < self.ours.len()).then(|| self.ours.row(self.at));
            let take_ours = match (ours, self.theirs.peek()) {
                (None, _) if self.more => return true,
                (None, None) => return false,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(ours), Some(theirs)) => compare_rows(ours, theirs, order).is_le(),
            };
            if take_ours {
                let slots = out.push().iter_mut();
                for (slot, value) in slots.zip(self.ours.row_mut(self.at)) {
                    *slot = std::mem::take(value);
                }
                self.at += 1;
            } else {
                self.theirs.next(out);
            }
        }
        true
    }
}

/// Moves rows, side by side, to `out`.
pub fn push_rows(values: &mut [Value], out: &mut Batch) {
    for row in values.chunks_exact_mut(out.width().max(1)) {
        for (slot, value) in out.push().iter_mut().zip(row) {
            *slot = std::mem::take(value);
        }
    }
}
