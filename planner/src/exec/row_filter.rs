//! The part of a scan's filter that is tested on encoded rows.
//!
//! ```text
//! filter ─▶ conjuncts ─┬▶ tests: a column against constants    on the bytes of a row
//!                      └▶ rest: all others                      on its decoded values
//! ```
//! Most rows of a selective scan are rejected without a value being decoded. The constants are
//! computed once, when the scan has read its first rows: a part of the filter that reads no column
//! is the same for all rows of a scan, unless it is volatile.
//!
//! A test has two results, true and not true, because a filter rejects a row for which it is NULL.
//! So a test may be part of AND and OR, but not of NOT.
//!
//! # Failure
//! A constant that cannot be computed leaves its conjunct to the rest, where the error occurs if a
//! row gets that far.

use std::cmp::Ordering;

use fencepost_sql::bound::{CompareClass, CompareOp, Expr, LikeKind, Node, Volatility};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::{LikeEscape, LikeMatcher, SortDirection};
use fencepost_sql::row::{RowLayout, RowReader};
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use crate::conjuncts::{conjunction, conjuncts};

/// The number of microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// The tests of a filter, and its other conjuncts.
#[derive(Debug)]
pub struct RowFilter {
    tests: Vec<Test>,
    rest: Option<Expr>,
    /// Whether the constants are the same each time the scan is opened.
    fixed: bool,
}

/// A condition on an encoded row. Columns are positions in the table.
#[derive(Debug)]
enum Test {
    /// A comparison with NULL.
    Never,
    /// A column that is one integer.
    Integer(usize, CompareOp, i64),
    /// A date column, compared as the timestamp of its midnight.
    Midnight(usize, CompareOp, i64),
    /// Two columns that are one integer each.
    Integers(usize, CompareOp, usize),
    /// A numeric column; the number has the digits and the decimal places.
    Decimal(usize, CompareOp, ScaledNumber),
    /// A column that is one integer, and sorted integers of which it is one.
    IntegerIn(usize, Vec<i64>),
    /// A string column, and sorted texts of which it is one.
    TextIn(usize, Vec<Box<[u8]>>),
    /// A string column.
    Text(usize, CompareOp, Box<[u8]>),
    /// A string column and a pattern; the flag is set for NOT LIKE.
    Like(usize, LikeMatcher, bool),
    /// NULL; the flag is set for IS NOT NULL.
    Null(usize, bool),
    /// At least one list of tests that all are true.
    Any(Vec<Vec<Test>>),
}

/// A number with a fixed number of decimal places.
#[derive(Clone, Copy, Debug)]
struct ScaledNumber {
    digits: i128,
    scale: u32,
}

impl ScaledNumber {
    /// Compares a number with this one.
    #[inline]
    fn compare(self, digits: i128, scale: u32) -> Ordering {
        match scale.cmp(&self.scale) {
            Ordering::Equal => digits.cmp(&self.digits),
            Ordering::Less => compare_shifted(digits, self.scale - scale, self.digits),
            Ordering::Greater => compare_shifted(self.digits, scale - self.scale, digits).reverse(),
        }
    }
}

/// Compares `a`, shifted by a number of decimal places, with `b`.
fn compare_shifted(a: i128, places: u32, b: i128) -> Ordering {
    let power = 10i128.checked_pow(places);
    match power.and_then(|power| a.checked_mul(power)) {
        Some(a) => a.cmp(&b),
        // The shifted number is farther from zero than any other.
        None => a.cmp(&0),
    }
}

impl RowFilter {
    /// Splits the filter of a scan. `constant` computes expressions that read no row. Returns
    /// `None` if no conjunct can be tested on encoded rows.
    pub fn new(
        filter: Option<&Expr>,
        columns: ScanColumns<'_>,
        constant: &dyn Fn(&Expr) -> Result<Value, SqlError>,
    ) -> Option<RowFilter> {
        let mut all = Vec::new();
        conjuncts(filter.cloned(), &mut all);
        let subject = Subject { columns, constant };
        let mut tests = Vec::new();
        let mut rest = Vec::new();
        for conjunct in all {
            match subject.test(&conjunct) {
                Some(test) => tests.push(test),
                None => rest.push(conjunct),
            }
        }
        (!tests.is_empty()).then(|| RowFilter {
            tests,
            rest: conjunction(rest),
            fixed: !filter.is_some_and(reads_outer),
        })
    }

