//! The plan of a statement: immutable, and shared by every session that runs the statement.
//!
//! ```text
//! SelectPlan   source ─▶ filter ─▶ group ─▶ having ─▶ targets ─▶ distinct ─▶ sort ─▶ offset, limit
//! Source       Scan | Values | Series | Subquery | Set | Cte | Recursive | Join | One
//! Access       how a scan reaches its rows: points, ranges, or the whole primary index
//! ```
//!
//! Every source of a SELECT works on the *from row* of the whole SELECT. It fills only its own
//! slots, so expressions need no renumbering (BND-1).

use std::sync::Arc;

use fencepost_sql::bound::{
    Cte, Expr, Grouping, JoinKind, OrderKey, RowLockOptions, RowRules, SetOp, TableFunction,
    Target, WindowCall,
};
use fencepost_sql::catalog::{IndexDef, Roots, TableDef};
use fencepost_sql::error::SqlError;
use fencepost_sql::key::KeyCodec;
use fencepost_sql::row::RowLayout;
use fencepost_sql::system::SystemTable;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::ObjectLocation;

use crate::access::{Access, KeyTerm};
use crate::analytics::Shape;
use crate::exec::{Cx, Prune};
use crate::home::HomeKey;
use crate::leaves::Leaves;
use crate::locking::RowLock;
use crate::slots::Slots;
use crate::split::Split;
use crate::subplans::Subplans;

/// A table as plans use it: its definition and its codecs.
#[derive(Debug)]
pub struct TablePlan {
    /// The definition that the statement was planned with. Each transaction checks its version.
    pub def: Arc<TableDef>,
    /// The layout of the table's rows.
    pub layout: RowLayout,
    /// The key codec of each index, in the order of `def.indexes`.
    pub keys: Vec<KeyCodec>,
    /// The constraints that written rows must satisfy; empty if the table is only read.
    pub rules: RowRules,
    /// The leaf partitions, if the table is partitioned and its rows are written.
    pub leaves: Option<Box<Leaves>>,
    /// Whether triggers may run, either those of the table or those of its leaf partitions.
    pub fires: bool,
}

impl TablePlan {
    /// Creates the plan of a table that is only read.
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

    /// Creates the plan of a table whose rows are written.
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

    /// Returns an address on the machine of a partition: the root that the first index has for the
    /// partition. For a table without hash partitions, returns a null address: its rows may be
    /// anywhere.
    #[inline]
    pub fn home_of(&self, partition: u32) -> Addr {
        match &self.def.primary().roots {
            Roots::One(_) => Addr::NULL,
            Roots::Each(roots) => Addr::from_raw(roots[partition as usize]),
        }
    }

    /// Returns where to allocate a new row of a partition. `beside` is another row of the
    /// partition, if there is one.
    #[inline]
    pub fn near(&self, partition: u32, beside: Option<Addr>) -> ObjectLocation {
        match &self.def.primary().roots {
            Roots::One(_) => beside.map_or(ObjectLocation::Own, ObjectLocation::OwnBeside),
            Roots::Each(_) => {
                ObjectLocation::Object(beside.unwrap_or_else(|| self.home_of(partition)))
            }
        }
    }

    /// Returns whether a row has an entry in the index at this position.
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

    /// Returns the definition of the index at position `index`.
    pub fn index_def(&self, index: usize) -> &IndexDef {
        &self.def.indexes[index]
    }
}

