//! The left rows of a hash join over a scan: they are looked up before they are decoded.

use fencepost_sql::bound::{Expr, JoinKind, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::row::RowReader;
use fencepost_sql::stop::StatementStop;

use super::super::batch::Batch;
use super::super::cx::Cx;
use super::super::scan::{EncodedNext, EncodedRows, ScanState};
use super::push_comparable;
use super::stored::StoredSide;
use crate::plan::{Join, JoinMethod, Scan, Source};

/// The left side of a hash join whose keys are columns of a scan.
pub struct Probe<'a> {
    scan: &'a Scan,
    /// The key columns, by position in the table.
    keys: Vec<usize>,
    kind: JoinKind,
}

impl<'a> Probe<'a> {
    /// Returns the probe of a join. Returns `None` if its left side is no scan, or a key is no
    /// column.
    pub fn of(join: &'a Join) -> Option<Probe<'a>> {
        let (Source::Scan(scan), JoinMethod::Hash { left_keys, .. }) = (&join.left, &join.method)
        else {
            return None;
        };
        let column = |key: &Expr| match key.node {
            Node::Column(slot) => slot.checked_sub(scan.first_slot),
            _ => None,
        };
        Some(Probe {
            scan,
            keys: left_keys.iter().map(column).collect::<Option<_>>()?,
            kind: join.kind,
        })
    }

    /// Adds about `max` left rows to `rows`, without those that an inner join drops, and the first
    /// row of `stored` that may match each of them to `candidates`. Returns `None` if the rows must
    /// be decoded first; then it has added none.
    ///
    /// # Errors
    /// Those of the scan.
    pub async fn next(
        &self,
        state: &mut ScanState,
        cx: &mut Cx<'_>,
        stored: &StoredSide,
        (rows, candidates): (&mut Batch, &mut Vec<Option<usize>>),
        max: usize,
    ) -> Result<Option<bool>, StatementStop> {
        let mut receiver = Receiver {
            probe: self,
            stored,
            rows,
            candidates,
            key: Vec::new(),
        };
        let next = state.next_encoded(self.scan, cx, &mut receiver, max);
        Ok(match next.await? {
            EncodedNext::More => Some(true),
            EncodedNext::Done => Some(false),
            EncodedNext::Unable => None,
        })
    }
}

struct Receiver<'a> {
    probe: &'a Probe<'a>,
    stored: &'a StoredSide,
    rows: &'a mut Batch,
    candidates: &'a mut Vec<Option<usize>>,
    key: Vec<u8>,
}

impl Receiver<'_> {
    /// Encodes the key of a row. Returns false if a part of it is NULL.
    #[inline]
    fn encode(&mut self, row: &RowReader<'_>) -> Result<bool, SqlError> {
        self.key.clear();
        for column in &self.probe.keys {
            let value = row.get(*column)?;
            if value.is_null() {
                return Ok(false);
            }
            push_comparable(&value, &mut self.key);
        }
        Ok(true)
    }
}

impl EncodedRows for Receiver<'_> {
    fn add(&mut self, row: &RowReader<'_>) -> Result<(), SqlError> {
        let candidate = if self.encode(row)? {
            self.stored.first(&self.key)
        } else {
            None
        };
        if candidate.is_none() && self.probe.kind == JoinKind::Inner {
            return Ok(());
        }
        let scan = self.probe.scan;
        let slots = &mut self.rows.push()[scan.first_slot..];
        for column in &scan.columns {
            slots[*column] = row.get(*column)?;
        }
        self.candidates.push(candidate);
        Ok(())
    }

    fn add_unread(&mut self, _: usize) -> Result<(), SqlError> {
        Err(SqlError::internal("a join key is no column of its scan"))
    }
}
