//! Window functions: calls that read the rows around the current row.

use super::expr::Expr;
use super::select::Aggregate;
use crate::types::Type;

/// A call with OVER. Its expressions read the row that targets read: the from row, or the group
/// row.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// The function.
    pub function: WindowFunction,
    /// The arguments, unless the function is an aggregate.
    pub args: Vec<Expr>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY: the expression, whether it is descending, and whether NULLs come first.
    pub order_by: Vec<(Expr, bool, bool)>,
    /// The rows of the partition that the function reads.
    pub frame: Frame,
    /// The type of the result.
    pub ty: Type,
}

/// A function that is called with OVER.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowFunction {
    /// row_number()
    RowNumber,
    /// rank()
    Rank,
    /// dense_rank()
    DenseRank,
    /// percent_rank()
    PercentRank,
    /// cume_dist()
    CumeDist,
    /// ntile(buckets)
    Ntile,
    /// lag(value [, offset [, default]])
    Lag,
    /// lead(value [, offset [, default]])
    Lead,
    /// first_value(value)
    FirstValue,
    /// last_value(value)
    LastValue,
    /// nth_value(value, n)
    NthValue,
    /// An aggregate over the frame.
    Aggregate(Box<Aggregate>),
}

impl WindowFunction {
    /// Returns the pure window function of this name; `None` for other names.
    pub fn of(name: &str) -> Option<WindowFunction> {
        Some(match name {
            "row_number" => WindowFunction::RowNumber,
            "rank" => WindowFunction::Rank,
            "dense_rank" => WindowFunction::DenseRank,
            "percent_rank" => WindowFunction::PercentRank,
            "cume_dist" => WindowFunction::CumeDist,
            "ntile" => WindowFunction::Ntile,
            "lag" => WindowFunction::Lag,
            "lead" => WindowFunction::Lead,
            "first_value" => WindowFunction::FirstValue,
            "last_value" => WindowFunction::LastValue,
            "nth_value" => WindowFunction::NthValue,
            _ => return None,
        })
    }
}

/// A window frame: a part of the partition, relative to the current row.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The unit of the bounds.
    pub unit: FrameUnit,
    /// The start of the frame.
    pub start: FrameBound,
    /// The end of the frame.
    pub end: FrameBound,
    /// The rows that are excluded.
    pub exclude: Exclude,
}

/// The frame exclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclude {
    /// EXCLUDE NO OTHERS: no row is excluded.
    NoOthers,
    /// EXCLUDE CURRENT ROW: the current row is excluded.
    Current,
    /// EXCLUDE GROUP: the current row and its peers by ORDER BY are excluded.
    Group,
    /// EXCLUDE TIES: the peers of the current row are excluded, but not the row itself.
    Ties,
}

/// The unit of frame bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Distances in the value of the single ORDER BY expression; CURRENT ROW includes all rows
    /// equal to it.
    Range,
    /// Peer groups, whose rows are equal by ORDER BY.
    Groups,
}

/// A bound of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    /// UNBOUNDED PRECEDING
    First,
    /// … PRECEDING
    Preceding(FrameOffset),
    /// CURRENT ROW
    Current,
    /// … FOLLOWING
    Following(FrameOffset),
    /// UNBOUNDED FOLLOWING
    Last,
}

/// The distance of a bound from the current row.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameOffset {
    /// The distance: a bigint for rows and groups.
    pub by: Expr,
    /// RANGE: the value of the bound, over the current row's value in slot 0 and the offset in slot
    /// 1.
    pub value: Option<Expr>,
}

impl WindowCall {
    /// Calls `f` on each expression that reads the row.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        self.args.iter().for_each(&mut *f);
        if let WindowFunction::Aggregate(aggregate) = &self.function {
            aggregate.args.iter().for_each(&mut *f);
            aggregate.filter.iter().for_each(&mut *f);
        }
        self.partition_by.iter().for_each(&mut *f);
        self.order_by.iter().for_each(|(key, ..)| f(key));
    }

    /// Calls `f` on each expression that reads the row; it may change the expression.
    pub fn for_each_expr_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        self.args.iter_mut().for_each(&mut *f);
        if let WindowFunction::Aggregate(aggregate) = &mut self.function {
            aggregate.args.iter_mut().for_each(&mut *f);
            aggregate.filter.iter_mut().for_each(&mut *f);
        }
        self.partition_by.iter_mut().for_each(&mut *f);
        self.order_by.iter_mut().for_each(|(key, ..)| f(key));
    }
}
