//! Groups that do not fit into memory: their rows wait in a temporary file.
//!
//! ```text
//! rows ─▶ groups in memory, until it is full
//!           └ rows of other groups ─▶ partitions of the file, by the hash of the key
//! then, for each partition: the same again, with its rows
//! ```
//! Invariants
//! - GROUP-SPILL-1: all rows of a group are in memory, or all of them are in one partition, in the
//!   order in which they arrived.

use fencepost_sql::bound::{Expr, Grouping};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::batch::Batch;
use super::super::cx::Cx;
use super::super::spill::{Partitions, StreamReader};
use super::Groups;

/// The number of rows that are read at once.
const CHUNK: usize = 1024;

/// The stream of a partition with slots of from rows; with grouping sets, behind the number of the
/// set.
const ROWS: usize = 0;
/// The stream of a partition with keys, followed by partial aggregates.
const PARTIALS: usize = 1;

/// The rows of groups that are not in memory.
pub struct GroupSpill {
    partitions: Partitions<2>,
    /// The slots of a from row that the grouping reads.
    slots: Vec<usize>,
    /// The number of values of a partial result.
    partial_width: usize,
}

impl GroupSpill {
    /// Creates the file of a grouping.
    pub fn new(cx: &Cx<'_>, grouping: &Grouping) -> GroupSpill {
        GroupSpill {
            partitions: cx.new_partitions(),
            slots: slots_of(grouping),
            partial_width: 0,
        }
    }

    /// Returns the slots of a from row that the grouping reads, in ascending order.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Adds the [`Self::slots`] of a row whose group has this key.
    pub fn add_slots<'a>(
        &mut self,
        key: &[u8],
        slots: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), SqlError> {
        self.partitions.add(ROWS, key, slots)
    }

    /// Adds a from row whose group in a grouping set has this key; without sets, `set` is `None`.
    pub fn add_row(
        &mut self,
        key: &[u8],
        set: Option<usize>,
        row: &[Value],
    ) -> Result<(), SqlError> {
        let number = set.map(|set| Value::Int8(set as i64));
        let slots = self.slots.iter().map(|slot| &row[*slot]);
        self.partitions.add(ROWS, key, number.iter().chain(slots))
    }

    /// Adds the partial result of a group that has this key: keys and partial aggregates.
    pub fn add_partial(&mut self, key: &[u8], values: &[Value]) -> Result<(), SqlError> {
        self.partial_width = values.len();
        self.partitions.add(PARTIALS, key, values)
    }

    /// Writes what was added to the file.
    pub async fn write(&mut self) -> Result<(), SqlError> {
        self.partitions.write().await
    }

    /// Returns whether a partition waits.
    pub fn has_partition(&self) -> bool {
        self.partitions.has_partition()
    }
}

impl Groups {
    /// Replaces the groups, which have been returned, by those of the next partition. Returns false
    /// if there is none.
    ///
    /// # Errors
    /// Those of the temporary file and of the aggregates.
    pub(super) async fn next_partition(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
    ) -> Result<bool, StatementStop> {
        let spill = self.spill.as_mut();
        let partition = spill.and_then(|spill| spill.partitions.take_partition());
        let Some([rows, partials]) = partition else {
            return Ok(false);
        };
        self.clear();
        self.add_spilled_rows(grouping, cx, rows).await?;
        self.add_spilled_partials(grouping, cx, partials).await?;
        Ok(true)
    }

    async fn add_spilled_rows(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        mut rows: StreamReader,
    ) -> Result<(), StatementStop> {
        let Some(spill) = self.spill.as_deref() else {
            return Ok(());
        };
        let slots = spill.slots.clone();
        let mut input = Batch::new(slots.last().map_or(0, |last| last + 1));
        let mut set = (!grouping.sets.is_empty()).then_some(Value::Null);
        let mut more = true;
        while more {
            input.clear();
            while input.len() < CHUNK
                && let Some(spill) = self.spill.as_deref_mut()
            {
                cx.breathe().await?;
                let row = set.iter_mut().chain(chosen(input.push(), &slots));
                more = spill.partitions.next(&mut rows, row).await?;
                if !more {
                    input.pop();
                    break;
                }
                if let Some(number) = set.as_ref().and_then(Value::as_int) {
                    let row = input.row(input.len() - 1);
                    self.add_to_set(grouping, cx, row, number as usize).await?;
                    input.clear();
                }
            }
            self.add(grouping, cx, &input).await?;
        }
        Ok(())
    }

    async fn add_spilled_partials(
        &mut self,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
        mut partials: StreamReader,
    ) -> Result<(), StatementStop> {
        let width = self.spill.as_ref().map_or(0, |spill| spill.partial_width);
        let mut row = vec![Value::Null; width];
        while let Some(spill) = self.spill.as_deref_mut()
            && spill.partitions.next(&mut partials, &mut row).await?
        {
            self.merge(grouping, cx, (&row, width)).await?;
        }
        Ok(())
    }
}

/// Returns the slots of a row that `slots` lists, in ascending order.
fn chosen<'a>(row: &'a mut [Value], slots: &'a [usize]) -> impl Iterator<Item = &'a mut Value> {
    let mut slots = slots.iter().peekable();
    let values = row.iter_mut().enumerate();
    values.filter_map(move |(at, value)| slots.next_if(|slot| **slot == at).map(|_| value))
}

/// Returns the slots that a grouping reads, in ascending order.
fn slots_of(grouping: &Grouping) -> Vec<usize> {
    let mut slots = Vec::new();
    let mut note = |expr: &Expr| expr.for_each_column(&mut |slot| slots.push(slot));
    // With grouping sets, the last key is the number of the set.
    let keys = grouping.keys.len() - usize::from(!grouping.sets.is_empty());
    grouping.keys[..keys].iter().for_each(&mut note);
    for aggregate in &grouping.aggregates {
        let order = aggregate.order_by.iter().map(|(key, ..)| key);
        let all = aggregate.args.iter().chain(&aggregate.filter).chain(order);
        all.for_each(&mut note);
    }
    slots.sort_unstable();
    slots.dedup();
    slots
}
