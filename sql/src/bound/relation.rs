//! Relations in FROM that are made of queries: of two by UNION and the like, of one by WITH, of one for each row of
//! what stands left of it.

use std::sync::Arc;

use super::expr::Expr;
use super::select::{LeafSource, Select};

/// The rows of two queries put together.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOperation {
    /// How.
    pub op: SetOp,
    /// ALL: equal rows count each for itself.
    pub all: bool,
    /// The left query.
    pub left: Select,
    /// The right query, with the same types.
    pub right: Select,
}

/// How the rows of two queries are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// Those of both.
    Union,
    /// Those that both have.
    Intersect,
    /// Those that only the left one has.
    Except,
}

impl SetOp {
    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            SetOp::Union => "UNION",
            SetOp::Intersect => "INTERSECT",
            SetOp::Except => "EXCEPT",
        }
    }
}

/// A query of WITH. All that read it share its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its number, among those of queries in expressions.
    pub id: usize,
    /// Its name.
    pub name: String,
    /// MATERIALIZED: its rows are kept even where only one reads them.
    pub materialized: bool,
    /// It may give something else each time that it runs.
    pub volatile: bool,
    /// The outer slots that it reads, and what goes into them.
    pub args: Vec<(usize, Expr)>,
    /// The query.
    pub query: Arc<Select>,
}

/// A query that reads its own rows: those of the last round, until a round gives none.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursive {
    /// The number of the table with the last round's rows.
    pub work: usize,
    /// UNION ALL: rows may come again.
    pub all: bool,
    /// The first round.
    pub base: Select,
    /// Each further round.
    pub step: Select,
}

/// A relation that reads columns of what stands left of it in FROM.
#[derive(Clone, Debug, PartialEq)]
pub struct Lateral {
    /// The outer slots that it reads, and what goes into them, over the from row.
    pub args: Vec<(usize, Expr)>,
    /// The relation.
    pub source: LeafSource,
}

impl LeafSource {
    /// The source itself, whatever it reads of what stands left of it.
    pub fn inner(&self) -> &LeafSource {
        match self {
            LeafSource::Lateral(lateral) => &lateral.source,
            other => other,
        }
    }

    /// Calls `f` on each query that it is made of.
    pub(super) fn for_each_part<'a>(&'a self, f: &mut dyn FnMut(Part<'a>)) {
        match self.inner() {
            LeafSource::Subquery(select) => f(Part::Query(select)),
            LeafSource::Set(set) => {
                f(Part::Query(&set.left));
                f(Part::Query(&set.right));
            }
            LeafSource::Recursive(recursive) => {
                f(Part::Query(&recursive.base));
                f(Part::Query(&recursive.step));
            }
            LeafSource::Cte(cte) => f(Part::Cte(cte)),
            LeafSource::Table(_)
            | LeafSource::Function { .. }
            | LeafSource::System(_)
            | LeafSource::Values(_)
            | LeafSource::Work(_)
            | LeafSource::Lateral(_) => {}
        }
    }
}

/// What a source is made of.
pub(super) enum Part<'a> {
    /// A query of its own.
    Query(&'a Select),
    /// A query that it may share.
    Cte(&'a Arc<Cte>),
}