/// The plan of a SELECT.
#[derive(Debug)]
pub struct SelectPlan {
    /// The number of slots of the from row.
    pub width: usize,
    /// The source of the from rows.
    pub source: Source,
    /// The part of WHERE that the source does not evaluate.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates; `None` without both.
    pub grouping: Option<Grouping>,
    /// HAVING, evaluated over the group row.
    pub having: Option<Expr>,
    /// Window function calls. Their values are in the slots behind the row that the targets read.
    pub windows: Vec<WindowCall>,
    /// The select list, followed by hidden sort keys.
    pub targets: Vec<Target>,
    /// The number of targets that the client sees.
    pub visible: usize,
    /// Whether there is a DISTINCT over the visible targets.
    pub distinct: bool,
    /// The positions of the targets of DISTINCT ON; empty without it.
    pub distinct_on: Vec<usize>,
    /// The sort keys; empty if there is no ORDER BY or an index gives the order.
    pub sort: Vec<OrderKey>,
    /// The number of leading sort keys in whose order the source returns the rows. With a limit,
    /// the sort then needs no rows behind the last ones that may be returned.
    pub presorted: usize,
    /// Whether the source returns the rows of each group together, and the groups in the order of
    /// ORDER BY.
    pub groups_in_order: bool,
    /// Expressions with subqueries that grouping reads. Their values go into the slots behind those
    /// of the from row.
    pub computed: Vec<Expr>,
    /// Whether the SELECT's own expressions contain subqueries.
    pub deep: bool,
    /// Subqueries that the keys of its scans read. They run before the scans open.
    pub inits: Vec<Expr>,
    /// The subqueries in the statement's expressions, if this SELECT is a statement.
    pub queries: Option<Arc<Subplans>>,
    /// LIMIT or FETCH FIRST; `None` without a limit.
    pub limit: Option<Expr>,
    /// FETCH FIRST … WITH TIES: rows that tie with the last row under the sort keys are returned
    /// too.
    pub with_ties: bool,
    /// OFFSET; `None` without one.
    pub offset: Option<Expr>,
    /// Whether rows before OFFSET are returned too; the caller skips them.
    pub gives_skipped: bool,
    /// How to find the statement's home partition, if this SELECT is a statement.
    pub home: Option<HomeKey>,
    /// FOR UPDATE and similar: the lock on the rows of its tables, taken as the rows leave the
    /// plan.
    pub lock: Option<RowLock>,
    /// How other machines may run parts of it, if this SELECT is a statement.
    pub split: Option<Split>,
    /// The analytical plan of the same query, if this SELECT is a statement. Its source is
    /// [`Source::Analytics`].
    pub bulk: Option<Box<SelectPlan>>,
    /// For a cursor: the oid of the table that UPDATE and DELETE … WHERE CURRENT OF can change
    /// through it. The row addresses are the target behind the visible targets.
    pub places: Option<u32>,
}

/// The source of from rows.
#[derive(Debug)]
pub enum Source {
    /// One row without columns.
    One,
    /// A scan of a table.
    Scan(Box<Scan>),
    /// VALUES.
    Values {
        /// The expressions of each row.
        rows: Vec<Vec<Expr>>,
        /// The first slot that they fill.
        first_slot: usize,
    },
    /// A set-returning function, such as `generate_series`.
    Function {
        /// The function.
        function: TableFunction,
        /// The arguments of the function.
        args: Vec<Expr>,
        /// The slot that it fills.
        first_slot: usize,
    },
    /// A system table.
    System {
        /// The system table.
        table: SystemTable,
        /// The first slot that it fills.
        first_slot: usize,
    },
    /// A subquery in FROM.
    Subquery {
        /// The plan of the subquery.
        plan: Box<SelectPlan>,
        /// The first slot that it fills.
        first_slot: usize,
        /// Its alias.
        alias: String,
    },
    /// Two queries that a set operation combines.
    Set(Box<SetPlan>),
    /// A query of WITH with materialized rows.
    Cte {
        /// The query.
        cte: Arc<Cte>,
        /// The first slot that it fills.
        first_slot: usize,
        /// Its alias.
        alias: String,
    },
    /// A recursive query of WITH.
    Recursive(Box<RecursivePlan>),
    /// The work table of a recursive query: the rows of the last iteration.
    Work {
        /// The number of the work table.
        work: usize,
        /// The names of the columns.
        columns: Vec<String>,
        /// The first slot that it fills.
        first_slot: usize,
        /// Its alias.
        alias: String,
    },
    /// A source that reads columns of the sources to its left, or of an outer query.
    Lateral {
        /// The outer slots that it reads, and the expressions that fill them.
        args: Vec<(usize, Expr)>,
        /// The source that reads the outer slots.
        input: Box<Source>,
    },
    /// A join.
    Join(Box<Join>),
    /// Scans and joins of them that run on DataFusion's operators, with the grouping above them.
    Analytics {
        /// The scans and joins.
        input: Box<Source>,
        /// The parts of the query that DataFusion evaluates.
        shape: Shape,
    },
    /// A source with a filter on its rows: a leaf of a join that is not a table.
    Filter {
        /// The source of the rows.
        input: Box<Source>,
        /// The condition that the rows must satisfy.
        filter: Expr,
    },
}

/// Two queries that a set operation combines.
#[derive(Debug)]
pub struct SetPlan {
    /// The operation: UNION, INTERSECT or EXCEPT.
    pub op: SetOp,
    /// Whether the operation keeps duplicates (ALL).
    pub all: bool,
    /// The plan of the left query.
    pub left: SelectPlan,
    /// The plan of the right query.
    pub right: SelectPlan,
    /// The first slot that the result fills.
    pub first_slot: usize,
}

