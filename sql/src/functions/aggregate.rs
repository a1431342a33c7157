//! Aggregate functions over a group's rows.
//!
//! An accumulator that needs its input in order keeps the input until the end and sorts it then, as
//! PostgreSQL does. For DISTINCT, an aggregate whose result does not depend on the order keeps the
//! set of its values (`distinct.rs`); the others sort.

mod distinct;
mod gather;
mod numbers;
mod ordered_set;
mod partial;
mod retained;
mod stats;

use std::cmp::Ordering;

use compact_str::CompactString;
use distinct::SeenValues;
use gather::AggregateInput;
pub use partial::partial_sum;
use retained::{RetainedRows, compare_all};
use stats::Stats;

use super::decimal::Sum;
use super::long::{VALUE_BYTES_MAX, too_long};
use super::{compare, eval, eval_predicate, mismatch, out_of_range};
use crate::bound::{Aggregate, AggregateKind};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind;
use crate::value::{Interval, Value};

/// The state of one aggregate over one group.
#[derive(Clone, Debug)]
pub struct Accumulator {
    state: State,
    /// The rows, if ORDER BY or DISTINCT needs them together.
    retained: Option<Box<RetainedRows>>,
    /// The values that have been added, if DISTINCT needs no order.
    seen: Option<Box<SeenValues>>,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    SumInt {
        total: i64,
        seen: bool,
    },
    SumFloat4(Option<f32>),
    SumFloat8(Option<f64>),
    SumNumeric {
        sum: Sum,
        seen: bool,
    },
    AvgNumeric {
        sum: Sum,
        count: i64,
    },
    AvgFloat {
        sum: f64,
        count: i64,
    },
    Span {
        sum: Interval,
        count: i64,
        average: bool,
    },
    Extreme {
        best: Value,
        wanted: Ordering,
    },
    Bool {
        result: Option<bool>,
        and: bool,
    },
    Text(Option<CompactString>),
    Bytes(Option<Vec<u8>>),
    Gather(AggregateInput),
    Bits {
        so_far: Option<Value>,
        kind: AggregateKind,
    },
    Stats(Box<Stats>),
}

impl Accumulator {
    /// Creates the state for an empty group.
    pub fn new(aggregate: &Aggregate) -> Accumulator {
        let input = aggregate.args.first().map(|e| e.ty.kind);
        let state = match (aggregate.kind, input) {
            (AggregateKind::CountStar | AggregateKind::Count, _) => State::Count(0),
            (AggregateKind::Sum, Some(TypeKind::Int2 | TypeKind::Int4)) => State::SumInt {
                total: 0,
                seen: false,
            },
            (AggregateKind::Sum, Some(TypeKind::Float4)) => State::SumFloat4(None),
            (AggregateKind::Sum, Some(TypeKind::Float8)) => State::SumFloat8(None),
            (AggregateKind::Sum | AggregateKind::Avg, Some(TypeKind::Interval)) => State::Span {
                sum: Interval::default(),
                count: 0,
                average: aggregate.kind == AggregateKind::Avg,
            },
            (AggregateKind::Sum, _) => State::SumNumeric {
                sum: Sum::default(),
                seen: false,
            },
            (AggregateKind::Avg, Some(TypeKind::Float4 | TypeKind::Float8)) => {
                State::AvgFloat { sum: 0.0, count: 0 }
            }
            (AggregateKind::Avg, _) => State::AvgNumeric {
                sum: Sum::default(),
                count: 0,
            },
            (AggregateKind::Min, _) => State::Extreme {
                best: Value::Null,
                wanted: Ordering::Less,
            },
            (AggregateKind::Max, _) => State::Extreme {
                best: Value::Null,
                wanted: Ordering::Greater,
            },
            (AggregateKind::BoolAnd, _) => State::Bool {
                result: None,
                and: true,
            },
            (AggregateKind::BoolOr, _) => State::Bool {
                result: None,
                and: false,
            },
            (AggregateKind::StringAgg, Some(TypeKind::Bytea)) => State::Bytes(None),
            (AggregateKind::StringAgg, _) => State::Text(None),
            (kind @ (AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor), _) => {
                State::Bits { so_far: None, kind }
            }
            (AggregateKind::Statistic(statistic), input) => {
                let floats = input == Some(TypeKind::Float8);
                State::Stats(Box::new(Stats::new(statistic, floats)))
            }
            (kind, _) => AggregateInput::new(kind).map_or(State::Text(None), State::Gather),
        };
        let seen = SeenValues::of(aggregate).map(Box::new);
        let keeps = aggregate.distinct || !aggregate.order_by.is_empty();
        Accumulator {
            state,
            retained: (keeps && seen.is_none()).then(|| Box::new(RetainedRows::new(aggregate))),
            seen,
        }
    }

