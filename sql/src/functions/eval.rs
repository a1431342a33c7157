//! Evaluation of a bound expression over a row.
//!
//! Operands that are columns, parameters or constants are read in place; only computed values are
//! created. The recursion is as deep as the expression, whose depth the binder limits.

use std::cmp::Ordering;

use super::{LikeEscape, arith, compare, like, long, mismatch, same};
use crate::bound::{BoolTest, CompareClass, CompareOp, Expr, LikeKind, Node, RoutineCall};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::value::Value;

/// Returns the value of an expression.
pub fn eval(
    expr: &Expr,
    row: &[Value],
    params: &[Value],
    cx: &EvalContext,
) -> Result<Value, SqlError> {
    Scope { row, params, cx }.eval(expr)
}

/// Returns whether a condition is true, and not false or NULL.
pub fn eval_predicate(
    expr: &Expr,
    row: &[Value],
    params: &[Value],
    cx: &EvalContext,
) -> Result<bool, SqlError> {
    Ok(Scope { row, params, cx }.truth(expr)? == Some(true))
}

/// Returns the number of rows of a LIMIT expression, or of an OFFSET expression if `offset` is set;
/// `None` for NULL.
pub fn eval_row_count(
    expr: &Expr,
    params: &[Value],
    cx: &EvalContext,
    offset: bool,
) -> Result<Option<u64>, SqlError> {
    let Some(count) = eval(expr, &[], params, cx)?.as_int() else {
        return Ok(None);
    };
    u64::try_from(count).map(Some).map_err(|_| {
        if offset {
            SqlError::new(
                SqlState::INVALID_ROW_COUNT_IN_OFFSET,
                "OFFSET must not be negative",
            )
        } else {
            SqlError::new(
                SqlState::INVALID_ROW_COUNT_IN_LIMIT,
                "LIMIT must not be negative",
            )
        }
    })
}

#[derive(Clone, Copy)]
struct Scope<'a> {
    row: &'a [Value],
    params: &'a [Value],
    cx: &'a EvalContext,
}

impl<'a> Scope<'a> {
    /// Returns the operand in place, or computes it into `space`.
    #[inline]
    fn operand<'b>(&self, expr: &'b Expr, space: &'b mut Value) -> Result<&'b Value, SqlError>
    where
        'a: 'b,
    {
        match &expr.node {
            Node::Column(slot) => self.row.get(*slot).ok_or_else(no_slot),
            Node::Param(index) => self.params.get(*index).ok_or_else(no_param),
            Node::Const(value) => Ok(value),
            Node::Outer(slot) => self.outer(*slot),
            _ => {
                *space = self.eval(expr)?;
                Ok(space)
            }
        }
    }

    fn eval(&self, expr: &Expr) -> Result<Value, SqlError> {
        match &expr.node {
            Node::Column(slot) => self.row.get(*slot).cloned().ok_or_else(no_slot),
            Node::Param(index) => self.params.get(*index).cloned().ok_or_else(no_param),
            Node::Const(value) => Ok(value.clone()),
            Node::Arith {
                op,
                class,
                left,
                right,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = self.operand(left, &mut a)?;
                let right = self.operand(right, &mut b)?;
                arith::apply(*op, *class, left, right)
            }
            Node::Cast { explicit, input } => {
                let value = self.eval(input)?;
                long::cast_value(value, (&input.ty, &expr.ty), *explicit, self.cx)
            }
            Node::Call { .. } => self.call(expr),
            Node::Negate { class, input } => arith::negate(*class, &self.eval(input)?),
            Node::Case { .. } => self.case(expr),
            Node::Coalesce(args) => {
                for arg in args {
                    let value = self.eval(arg)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Node::NullIf {
                left,
                right,
                result,
                ..
            } => {
                let equal = self.compared(CompareOp::Eq, left, right)?;
                if equal == Some(true) {
                    Ok(Value::Null)
                } else {
                    self.eval(result)
                }
            }
            Node::Extreme { greatest, args, .. } => self.extreme(*greatest, args),
            Node::Outer(slot) => self.outer(*slot).cloned(),
            Node::Routine(call) => self.routine(call),
            // The executor has run the subquery before, if its result may have changed.
            Node::Subquery(sub) => self.outer(sub.result).cloned(),
            _ => Ok(self.truth(expr)?.map_or(Value::Null, Value::Bool)),
        }
    }

    /// Calls a function that an extension provides. Other routines run outside of evaluation.
    fn routine(&self, call: &RoutineCall) -> Result<Value, SqlError> {
        let Some(function) = call.routine.provided() else {
            return Err(SqlError::unsupported("a function of users here"));
        };
        let mut values = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            values.push(self.eval(arg)?);
        }
        match call.routine.strict && values.iter().any(Value::is_null) {
            true => Ok(Value::Null),
            false => (function.eval)(&values, self.cx),
        }
    }

    /// Returns an outer reference. Their slots follow the parameters, the first one last, so a
    /// statement can have any number of parameters.
    fn outer(&self, slot: usize) -> Result<&'a Value, SqlError> {
        let place = self.params.len().checked_sub(slot + 1);
        place
            .and_then(|place| self.params.get(place))
            .ok_or_else(no_param)
    }