/// A recursive query of WITH.
#[derive(Debug)]
pub struct RecursivePlan {
    /// The number of its work table.
    pub work: usize,
    /// Whether the union keeps duplicates (UNION ALL).
    pub all: bool,
    /// The non-recursive term.
    pub base: SelectPlan,
    /// The recursive term, which runs once for each iteration.
    pub step: SelectPlan,
    /// The first slot that the result fills.
    pub first_slot: usize,
}

/// A scan of one table.
#[derive(Debug)]
pub struct Scan {
    /// The table that is scanned.
    pub table: Arc<TablePlan>,
    /// The alias of the table.
    pub alias: String,
    /// The first slot that it fills.
    pub first_slot: usize,
    /// The columns to decode, by position in the table.
    pub columns: Vec<usize>,
    /// The position of the index that the scan reads.
    pub index: usize,
    /// How the scan reaches the rows.
    pub access: Access,
    /// Whether the scan runs backward, from the end of the index.
    pub backward: bool,
    /// Whether the rows of several partitions are merged into the order of the index.
    pub merged: bool,
    /// For a partitioned table: the conditions that select the leaf partitions to scan.
    pub prune: Vec<Prune>,
    /// Conditions that the access does not cover. They read the scan's own slots, and the slots to
    /// its left in a join.
    pub filter: Option<Expr>,
    /// FOR UPDATE, UPDATE, DELETE: the intent to take on each row, before the row is read where
    /// possible.
    pub locks: Option<RowLockOptions>,
    /// Below SERIALIZABLE, a row that a key leads to is locked only if the version that was found
    /// passes the filter.
    pub filters_first: bool,
    /// The rows that stay out of the read set, because each row that is used is locked and read
    /// again, or because ANALYZE reads them.
    pub hints: Hints,
    /// Whether subqueries above the scan choose among its rows.
    pub chosen_above: bool,
    /// WHERE CURRENT OF: the address of the one row, which the access does not use.
    pub place: Option<Expr>,
    /// The slot that receives the row's fat pointer, for UPDATE and DELETE.
    pub pointer_slot: Option<usize>,
}

/// The rows of a scan that stay out of the read set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    /// No rows.
    No,
    /// The rows that pass the filter.
    Passing,
    /// All rows and the index nodes too: SKIP LOCKED must not conflict with rows that it skips.
    All,
}

/// A join of two sources. For right and full joins, too, `method` selects a hash join or a nested
/// loop.
#[derive(Debug)]
pub struct Join {
    /// The join type.
    pub kind: JoinKind,
    /// How the join finds matching rows.
    pub method: JoinMethod,
    /// The source of the left rows.
    pub left: Source,
    /// The source of the right rows.
    pub right: Source,
    /// The slots of the left side that expressions read.
    pub left_slots: Slots,
    /// The slots of the right side that expressions read.
    pub right_slots: Slots,
    /// The rest of the join condition, over the from row.
    pub on: Option<Expr>,
    /// Whether the join condition contains a subquery.
    pub deep: bool,
    /// Slots outside both sides that the join passes on: fat pointers of rows to change or lock.
    pub carried: Vec<OuterSlot>,
}

/// A slot outside both sides that a join passes on.
#[derive(Clone, Copy, Debug)]
pub struct OuterSlot {
    /// Whether the slot comes from the left side.
    pub from_left: bool,
    /// The position of the slot in the from row.
    pub slot: usize,
}

/// How a join finds matching rows.
#[derive(Debug)]
pub enum JoinMethod {
    /// Index nested loop: for each left row, the right side is opened again through an index on
    /// values of that row.
    Index,
    /// Hash join: the right side is kept in memory, by the values of its key.
    Hash {
        /// The keys over the left row.
        left_keys: Vec<Expr>,
        /// The keys over the right row.
        right_keys: Vec<Expr>,
    },
    /// Nested loop: the right side is kept in memory, and each left row is compared with all of it.
    Loop,
}

impl Scan {
    /// Returns whether the scan reaches its rows by whole unique keys.
    pub fn is_point(&self) -> bool {
        matches!(self.access, Access::Points(_))
    }

    /// Returns the key terms of a scan for exactly one unique key; `None` for other scans.
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
    /// Returns the number of targets that go to the sink.
    pub fn given(&self) -> usize {
        self.visible + usize::from(self.places.is_some())
    }

    /// Returns whether a scan of the plan takes intents.
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
