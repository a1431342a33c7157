//! The trees that are deparsed, as PostgreSQL's parse trees have them: all names are resolved and
//! all casts are explicit nodes.

use crate::types::TypeKind;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    /// A column, qualified if necessary.
    Var(String),
    /// A constant: its text, and the name of its type.
    Const {
        text: Option<String>,
        kind: TypeKind,
        label: String,
    },
    /// An expression with delimiters of its own: `name(…)`, `ARRAY[…]`.
    Call {
        pieces: Vec<Piece>,
        /// Whether it is a function call, which ORDER BY and GROUP BY put in parentheses.
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
    /// A postfix test such as `input IS NULL`.
    Test {
        input: Box<Tree>,
        suffix: String,
        /// Whether implicit casts of the input are displayed.
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
    /// A subquery in an expression.
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
    /// The text before the subquery, as in `left IN (…)` or `left = ALL (…)`.
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
    /// An expression with its implicit casts displayed.
    Tree(Tree),
    /// An expression without the implicit cast around it.
    Plain(Tree),
    /// An expression without the implicit cast, in parentheses if it needs them.
    Operand(Tree),
    /// The keys of an ORDER BY or PARTITION BY.
    Keys(Vec<SortKey>),
}

/// An expression that rows are sorted or grouped by.
#[derive(Clone, Debug)]
pub(super) struct SortKey {
    pub(super) by: SortBy,
    /// The options, such as ` DESC` or ` NULLS FIRST`.
    pub(super) suffix: &'static str,
}

#[derive(Clone, Debug)]
pub(super) enum SortBy {
    Tree(Tree),
    /// The number of a column of a set operation, from 1.
    Number(usize),
}

/// A query.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) recursive: bool,
    pub(super) with: Vec<CteText>,
    pub(super) body: Body,
    pub(super) order: Vec<SortKey>,
    pub(super) limit: Option<Tree>,
    pub(super) ties: bool,
    pub(super) offset: Option<Tree>,
    pub(super) locks: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct CteText {
    /// The name of the CTE and its columns.
    pub(super) name: String,
    pub(super) materialized: &'static str,
    pub(super) query: Query,
    /// The SEARCH and CYCLE clauses, with a leading blank.
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
    pub(super) from: Vec<FromItem>,
    pub(super) filter: Option<Tree>,
    pub(super) groups: Vec<Group>,
    pub(super) having: Option<Tree>,
    pub(super) windows: Vec<(String, Vec<Piece>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) tree: Tree,
    pub(super) name: String,
    /// The column name, if the target is a plain column.
    pub(super) column: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Group {
    Key(SortKey),
    /// The keys of one grouping set, or of one element of ROLLUP or CUBE.
    Set(Vec<SortKey>),
    /// `ROLLUP`, `CUBE` or `GROUPING SETS`, and its elements.
    Sets(&'static str, Vec<Group>),
}

#[derive(Clone, Debug)]
pub(super) enum FromItem {
    Leaf {
        lateral: bool,
        source: Source,
        /// The alias and its columns.
        alias: String,
    },
    Join {
        words: &'static str,
        left: Box<FromItem>,
        right: Box<FromItem>,
        using: Vec<String>,
        /// The alias of the join, `USING (…) AS alias`.
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
