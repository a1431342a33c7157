//! Selectivities of conditions, by the rules of PostgreSQL.

use fencepost_sql::bound::{BoolTest, CompareOp, Expr, Node, Volatility};
use fencepost_sql::functions::{compare, eval, eval_predicate};
use fencepost_sql::table_statistics::ColumnStatistics;
use fencepost_sql::value::Value;

use super::scalar::position;
use super::{DISTINCT_DEFAULT, Estimator};
use crate::conjuncts::implied;
use crate::slots::Slots;

/// A condition of which nothing is known.
const UNKNOWN: f64 = 0.5;
/// An inequality with an unknown value.
const INEQUALITY: f64 = 1.0 / 3.0;
/// A range between two unknown values.
const RANGE: f64 = 0.005;
/// A pattern match of which nothing is known.
const MATCH: f64 = 0.005;
/// The fraction of NULLs in a column without statistics.
const NULLS: f64 = 0.005;
/// The number of elements of an unknown array.
const ELEMENTS: f64 = 10.0;
/// The least selectivity: estimates are not more exact.
const LEAST: f64 = 1e-10;
/// The number of known values from which on a condition is evaluated over them.
const ENOUGH_VALUES: usize = 10;

/// The bounds of one column in a conjunction: the selectivities of the lower and upper one.
struct Bounds {
    slot: usize,
    lower: Option<f64>,
    upper: Option<f64>,
    /// Whether both come from statistics.
    known: bool,
}

