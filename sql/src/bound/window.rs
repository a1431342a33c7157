//! Window functions: calls that see the rows around the one they stand in.

use super::expr::Expr;
use super::select::Aggregate;
use crate::types::Type;

/// A call with OVER. Its expressions read the row that targets read: the from row, or the group row.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// Which function.
    pub function: WindowFunction,
    /// Its arguments, where it is no aggregate.
    pub args: Vec<Expr>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY: expression, descending, nulls first.
    pub order_by: Vec<(Expr, bool, bool)>,
    /// Which rows of the partition it sees.
    pub frame: Frame,
    /// The type of its value.
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
    /// The function of a name, where it is one that only stands with OVER.
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

/// A part of the partition, seen from a row of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// What bounds count.
    pub unit: FrameUnit,
    /// Where it starts.
    pub start: FrameBound,
    /// Where it ends.
    pub end: FrameBound,
    /// What of it is left out.
    pub exclude: Exclude,
}

/// Which rows of a frame are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclude {
    /// None.
    Nobody,
    /// The row itself.
    Current,
    /// The row and those that ORDER BY finds equal to it.
    Group,
    /// Those that ORDER BY finds equal to the row, but not the row.
    Ties,
}

/// What the bounds of a frame count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Rows by the value of the one ORDER BY expression; CURRENT ROW means all that are equal to it.
    Range,
    /// Groups of rows that ORDER BY finds equal.
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

/// How far from the row a bound is.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameOffset {
    /// How far: a bigint for rows and groups.
    pub by: Expr,
    /// RANGE: the bound's value, over the row's value in slot 0 and the offset's in slot 1.
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

    /// Calls `f` on each expression that reads the row, to change it.
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
