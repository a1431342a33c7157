//! A bound SELECT: from, filter, group, having, targets, distinct, order, limit.
//!
//! ```text
//!   from row ──filter──▶ [group row ──having──▶] targets ──distinct──▶ order ──▶ offset/limit
//! ```
//! Sort keys are targets: an ORDER BY expression that is not in the select list becomes a hidden
//! target behind the visible ones, so that it is evaluated once a row.

use std::sync::Arc;

use fencepost_txn::Strength;

use super::expr::{Expr, Node};
use super::ordered_set::OrderedSet;
use super::relation::{Cte, Lateral, Recursive, SetOperation};
use super::window::WindowCall;
use crate::catalog::TableDef;
use crate::system::SystemTable;
use crate::types::Type;

/// A SELECT, or VALUES, which is a SELECT from a list of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Where rows come from.
    pub from: From,
    /// WHERE, over the from row.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates; `None` for a plain select.
    pub grouping: Option<Grouping>,
    /// HAVING, over the group row.
    pub having: Option<Expr>,
    /// Window calls, over the from row or the group row: targets find their values in the slots behind it.
    pub windows: Vec<WindowCall>,
    /// The select list, `visible` of them for the client, then hidden sort keys.
    pub targets: Vec<Target>,
    /// How many targets the client sees.
    pub visible: usize,
    /// DISTINCT over the visible targets.
    pub distinct: bool,
    /// DISTINCT ON: over these targets instead, and the first row of several is kept.
    pub distinct_on: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<OrderKey>,
    /// LIMIT, a bigint without columns; NULL is no limit.
    pub limit: Option<Expr>,
    /// WITH TIES: rows that the order does not tell from the last one come, too.
    pub with_ties: bool,
    /// OFFSET, a bigint without columns; NULL is 0.
    pub offset: Option<Expr>,
    /// Rows that OFFSET passes over are given, too: whoever reads them passes them over.
    pub gives_skipped: bool,
    /// FOR UPDATE or FOR SHARE.
    pub locking: Option<Locking>,
    /// It is a cursor's: the places of its rows are wanted, where they are those of one table.
    pub places: bool,
    /// The oid of the view whose query it is.
    pub view: Option<u32>,
}

impl Select {
    /// These targets, all of them for the client, over all rows of `from`.
    pub fn over(from: From, targets: Vec<Target>) -> Select {
        Select {
            from,
            filter: None,
            grouping: None,
            having: None,
            windows: Vec::new(),
            visible: targets.len(),
            targets,
            distinct: false,
            distinct_on: Vec::new(),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            with_ties: false,
            gives_skipped: false,
            locking: None,
            places: false,
            view: None,
        }
    }
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum From {
    /// No FROM: one row without columns.
    Nothing,
    /// One relation.
    Leaf(Leaf),
    /// Two sides joined.
    Join(Box<Join>),
}

/// One relation in a FROM tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// What gives the rows.
    pub source: LeafSource,
    /// The name it goes by.
    pub alias: String,
    /// The names of its columns (after a column alias list).
    pub column_names: Vec<String>,
    /// The types of its columns.
    pub column_types: Vec<Type>,
    /// Its first slot in the from row.
    pub first_slot: usize,
}

/// What gives the rows of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum LeafSource {
    /// A table.
    Table(Arc<TableDef>),
    /// A subquery; it sees nothing of its surroundings.
    Subquery(Box<Select>),
    /// A function in FROM; its arguments read no columns.
    Function {
        /// Which.
        function: TableFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A table of the system.
    System(SystemTable),
    /// VALUES; the expressions read no columns and have the leaf's column types.
    Values(Vec<Vec<Expr>>),
    /// Two queries put together.
    Set(Box<SetOperation>),
    /// A query of WITH.
    Cte(Arc<Cte>),
    /// A query that reads its own rows.
    Recursive(Box<Recursive>),
    /// What the last round of a recursive query gave, by the number of its work table.
    Work(usize),
    /// A source that reads columns of what stands left of it.
    Lateral(Box<Lateral>),
}

/// A function that gives rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFunction {
    /// generate_series(start, stop [, step]) over integer, bigint or numeric: the leaf's one column
    /// type, which all arguments have; over timestamps the step is an interval. NULL anywhere gives no rows, step 0 is 22023.
    GenerateSeries,
    /// txid_status(number): how a transaction ended, in one row of text; NULL where the number is, or where that is too
    /// long ago.
    TxidStatus,
    /// A sequence as a relation of one row: its last value, 0, and whether that was given. The argument is its oid.
    Sequence,
    /// The elements of arrays: one array whose rows are the rows if it is `wide`, else an array a column.
    Rows {
        /// One array of rows.
        wide: bool,
        /// A column more numbers the rows.
        ordinality: bool,
    },
    /// A function of users; its call is the one argument.
    Routine {
        /// A column more numbers the rows.
        ordinality: bool,
    },
}

