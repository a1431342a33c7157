//! Partial aggregates: the results over parts of a group, encoded as values for the machine that
//! merges them.
//!
//! ```text
//! count             the count
//! sum, avg          of integers up to 4 bytes and floats: the sum
//!                   of other types: [mantissa | scale]; NULL without input
//! avg               and the count
//! min, max, bool_*  the result so far
//! ```
//! Some aggregates need all of their input together and have no partial form. These are aggregates
//! with DISTINCT, aggregates with an ORDER BY, and `string_agg`, whose result depends on the order
//! anyway.
//!
//! # Failure
//! The values come from other machines: values that cannot be merged are an error, never a panic.

use super::{Accumulator, State, mismatch, out_of_range};
use crate::bound::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::functions::compare;
use crate::functions::decimal::Sum;
use crate::types::TypeKind::{self, Interval};
use crate::value::Value;

const SUM_BYTES: usize = 20;

impl Aggregate {
    /// Returns the types of the partial result; `None` if the aggregate has no partial form.
    pub fn partial_types(&self) -> Option<Vec<TypeKind>> {
        use TypeKind::{Bool, Bytea, Float4, Float8, Int2, Int4, Int8};
        if self.distinct || !self.order_by.is_empty() {
            return None;
        }
        let input = self.args.first().map(|arg| arg.ty.kind);
        Some(match (self.kind, input) {
            (AggregateKind::CountStar | AggregateKind::Count, _) => vec![Int8],
            (AggregateKind::Sum, Some(Int2 | Int4)) => vec![Int8],
            (AggregateKind::Sum, Some(Interval)) | (AggregateKind::Avg, Some(Interval)) => {
                vec![Interval, Int8]
            }
            (AggregateKind::Sum, Some(float @ (Float4 | Float8))) => vec![float],
            (AggregateKind::Sum, _) => vec![Bytea],
            (AggregateKind::Avg, Some(Float4 | Float8)) => vec![Float8, Int8],
            (AggregateKind::Avg, _) => vec![Bytea, Int8],
            (AggregateKind::BoolAnd | AggregateKind::BoolOr, _) => vec![Bool],
            (AggregateKind::Min | AggregateKind::Max, input) => vec![input?],
            (
                AggregateKind::StringAgg
                | AggregateKind::ArrayAgg
                | AggregateKind::JsonAgg
                | AggregateKind::JsonbAgg
                | AggregateKind::JsonObjectAgg
                | AggregateKind::JsonbObjectAgg
                | AggregateKind::BitAnd
                | AggregateKind::BitOr
                | AggregateKind::BitXor
                | AggregateKind::Statistic(_)
                | AggregateKind::OrderedSet(_),
                _,
            ) => return None,
        })
    }
}

impl Accumulator {
    /// Returns the number of values of the partial result.
    pub fn partial_width(&self) -> usize {
        match self.state {
            State::AvgNumeric { .. } | State::AvgFloat { .. } | State::Span { .. } => 2,
            _ => 1,
        }
    }

    /// Appends the values of the partial result, as many as [`Aggregate::partial_types`] has.
    pub fn partial(&self, out: &mut Vec<Value>) {
        match &self.state {
            State::Count(count) => out.push(Value::Int8(*count)),
            State::SumInt { seen: false, .. } | State::SumNumeric { seen: false, .. } => {
                out.push(Value::Null);
            }
            State::SumInt { total, .. } => out.push(Value::Int8(*total)),
            State::SumFloat4(total) => out.push(total.map_or(Value::Null, Value::Float4)),
            State::SumFloat8(total) => out.push(total.map_or(Value::Null, Value::Float8)),
            State::SumNumeric { sum, .. } => out.push(sum_value(sum)),
            State::AvgNumeric { sum, count } => {
                out.extend([sum_value(sum), Value::Int8(*count)]);
            }
            State::AvgFloat { sum, count } => {
                out.extend([Value::Float8(*sum), Value::Int8(*count)]);
            }
            State::Span { sum, count, .. } => {
                out.extend([Value::Interval(*sum), Value::Int8(*count)]);
            }
            State::Extreme { best, .. } => out.push(best.clone()),
            State::Bool { result, .. } => out.push(result.map_or(Value::Null, Value::Bool)),
            // These aggregates have no partial form.
            State::Gather(_) | State::Bits { .. } | State::Stats(_) => out.push(Value::Null),
            State::Text(text) => out.push(text.clone().map_or(Value::Null, Value::Text)),
            State::Bytes(bytes) => out.push(bytes.clone().map_or(Value::Null, Value::Bytea)),
        }
    }