    /// Returns whether all tests are true for a row.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    #[inline]
    pub fn holds(&self, row: &RowReader<'_>) -> Result<bool, SqlError> {
        all_hold(&self.tests, row)
    }

    /// Returns whether the filter serves the scan when it is opened again.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Returns the conjuncts that are not tested.
    pub fn rest(&self) -> Option<&Expr> {
        self.rest.as_ref()
    }
}

/// A bound on a column that is known only while a scan runs: the rows behind it are not needed.
#[derive(Debug)]
pub struct Cutoff(Test);

impl Cutoff {
    /// Creates the cutoff of rows whose value in `column` comes behind `last` in an order. Returns
    /// `None` if encoded rows cannot be tested for that.
    pub fn new(
        layout: &RowLayout,
        column: usize,
        last: &Value,
        direction: SortDirection,
    ) -> Option<Cutoff> {
        if last.is_null() {
            return None;
        }
        let op = if direction.desc {
            CompareOp::Ge
        } else {
            CompareOp::Le
        };
        let test = with_constant(layout.kind(column)?, column, op, last)?;
        if !direction.nulls_first {
            return Some(Cutoff(test));
        }
        let null = Test::Null(column, false);
        Some(Cutoff(Test::Any(vec![vec![null], vec![test]])))
    }

    /// Returns whether a row is not behind the bound.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    #[inline]
    pub fn admits(&self, row: &RowReader<'_>) -> Result<bool, SqlError> {
        self.0.holds(row)
    }
}

/// Returns whether an expression reads values of the query around it.
fn reads_outer(expr: &Expr) -> bool {
    let mut found = matches!(expr.node, Node::Outer(_));
    expr.for_each_part(|part| found |= reads_outer(part));
    found
}

