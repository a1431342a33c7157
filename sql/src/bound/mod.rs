//! The bound tree: a statement with its names, types and functions resolved.
//!
//! The binder builds it, the planner reads it, and `functions::eval` evaluates its expressions.
//!
//! Rows and slots
//! - BND-1: the expressions of a `Select` before grouping read the *from row*. It consists of the
//!   columns of all leaves of the FROM tree, in the order of the text. A leaf owns the slots
//!   `first_slot .. first_slot + width` and knows them.
//! - BND-2: with grouping, targets and HAVING read the *group row* instead: the values of
//!   `Grouping::keys`, then the results of `Grouping::aggregates`.
//! - BND-3: in UPDATE and DELETE the row is the target table's row (slot = column position).
//!   RETURNING reads the new row of an INSERT or UPDATE, and the old row of a DELETE.
//! - BND-4: every expression already has the casts that it needs. Both sides of a `Compare` are
//!   comparable; an assigned value has the type of its column, with length limits applied.

mod alter;
mod composite;
mod cursor;
mod database;
mod ddl;
mod dml;
mod domain;
mod expr;
mod extension;
mod ordered_set;
mod relation;
mod role;
mod routine;
mod rules;
mod schema;
mod security;
mod select;
mod sequence;
mod session;
mod statement;
mod subquery;
mod trigger;
mod user_type;
mod view;
mod window;

pub use alter::{AddColumn, AlterAction, SetType, StorageChange};
pub use composite::{AlterComposite, AttributeChange, CreateComposite};
pub use cursor::{CursorOptions, Declare, Direction, Fetch};
pub use database::{
    AlterDatabase, CreateDatabase, DatabaseChange, DatabaseOptions, DropDatabase, SettingChange,
};
pub use ddl::{
    AlterTable, CreateIndex, CreateTable, DropIndex, DropTable, KeyConstraint, LikeProperties,
    NewCheck, NewForeignKey, NewPartition, OnCommit, PartitionBy, Truncate,
};
pub use dml::{
    Assignment, Changes, ConflictUpdate, Copy, CopyDirection, CopyFormat, CopyOptions, CopySource,
    Delete, Merge, MergeAction, MergeWhen,
};
pub use dml::{Insert, InsertSource, OnConflict, Update};
pub use domain::{AlterDomain, CreateDomain, DomainChange, NewDomainCheck};
pub use expr::{
    ArithClass, ArithOp, BoolTest, CompareClass, CompareOp, Expr, LikeKind, Node, Volatility,
};
pub use extension::{AlterExtension, CreateExtension, DropAbsent, DropExtension, ExtensionChange};
pub use ordered_set::OrderedSet;
pub use relation::{Cte, Lateral, Recursive, SetOp, SetOperation};
pub use role::{AlterRole, CreateRole, DropRole, RoleChange, RoleOptions, RoleRef};
pub use routine::{AlterRoutine, CreateRoutine, DropRoutine, RoutineCall};
pub use rules::{Integrity, RelatedTable, RowCheck, RowRules, ViewCheck};
pub use schema::{CreateSchema, DropSchema, RenameSchema};
pub use security::{
    AlterOwner, Comment, DefaultPrivileges, DropOwned, Grant, GrantRole, NamedObject,
    ReassignOwned, RenameView, SetSchema,
};
pub use select::{
    Aggregate, AggregateKind, ColumnOrigin, From, Grouping, Join, JoinKind, Leaf, LeafSource,
    LockingClause, OrderKey, RowLockOptions, Select, Statistic, TableFunction, Target, WaitPolicy,
    slots_of,
};
pub use sequence::{AlterSequence, CreateSequence, DropSequence, NewSequence, SequenceOptions};
pub use session::{
    DiscardKind, Explain, ExplainFormat, ExplainOptions, Isolation, SetScope, SetStatement,
    SetValue, SystemChange, TransactionModes,
};
pub use statement::{AnalyzedTable, AnalyzedTargets, Maintenance, ResultColumn, Statement};
pub use subquery::{Subquery, SubqueryKind};
pub use trigger::{Trigger, TriggerChange};
pub use user_type::{AlterType, AlterTypeAction, CreateEnum, DropType};
pub use view::{AlterView, CreateView, DropView, Refresh, RefreshView, ViewChange};
pub use window::{Exclude, Frame, FrameBound, FrameOffset, FrameUnit, WindowCall, WindowFunction};