    /// Evaluates a boolean expression; `None` for NULL.
    fn truth(&self, expr: &Expr) -> Result<Option<bool>, SqlError> {
        match &expr.node {
            Node::Compare {
                op,
                class: CompareClass::Int,
                left,
                right,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = self.operand(left, &mut a)?.as_int();
                let right = self.operand(right, &mut b)?.as_int();
                Ok(match (left, right) {
                    (Some(left), Some(right)) => Some(op.holds(left.cmp(&right))),
                    _ => None,
                })
            }
            Node::Compare {
                op, left, right, ..
            } => self.compared(*op, left, right),
            Node::And(parts) => self.all(parts, true),
            Node::Or(parts) => self.all(parts, false),
            Node::Not(input) => Ok(self.truth(input)?.map(|b| !b)),
            Node::IsNull { negated, input } => {
                let mut space = Value::Null;
                Ok(Some(self.operand(input, &mut space)?.is_null() != *negated))
            }
            Node::BoolTest {
                test,
                negated,
                input,
            } => {
                let wanted = match test {
                    BoolTest::True => Some(true),
                    BoolTest::False => Some(false),
                    BoolTest::Unknown => None,
                };
                Ok(Some((self.truth(input)? == wanted) != *negated))
            }
            Node::Distinct {
                negated,
                left,
                right,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = self.operand(left, &mut a)?;
                let right = self.operand(right, &mut b)?;
                Ok(Some(same(left, right) == *negated))
            }
            Node::Between {
                negated,
                symmetric,
                input,
                low,
                high,
                ..
            } => self.between((*negated, *symmetric), input, low, high),
            Node::InList {
                negated,
                input,
                list,
                ..
            } => self.in_list(*negated, input, list),
            Node::Quantified {
                op,
                all,
                left,
                array,
            } => self.quantified(*op, *all, left, array),
            Node::Like {
                kind,
                negated,
                input,
                pattern,
                escape,
            } => self.like(*kind, *negated, input, pattern, escape.as_deref()),
            // `eval` handles all other nodes.
            _ => match self.eval(expr)? {
                Value::Bool(b) => Ok(Some(b)),
                Value::Null => Ok(None),
                _ => Err(mismatch("a condition")),
            },
        }
    }

    fn compared(&self, op: CompareOp, left: &Expr, right: &Expr) -> Result<Option<bool>, SqlError> {
        let (mut a, mut b) = (Value::Null, Value::Null);
        let left = self.operand(left, &mut a)?;
        if left.is_null() {
            // The other operand is still evaluated, because it may fail.
            self.operand(right, &mut b)?;
            return Ok(None);
        }
        let right = self.operand(right, &mut b)?;
        if right.is_null() {
            return Ok(None);
        }
        Ok(Some(op.holds(compare(left, right))))
    }

    /// Evaluates AND (`and`) or OR in three-valued logic.
    fn all(&self, parts: &[Expr], and: bool) -> Result<Option<bool>, SqlError> {
        let mut result = Some(and);
        for part in parts {
            match self.truth(part)? {
                Some(b) if b != and => return Ok(Some(b)),
                Some(_) => {}
                None => result = None,
            }
        }
        Ok(result)
    }

    fn between(
        &self,
        (negated, symmetric): (bool, bool),
        input: &Expr,
        low: &Expr,
        high: &Expr,
    ) -> Result<Option<bool>, SqlError> {
        let value = self.eval(input)?;
        let (mut a, mut b) = (Value::Null, Value::Null);
        let low = self.operand(low, &mut a)?;
        let high = self.operand(high, &mut b)?;
        if value.is_null() {
            return Ok(None);
        }
        let within = |low: &Value, high: &Value| {
            let above = (!low.is_null()).then(|| compare(&value, low) != Ordering::Less);
            let below = (!high.is_null()).then(|| compare(&value, high) != Ordering::Greater);
            match (above, below) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        };
        let inside = match (within(low, high), symmetric) {
            (inside, false) | (inside @ Some(true), _) => inside,
            (inside, true) => match within(high, low) {
                Some(true) => Some(true),
                other => other.and(inside),
            },
        };
        Ok(inside.map(|b| b != negated))
    }