impl Estimator<'_> {
    /// Estimates the selectivity of a conjunction.
    pub fn selectivity(&self, conditions: &[Expr]) -> f64 {
        let mut selectivity = 1.0;
        let mut bounded: Vec<Bounds> = Vec::new();
        for condition in conditions {
            match self.bound(condition) {
                Some((slot, op, of, known)) => {
                    let at = match bounded.iter().position(|bounds| bounds.slot == slot) {
                        Some(at) => at,
                        None => {
                            bounded.push(Bounds {
                                slot,
                                lower: None,
                                upper: None,
                                known: true,
                            });
                            bounded.len() - 1
                        }
                    };
                    let bounds = &mut bounded[at];
                    bounds.known &= known;
                    let side = match op {
                        CompareOp::Gt | CompareOp::Ge => &mut bounds.lower,
                        _ => &mut bounds.upper,
                    };
                    *side = Some(side.map_or(of, |other| other.min(of)));
                }
                None => selectivity *= self.of_condition(condition),
            }
        }
        for bounds in bounded {
            selectivity *= match (bounds.lower, bounds.upper) {
                (Some(_), Some(_)) if !bounds.known => RANGE,
                (Some(lower), Some(upper)) => (lower + upper - 1.0).max(RANGE / 10.0),
                (lower, upper) => lower.or(upper).unwrap_or(1.0),
            };
        }
        // The conditions of a join of large tables leave a tiny fraction of their product.
        selectivity.min(1.0)
    }

    /// Returns the slot, the operator and the selectivity of an inequality between a column and a
    /// value, and whether the selectivity comes from statistics.
    fn bound(&self, condition: &Expr) -> Option<(usize, CompareOp, f64, bool)> {
        let Node::Compare {
            op, left, right, ..
        } = &condition.node
        else {
            return None;
        };
        let (slot, op, value) = match (column_of(left), column_of(right)) {
            (Some(slot), None) if !right.has_columns() => (slot, *op, right),
            (None, Some(slot)) if !left.has_columns() => (slot, op.swap(), left),
            _ => return None,
        };
        if matches!(op, CompareOp::Eq | CompareOp::Ne) {
            return None;
        }
        let known = self.column(slot).zip(self.constant(value));
        let of = known
            .as_ref()
            .and_then(|(column, value)| inequality(column, op, value));
        Some((slot, op, of.unwrap_or(INEQUALITY), of.is_some()))
    }

    /// Estimates the selectivity of the conditions on single relations that a condition on several
    /// relations implies. They are conditions of their own.
    fn of_implied(&self, condition: &Expr) -> f64 {
        let mut read = Vec::new();
        condition.for_each_column(&mut |slot| {
            let slots = self.relation(slot).map(|relation| relation.slots);
            if let Some(slots) = slots.filter(|slots| !read.contains(slots)) {
                read.push(slots);
            }
        });
        if read.len() < 2 {
            return 1.0;
        }
        let implied = read.into_iter().filter_map(|slots| {
            let mut of_relation = Slots::default();
            of_relation.add(slots);
            implied(condition, &of_relation)
        });
        implied
            .map(|condition| self.of_condition(&condition))
            .product()
    }

    /// Estimates the selectivity of one condition.
    fn of_condition(&self, condition: &Expr) -> f64 {
        let of = match &condition.node {
            Node::Const(value) => match value.as_bool() {
                Some(true) => 1.0,
                _ => LEAST,
            },
            Node::And(parts) => self.selectivity(parts),
            Node::Or(parts) => {
                let none = parts.iter().map(|part| 1.0 - self.of_condition(part));
                let any = 1.0 - none.product::<f64>();
                (any / self.of_implied(condition)).min(1.0)
            }
            Node::Not(input) => 1.0 - self.of_condition(input),
            Node::Column(slot) => self.equality(*slot, Some(&Value::Bool(true))),
            Node::Compare {
                op, left, right, ..
            } => return self.comparison(condition, *op, (left, right)),
            Node::IsNull { negated, input } => negated_if(*negated, self.null_test(input)),
            Node::BoolTest {
                test,
                negated,
                input,
            } => negated_if(*negated, self.bool_test(*test, input)),
            Node::InList {
                negated,
                input,
                list,
                ..
            } => match (column_of(input), self.evaluated(condition)) {
                (None, Some(of)) => of,
                (slot, _) => negated_if(*negated, self.in_list(slot, list)),
            },
            Node::Quantified {
                op: CompareOp::Eq,
                all: false,
                left,
                array,
            } => self.in_array(left, array),
            Node::Like { negated, .. } => match (self.evaluated(condition), negated) {
                (Some(of), _) => of,
                (None, true) => 1.0 - MATCH,
                (None, false) => MATCH,
            },
            _ => self.evaluated(condition).unwrap_or(UNKNOWN),
        };
        of.clamp(LEAST, 1.0)
    }

    /// Estimates the fraction of NULLs in the values of an expression.
    fn null_test(&self, input: &Expr) -> f64 {
        column_of(input).map_or(NULLS, |slot| self.nulls(slot))
    }

    fn bool_test(&self, test: BoolTest, input: &Expr) -> f64 {
        match test {
            BoolTest::True => self.of_condition(input),
            BoolTest::False => 1.0 - self.of_condition(input),
            BoolTest::Unknown => NULLS,
        }
    }

    /// Estimates the selectivity of IN with a list, for a column or another value.
    fn in_list(&self, slot: Option<usize>, list: &[Expr]) -> f64 {
        let each = list.iter().map(|element| match slot {
            Some(slot) => self.equality(slot, self.constant(element).as_ref()),
            None => 1.0 / DISTINCT_DEFAULT,
        });
        each.sum::<f64>().min(1.0)
    }

    /// Estimates the selectivity of `left = ANY (array)`.
    fn in_array(&self, left: &Expr, array: &Expr) -> f64 {
        match (column_of(left), self.constant(array)) {
            (Some(slot), Some(Value::Array(array))) => {
                let each = array.values.iter();
                let each = each.map(|value| self.equality(slot, Some(value)));
                each.sum::<f64>().min(1.0)
            }
            (Some(slot), _) => (self.equality(slot, None) * ELEMENTS).min(1.0),
            (None, _) => UNKNOWN,
        }
    }

    /// Estimates the selectivity of a comparison.
    fn comparison(&self, condition: &Expr, op: CompareOp, sides: (&Expr, &Expr)) -> f64 {
        let (left, right) = sides;
        let equal = match (column_of(left), column_of(right)) {
            (Some(left), Some(right)) => self.equal_columns(left, right),
            (Some(slot), None) | (None, Some(slot)) => {
                let other = match column_of(left) {
                    Some(_) => right,
                    None => left,
                };
                if other.has_columns() {
                    1.0 / self.distinct(slot)
                } else {
                    self.equality(slot, self.constant(other).as_ref())
                }
            }
            (None, None) => match self.evaluated(condition) {
                Some(of) => return of,
                None => 1.0 / DISTINCT_DEFAULT,
            },
        };
        let of = match op {
            CompareOp::Eq => equal,
            CompareOp::Ne => 1.0 - equal,
            CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => INEQUALITY,
        };
        of.clamp(LEAST, 1.0)
    }

    /// Estimates the selectivity of an equality between two columns.
    pub fn equal_columns(&self, left: usize, right: usize) -> f64 {
        let present = (1.0 - self.nulls(left)) * (1.0 - self.nulls(right));
        (present / self.distinct(left).max(self.distinct(right))).clamp(LEAST, 1.0)
    }

    /// Estimates the fraction of NULLs in a slot.
    fn nulls(&self, slot: usize) -> f64 {
        self.column(slot).map_or(0.0, |column| column.null_fraction)
    }

    /// Estimates the fraction of rows that have a value in a slot; `None` is an unknown value.
    fn equality(&self, slot: usize, value: Option<&Value>) -> f64 {
        let distinct = self.distinct(slot);
        let Some(column) = self.column(slot) else {
            return 1.0 / distinct;
        };
        let present = 1.0 - column.null_fraction;
        let Some(value) = value else {
            return present / distinct;
        };
        let is_value = |(common, _): &&(Value, f64)| compare(common, value).is_eq();
        if let Some((_, fraction)) = column.common.iter().find(is_value) {
            return *fraction;
        }
        let others = (distinct - column.common.len() as f64).max(1.0);
        let rare = ((present - column.common_fraction()) / others).max(LEAST);
        // A value that is not common is at most as frequent as the least common one.
        column
            .common
            .last()
            .map_or(rare, |(_, least)| rare.min(*least))
    }

    /// Returns the value of an expression that is constant in a statement, if it is known.
    pub(super) fn constant(&self, expr: &Expr) -> Option<Value> {
        if expr.has_columns() || expr.has_subquery() || expr.volatility() >= Volatility::Volatile {
            return None;
        }
        if !self.knows_params(expr) {
            return None;
        }
        eval(expr, &[], self.cx.params(), self.cx.eval()).ok()
    }

    /// Returns whether the values of all parameters of an expression are known, and it reads no
    /// outer query.
    fn knows_params(&self, expr: &Expr) -> bool {
        let mut known = match expr.node {
            Node::Param(nth) => nth < self.cx.params().len(),
            Node::Outer(_) => false,
            _ => true,
        };
        expr.for_each_part(|part| known &= self.knows_params(part));
        known
    }

    /// Estimates the selectivity of a condition on one column by evaluating it on the column's most
    /// common values and on its histogram.
    fn evaluated(&self, condition: &Expr) -> Option<f64> {
        let mut slots = Vec::new();
        condition.for_each_column(&mut |slot| slots.push(slot));
        let slot = *slots.first()?;
        let plain = slots.iter().all(|other| *other == slot)
            && !condition.has_subquery()
            && condition.volatility() < Volatility::Volatile
            && self.knows_params(condition);
        let column = self.column(slot).filter(|_| plain)?;
        if column.common.len() + column.histogram.len() < ENOUGH_VALUES {
            return None;
        }
        let mut row = vec![Value::Null; slot + 1];
        let mut holds = |value: &Value| {
            row[slot] = value.clone();
            eval_predicate(condition, &row, self.cx.params(), self.cx.eval()).unwrap_or(false)
        };
        let common = column.common.iter().filter(|(value, _)| holds(value));
        let common: f64 = common.map(|(_, fraction)| fraction).sum();
        let others = (1.0 - column.null_fraction - column.common_fraction()).max(0.0);
        let passing = column.histogram.iter().filter(|value| holds(value)).count();
        let share = match column.histogram.len() {
            0 => 0.0,
            // No value that is known passes: others may.
            len => (passing as f64 / len as f64).max(0.5 / len as f64),
        };
        Some((common + others * share).clamp(LEAST, 1.0))
    }
}