    /// Merges the partial result of another part.
    pub fn merge(&mut self, part: &[Value]) -> Result<(), SqlError> {
        let (Some(first), rest) = (part.first(), part.get(1)) else {
            return Err(mismatch("a partial aggregate"));
        };
        let wrong = || mismatch("a partial aggregate");
        let number = |value: Option<&Value>| value.and_then(Value::as_int).ok_or_else(wrong);
        if first.is_null() {
            return Ok(());
        }
        match &mut self.state {
            State::Count(count) => {
                let more = number(Some(first))?;
                *count = count
                    .checked_add(more)
                    .ok_or_else(|| out_of_range("bigint"))?;
            }
            State::AvgNumeric { sum, count } => {
                let more = number(rest)?;
                merge_sum(sum, first)?;
                *count = count
                    .checked_add(more)
                    .ok_or_else(|| out_of_range("bigint"))?;
            }
            State::SumNumeric { sum, seen } => {
                merge_sum(sum, first)?;
                *seen = true;
            }
            State::AvgFloat { sum, count } => {
                let (Value::Float8(part), more) = (first, number(rest)?) else {
                    return Err(wrong());
                };
                *sum += part;
                *count = count
                    .checked_add(more)
                    .ok_or_else(|| out_of_range("bigint"))?;
            }
            State::Span { sum, count, .. } => {
                let (Value::Interval(part), more) = (first, number(rest)?) else {
                    return Err(wrong());
                };
                *sum = crate::functions::interval::plus(sum, part)?;
                *count = count
                    .checked_add(more)
                    .ok_or_else(|| out_of_range("bigint"))?;
            }
            State::Extreme { best, wanted } => {
                if best.is_null() || compare(first, best) == *wanted {
                    *best = first.clone();
                }
            }
            // The partial result has the type of the input.
            State::SumInt { .. }
            | State::SumFloat4(_)
            | State::SumFloat8(_)
            | State::Bool { .. } => {
                self.add(std::slice::from_ref(first))?;
            }
            State::Text(_)
            | State::Bytes(_)
            | State::Gather(_)
            | State::Bits { .. }
            | State::Stats(_) => {
                return Err(wrong());
            }
        }
        Ok(())
    }
}

fn sum_value(sum: &Sum) -> Value {
    partial_sum(sum.parts())
}

/// Encodes a sum: its digits and the number of digits after the decimal point.
pub fn partial_sum((mantissa, scale): (i128, u32)) -> Value {
    let mut bytes = Vec::with_capacity(SUM_BYTES);
    bytes.extend_from_slice(&mantissa.to_le_bytes());
    bytes.extend_from_slice(&scale.to_le_bytes());
    Value::Bytea(bytes)
}