    fn in_list(
        &self,
        negated: bool,
        input: &Expr,
        list: &[Expr],
    ) -> Result<Option<bool>, SqlError> {
        let mut space = Value::Null;
        let value = self.operand(input, &mut space)?;
        if value.is_null() {
            return Ok(None);
        }
        let mut unknown = false;
        for candidate in list {
            let mut space = Value::Null;
            let candidate = self.operand(candidate, &mut space)?;
            if candidate.is_null() {
                unknown = true;
            } else if compare(value, candidate) == Ordering::Equal {
                return Ok(Some(!negated));
            }
        }
        Ok((!unknown).then_some(negated))
    }

    fn quantified(
        &self,
        op: CompareOp,
        all: bool,
        left: &Expr,
        array: &Expr,
    ) -> Result<Option<bool>, SqlError> {
        let (mut a, mut b) = (Value::Null, Value::Null);
        let left = self.operand(left, &mut a)?;
        let Value::Array(array) = self.operand(array, &mut b)? else {
            return Ok(None);
        };
        if array.values.is_empty() {
            return Ok(Some(all));
        }
        if left.is_null() {
            return Ok(None);
        }
        let mut unknown = false;
        for value in &array.values {
            if value.is_null() {
                unknown = true;
            } else if op.holds(compare(left, value)) != all {
                return Ok(Some(!all));
            }
        }
        Ok((!unknown).then_some(all))
    }

    fn like(
        &self,
        kind: LikeKind,
        negated: bool,
        input: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
    ) -> Result<Option<bool>, SqlError> {
        let (mut a, mut b, mut c) = (Value::Null, Value::Null, Value::Null);
        let input = self.operand(input, &mut a)?;
        let pattern = self.operand(pattern, &mut b)?;
        let escape = match escape {
            None => LikeEscape::BACKSLASH,
            Some(expr) => match self.operand(expr, &mut c)? {
                Value::Text(text) => LikeEscape::from_text(text)?,
                _ => return Ok(None),
            },
        };
        match (input, pattern) {
            (Value::Text(input), Value::Text(pattern)) => {
                let insensitive = kind == LikeKind::ILike;
                Ok(Some(like(input, pattern, escape, insensitive)? != negated))
            }
            _ => Ok(None),
        }
    }

    fn extreme(&self, greatest: bool, args: &[Expr]) -> Result<Value, SqlError> {
        let wanted = if greatest {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        let mut best = Value::Null;
        for arg in args {
            let value = self.eval(arg)?;
            if !value.is_null() && (best.is_null() || compare(&value, &best) == wanted) {
                best = value;
            }
        }
        Ok(best)
    }

    fn case(&self, expr: &Expr) -> Result<Value, SqlError> {
        let Node::Case {
            operand,
            branches,
            otherwise,
        } = &expr.node
        else {
            return Err(mismatch("CASE"));
        };
        let operand = match operand {
            Some((operand, _)) => Some(self.eval(operand)?),
            None => None,
        };
        for (when, then) in branches {
            let chosen = match &operand {
                None => self.truth(when)? == Some(true),
                Some(operand) => {
                    let mut space = Value::Null;
                    let when = self.operand(when, &mut space)?;
                    !operand.is_null()
                        && !when.is_null()
                        && compare(operand, when) == Ordering::Equal
                }
            };
            if chosen {
                return self.eval(then);
            }
        }
        match otherwise {
            Some(otherwise) => self.eval(otherwise),
            None => Ok(Value::Null),
        }
    }

    fn call(&self, expr: &Expr) -> Result<Value, SqlError> {
        const INLINE_ARGS: usize = 4;
        let Node::Call { function, args } = &expr.node else {
            return Err(mismatch("a call"));
        };
        if args.len() > INLINE_ARGS {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push(self.eval(arg)?);
            }
            if function.strict && values.iter().any(Value::is_null) {
                return Ok(Value::Null);
            }
            return long::call(function, &values, self.cx);
        }
        let mut values = [const { Value::Null }; INLINE_ARGS];
        let mut null = false;
        for (value, arg) in values.iter_mut().zip(args) {
            *value = self.eval(arg)?;
            null |= value.is_null();
        }
        if function.strict && null {
            return Ok(Value::Null);
        }
        long::call(function, &values[..args.len()], self.cx)
    }
}

#[cold]
fn no_slot() -> SqlError {
    SqlError::internal("a column beyond the row")
}

#[cold]
fn no_param() -> SqlError {
    SqlError::internal("a parameter without a value")
}
