//! DISTINCT: a set of the keys of all rows that have been returned.
//!
//! When the set exceeds its memory, rows with further keys are written to a temporary file, and
//! returned after the rows of the source. DISTINCT ON depends on the order of its rows, so its set
//! stays in memory.

use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use foldhash::HashSet;

use super::batch::Batch;
use super::collected_memory::CollectedMemory;
use super::cx::Cx;
use super::join::push_comparable;
use super::spill::{Partitions, StreamReader};
use crate::plan::SelectPlan;

/// The keys that have been returned.
pub struct Distinct {
    seen: HashSet<Vec<u8>>,
    key: Vec<u8>,
    memory: CollectedMemory,
    /// The bytes of keys whose memory is not counted yet.
    uncounted: usize,
    /// Whether new keys are added to `seen`. Otherwise `spill` takes their rows.
    is_open: bool,
    spill: Option<Box<Partitions<1>>>,
    /// Whether the rows of the source have ended.
    is_source_over: bool,
    reader: Option<StreamReader>,
}

impl Distinct {
    /// Creates an empty set.
    pub fn new(plan: &SelectPlan, cx: &Cx<'_>) -> Distinct {
        Distinct {
            seen: HashSet::default(),
            key: Vec::new(),
            memory: if plan.distinct_on.is_empty() {
                CollectedMemory::limited(cx.eval.settings.work_memory.hash_bytes())
            } else {
                CollectedMemory::default()
            },
            uncounted: 0,
            is_open: true,
            spill: None,
            is_source_over: false,
            reader: None,
        }
    }

    /// Removes the last row of `out` if its key has been returned, or is not in memory.
    ///
    /// # Errors
    /// 54000 if the row is too long for a temporary file.
    pub fn keep_new(&mut self, plan: &SelectPlan, out: &mut Batch) -> Result<(), SqlError> {
        let key = &mut self.key;
        key.clear();
        let row = out.row(out.len() - 1);
        if plan.distinct_on.is_empty() {
            let values = row[..plan.visible].iter();
            values.for_each(|value| push_comparable(value, key));
        } else {
            let values = plan.distinct_on.iter().map(|target| &row[*target]);
            values.for_each(|value| push_comparable(value, key));
        }
        if self.seen.contains(key.as_slice()) {
            out.pop();
            return Ok(());
        }
        if let Some(spill) = self.spill.as_deref_mut().filter(|_| !self.is_open) {
            spill.add(0, key, row)?;
            out.pop();
            return Ok(());
        }
        self.uncounted += size_of::<Vec<u8>>() + key.len();
        self.seen.insert(key.clone());
        Ok(())
    }

    /// Counts the memory of the keys that were added. To be called after each chunk of rows.
    ///
    /// # Errors
    /// Those of the temporary file; with DISTINCT ON 53200 at the memory limit.
    pub async fn count(&mut self, cx: &mut Cx<'_>) -> Result<(), StatementStop> {
        let uncounted = std::mem::take(&mut self.uncounted);
        self.memory.add_entry(cx, uncounted)?;
        if let Some(spill) = &mut self.spill {
            spill.write().await?;
        }
        if self.is_open && self.memory.is_full() {
            self.is_open = false;
            self.spill
                .get_or_insert_with(|| Box::new(cx.new_partitions()));
        }
        Ok(())
    }

    /// Notes that the rows of the source have ended. Returns whether rows in the temporary file
    /// follow.
    pub fn end_source(&mut self) -> bool {
        self.is_source_over = true;
        self.spill
            .as_ref()
            .is_some_and(|spill| spill.has_partition())
    }

    /// Returns whether the rows of the source have ended.
    pub fn is_source_over(&self) -> bool {
        self.is_source_over
    }

    /// Adds up to `max` rows of the temporary file to `out`. Returns false when no more follow.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub async fn next(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let next = self.spill.as_mut().and_then(|spill| spill.take_partition());
                let Some([reader]) = next else {
                    return Ok(false);
                };
                self.seen.clear();
                self.memory.restart();
                self.is_open = true;
                reader
            }
        };
        let mut more = true;
        for _ in 0..max {
            cx.breathe().await?;
            let Some(spill) = self.spill.as_deref_mut() else {
                return Ok(false);
            };
            more = spill.next(&mut reader, out.push()).await?;
            if !more {
                out.pop();
                break;
            }
            self.keep_new(plan, out)?;
        }
        self.count(cx).await?;
        if more {
            self.reader = Some(reader);
            return Ok(true);
        }
        Ok(self
            .spill
            .as_ref()
            .is_some_and(|spill| spill.has_partition()))
    }
}
