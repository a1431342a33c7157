//! The rows of functions that return arrays row by row, such as `unnest`.

use fencepost_sql::bound::Expr;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::cx::Cx;

/// Arrays that are returned row by row.
pub struct Rows {
    /// The remaining values of each array, and the number of values that a row takes of it.
    columns: Vec<(std::vec::IntoIter<Value>, usize)>,
    /// The number of the previous row, for WITH ORDINALITY.
    ordinal: Option<i64>,
}

impl Rows {
    /// Computes the arrays. A `wide` function has one array with several values for each row;
    /// otherwise each argument is a column.
    pub async fn open(
        args: &[Expr],
        wide: bool,
        ordinality: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Rows, StatementStop> {
        let mut columns = Vec::with_capacity(args.len());
        for arg in args {
            let Value::Array(array) = cx.deep_value(arg, &[]).await? else {
                columns.push((Vec::new().into_iter(), 1));
                continue;
            };
            let width = match array.dims.get(1) {
                Some(dim) if wide => usize::try_from(dim.len).unwrap_or(1),
                _ => 1,
            };
            columns.push((array.values.into_iter(), width));
        }
        Ok(Rows {
            columns,
            ordinal: ordinality.then_some(0),
        })
    }

    /// Adds up to `max` rows. Returns false when no more rows follow. A column that ends before the
    /// others is NULL.
    pub fn next(&mut self, first_slot: usize, out: &mut Batch, max: usize) -> bool {
        for _ in 0..max {
            if self.columns.iter().all(|(left, _)| left.len() == 0) {
                return false;
            }
            let mut slots = out.push()[first_slot..].iter_mut();
            for (left, width) in &mut self.columns {
                for slot in slots.by_ref().take(*width) {
                    *slot = left.next().unwrap_or_default();
                }
            }
            if let (Some(ordinal), Some(slot)) = (&mut self.ordinal, slots.next()) {
                *ordinal += 1;
                *slot = Value::Int8(*ordinal);
            }
        }
        true
    }
}