    /// Adds one row of the group.
    pub fn update(
        &mut self,
        aggregate: &Aggregate,
        row: &[Value],
        params: &[Value],
        cx: &EvalContext,
    ) -> Result<(), SqlError> {
        self.update_in_set(aggregate, (row, row), params, cx)
    }

    /// Adds one row like [`Accumulator::update`], for a grouping set. `grouped` is the row with
    /// NULL for the keys that are not in the set. The direct arguments of a WITHIN GROUP aggregate
    /// are evaluated on it.
    ///
    /// # Errors
    /// Those of the arguments.
    pub fn update_in_set(
        &mut self,
        aggregate: &Aggregate,
        (row, grouped): (&[Value], &[Value]),
        params: &[Value],
        cx: &EvalContext,
    ) -> Result<(), SqlError> {
        if let Some(filter) = &aggregate.filter
            && !eval_predicate(filter, row, params, cx)?
        {
            return Ok(());
        }
        let Some(retained) = &mut self.retained else {
            return match aggregate.args.as_slice() {
                [] => self.add(&[]),
                [arg] => {
                    let value = eval(arg, row, params, cx)?;
                    if let Some(seen) = &mut self.seen
                        && (value.is_null() || !seen.add(&value))
                    {
                        return Ok(());
                    }
                    self.add(&[value])
                }
                args => {
                    let mut values = Vec::with_capacity(args.len());
                    for arg in args {
                        values.push(eval(arg, row, params, cx)?);
                    }
                    self.add(&values)
                }
            };
        };
        let mut args = aggregate.args.as_slice();
        if aggregate.has_direct_args() {
            if retained.direct().is_empty() {
                let direct = args.iter().map(|arg| eval(arg, grouped, params, cx));
                let direct = direct.collect::<Result<_, _>>()?;
                retained.set_direct(direct);
            }
            args = &[];
        }
        retained.push(|values| {
            for key in aggregate.order_by.iter().map(|(key, ..)| key).chain(args) {
                values.push(eval(key, row, params, cx)?);
            }
            Ok(())
        })
    }

    /// Returns the memory that grows with the rows of the group, in bytes.
    pub fn bytes(&self) -> usize {
        let state = match &self.state {
            State::Text(Some(text)) => text.len(),
            State::Bytes(Some(bytes)) => bytes.len(),
            State::Gather(gather) => gather.bytes(),
            _ => 0,
        };
        let seen = self.seen.as_ref().map_or(0, |seen| seen.bytes());
        let retained = self.retained.as_ref().map_or(0, |rows| rows.bytes());
        state + retained + seen
    }

    /// Returns the number of retained rows, which are sorted at the end.
    pub fn retained_rows(&self) -> usize {
        self.retained.as_ref().map_or(0, |rows| rows.len())
    }

    /// Returns the numbers of each retained row by which it is compared first
    /// ([`super::sort_heads`]).
    pub fn retained_heads(&self, aggregate: &Aggregate) -> Vec<[u64; 2]> {
        let retained = self.retained.as_ref();
        retained.map_or_else(Vec::new, |rows| rows.heads(aggregate))
    }