impl TableFunction {
    /// The function of a name.
    pub fn of(name: &str) -> Option<TableFunction> {
        let all = [TableFunction::GenerateSeries, TableFunction::TxidStatus];
        all.into_iter().find(|function| function.name() == name)
    }

    /// The name that it is called by.
    pub fn name(self) -> &'static str {
        match self {
            TableFunction::GenerateSeries => "generate_series",
            TableFunction::TxidStatus => "txid_status",
            TableFunction::Sequence => "sequence",
            TableFunction::Rows { .. } => "unnest",
            TableFunction::Routine { .. } => "a function",
        }
    }
}

/// Two sides joined. The row is the left row and the right row side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// Which rows stay.
    pub kind: JoinKind,
    /// The left side.
    pub left: From,
    /// The right side.
    pub right: From,
    /// The condition, over the from row; `None` is true.
    pub on: Option<Expr>,
}

/// Which rows of a join stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Only pairs; CROSS JOIN and the comma too.
    Inner,
    /// Left rows without a partner too.
    Left,
    /// Right rows without a partner too.
    Right,
    /// Both.
    Full,
}

/// GROUP BY and aggregates. Without keys there is exactly one group, also over no rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The keys, over the from row. With grouping sets the last of them stands for the number of the set.
    pub keys: Vec<Expr>,
    /// GROUPING SETS: which keys each has, the others are NULL; empty for a plain GROUP BY.
    pub sets: Vec<Vec<usize>>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
}

/// One aggregate call.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Which.
    pub kind: AggregateKind,
    /// Over distinct arguments only.
    pub distinct: bool,
    /// The arguments, over the from row.
    pub args: Vec<Expr>,
    /// FILTER (WHERE …), over the from row.
    pub filter: Option<Expr>,
    /// ORDER BY inside the call: expression, descending, nulls first.
    pub order_by: Vec<(Expr, bool, bool)>,
    /// The type of the result.
    pub ty: Type,
}

impl Aggregate {
    /// Returns whether its arguments are direct ones, of a call with WITHIN GROUP.
    pub fn has_direct_args(&self) -> bool {
        matches!(self.kind, AggregateKind::OrderedSet(_)) && !self.args.is_empty()
    }

    /// Returns whether more than columns is computed of a row for it.
    pub fn computes(&self) -> bool {
        let keys = self.order_by.iter().map(|(key, ..)| key);
        let mut all = self.args.iter().chain(&self.filter).chain(keys);
        all.any(|expr| !matches!(expr.node, Node::Column(_)))
    }
}

/// The aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// count(*)
    CountStar,
    /// count(x)
    Count,
    /// sum(x)
    Sum,
    /// avg(x)
    Avg,
    /// min(x)
    Min,
    /// max(x)
    Max,
    /// bool_and(x), every(x)
    BoolAnd,
    /// bool_or(x)
    BoolOr,
    /// string_agg(x, separator)
    StringAgg,
    /// array_agg(x)
    ArrayAgg,
    /// json_agg(x), x made JSON
    JsonAgg,
    /// jsonb_agg(x), x made JSON
    JsonbAgg,
    /// json_object_agg(key, x), x made JSON
    JsonObjectAgg,
    /// jsonb_object_agg(key, x), x made JSON
    JsonbObjectAgg,
    /// bit_and(x)
    BitAnd,
    /// bit_or(x)
    BitOr,
    /// bit_xor(x)
    BitXor,
    /// A variance, or what is made of one.
    Statistic(Statistic),
    /// One with WITHIN GROUP: its arguments are the direct ones, and its order is that of the rows.
    OrderedSet(OrderedSet),
}

/// Variances, and what is made of them; those of two variables over doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// var_pop(x)
    VarPop,
    /// var_samp(x), variance(x)
    VarSamp,
    /// stddev_pop(x)
    StddevPop,
    /// stddev_samp(x), stddev(x)
    StddevSamp,
    /// covar_pop(y, x)
    CovarPop,
    /// covar_samp(y, x)
    CovarSamp,
    /// corr(y, x)
    Corr,
    /// regr_count(y, x)
    RegrCount,
    /// regr_avgx(y, x)
    RegrAvgX,
    /// regr_avgy(y, x)
    RegrAvgY,
    /// regr_sxx(y, x)
    RegrSxx,
    /// regr_syy(y, x)
    RegrSyy,
    /// regr_sxy(y, x)
    RegrSxy,
    /// regr_slope(y, x)
    RegrSlope,
    /// regr_intercept(y, x)
    RegrIntercept,
    /// regr_r2(y, x)
    RegrR2,
}

