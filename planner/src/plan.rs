//! What a statement will do: the plan, immutable and shared by every session that runs it.
//!
//! ```text
//! SelectPlan   source ─▶ filter ─▶ group ─▶ having ─▶ targets ─▶ distinct ─▶ sort ─▶ offset, limit
//! Source       Scan | Values | Series | Subquery | Set | Cte | Recursive | Join(Source, Source) | One
//! Access       how a scan reaches its rows: points, ranges, or the whole primary index
//! ```
//!
//! Every source of a SELECT works on the *from row* of the whole SELECT and fills only its own
//! slots, so expressions need no renumbering (BND-1).

use std::sync::Arc;

use fencepost_sql::bound::{
    Cte, Expr, Grouping, Hold, JoinKind, Node, OrderKey, RowRules, SetOp, TableFunction, Target,
    WindowCall,
};
use fencepost_sql::catalog::{IndexDef, Roots, TableDef};
use fencepost_sql::error::SqlError;
use fencepost_sql::key::KeyCodec;
use fencepost_sql::row::RowLayout;
use fencepost_sql::system::SystemTable;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::Near;

use crate::analytics::Shape;
use crate::exec::{Cx, Prune};
use crate::home::HomeKey;
use crate::leaves::Leaves;
use crate::locking::RowLock;
use crate::split::Split;
use crate::subplans::Subplans;

/// A table as plans use it: its definition and its codecs.
#[derive(Debug)]
pub struct TablePlan {
    /// The definition planned with; its version is checked by each transaction.
    pub def: Arc<TableDef>,
    /// How its rows are laid out.
    pub layout: RowLayout,
    /// How the keys of each index are made, in the order of `def.indexes`.
    pub keys: Vec<KeyCodec>,
    /// What rows that are written have to satisfy; nothing where the table is only read.
    pub rules: RowRules,
    /// Of a partitioned table whose rows are written: its leaves.
    pub leaves: Option<Box<Leaves>>,
    /// Triggers may run, be they its own or those of leaves.
    pub fires: bool,
}

impl TablePlan {
    /// A table that is read.
    pub fn new(def: &Arc<TableDef>) -> TablePlan {
        TablePlan {
            rules: RowRules::default(),
            layout: RowLayout::new(&def.columns),
            keys: def.indexes.iter().map(|i| KeyCodec::new(def, i)).collect(),
            def: Arc::clone(def),
            leaves: None,
            fires: false,
        }
    }

    /// A table whose rows are written.
    pub fn written(def: &Arc<TableDef>, mut rules: RowRules) -> TablePlan {
        let fires = rules.all_triggers().next().is_some();
        let leaves = std::mem::take(&mut rules.leaves);
        TablePlan {
            fires,
            leaves: Leaves::of(def, leaves).map(Box::new),
            rules,
            ..TablePlan::new(def)
        }
    }

    /// Where the rows of a partition are at home: the root that the first index has for it. Anywhere in a
    /// table without partitions.
    #[inline]
    pub fn home_of(&self, partition: u32) -> Addr {
        match &self.def.primary().roots {
            Roots::One(_) => Addr::NULL,
            Roots::Each(roots) => Addr::from_raw(roots[partition as usize]),
        }
    }

    /// Where a new row of a partition goes, `beside` another of it if there is one.
    #[inline]
    pub fn near(&self, partition: u32, beside: Option<Addr>) -> Near {
        match &self.def.primary().roots {
            Roots::One(_) => beside.map_or(Near::Own, Near::OwnBeside),
            Roots::Each(_) => Near::Object(beside.unwrap_or_else(|| self.home_of(partition))),
        }
    }

    /// Has a row an entry in the index at this position?
    #[inline]
    pub async fn has_entry(
        &self,
        cx: &mut Cx<'_>,
        index: usize,
        row: &[Value],
    ) -> Result<bool, SqlError> {
        match &self.def.indexes[index].more.predicate {
            None => Ok(true),
            Some(predicate) => cx.holds(Some(&predicate.condition), row).await,
        }
    }

    /// The definition of index `index`.
    pub fn index_def(&self, index: usize) -> &IndexDef {
        &self.def.indexes[index]
    }
}

