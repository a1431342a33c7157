//! Kinds of statements, as the log and the counters of a server distinguish them.

use fencepost_planner::{Plan, ddl_command};
use fencepost_sql::bound::Statement;

use crate::prepared::{Body, PreparedStatement};

/// A kind of statement, from [`PreparedStatement::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// A query.
    Select = 0,
    /// INSERT.
    Insert = 1,
    /// UPDATE.
    Update = 2,
    /// DELETE.
    Delete = 3,
    /// MERGE.
    Merge = 4,
    /// COPY TO.
    CopyTo = 5,
    /// COPY into a table.
    CopyFrom = 6,
    /// TRUNCATE.
    Truncate = 7,
    /// A DDL statement.
    Ddl = 8,
    /// BEGIN and START TRANSACTION.
    Begin = 9,
    /// COMMIT.
    Commit = 10,
    /// ROLLBACK.
    Rollback = 11,
    /// Any other statement.
    Other = 12,
}

impl StatementKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [StatementKind; 13] = [
        StatementKind::Select,
        StatementKind::Insert,
        StatementKind::Update,
        StatementKind::Delete,
        StatementKind::Merge,
        StatementKind::CopyTo,
        StatementKind::CopyFrom,
        StatementKind::Truncate,
        StatementKind::Ddl,
        StatementKind::Begin,
        StatementKind::Commit,
        StatementKind::Rollback,
        StatementKind::Other,
    ];

    /// Returns the name of the kind in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            StatementKind::Select => "select",
            StatementKind::Insert => "insert",
            StatementKind::Update => "update",
            StatementKind::Delete => "delete",
            StatementKind::Merge => "merge",
            StatementKind::CopyTo => "copy_to",
            StatementKind::CopyFrom => "copy_from",
            StatementKind::Truncate => "truncate",
            StatementKind::Ddl => "ddl",
            StatementKind::Begin => "begin",
            StatementKind::Commit => "commit",
            StatementKind::Rollback => "rollback",
            StatementKind::Other => "other",
        }
    }

    /// Returns whether `log_statement = ddl` logs this kind.
    pub const fn is_ddl(self) -> bool {
        matches!(self, StatementKind::Ddl)
    }

    /// Returns whether `log_statement = mod` logs this kind, besides those of `ddl`.
    pub const fn changes_data(self) -> bool {
        matches!(
            self,
            StatementKind::Insert
                | StatementKind::Update
                | StatementKind::Delete
                | StatementKind::Merge
                | StatementKind::CopyFrom
                | StatementKind::Truncate
        )
    }
}

impl PreparedStatement {
    /// Returns the kind of the statement. EXPLAIN has no kind of its own, whatever statement it
    /// explains.
    pub fn kind(&self) -> StatementKind {
        match &self.planned.body {
            Body::Plan(plan, _) => match &**plan {
                Plan::Row(_) | Plan::Point(_) | Plan::Select(_) => StatementKind::Select,
                Plan::Insert(_) => StatementKind::Insert,
                Plan::Update(_) => StatementKind::Update,
                Plan::Delete(_) => StatementKind::Delete,
                Plan::Merge(_) => StatementKind::Merge,
                Plan::CopyIn(_) => StatementKind::CopyFrom,
                Plan::CopyOut(..) => StatementKind::CopyTo,
            },
            Body::Utility(statement) => of_utility(statement),
            Body::Empty | Body::Explain { .. } | Body::ExplainExecute { .. } | Body::Declare(_) => {
                StatementKind::Other
            }
        }
    }
}

fn of_utility(statement: &Statement) -> StatementKind {
    match statement {
        Statement::Begin { .. } => StatementKind::Begin,
        Statement::Commit { .. } => StatementKind::Commit,
        Statement::Rollback { .. } => StatementKind::Rollback,
        Statement::Truncate(_) => StatementKind::Truncate,
        Statement::AlterSystem(_) => StatementKind::Ddl,
        other if ddl_command(other).is_some() => StatementKind::Ddl,
        _ => StatementKind::Other,
    }
}