    /// Compares two retained rows.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn compare_retained(&self, aggregate: &Aggregate, a: u32, b: u32) -> Ordering {
        let retained = self.retained.as_ref();
        retained.map_or(Ordering::Equal, |rows| rows.compare(aggregate, a, b))
    }

    /// Adds the retained rows at the indexes in `order`, in this order. `before` is the index of
    /// the row before them, from the previous call. After the last call, the caller calls
    /// [`Self::forget_retained`].
    ///
    /// # Errors
    /// Those of the aggregate.
    pub fn add_retained(
        &mut self,
        aggregate: &Aggregate,
        before: Option<u32>,
        order: &[u32],
    ) -> Result<(), SqlError> {
        let Some(retained) = self.retained.take() else {
            return Ok(());
        };
        let mut last = before;
        for at in order {
            let args = retained.args(*at);
            let previous = last.map(|last| retained.args(last));
            last = Some(*at);
            if aggregate.distinct
                && previous.is_some_and(|previous| compare_all(previous, args).is_eq())
            {
                continue;
            }
            self.add(args)?;
        }
        self.retained = Some(retained);
        Ok(())
    }

    /// Discards the retained rows.
    pub fn forget_retained(&mut self) {
        self.retained = None;
    }

    /// Returns the result of an ordered-set aggregate, whose rows are sorted in the order of these
    /// indexes.
    ///
    /// # Errors
    /// Those of the aggregate.
    pub fn finish_ordered(self, aggregate: &Aggregate, order: &[u32]) -> Result<Value, SqlError> {
        match (&self.retained, aggregate.kind) {
            (Some(retained), AggregateKind::OrderedSet(kind)) => {
                ordered_set::result(kind, aggregate, retained, order)
            }
            _ => Err(mismatch("an ordered-set aggregate")),
        }
    }

    /// Returns the result for the group.
    pub fn finish(mut self, aggregate: &Aggregate) -> Result<Value, SqlError> {
        if let Some(retained) = &self.retained {
            let order = retained.sorted(aggregate);
            if matches!(aggregate.kind, AggregateKind::OrderedSet(_)) {
                return self.finish_ordered(aggregate, &order);
            }
            self.add_retained(aggregate, None, &order)?;
        }
        Ok(match self.state {
            State::Count(count) => Value::Int8(count),
            State::SumInt { seen: false, .. }
            | State::SumNumeric { seen: false, .. }
            | State::AvgNumeric { count: 0, .. }
            | State::AvgFloat { count: 0, .. }
            | State::Span { count: 0, .. } => Value::Null,
            State::Span {
                sum,
                count,
                average: true,
            } => Value::Interval(super::interval::divided(&sum, count as f64)?),
            State::Span { sum, .. } => Value::Interval(sum),
            State::SumInt { total, .. } => Value::Int8(total),
            State::SumFloat4(total) => total.map_or(Value::Null, Value::Float4),
            State::SumFloat8(total) => total.map_or(Value::Null, Value::Float8),
            State::SumNumeric { sum, .. } => Value::Numeric(sum.total()?),
            State::AvgNumeric { sum, count } => Value::Numeric(sum.mean(count)?),
            State::AvgFloat { sum, count } => Value::Float8(sum / count as f64),
            State::Extreme { best, .. } => best,
            State::Bool { result, .. } => result.map_or(Value::Null, Value::Bool),
            State::Text(text) => text.map_or(Value::Null, Value::Text),
            State::Bytes(bytes) => bytes.map_or(Value::Null, Value::Bytea),
            State::Gather(gather) => gather.finish()?,
            State::Bits { so_far, .. } => so_far.unwrap_or(Value::Null),
            State::Stats(stats) => stats.finish()?,
        })
    }

    /// Adds one row's arguments; NULLs do not count.
    fn add(&mut self, args: &[Value]) -> Result<(), SqlError> {
        let Some(value) = args.first() else {
            if let State::Count(count) = &mut self.state {
                *count += 1;
            }
            return Ok(());
        };
        if let State::Gather(gather) = &mut self.state {
            return gather.add(args);
        }
        if value.is_null() {
            return Ok(());
        }
        match &mut self.state {
            State::Gather(_) => {}
            State::Bits { so_far, kind } => {
                *so_far = Some(match so_far.take() {
                    None => value.clone(),
                    Some(before) => bits(*kind, &before, value)?,
                });
            }
            State::Stats(stats) => {
                if !args.iter().any(Value::is_null) {
                    stats.add(args)?;
                }
            }
            State::Count(count) => *count += 1,
            State::SumInt { total, seen } => {
                let v = value.as_int().ok_or_else(|| mismatch("sum"))?;
                *total = total.checked_add(v).ok_or_else(|| out_of_range("bigint"))?;
                *seen = true;
            }
            State::SumFloat4(total) => {
                if let Value::Float4(v) = value {
                    *total = Some(total.map_or(*v, |t| t + v));
                }
            }
            State::SumFloat8(total) => {
                if let Value::Float8(v) = value {
                    *total = Some(total.map_or(*v, |t| t + v));
                }
            }
            State::SumNumeric { sum, seen } => {
                add_number(sum, value)?;
                *seen = true;
            }
            State::AvgNumeric { sum, count } => {
                add_number(sum, value)?;
                *count += 1;
            }
            State::AvgFloat { sum, count } => {
                *sum += match value {
                    Value::Float4(v) => f64::from(*v),
                    Value::Float8(v) => *v,
                    _ => return Err(mismatch("avg")),
                };
                *count += 1;
            }
            State::Span { sum, count, .. } => {
                let Value::Interval(span) = value else {
                    return Err(mismatch("a sum of intervals"));
                };
                *sum = super::interval::plus(sum, span)?;
                *count += 1;
            }
            State::Extreme { best, wanted } => {
                // The last one of equal values with different texts is retained, as in PostgreSQL.
                if best.is_null() || compare(value, best) != wanted.reverse() {
                    *best = value.clone();
                }
            }
            State::Bool { result, and } => {
                let v = value
                    .as_bool()
                    .ok_or_else(|| mismatch("a boolean aggregate"))?;
                *result = Some(match (*result, *and) {
                    (None, _) => v,
                    (Some(r), true) => r && v,
                    (Some(r), false) => r || v,
                });
            }
            State::Bytes(bytes) => {
                let Value::Bytea(piece) = value else {
                    return Err(mismatch("string_agg"));
                };
                match bytes {
                    None => *bytes = Some(piece.clone()),
                    Some(bytes) => {
                        if let Some(Value::Bytea(separator)) = args.get(1) {
                            bytes.extend_from_slice(separator);
                        }
                        if bytes.len() + piece.len() > VALUE_BYTES_MAX {
                            return Err(too_long());
                        }
                        bytes.extend_from_slice(piece);
                    }
                }
            }
            State::Text(text) => {
                let piece = value.as_text().ok_or_else(|| mismatch("string_agg"))?;
                match text {
                    None => *text = Some(CompactString::new(piece)),
                    Some(text) => {
                        if let Some(separator) = args.get(1).and_then(Value::as_text) {
                            text.push_str(separator);
                        }
                        if text.len() + piece.len() > VALUE_BYTES_MAX {
                            return Err(too_long());
                        }
                        text.push_str(piece);
                    }
                }
            }
        }
        Ok(())
    }
}

fn bits(kind: AggregateKind, a: &Value, b: &Value) -> Result<Value, SqlError> {
    let (Some(x), Some(y)) = (a.as_int(), b.as_int()) else {
        return Err(mismatch("an aggregate of bits"));
    };
    let v = match kind {
        AggregateKind::BitAnd => x & y,
        AggregateKind::BitOr => x | y,
        _ => x ^ y,
    };
    // Both operands are sign-extended, so the result fits their type.
    Ok(match a {
        Value::Int2(_) => Value::Int2(v as i16),
        Value::Int4(_) => Value::Int4(v as i32),
        _ => Value::Int8(v),
    })
}

fn add_number(sum: &mut Sum, value: &Value) -> Result<(), SqlError> {
    match value {
        Value::Numeric(v) => sum.add(v),
        other => sum.add_int(other.as_int().ok_or_else(|| mismatch("sum"))?),
    }
}