/// A SELECT.
#[derive(Debug)]
pub struct SelectPlan {
    /// Width of the from row.
    pub width: usize,
    /// Where from rows come from.
    pub source: Source,
    /// What of WHERE the source does not do.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates.
    pub grouping: Option<Grouping>,
    /// HAVING, over the group row.
    pub having: Option<Expr>,
    /// Window calls: their values are in the slots behind the row that targets read.
    pub windows: Vec<WindowCall>,
    /// The select list, then hidden sort keys.
    pub targets: Vec<Target>,
    /// How many targets the client sees.
    pub visible: usize,
    /// DISTINCT over the visible targets.
    pub distinct: bool,
    /// DISTINCT ON: over these targets instead.
    pub distinct_on: Vec<usize>,
    /// The sort to do; empty when there is none or an index gives the order.
    pub sort: Vec<OrderKey>,
    /// Expressions with queries in them that grouping reads: they are put into the slots behind the from row's.
    pub computed: Vec<Expr>,
    /// There are queries in its own expressions.
    pub deep: bool,
    /// Queries that keys of its scans read: they run first.
    pub inits: Vec<Expr>,
    /// The queries in expressions of the statement that it is, if it is one.
    pub queries: Option<Arc<Subplans>>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// WITH TIES: rows equal to the last one under the sort's keys come, too.
    pub with_ties: bool,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// Rows before OFFSET are given, too: whoever reads them passes them over.
    pub gives_skipped: bool,
    /// What tells its home, where it is a statement by itself.
    pub home: Option<HomeKey>,
    /// FOR UPDATE of the rows of its tables, as they come out of it.
    pub lock: Option<RowLock>,
    /// How other machines may run parts of it, where it is a statement by itself.
    pub split: Option<Split>,
    /// The same for much work, where it is a statement by itself: its source is [`Source::Analytics`].
    pub bulk: Option<Box<SelectPlan>>,
    /// Of a cursor: the table whose rows are changed through it. Their places are the target behind those that are shown.
    pub places: Option<u32>,
}

/// Where from rows come from.
#[derive(Debug)]
pub enum Source {
    /// One row without columns.
    One,
    /// A table.
    Scan(Box<Scan>),
    /// VALUES.
    Values {
        /// The rows.
        rows: Vec<Vec<Expr>>,
        /// The first slot they fill.
        first_slot: usize,
    },
    /// generate_series.
    Function {
        /// Which function.
        function: TableFunction,
        /// Its arguments.
        args: Vec<Expr>,
        /// The slot it fills.
        first_slot: usize,
    },
    /// A table of the system.
    System {
        /// Which table.
        table: SystemTable,
        /// The first slot it fills.
        first_slot: usize,
    },
    /// A subquery.
    Subquery {
        /// Its plan.
        plan: Box<SelectPlan>,
        /// The first slot it fills.
        first_slot: usize,
        /// Its name.
        alias: String,
    },
    /// Two queries put together.
    Set(Box<SetPlan>),
    /// A query of WITH, whose rows are kept.
    Cte {
        /// Which.
        cte: Arc<Cte>,
        /// The first slot it fills.
        first_slot: usize,
        /// The name it goes by.
        alias: String,
    },
    /// A query that reads its own rows.
    Recursive(Box<RecursivePlan>),
    /// What the last round of a recursive query gave.
    Work {
        /// The number of its work table.
        work: usize,
        /// The names of its columns.
        columns: Vec<String>,
        /// The first slot it fills.
        first_slot: usize,
        /// The name it goes by.
        alias: String,
    },
    /// A source that reads what stands left of it, or around its query.
    Lateral {
        /// The outer slots that it reads, and what goes into them.
        args: Vec<(usize, Expr)>,
        /// The source.
        input: Box<Source>,
    },
    /// A join.
    Join(Box<Join>),
    /// Scans and joins of them that run on DataFusion's operators, with the grouping above them.
    Analytics {
        /// The scans and joins.
        input: Box<Source>,
        /// What is asked of them.
        shape: Shape,
    },
    /// A source whose rows are filtered: a leaf other than a table under a join.
    Filter {
        /// The source.
        input: Box<Source>,
        /// The condition.
        filter: Expr,
    },
}

