//! What is shown, as PostgreSQL's parse trees have it: all names resolved, all casts there.

use crate::types::TypeKind;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    /// A column, qualified as it has to be.
    Var(String),
    /// A constant: its text, and the name of its type.
    Const {
        text: Option<String>,
        kind: TypeKind,
        label: String,
    },
    /// What has delimiters of its own: `name(…)`, `ARRAY[…]`.
    Call {
        pieces: Vec<Piece>,
        /// A function, which ORDER BY and GROUP BY put into parentheses.
        function: bool,
    },
    Cast {
        input: Box<Tree>,
        kind: TypeKind,
        label: String,
        implicit: bool,
    },
    Op {
        symbol: String,
        left: Option<Box<Tree>>,
        right: Box<Tree>,
    },
    /// `left symbol ANY (right)`
    Quantified {
        left: Box<Tree>,
        symbol: String,
        word: &'static str,
        right: Box<Tree>,
    },
    /// AND or OR.
    Bool {
        and: bool,
        parts: Vec<Tree>,
    },
    Not(Box<Tree>),
    /// `input IS NULL` and the like.
    Test {
        input: Box<Tree>,
        suffix: String,
        /// Casts of the input are shown.
        casts: bool,
    },
    Distinct(Box<Tree>, Box<Tree>),
    Case {
        operand: Option<Box<Tree>>,
        branches: Vec<(Tree, Tree)>,
        otherwise: Box<Tree>,
    },
    /// `base[at]`, `base[from:to]`
    Subscript {
        base: Box<Tree>,
        at: Vec<Subscript>,
    },
    /// `ROW(…) < ROW(…)`
    Rows {
        left: Vec<Tree>,
        symbol: String,
        right: Vec<Tree>,
    },
    /// A query in an expression.
    Query {
        kind: QueryKind,
        left: Vec<Tree>,
        query: Box<Query>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum QueryKind {
    Scalar,
    Array,
    Exists,
    /// `left IN (…)`, `left = ALL (…)`: what stands before the query.
    Compared(String),
}

#[derive(Clone, Debug)]
pub(super) enum Subscript {
    At(Tree),
    Slice(Option<Tree>, Option<Tree>),
}

/// A part of a call.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    /// An expression, its casts shown.
    Tree(Tree),
    /// An expression without the implicit cast around it.
    Plain(Tree),
    /// The same, in parentheses where it needs them.
    Operand(Tree),
    /// Keys of an ORDER BY or PARTITION BY.
    Keys(Vec<SortKey>),
}

/// An expression that rows are sorted or grouped by.
#[derive(Clone, Debug)]
pub(super) struct SortKey {
    pub(super) by: SortBy,
    /// ` DESC`, ` NULLS FIRST`
    pub(super) suffix: &'static str,
}

#[derive(Clone, Debug)]
pub(super) enum SortBy {
    Tree(Tree),
    /// A column of a set operation, from 1.
    Number(usize),
}

/// A query.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) recursive: bool,
    pub(super) with: Vec<With>,
    pub(super) body: Body,
    pub(super) order: Vec<SortKey>,
    pub(super) limit: Option<Tree>,
    pub(super) ties: bool,
    pub(super) offset: Option<Tree>,
    pub(super) locks: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct With {
    /// Its name and columns.
    pub(super) name: String,
    pub(super) materialized: &'static str,
    pub(super) query: Query,
    /// SEARCH and CYCLE, with a blank before them.
    pub(super) clauses: String,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Tree>>),
    Set(Box<Set>),
}

/// `left UNION right`
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// `UNION`, `UNION ALL`
    pub(super) words: String,
    pub(super) left: Side,
    pub(super) right: Side,
}

#[derive(Clone, Debug)]
pub(super) enum Side {
    Query(Box<Query>),
    Set(Box<Set>),
}

#[derive(Clone, Debug)]
pub(super) struct Select {
    pub(super) distinct: Option<Vec<SortKey>>,
    pub(super) targets: Vec<Target>,
    pub(super) from: Vec<From>,
    pub(super) filter: Option<Tree>,
    pub(super) groups: Vec<Group>,
    pub(super) having: Option<Tree>,
    pub(super) windows: Vec<(String, Vec<Piece>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) tree: Tree,
    pub(super) name: String,
    /// The name of the column that it is.
    pub(super) column: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Group {
    Key(SortKey),
    /// `ROLLUP`, `CUBE` or `GROUPING SETS`.
    Sets(&'static str, Vec<Vec<SortKey>>),
}

#[derive(Clone, Debug)]
pub(super) enum From {
    Leaf {
        lateral: bool,
        source: Source,
        /// The alias and its columns.
        alias: String,
    },
    Join {
        words: &'static str,
        left: Box<From>,
        right: Box<From>,
        using: Vec<String>,
        /// What the join is called, `USING (…) AS alias`.
        alias: Option<String>,
        on: Option<Tree>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Name(String),
    Query(Query),
    Call { call: Tree, ordinality: bool },
}
