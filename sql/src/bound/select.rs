//! A bound SELECT: from, filter, group, having, targets, distinct, order, limit.
//!
//! ```text
//!   from row ──filter──▶ [group row ──having──▶] targets ──distinct──▶ order ──▶ offset/limit
//! ```
//! Sort keys are targets. An ORDER BY expression that is not in the target list becomes a hidden
//! target behind the visible ones. So it is evaluated once for each row.

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
    /// The source of the rows.
    pub from: From,
    /// WHERE, over the from row.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates; `None` for a plain select.
    pub grouping: Option<Grouping>,
    /// HAVING, over the group row.
    pub having: Option<Expr>,
    /// The window calls, over the from row or the group row. Targets read their values in the slots
    /// behind that row.
    pub windows: Vec<WindowCall>,
    /// The target list: the `visible` targets for the client, then the hidden sort keys.
    pub targets: Vec<Target>,
    /// The number of targets that the client sees.
    pub visible: usize,
    /// DISTINCT over the visible targets.
    pub distinct: bool,
    /// DISTINCT ON: the positions of the targets whose values identify a group of rows. The first
    /// row of each group is kept.
    pub distinct_on: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<OrderKey>,
    /// LIMIT, a bigint without columns; NULL is no limit.
    pub limit: Option<Expr>,
    /// WITH TIES: rows whose sort keys equal those of the last row are returned, too.
    pub with_ties: bool,
    /// OFFSET, a bigint without columns; NULL is 0.
    pub offset: Option<Expr>,
    /// Whether the rows that OFFSET skips are returned as well; the reader skips them.
    pub gives_skipped: bool,
    /// FOR UPDATE or FOR SHARE.
    pub locking: Option<LockingClause>,
    /// Whether a cursor needs the locations of the rows, which exist for the rows of a single
    /// table.
    pub places: bool,
    /// The oid of the view to which the query belongs.
    pub view: Option<u32>,
}

impl Select {
    /// Returns a SELECT of these targets, all visible, over all rows of `from`.
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

/// The source of rows.
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
    /// The source of the rows.
    pub source: LeafSource,
    /// The name by which the query refers to it.
    pub alias: String,
    /// The names of its columns (after a column alias list).
    pub column_names: Vec<String>,
    /// The types of its columns.
    pub column_types: Vec<Type>,
    /// Its first slot in the from row.
    pub first_slot: usize,
}

/// The source of the rows of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum LeafSource {
    /// A table.
    Table(Arc<TableDef>),
    /// A subquery without references to outer queries.
    Subquery(Box<Select>),
    /// A function in FROM; its arguments read no columns.
    Function {
        /// The function.
        function: TableFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A system table.
    System(SystemTable),
    /// VALUES; the expressions read no columns and have the leaf's column types.
    Values(Vec<Vec<Expr>>),
    /// A set operation.
    Set(Box<SetOperation>),
    /// A CTE.
    Cte(Arc<Cte>),
    /// A recursive query.
    Recursive(Box<Recursive>),
    /// The rows of the last round of a recursive query, by the number of its work table.
    Work(usize),
    /// A source that reads columns of the relations to its left.
    Lateral(Box<Lateral>),
}

/// A set-returning function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFunction {
    /// generate_series(start, stop [, step]) over integer, bigint or numeric. The leaf has one
    /// column, and all arguments have its type; over timestamps the step is an interval. A NULL
    /// argument gives no rows; step 0 is 22023.
    GenerateSeries,
    /// txid_status(number): the outcome of a transaction, in one row of text. NULL if the number is
    /// NULL or the transaction is too long ago.
    TxidStatus,
    /// A sequence as a relation of one row: its last value, 0, and whether that value has been
    /// returned by nextval. The argument is the oid of the sequence.
    Sequence,
    /// The elements of arrays. If it is `wide`, the elements of one array are the rows; else there
    /// is one array for each column.
    Rows {
        /// Whether the argument is one array of rows.
        wide: bool,
        /// Whether there is one more column for the row number.
        ordinality: bool,
    },
    /// A user-defined function; its call is the only argument.
    Routine {
        /// Whether there is one more column for the row number.
        ordinality: bool,
    },
}

impl TableFunction {
    /// Returns the function of this name; `None` for other names.
    pub fn of(name: &str) -> Option<TableFunction> {
        let all = [TableFunction::GenerateSeries, TableFunction::TxidStatus];
        all.into_iter().find(|function| function.name() == name)
    }

    /// Returns the name by which queries call the function.
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

/// A join of two sides. Its row is the left row followed by the right row.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The kind of the join, which determines the rows without a partner.
    pub kind: JoinKind,
    /// The left side.
    pub left: From,
    /// The right side.
    pub right: From,
    /// The condition, over the from row; `None` is true.
    pub on: Option<Expr>,
}

/// The kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs only; CROSS JOIN and the comma are also of this kind.
    Inner,
    /// Pairs, and left rows without a partner.
    Left,
    /// Pairs, and right rows without a partner.
    Right,
    /// Pairs, and the rows of both sides without a partner.
    Full,
}

/// GROUP BY and aggregates. Without keys there is exactly one group, even without input rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The keys, over the from row. With grouping sets the last key stands for the number of the
    /// set.
    pub keys: Vec<Expr>,
    /// GROUPING SETS: the keys of each set, while the other keys are NULL; empty for a plain GROUP
    /// BY.
    pub sets: Vec<Vec<usize>>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
}

