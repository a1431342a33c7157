//! How a scan reaches its rows: by whole keys, by ranges of keys, or through the whole index.

use fencepost_sql::bound::{Expr, Node};

/// How a scan reaches its rows.
#[derive(Debug)]
pub enum Access {
    /// The whole index, from one end to the other.
    Full,
    /// Whole unique keys; each has at most one row.
    Points(Vec<KeyTerm>),
    /// Key ranges: one set of bounds, or one for each branch of an OR. The ranges of two branches
    /// may overlap; the scan reads each key once.
    Ranges(Vec<KeyBounds>),
}

impl Access {
    /// Returns the expressions of the keys.
    pub fn values(&self) -> impl Iterator<Item = &Expr> {
        let (terms, branches): (&[KeyTerm], &[KeyBounds]) = match self {
            Access::Full => (&[], &[]),
            Access::Points(terms) => (terms, &[]),
            Access::Ranges(branches) => (&[], branches),
        };
        let points = terms.iter().flat_map(KeyTerm::values);
        points.chain(branches.iter().flat_map(KeyBounds::values))
    }
}

/// A range of keys: equality on the leading columns, then optionally bounds on the next column.
#[derive(Debug)]
pub struct KeyBounds {
    /// Equality on the leading key columns.
    pub prefix: Vec<KeyTerm>,
    /// The lower bound of the next column, and whether the bound is inclusive.
    pub lower: Option<(Expr, bool)>,
    /// The upper bound of the next column, and whether the bound is inclusive.
    pub upper: Option<(Expr, bool)>,
}

impl KeyBounds {
    /// Returns the value of the first key column, if the range fixes that column to one value.
    pub fn first_value(&self) -> Option<&Expr> {
        match self.prefix.first() {
            Some(KeyTerm::One(value)) => Some(value),
            Some(KeyTerm::Any(_) | KeyTerm::Members(_)) | None => None,
        }
    }

    /// Returns the expressions of the prefix and of the bounds.
    pub fn values(&self) -> impl Iterator<Item = &Expr> {
        let ends = self.lower.iter().chain(&self.upper);
        let prefix = self.prefix.iter().flat_map(KeyTerm::values);
        prefix.chain(ends.map(|(value, _)| value))
    }
}

/// The values that one key column must equal.
#[derive(Debug)]
pub enum KeyTerm {
    /// A single value.
    One(Expr),
    /// One of several values. A key or a range has at most one `Any` or `Members` term. A single
    /// array here stands for its elements.
    Any(Vec<Expr>),
    /// One of the values that a subquery returns. The expression is the condition `… = ANY
    /// (query)`.
    Members(Expr),
}

impl KeyTerm {
    /// Returns the expressions of the values.
    pub fn values(&self) -> &[Expr] {
        match self {
            KeyTerm::One(value) | KeyTerm::Members(value) => std::slice::from_ref(value),
            KeyTerm::Any(values) => values,
        }
    }
}

/// Returns whether all terms are single parameters or constants, which are free to evaluate.
#[inline]
pub fn are_plain(terms: &[KeyTerm]) -> bool {
    let is_plain = |term: &KeyTerm| match term {
        KeyTerm::One(expr) => matches!(expr.node, Node::Param(_) | Node::Const(_)),
        KeyTerm::Any(_) | KeyTerm::Members(_) => false,
    };
    terms.iter().all(is_plain)
}