#[inline]
fn all_hold(tests: &[Test], row: &RowReader<'_>) -> Result<bool, SqlError> {
    for test in tests {
        if !test.holds(row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Test {
    fn holds(&self, row: &RowReader<'_>) -> Result<bool, SqlError> {
        Ok(match self {
            Test::Never => false,
            Test::Integer(column, op, value) => row
                .integer(*column)?
                .is_some_and(|own| op.holds(own.cmp(value))),
            Test::Midnight(column, op, value) => row
                .integer(*column)?
                .is_some_and(|days| op.holds(midnight(days).cmp(value))),
            Test::Integers(left, op, right) => match (row.integer(*left)?, row.integer(*right)?) {
                (Some(left), Some(right)) => op.holds(left.cmp(&right)),
                _ => false,
            },
            Test::Decimal(column, op, number) => match row.decimal(*column)? {
                Some((digits, scale)) => op.holds(number.compare(digits, scale)),
                None => false,
            },
            Test::IntegerIn(column, values) => row
                .integer(*column)?
                .is_some_and(|own| values.binary_search(&own).is_ok()),
            Test::TextIn(column, values) => row
                .text(*column)?
                .is_some_and(|own| values.binary_search_by(|value| (**value).cmp(own)).is_ok()),
            Test::Text(column, op, value) => row
                .text(*column)?
                .is_some_and(|own| op.holds(own.cmp(value))),
            Test::Like(column, matcher, negated) => row
                .text(*column)?
                .is_some_and(|own| matcher.matches(own) != *negated),
            Test::Null(column, negated) => row.is_null(*column) != *negated,
            Test::Any(branches) => {
                for branch in branches {
                    if all_hold(branch, row)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

/// Returns midnight of a date as a timestamp. Dates beyond all timestamps, infinity included, give
/// the largest or least value.
fn midnight(days: i64) -> i64 {
    match i32::try_from(days) {
        Ok(i32::MAX) => i64::MAX,
        Ok(i32::MIN) => i64::MIN,
        _ => days.saturating_mul(DAY_US),
    }
}

/// The columns of a scan.
#[derive(Clone, Copy)]
pub struct ScanColumns<'a> {
    /// The slot of the table's first column.
    pub first_slot: usize,
    /// The columns that the scan reads, by position in the table.
    pub read: &'a [usize],
    /// The layout of the rows.
    pub layout: &'a RowLayout,
}

/// The scan whose filter is split.
struct Subject<'a> {
    columns: ScanColumns<'a>,
    constant: &'a dyn Fn(&Expr) -> Result<Value, SqlError>,
}

impl Subject<'_> {
    fn test(&self, condition: &Expr) -> Option<Test> {
        match &condition.node {
            Node::Compare {
                op,
                class,
                left,
                right,
            } => self.comparison(*op, *class, left, right),
            Node::IsNull { negated, input } => Some(Test::Null(self.column(input)?, *negated)),
            Node::Like {
                kind: LikeKind::Like,
                negated,
                input,
                pattern,
                escape: None,
            } => {
                let column = self.column(input)?;
                let Value::Text(pattern) = self.constant(pattern)? else {
                    return None;
                };
                let matcher = LikeMatcher::new(&pattern, LikeEscape::BACKSLASH)?;
                self.kind(column)?
                    .is_string()
                    .then_some(Test::Like(column, matcher, *negated))
            }
            Node::InList {
                negated: false,
                input,
                list,
                ..
            } => {
                let column = self.column(input)?;
                let equal = |value: &Expr| {
                    self.with_constant(column, CompareOp::Eq, &self.constant(value)?)
                };
                Some(one_of(list.iter().map(equal).collect::<Option<_>>()?))
            }
            Node::Or(branches) => {
                let branch = |branch: &Expr| {
                    let mut parts = Vec::new();
                    conjuncts(Some(branch.clone()), &mut parts);
                    parts.iter().map(|part| self.test(part)).collect()
                };
                Some(Test::Any(
                    branches.iter().map(branch).collect::<Option<_>>()?,
                ))
            }
            _ => None,
        }
    }

    fn comparison(
        &self,
        op: CompareOp,
        class: CompareClass,
        left: &Expr,
        right: &Expr,
    ) -> Option<Test> {
        match (self.column(left), self.column(right)) {
            (Some(left), Some(right)) => {
                let (a, b) = (self.kind(left)?, self.kind(right)?);
                let comparable = match class {
                    CompareClass::Int => is_int(a) && is_int(b),
                    CompareClass::Same => is_number_alone(a) && a == b,
                };
                comparable.then_some(Test::Integers(left, op, right))
            }
            (Some(column), None) => self.with_constant(column, op, &self.constant(right)?),
            (None, Some(column)) => self.with_constant(column, op.swap(), &self.constant(left)?),
            (None, None) => match self.date_as_timestamp(left) {
                Some(column) => self.midnight(column, op, &self.constant(right)?),
                None => {
                    let column = self.date_as_timestamp(right)?;
                    self.midnight(column, op.swap(), &self.constant(left)?)
                }
            },
        }
    }

    fn with_constant(&self, column: usize, op: CompareOp, value: &Value) -> Option<Test> {
        with_constant(self.kind(column)?, column, op, value)
    }

    /// Returns the date column that an expression casts to timestamp.
    fn date_as_timestamp(&self, expr: &Expr) -> Option<usize> {
        match &expr.node {
            Node::Cast { input, .. }
                if expr.ty == Type::TIMESTAMP && input.ty.kind == TypeKind::Date =>
            {
                self.column(input)
            }
            _ => None,
        }
    }

    fn midnight(&self, column: usize, op: CompareOp, value: &Value) -> Option<Test> {
        match value {
            Value::Null => Some(Test::Never),
            Value::Timestamp(value) => Some(Test::Midnight(column, op, *value)),
            _ => None,
        }
    }

    /// Returns the column of the scan that an expression is, also where it is cast to text without
    /// a change of its characters.
    fn column(&self, expr: &Expr) -> Option<usize> {
        let slot = match &expr.node {
            Node::Column(slot) => *slot,
            Node::Cast { input, .. }
                if expr.ty.kind == TypeKind::Text && input.ty.kind == TypeKind::VarChar =>
            {
                return self.column(input);
            }
            _ => return None,
        };
        let column = slot.checked_sub(self.columns.first_slot)?;
        self.columns.read.contains(&column).then_some(column)
    }

    fn kind(&self, column: usize) -> Option<TypeKind> {
        self.columns.layout.kind(column)
    }

    /// Computes an expression that is the same for all rows of the scan.
    fn constant(&self, expr: &Expr) -> Option<Value> {
        let mut reads_columns = false;
        expr.for_each_column(&mut |_| reads_columns = true);
        let varies =
            reads_columns || expr.has_subquery() || expr.volatility() == Volatility::Volatile;
        if varies {
            return None;
        }
        (self.constant)(expr).ok()
    }
}

/// Returns the test of a column of a type against a constant.
fn with_constant(kind: TypeKind, column: usize, op: CompareOp, value: &Value) -> Option<Test> {
    if value.is_null() {
        return Some(Test::Never);
    }
    let integer = |value: i64| Some(Test::Integer(column, op, value));
    match (kind, value) {
        (kind, value) if is_int(kind) => integer(value.as_int()?),
        (TypeKind::Date, Value::Date(value)) => integer(i64::from(*value)),
        (TypeKind::Timestamp, Value::Timestamp(value))
        | (TypeKind::TimestampTz, Value::TimestampTz(value))
        | (TypeKind::Time, Value::Time(value)) => integer(*value),
        (TypeKind::Numeric, Value::Numeric(value)) => {
            let (digits, scale) = (value.mantissa(), value.scale());
            Some(Test::Decimal(column, op, ScaledNumber { digits, scale }))
        }
        (kind, Value::Text(value)) if kind.is_string() => {
            Some(Test::Text(column, op, value.as_bytes().into()))
        }
        _ => None,
    }
}

/// Combines equalities of one column with constants, of which one must hold.
fn one_of(equalities: Vec<Test>) -> Test {
    let (mut integers, mut texts, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut of_column = 0;
    for equality in equalities {
        match equality {
            Test::Integer(column, _, value) => {
                of_column = column;
                integers.push(value);
            }
            Test::Text(column, _, value) => {
                of_column = column;
                texts.push(value);
            }
            // The result is never true for NULL.
            Test::Never => {}
            other => others.push(vec![other]),
        }
    }
    integers.sort_unstable();
    texts.sort_unstable();
    match (integers.is_empty(), texts.is_empty()) {
        (false, _) => Test::IntegerIn(of_column, integers),
        (_, false) => Test::TextIn(of_column, texts),
        (true, true) => Test::Any(others),
    }
}

fn is_int(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8)
}

/// Returns whether values of a type other than an integer type are one integer, and compare so.
fn is_number_alone(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Date | TypeKind::Timestamp | TypeKind::TimestampTz | TypeKind::Time
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_different_decimal_places_compare_as_numbers() {
        let number = |digits, scale| ScaledNumber { digits, scale };
        assert_eq!(number(24, 0).compare(2_399, 2), Ordering::Less);
        assert_eq!(number(24, 0).compare(2_400, 2), Ordering::Equal);
        assert_eq!(number(500, 3).compare(5, 1), Ordering::Equal);
        assert_eq!(number(501, 3).compare(5, 1), Ordering::Less);
        let large = (1i128 << 96) - 1;
        assert_eq!(number(large, 28).compare(large, 0), Ordering::Greater);
        assert_eq!(number(large, 0).compare(-large, 28), Ordering::Less);
        assert_eq!(number(-large, 0).compare(1, 28), Ordering::Greater);
    }
}