/// One aggregate call.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The aggregate function.
    pub kind: AggregateKind,
    /// Whether only distinct arguments are aggregated.
    pub distinct: bool,
    /// The arguments, over the from row.
    pub args: Vec<Expr>,
    /// FILTER (WHERE …), over the from row.
    pub filter: Option<Expr>,
    /// ORDER BY inside the call: the expression, whether it is descending, and whether NULLs come
    /// first.
    pub order_by: Vec<(Expr, bool, bool)>,
    /// The type of the result.
    pub ty: Type,
}

impl Aggregate {
    /// Returns whether the arguments are the direct arguments of a call with WITHIN GROUP.
    pub fn has_direct_args(&self) -> bool {
        matches!(self.kind, AggregateKind::OrderedSet(_)) && !self.args.is_empty()
    }

    /// Returns whether an argument, the filter or a sort key is more than a plain column.
    pub fn computes(&self) -> bool {
        let keys = self.order_by.iter().map(|(key, ..)| key);
        let mut all = self.args.iter().chain(&self.filter).chain(keys);
        all.any(|expr| !matches!(expr.node, Node::Column(_)))
    }
}

/// The kinds of aggregate functions.
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
    /// json_agg(x), with x converted to JSON
    JsonAgg,
    /// jsonb_agg(x), with x converted to JSON
    JsonbAgg,
    /// json_object_agg(key, x), with x converted to JSON
    JsonObjectAgg,
    /// jsonb_object_agg(key, x), with x converted to JSON
    JsonbObjectAgg,
    /// bit_and(x)
    BitAnd,
    /// bit_or(x)
    BitOr,
    /// bit_xor(x)
    BitXor,
    /// A variance, or a statistic derived from one.
    Statistic(Statistic),
    /// An ordered-set aggregate: its arguments are the direct ones, and ORDER BY is that of WITHIN
    /// GROUP.
    OrderedSet(OrderedSet),
}

/// Variances and the statistics derived from them; those of two variables take doubles.
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
    /// The statistics by their SQL names.
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

    /// Returns the statistic of this name; `None` for other names.
    pub fn of(name: &str) -> Option<Statistic> {
        let found = Statistic::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, statistic)| *statistic)
    }

    /// Returns the SQL name.
    pub fn name(self) -> &'static str {
        let found = Statistic::NAMES.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns whether the statistic has a single variable.
    pub fn is_single(self) -> bool {
        matches!(
            self,
            Statistic::VarPop | Statistic::VarSamp | Statistic::StddevPop | Statistic::StddevSamp
        )
    }
}

/// One expression of the target list.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The name of the column for the client.
    pub name: String,
    /// Its value.
    pub expr: Expr,
    /// The table column, if the target is a plain column reference.
    pub origin: Option<ColumnOrigin>,
}

/// A column of a table, for the row description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnOrigin {
    /// The table's oid.
    pub table: u32,
    /// The attribute number of the column.
    pub attnum: i16,
}

/// One ORDER BY key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// The position of the key in `Select::targets`.
    pub target: usize,
    /// Whether the order is descending.
    pub desc: bool,
    /// Whether NULLs come first (the default for descending order).
    pub nulls_first: bool,
}

/// The row-locking clause of a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockingClause {
    /// The lock strength and the wait policy.
    pub hold: RowLockOptions,
    /// OF: the first slots of the relations whose rows are locked; empty for all relations.
    pub of: Vec<usize>,
}

/// The lock on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLockOptions {
    /// The lock strength; strengths conflict with each other as PostgreSQL's row locks do.
    pub strength: Strength,
    /// The policy if another transaction holds a conflicting lock.
    pub wait: WaitPolicy,
}

impl RowLockOptions {
    /// The lock of DELETE, and of UPDATE of a key column.
    pub const CHANGED: RowLockOptions = RowLockOptions {
        strength: Strength::Update,
        wait: WaitPolicy::Block,
    };
    /// The lock of UPDATE of columns that are in no unique index.
    pub const CHANGED_NO_KEY: RowLockOptions = RowLockOptions {
        strength: Strength::NoKeyUpdate,
        wait: WaitPolicy::Block,
    };
}

/// The policy for a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Waits for the lock.
    Block,
    /// NOWAIT: fails with 55P03.
    NoWait,
    /// SKIP LOCKED: skips the row.
    Skip,
}

impl From {
    /// Returns the number of slots.
    pub fn width(&self) -> usize {
        match self {
            From::Nothing => 0,
            From::Leaf(leaf) => leaf.width(),
            From::Join(join) => join.left.width() + join.right.width(),
        }
    }

    /// Returns the first slot in the from row.
    pub fn first_slot(&self) -> usize {
        match self {
            From::Nothing => 0,
            From::Leaf(leaf) => leaf.first_slot,
            From::Join(join) => join.left.first_slot(),
        }
    }

    /// Calls `f` on each leaf, from left to right; it may change the leaf.
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

/// Returns the number of slots of a leaf with `columns` columns ([`Leaf::width`]).
pub fn slots_of(columns: usize) -> usize {
    columns.max(1)
}

impl Leaf {
    /// Returns the number of slots. A leaf without columns has one slot, which nothing reads: the
    /// first slot identifies a leaf.
    pub fn width(&self) -> usize {
        slots_of(self.column_types.len())
    }
}

impl Select {
    /// Returns the targets that the client sees.
    pub fn columns(&self) -> &[Target] {
        &self.targets[..self.visible]
    }

    /// Calls `f` on each table that the query reads, including those of the queries inside it.
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