/// Returns the selectivity of a condition or of its negation.
fn negated_if(negated: bool, of: f64) -> f64 {
    if negated { 1.0 - of } else { of }
}

/// Returns the slot of a column. A cast between integers or between strings may surround it.
fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.node {
        Node::Column(slot) => Some(*slot),
        Node::Cast { input, .. } => {
            let (from, to) = (input.ty.kind, expr.ty.kind);
            let is_like =
                from.is_integer() && to.is_integer() || from.is_string() && to.is_string();
            column_of(input).filter(|_| is_like)
        }
        _ => None,
    }
}

/// Estimates the selectivity of an inequality by the column's most common values and histogram;
/// `None` without a histogram.
fn inequality(column: &ColumnStatistics, op: CompareOp, value: &Value) -> Option<f64> {
    if value.is_null() {
        return Some(LEAST);
    }
    let others = (1.0 - column.null_fraction - column.common_fraction()).max(0.0);
    let below = match column.histogram.as_slice() {
        [] | [_] if column.common.is_empty() => return None,
        [] | [_] => UNKNOWN,
        histogram => fraction_below(histogram, value),
    };
    let share = match op {
        CompareOp::Lt | CompareOp::Le => below,
        _ => 1.0 - below,
    };
    let common = column.common.iter();
    let common = common.filter(|(common, _)| op.holds(compare(common, value)));
    let common: f64 = common.map(|(_, fraction)| fraction).sum();
    Some((common + others * share).clamp(LEAST, 1.0))
}

/// Returns the fraction of the values of a histogram below a value.
fn fraction_below(histogram: &[Value], value: &Value) -> f64 {
    let groups = (histogram.len() - 1) as f64;
    let at = histogram.partition_point(|bound| compare(bound, value).is_lt());
    match at {
        0 => 0.0,
        at if at == histogram.len() => 1.0,
        at => ((at - 1) as f64 + position(value, &histogram[at - 1], &histogram[at])) / groups,
    }
}
