//! Relations in FROM that consist of queries: set operations, CTEs, recursive queries and lateral
//! relations.

use std::sync::Arc;

use super::expr::Expr;
use super::select::{LeafSource, Select};

/// A set operation on the rows of two queries.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOperation {
    /// The operation.
    pub op: SetOp,
    /// ALL: duplicate rows are kept.
    pub all: bool,
    /// The left query.
    pub left: Select,
    /// The right query, with the same types.
    pub right: Select,
}

/// The kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// The rows of both queries.
    Union,
    /// The rows that both queries return.
    Intersect,
    /// The rows that only the left query returns.
    Except,
}

impl SetOp {
    /// Returns the SQL keyword.
    pub fn name(self) -> &'static str {
        match self {
            SetOp::Union => "UNION",
            SetOp::Intersect => "INTERSECT",
            SetOp::Except => "EXCEPT",
        }
    }
}

/// A CTE. All its readers share its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its number; CTEs share a sequence of numbers with the subqueries in expressions.
    pub id: usize,
    /// Its name.
    pub name: String,
    /// MATERIALIZED: its rows are stored even if only one relation reads them.
    pub materialized: bool,
    /// Whether each execution may return other rows.
    pub volatile: bool,
    /// The outer slots that the query reads, with their expressions.
    pub args: Vec<(usize, Expr)>,
    /// The query.
    pub query: Arc<Select>,
}

/// A recursive query: each round reads the rows of the previous round, until a round returns none.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursive {
    /// The number of the work table, which holds the rows of the last round.
    pub work: usize,
    /// UNION ALL: duplicate rows are kept.
    pub all: bool,
    /// The non-recursive term, which is the first round.
    pub base: Select,
    /// The recursive term, which is each further round.
    pub step: Select,
}

/// A relation that reads columns of the relations to its left in FROM.
#[derive(Clone, Debug, PartialEq)]
pub struct Lateral {
    /// The outer slots that the relation reads, with their expressions over the from row.
    pub args: Vec<(usize, Expr)>,
    /// The relation.
    pub source: LeafSource,
}

impl LeafSource {
    /// Returns the source itself, without the lateral references around it.
    pub fn inner(&self) -> &LeafSource {
        match self {
            LeafSource::Lateral(lateral) => &lateral.source,
            other => other,
        }
    }

    /// Calls `f` on each query that the source consists of.
    pub(super) fn for_each_part<'a>(&'a self, f: &mut dyn FnMut(SourceQuery<'a>)) {
        match self.inner() {
            LeafSource::Subquery(select) => f(SourceQuery::Query(select)),
            LeafSource::Set(set) => {
                f(SourceQuery::Query(&set.left));
                f(SourceQuery::Query(&set.right));
            }
            LeafSource::Recursive(recursive) => {
                f(SourceQuery::Query(&recursive.base));
                f(SourceQuery::Query(&recursive.step));
            }
            LeafSource::Cte(cte) => f(SourceQuery::Cte(cte)),
            LeafSource::Table(_)
            | LeafSource::Function { .. }
            | LeafSource::System(_)
            | LeafSource::Values(_)
            | LeafSource::Work(_)
            | LeafSource::Lateral(_) => {}
        }
    }
}

/// A query that a source consists of.
pub(super) enum SourceQuery<'a> {
    /// A query that belongs to this source only.
    Query(&'a Select),
    /// A query that other relations may share.
    Cte(&'a Arc<Cte>),
}