/// Two queries put together.
#[derive(Debug)]
pub struct SetPlan {
    /// How.
    pub op: SetOp,
    /// ALL.
    pub all: bool,
    /// The left query.
    pub left: SelectPlan,
    /// The right query.
    pub right: SelectPlan,
    /// The first slot it fills.
    pub first_slot: usize,
}

/// A query that reads its own rows.
#[derive(Debug)]
pub struct RecursivePlan {
    /// The number of its work table.
    pub work: usize,
    /// UNION ALL.
    pub all: bool,
    /// The first round.
    pub base: SelectPlan,
    /// Each further round.
    pub step: SelectPlan,
    /// The first slot it fills.
    pub first_slot: usize,
}

/// A scan of one table.
#[derive(Debug)]
pub struct Scan {
    /// The table.
    pub table: Arc<TablePlan>,
    /// The name it goes by.
    pub alias: String,
    /// The first slot it fills.
    pub first_slot: usize,
    /// The columns to decode, by position in the table.
    pub columns: Vec<usize>,
    /// The index to go through.
    pub index: usize,
    /// How to reach the rows.
    pub access: Access,
    /// From the end.
    pub backward: bool,
    /// The rows of several partitions in the order of the index.
    pub merged: bool,
    /// Of a partitioned table: what tells the leaves to look at.
    pub prune: Vec<Prune>,
    /// Conditions on its own slots (and those left of it in a join) that the access does not do.
    pub filter: Option<Expr>,
    /// FOR UPDATE, UPDATE, DELETE: take an intent on each row, before it is read where possible.
    pub locks: Option<Hold>,
    /// Below SERIALIZABLE, a row that a key leads to is locked only if it passes the filter as it is found.
    pub filters_first: bool,
    /// Which of its rows are only hints, as each that is used is locked and read again.
    pub hints: Hints,
    /// Queries above it choose among its rows.
    pub chosen_above: bool,
    /// WHERE CURRENT OF: the place of the one row, which its access has no part in.
    pub place: Option<Expr>,
    /// The slot that takes the row's fat pointer, for UPDATE and DELETE.
    pub pointer_slot: Option<usize>,
}

/// Which rows of a scan stay out of the read set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    /// None.
    No,
    /// Those that pass its filter.
    Passing,
    /// All, and what leads to them: SKIP LOCKED depends on nothing that it passes over.
    All,
}

/// How a scan reaches its rows.
#[derive(Debug)]
pub enum Access {
    /// The whole index.
    Full,
    /// Whole unique keys, one row at most for each.
    Points(Vec<KeyTerm>),
    /// Key ranges: equality on the leading columns, then perhaps bounds on the next.
    Ranges {
        /// Equality on the leading key columns.
        prefix: Vec<KeyTerm>,
        /// The lower bound of the next column and whether it is included.
        lower: Option<(Expr, bool)>,
        /// The upper bound of the next column and whether it is included.
        upper: Option<(Expr, bool)>,
    },
}

/// What one key column must equal.
#[derive(Debug)]
pub enum KeyTerm {
    /// One value.
    One(Expr),
    /// One of several. At most one term of an access is this, or the next. Where an array stands alone here, it
    /// is one of its elements.
    Any(Vec<Expr>),
    /// One of those that a query gives, which is the condition `… = ANY (query)`.
    Members(Expr),
}

/// Returns whether terms are single parameters and constants: their values take no time.
#[inline]
pub fn are_plain(terms: &[KeyTerm]) -> bool {
    let is_plain = |term: &KeyTerm| match term {
        KeyTerm::One(expr) => matches!(expr.node, Node::Param(_) | Node::Const(_)),
        KeyTerm::Any(_) | KeyTerm::Members(_) => false,
    };
    terms.iter().all(is_plain)
}

/// Do these values stand for the elements of an array?
pub fn is_array(values: &[Expr]) -> bool {
    matches!(values, [one] if one.ty.kind.element().is_some())
}