impl Statistic {
    /// By the names they are called by.
    const NAMES: [(&'static str, Statistic); 18] = [
        ("var_pop", Statistic::VarPop),
        ("var_samp", Statistic::VarSamp),
        ("variance", Statistic::VarSamp),
        ("stddev_pop", Statistic::StddevPop),
        ("stddev_samp", Statistic::StddevSamp),
        ("stddev", Statistic::StddevSamp),
        ("covar_pop", Statistic::CovarPop),
        ("covar_samp", Statistic::CovarSamp),
        ("corr", Statistic::Corr),
        ("regr_count", Statistic::RegrCount),
        ("regr_avgx", Statistic::RegrAvgX),
        ("regr_avgy", Statistic::RegrAvgY),
        ("regr_sxx", Statistic::RegrSxx),
        ("regr_syy", Statistic::RegrSyy),
        ("regr_sxy", Statistic::RegrSxy),
        ("regr_slope", Statistic::RegrSlope),
        ("regr_intercept", Statistic::RegrIntercept),
        ("regr_r2", Statistic::RegrR2),
    ];

    /// The statistic of a name.
    pub fn of(name: &str) -> Option<Statistic> {
        let found = Statistic::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, statistic)| *statistic)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        let found = Statistic::NAMES.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// Is it one of a single variable?
    pub fn is_single(self) -> bool {
        matches!(
            self,
            Statistic::VarPop | Statistic::VarSamp | Statistic::StddevPop | Statistic::StddevSamp
        )
    }
}

/// One expression of the select list.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The column's name for the client.
    pub name: String,
    /// Its value.
    pub expr: Expr,
    /// The table column it is, if it is just that.
    pub origin: Option<ColumnOrigin>,
}

/// A column of a table, for the row description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnOrigin {
    /// The table's oid.
    pub table: u32,
    /// The column's number.
    pub attnum: i16,
}

/// One ORDER BY key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// Position in `Select::targets`.
    pub target: usize,
    /// Descending.
    pub desc: bool,
    /// NULLs first (the default for descending).
    pub nulls_first: bool,
}

/// Row locking asked for by a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locking {
    /// How.
    pub hold: Hold,
    /// OF: the first slots of the relations whose rows are locked; none are all.
    pub of: Vec<usize>,
}

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// FOR SHARE and FOR KEY SHARE go together; FOR UPDATE and FOR NO KEY UPDATE with nothing.
    pub strength: Strength,
    /// What to do where somebody else has it locked.
    pub wait: WaitPolicy,
}

impl Hold {
    /// The lock of DELETE, and of UPDATE of a key.
    pub const CHANGED: Hold = Hold {
        strength: Strength::Update,
        wait: WaitPolicy::Block,
    };
    /// The lock of UPDATE of columns that are in no unique index.
    pub const CHANGED_NO_KEY: Hold = Hold {
        strength: Strength::NoKeyUpdate,
        wait: WaitPolicy::Block,
    };
}

/// What to do where a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Wait.
    Block,
    /// NOWAIT: fail with 55P03.
    NoWait,
    /// SKIP LOCKED.
    Skip,
}

impl From {
    /// How many slots it has.
    pub fn width(&self) -> usize {
        match self {
            From::Nothing => 0,
            From::Leaf(leaf) => leaf.width(),
            From::Join(join) => join.left.width() + join.right.width(),
        }
    }

    /// Its first slot in the from row.
    pub fn first_slot(&self) -> usize {
        match self {
            From::Nothing => 0,
            From::Leaf(leaf) => leaf.first_slot,
            From::Join(join) => join.left.first_slot(),
        }
    }

    /// Calls `f` on each leaf, from left to right, to change it.
    pub fn for_each_leaf_mut(&mut self, f: &mut dyn FnMut(&mut Leaf)) {
        match self {
            From::Nothing => {}
            From::Leaf(leaf) => f(leaf),
            From::Join(join) => {
                join.left.for_each_leaf_mut(f);
                join.right.for_each_leaf_mut(f);
            }
        }
    }

    /// Calls `f` on each leaf, from left to right.
    pub fn for_each_leaf<'a>(&'a self, f: &mut dyn FnMut(&'a Leaf)) {
        match self {
            From::Nothing => {}
            From::Leaf(leaf) => f(leaf),
            From::Join(join) => {
                join.left.for_each_leaf(f);
                join.right.for_each_leaf(f);
            }
        }
    }
}

impl Leaf {
    /// How many slots it has.
    pub fn width(&self) -> usize {
        self.column_types.len()
    }
}

impl Select {
    /// The targets the client sees.
    pub fn columns(&self) -> &[Target] {
        &self.targets[..self.visible]
    }

    /// Calls `f` on each table it reads, those of all queries in it too.
    pub fn for_each_table<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<TableDef>)) {
        self.for_each_query(&mut |query| {
            query.from.for_each_leaf(&mut |leaf| {
                if let LeafSource::Table(table) = &leaf.source {
                    f(table);
                }
            });
        });
    }
}