fn merge_sum(sum: &mut Sum, part: &Value) -> Result<(), SqlError> {
    let parts = match part {
        Value::Bytea(bytes) if bytes.len() == SUM_BYTES => bytes.split_first_chunk(),
        _ => None,
    };
    let (mantissa, scale) = parts.ok_or_else(|| mismatch("a partial sum"))?;
    let scale = scale.try_into().map_err(|_| mismatch("a partial sum"))?;
    sum.add_parts(i128::from_le_bytes(*mantissa), u32::from_le_bytes(scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Expr;
    use crate::context::EvalContext;
    use crate::settings::Settings;
    use crate::types::Type;

    fn aggregate(kind: AggregateKind, input: Option<Type>) -> Aggregate {
        Aggregate {
            kind,
            distinct: false,
            args: input.map(|ty| Expr::column(ty, 0)).into_iter().collect(),
            filter: None,
            order_by: Vec::new(),
            ty: Type::INT8,
        }
    }

    fn cx() -> EvalContext {
        EvalContext::new(std::sync::Arc::new(Settings::new()), 0, 0)
    }

    fn over(aggregate: &Aggregate, rows: &[Value]) -> Accumulator {
        let mut accumulator = Accumulator::new(aggregate);
        for row in rows {
            let row = std::slice::from_ref(row);
            accumulator
                .update(aggregate, row, &[], &cx())
                .expect("adds");
        }
        accumulator
    }

    #[test]
    fn partial_aggregates_combine_to_whole_result() {
        use AggregateKind::{Avg, BoolAnd, BoolOr, Count, CountStar, Max, Min, Sum};
        let numeric = |text: &str| Value::Numeric(text.parse().expect("a decimal"));
        let inputs = [
            (
                Type::INT4,
                vec![
                    Value::Int4(7),
                    Value::Null,
                    Value::Int4(-3),
                    Value::Int4(i32::MAX),
                ],
            ),
            (
                Type::INT8,
                vec![
                    Value::Int8(i64::MAX),
                    Value::Int8(i64::MAX),
                    Value::Null,
                    Value::Int8(5),
                ],
            ),
            (
                Type::NUMERIC,
                vec![numeric("1.25"), numeric("-7.1"), Value::Null, numeric("3")],
            ),
            (
                Type::FLOAT8,
                vec![
                    Value::Float8(0.5),
                    Value::Null,
                    Value::Float8(2.25),
                    Value::Float8(-8.0),
                ],
            ),
            (
                Type::FLOAT4,
                vec![
                    Value::Float4(0.5),
                    Value::Null,
                    Value::Float4(2.25),
                    Value::Float4(-8.0),
                ],
            ),
            (
                Type::BOOL,
                vec![
                    Value::Bool(true),
                    Value::Null,
                    Value::Bool(false),
                    Value::Bool(true),
                ],
            ),
            (
                Type::TEXT,
                vec![
                    Value::text("b"),
                    Value::Null,
                    Value::text("a"),
                    Value::text("c"),
                ],
            ),
        ];
        for (ty, rows) in inputs {
            let kinds: &[AggregateKind] = match ty.kind {
                TypeKind::Bool => &[CountStar, Count, BoolAnd, BoolOr],
                TypeKind::Text => &[CountStar, Count, Min, Max],
                _ => &[CountStar, Count, Sum, Avg, Min, Max],
            };
            for kind in kinds {
                let aggregate = aggregate(*kind, (*kind != CountStar).then_some(ty));
                let types = aggregate.partial_types().expect("can be had in parts");
                for (a, b) in (0..=rows.len()).flat_map(|a| (a..=rows.len()).map(move |b| (a, b))) {
                    let mut merged = Accumulator::new(&aggregate);
                    for part in [&rows[..a], &rows[a..b], &rows[b..]] {
                        let mut values = Vec::new();
                        over(&aggregate, part).partial(&mut values);
                        let layout = crate::row::RowLayout::of_types(types.iter().copied());
                        assert!(layout.takes(&values), "{kind:?} of {ty:?}: {values:?}");
                        merged.merge(&values).expect("merges");
                    }
                    let whole = over(&aggregate, &rows).finish(&aggregate);
                    assert_eq!(
                        merged.finish(&aggregate).expect("a result"),
                        whole.expect("a result"),
                        "{kind:?} of {ty:?}, cut at {a} and {b}"
                    );
                }
            }
        }
    }

    #[test]
    fn whole_input_aggregate_has_no_partial_form() {
        let mut distinct = aggregate(AggregateKind::Count, Some(Type::INT4));
        distinct.distinct = true;
        let mut ordered = aggregate(AggregateKind::Min, Some(Type::INT4));
        ordered.order_by = vec![(Expr::column(Type::INT4, 0), false, false)];
        let joined = aggregate(AggregateKind::StringAgg, Some(Type::TEXT));
        for whole in [distinct, ordered, joined] {
            assert_eq!(whole.partial_types(), None);
        }
    }

    #[test]
    fn garbage_is_an_error() {
        let sums = [AggregateKind::Sum, AggregateKind::Avg];
        for kind in sums {
            let aggregate = aggregate(kind, Some(Type::NUMERIC));
            for part in [
                vec![],
                vec![Value::Int4(1)],
                vec![Value::Bytea(vec![1; 19]), Value::Int8(1)],
                vec![Value::Bytea(vec![0xff; SUM_BYTES]), Value::Int8(1)],
            ] {
                assert!(Accumulator::new(&aggregate).merge(&part).is_err());
            }
        }
    }
}