/// A join of two sources. Right and full joins hash or loop as the kind says.
#[derive(Debug)]
pub struct Join {
    /// Which rows stay.
    pub kind: JoinKind,
    /// How partners are found.
    pub method: JoinMethod,
    /// The left side.
    pub left: Source,
    /// The right side.
    pub right: Source,
    /// The slots of the left side: first and one past the last.
    pub left_slots: (usize, usize),
    /// The slots of the right side: first and one past the last.
    pub right_slots: (usize, usize),
    /// The rest of the condition, over the from row.
    pub on: Option<Expr>,
    /// There is a query in the condition.
    pub deep: bool,
    /// Slots outside both sides' that go along: the pointers of rows to change or lock.
    pub carried: Vec<Carried>,
}

/// A slot that a join hands on.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// It comes from the left side.
    pub from_left: bool,
    /// The slot.
    pub slot: usize,
}

/// How a join finds partners.
#[derive(Debug)]
pub enum JoinMethod {
    /// The right side is opened again for each left row, through an index on values of that row.
    Index,
    /// The right side is kept in memory, by the values of its key.
    Hash {
        /// Over the left row.
        left_keys: Vec<Expr>,
        /// Over the right row.
        right_keys: Vec<Expr>,
    },
    /// The right side is kept in memory, and each left row meets all of it.
    Loop,
}

impl Scan {
    /// Does it reach its rows by whole unique keys?
    pub fn is_point(&self) -> bool {
        matches!(self.access, Access::Points(_))
    }

    /// The keys of a scan for one whole unique key.
    pub fn single_point(&self) -> Option<&[KeyTerm]> {
        match &self.access {
            Access::Points(terms) => terms
                .iter()
                .all(|t| matches!(t, KeyTerm::One(_)))
                .then_some(terms),
            _ => None,
        }
    }
}

impl SelectPlan {
    /// How many targets go to the sink.
    pub fn given(&self) -> usize {
        self.visible + usize::from(self.places.is_some())
    }

    /// Does a scan in it take intents?
    pub fn locks(&self) -> bool {
        self.lock.is_some() || self.source.locks() || self.subplans().any(SelectPlan::locks)
    }

    /// Calls `f` on each table that the plan uses.
    pub fn for_each_table<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<TablePlan>)) {
        self.source.for_each_table(f);
        self.queries
            .iter()
            .for_each(|queries| queries.for_each_table(f));
    }

    fn subplans(&self) -> impl Iterator<Item = &SelectPlan> {
        self.queries.iter().flat_map(|queries| queries.all())
    }
}

impl Source {
    fn locks(&self) -> bool {
        match self {
            Source::One
            | Source::Values { .. }
            | Source::Function { .. }
            | Source::Cte { .. }
            | Source::Work { .. }
            | Source::System { .. } => false,
            Source::Set(set) => set.left.locks() || set.right.locks(),
            Source::Recursive(plan) => plan.base.locks() || plan.step.locks(),
            Source::Lateral { input, .. } => input.locks(),
            Source::Scan(scan) => scan.locks.is_some(),
            Source::Subquery { plan, .. } => plan.locks(),
            Source::Filter { input, .. } | Source::Analytics { input, .. } => input.locks(),
            Source::Join(join) => join.left.locks() || join.right.locks(),
        }
    }

    /// Calls `f` on each table that the source uses.
    pub fn for_each_table<'a>(&'a self, f: &mut dyn FnMut(&'a Arc<TablePlan>)) {
        match self {
            Source::One
            | Source::Values { .. }
            | Source::Function { .. }
            | Source::Cte { .. }
            | Source::Work { .. }
            | Source::System { .. } => {}
            Source::Set(set) => {
                set.left.for_each_table(f);
                set.right.for_each_table(f);
            }
            Source::Recursive(plan) => {
                plan.base.for_each_table(f);
                plan.step.for_each_table(f);
            }
            Source::Lateral { input, .. } => input.for_each_table(f),
            Source::Scan(scan) => f(&scan.table),
            Source::Subquery { plan, .. } => plan.for_each_table(f),
            Source::Filter { input, .. } | Source::Analytics { input, .. } => {
                input.for_each_table(f);
            }
            Source::Join(join) => {
                join.left.for_each_table(f);
                join.right.for_each_table(f);
            }
        }
    }
}
