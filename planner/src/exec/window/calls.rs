//! The values of window function calls, for each row of a partition.

use std::ops::Range;

use fencepost_sql::bound::{Aggregate, Exclude, FrameBound, WindowFunction};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::Accumulator;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::super::cx::Cx;
use super::partition::WindowPartition;

impl WindowPartition<'_> {
    /// Returns the call's value for each row.
    pub(super) async fn values(&self, cx: &mut Cx<'_>) -> Result<Vec<Value>, StatementStop> {
        if let WindowFunction::Aggregate(aggregate) = &self.call.function {
            return self.aggregates(aggregate, cx).await;
        }
        let mut values = Vec::with_capacity(self.order.len());
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            values.push(cx.in_parts(|cx| self.value(at, cx)).await?);
        }
        Ok(values)
    }

    fn value(&self, at: usize, cx: &Cx<'_>) -> Result<Value, SqlError> {
        use WindowFunction as W;
        let count = self.order.len();
        let first_group = self.sorted.groups[self.first];
        Ok(match &self.call.function {
            W::RowNumber => Value::Int8(at as i64 + 1),
            W::Rank => Value::Int8(self.peers(at).start as i64 + 1),
            W::DenseRank => {
                let group = self.sorted.groups[self.first + at];
                Value::Int8(i64::from(group - first_group) + 1)
            }
            W::PercentRank if count == 1 => Value::Float8(0.0),
            W::PercentRank => Value::Float8(self.peers(at).start as f64 / (count - 1) as f64),
            W::CumeDist => Value::Float8(self.peers(at).end as f64 / count as f64),
            W::Ntile => self.bucket(at, cx)?,
            W::Lag => self.beside(at, -1, cx)?,
            W::Lead => self.beside(at, 1, cx)?,
            W::FirstValue => {
                let first = self.pieces(at, cx)?.into_iter().flatten().next();
                self.argument(0, first, cx)?
            }
            W::LastValue => {
                let last = self.pieces(at, cx)?.into_iter().flatten().next_back();
                self.argument(0, last, cx)?
            }
            W::NthValue => {
                let Some(nth) = self.argument(1, Some(at), cx)?.as_int() else {
                    return Ok(Value::Null);
                };
                if nth <= 0 {
                    return Err(SqlError::new(
                        SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                        "argument of nth_value must be greater than zero",
                    ));
                }
                let mut left = nth as usize - 1;
                let mut wanted = None;
                for piece in self.pieces(at, cx)? {
                    if left < piece.len() {
                        wanted = Some(piece.start + left);
                        break;
                    }
                    left -= piece.len();
                }
                self.argument(0, wanted, cx)?
            }
            W::Aggregate(_) => Value::Null,
        })
    }

    /// Evaluates an argument over the row at `at`; NULL if there is no such argument or row.
    fn argument(&self, nth: usize, at: Option<usize>, cx: &Cx<'_>) -> Result<Value, SqlError> {
        match (self.call.args.get(nth), at) {
            (Some(arg), Some(at)) => cx.value_here(arg, self.row(at)),
            _ => Ok(Value::Null),
        }
    }

    /// Evaluates `ntile`: if the rows do not divide evenly, the first buckets have one row more.
    fn bucket(&self, at: usize, cx: &Cx<'_>) -> Result<Value, SqlError> {
        let Some(buckets) = self.argument(0, Some(0), cx)?.as_int() else {
            return Ok(Value::Null);
        };
        if buckets <= 0 {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_NTILE,
                "argument of ntile must be greater than zero",
            ));
        }
        let (count, buckets, at) = (self.order.len() as i64, buckets, at as i64);
        let (size, longer) = (count / buckets, count % buckets);
        let bucket = match at < longer * (size + 1) {
            true => at / (size + 1),
            false => longer + (at - longer * (size + 1)) / size.max(1),
        };
        Ok(Value::Int4(i32::try_from(bucket + 1).unwrap_or(i32::MAX)))
    }

    /// Evaluates `lag` and `lead`.
    fn beside(&self, at: usize, direction: i64, cx: &Cx<'_>) -> Result<Value, SqlError> {
        let offset = match self.call.args.len() {
            1 => 1,
            _ => match self.argument(1, Some(at), cx)?.as_int() {
                Some(offset) => offset,
                None => return Ok(Value::Null),
            },
        };
        let wanted = (at as i64).checked_add(direction * offset);
        let wanted = wanted.and_then(|at| usize::try_from(at).ok());
        match wanted.filter(|at| *at < self.order.len()) {
            Some(there) => self.argument(0, Some(there), cx),
            None => self.argument(2, Some(at), cx),
        }
    }

    async fn aggregates(
        &self,
        aggregate: &Aggregate,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Value>, StatementStop> {
        if self.call.frame.exclude != Exclude::NoOthers {
            return self.aggregates_of_pieces(aggregate, cx).await;
        }
        let mut values: Vec<Value> = Vec::with_capacity(self.order.len());
        let grows = self.call.frame.start == FrameBound::First;
        let mut sum = Accumulator::new(aggregate);
        let mut last: Option<Range<usize>> = None;
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let frame = self.frame(at, cx)?;
            if let (Some(same), Some(value)) = (&last, values.last())
                && *same == frame
            {
                values.push(value.clone());
                continue;
            }
            let taken = match &last {
                Some(last) if grows && last.end <= frame.end => last.end,
                _ => {
                    sum = Accumulator::new(aggregate);
                    frame.start
                }
            };
            for at in taken..frame.end {
                if cx.is_due() {
                    cx.pause().await?;
                }
                cx.in_parts(|cx| sum.update(aggregate, self.row(at), cx.params(), cx.eval))
                    .await?;
            }
            values.push(sum.clone().finish(aggregate)?);
            last = Some(frame);
        }
        Ok(values)
    }

    /// Computes as [`WindowPartition::aggregates`] does, for frames with an EXCLUDE clause.
    async fn aggregates_of_pieces(
        &self,
        aggregate: &Aggregate,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Value>, StatementStop> {
        let mut values = Vec::with_capacity(self.order.len());
        for at in 0..self.order.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let mut sum = Accumulator::new(aggregate);
            for at in self.pieces(at, cx)?.into_iter().flatten() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                cx.in_parts(|cx| sum.update(aggregate, self.row(at), cx.params(), cx.eval))
                    .await?;
            }
            values.push(sum.finish(aggregate)?);
        }
        Ok(values)
    }
}
