//! A bound statement and the description of its result.

use std::sync::Arc;

use super::composite::{AlterComposite, CreateComposite};
use super::cursor::{Declare, Fetch};
use super::database::{AlterDatabase, CreateDatabase, DropDatabase};
use super::ddl::{AlterTable, CreateIndex, CreateTable, DropIndex, DropTable, Truncate};
use super::dml::{Changes, Copy, Delete, Insert, Merge, Update};
use super::domain::{AlterDomain, CreateDomain};
use super::expr::Expr;
use super::extension::{AlterExtension, CreateExtension, DropAbsent, DropExtension};
use super::role::{AlterRole, CreateRole, DropRole};
use super::routine::{AlterRoutine, CreateRoutine, DropRoutine, RoutineCall};
use super::schema::{CreateSchema, DropSchema, RenameSchema};
use super::security::{
    AlterOwner, Comment, DefaultPrivileges, DropOwned, Grant, GrantRole, ReassignOwned, RenameView,
    SetSchema,
};
use super::select::{ColumnOrigin, Select, Target};
use super::sequence::{AlterSequence, CreateSequence, DropSequence};
use super::session::{
    DiscardKind, Explain, ExplainFormat, SetStatement, SystemChange, TransactionModes,
};
use super::user_type::{AlterType, CreateEnum, DropType};
use super::view::{AlterView, CreateView, DropView, RefreshView};
use crate::catalog::TableDef;
use crate::notify::{ListenChange, Notification};
use crate::table_locks::TableLocks;
use crate::types::{Type, TypeKind};

/// A statement with all names, types and functions resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// SELECT or VALUES.
    Select(Box<Select>),
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// MERGE.
    Merge(Box<Merge>),
    /// A SELECT, INSERT, UPDATE, DELETE or MERGE with data-modifying CTEs.
    With(Box<Changes>),
    /// COPY.
    Copy(Box<Copy>),
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// DROP TABLE.
    DropTable(DropTable),
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// DROP INDEX.
    DropIndex(DropIndex),
    /// ALTER TABLE.
    AlterTable(AlterTable),
    /// TRUNCATE.
    Truncate(Truncate),
    /// CREATE SEQUENCE.
    CreateSequence(CreateSequence),
    /// ALTER SEQUENCE.
    AlterSequence(AlterSequence),
    /// DROP SEQUENCE.
    DropSequence(DropSequence),
    /// CREATE VIEW.
    CreateView(CreateView),
    /// ALTER VIEW.
    AlterView(AlterView),
    /// DROP VIEW.
    DropView(DropView),
    /// REFRESH MATERIALIZED VIEW.
    RefreshView(RefreshView),
    /// CREATE TYPE … AS ENUM.
    CreateEnum(CreateEnum),
    /// CREATE TYPE … AS (…)
    CreateComposite(CreateComposite),
    /// ALTER TYPE … ATTRIBUTE
    AlterComposite(AlterComposite),
    /// CREATE DOMAIN
    CreateDomain(CreateDomain),
    /// ALTER DOMAIN
    AlterDomain(AlterDomain),
    /// ALTER TYPE.
    AlterType(AlterType),
    /// DROP TYPE.
    DropType(DropType),
    /// CREATE SCHEMA.
    CreateSchema(CreateSchema),
    /// DROP SCHEMA.
    DropSchema(DropSchema),
    /// ALTER SCHEMA … RENAME TO.
    RenameSchema(RenameSchema),
    /// CREATE EXTENSION.
    CreateExtension(CreateExtension),
    /// DROP EXTENSION.
    DropExtension(DropExtension),
    /// A statement that only raises a notice, such as DROP … IF EXISTS of an unsupported kind of
    /// object.
    DropAbsent(DropAbsent),
    /// ALTER EXTENSION.
    AlterExtension(AlterExtension),
    /// CREATE FUNCTION, CREATE PROCEDURE.
    CreateRoutine(Box<CreateRoutine>),
    /// DROP FUNCTION, DROP PROCEDURE or DROP ROUTINE.
    DropRoutine(DropRoutine),
    /// ALTER FUNCTION, ALTER PROCEDURE or ALTER ROUTINE.
    AlterRoutine(AlterRoutine),
    /// CALL.
    Call(Box<RoutineCall>),
    /// DO; the body of the anonymous code block.
    Do(String),
    /// CREATE DATABASE.
    CreateDatabase(Box<CreateDatabase>),
    /// DROP DATABASE.
    DropDatabase(DropDatabase),
    /// ALTER DATABASE.
    AlterDatabase(AlterDatabase),
    /// CREATE ROLE.
    CreateRole(CreateRole),
    /// ALTER ROLE.
    AlterRole(AlterRole),
    /// DROP ROLE.
    DropRole(DropRole),
    /// GRANT and REVOKE of privileges.
    Grant(Box<Grant>),
    /// GRANT and REVOKE of membership.
    GrantRole(GrantRole),
    /// ALTER … OWNER TO.
    AlterOwner(AlterOwner),
    /// DROP OWNED.
    DropOwned(DropOwned),
    /// ALTER … SET SCHEMA.
    SetSchema(SetSchema),
    /// ALTER VIEW … RENAME
    RenameView(RenameView),
    /// REASSIGN OWNED.
    ReassignOwned(ReassignOwned),
    /// ALTER DEFAULT PRIVILEGES.
    DefaultPrivileges(DefaultPrivileges),
    /// COMMENT ON an object that is not a table.
    Comment(Comment),
    /// BEGIN or START TRANSACTION.
    Begin {
        /// Whether START TRANSACTION was written, which has its own command tag.
        start: bool,
        /// The transaction modes.
        modes: TransactionModes,
    },
    /// COMMIT or END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// SET TRANSACTION.
    SetTransaction(TransactionModes),
    /// SET TRANSACTION SNAPSHOT
    SetSnapshot(String),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetSessionCharacteristics(TransactionModes),
    /// PREPARE.
    Prepare {
        /// The name of the prepared statement.
        name: String,
        /// The declared types of its first parameters.
        param_types: Vec<Type>,
        /// The text after AS.
        text: String,
    },
    /// EXECUTE.
    Execute {
        /// The name of the prepared statement.
        name: String,
        /// The arguments, without columns and of any type. The session casts them to the parameter
        /// types with `functions::assign`.
        args: Vec<Expr>,
    },
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<String>),
    /// SET CONSTRAINTS.
    SetConstraints {
        /// The names of the constraints; empty for ALL.
        names: Vec<String>,
        /// Whether it is DEFERRED rather than IMMEDIATE.
        deferred: bool,
    },
    /// SET.
    Set(SetStatement),
    /// RESET; `None` is ALL.
    Reset(Option<String>),
    /// SHOW; the name of the setting in lower case, `all` for ALL.
    Show(String),
    /// EXPLAIN.
    Explain(Explain),
    /// VACUUM, ANALYZE, REINDEX or CLUSTER.
    Maintenance(Maintenance),
    /// CHECKPOINT.
    Checkpoint,
    /// ALTER SYSTEM SET and RESET.
    AlterSystem(SystemChange),
    /// ALTER SYSTEM DRAIN MACHINE: prepares the machine to leave; other machines take over
    /// everything that it holds.
    DrainMachine(u32),
    /// ALTER SYSTEM REMOVE MACHINE: a machine that holds nothing any more leaves the cluster.
    RemoveMachine(u32),
    /// DISCARD.
    Discard(DiscardKind),
    /// DECLARE a cursor.
    Declare(Declare),
    /// FETCH or MOVE; the columns of the rows are those of the cursor, which only the session
    /// knows.
    Fetch(Fetch),
    /// CLOSE a cursor; `None` is ALL.
    Close(Option<String>),
    /// LOCK TABLE
    LockTables(TableLocks),
    /// LISTEN, UNLISTEN
    Listen(ListenChange),
    /// NOTIFY
    Notify(Notification),
}

/// A maintenance command; REINDEX and CLUSTER have no effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Maintenance {
    /// VACUUM: returns unused memory to the operating system.
    Vacuum {
        /// The tables to analyze, if the option ANALYZE is given.
        analyzes: Option<AnalyzedTargets>,
    },
    /// ANALYZE: collects statistics.
    Analyze(AnalyzedTargets),
    /// REINDEX: has no effect.
    Reindex {
        /// The command in the error text, if the statement is refused in transaction blocks.
        alone: Option<&'static str>,
    },
    /// CLUSTER: has no effect.
    Cluster {
        /// Whether it concerns all tables, and so is refused in transaction blocks.
        alone: bool,
    },
}

/// The tables of ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub enum AnalyzedTargets {
    /// All tables of the database that the role owns.
    All,
    /// These tables.
    Tables(Vec<AnalyzedTable>),
}

/// A table of ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct AnalyzedTable {
    /// The table.
    pub table: Arc<TableDef>,
    /// The positions of the columns; empty for all.
    pub columns: Vec<usize>,
}

impl Maintenance {
    /// Returns a REINDEX that is refused in transaction blocks.
    pub(crate) fn reindex(command: &'static str) -> Maintenance {
        Maintenance::Reindex {
            alone: Some(command),
        }
    }
}

/// One column of a result, for the row description.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultColumn {
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    pub ty: Type,
    /// The table column, if the output column is a plain column reference.
    pub origin: Option<ColumnOrigin>,
}

impl Statement {
    /// Returns whether the statement may have parameters: it reads or changes rows, contains such a
    /// statement, or has arguments.
    pub fn takes_parameters(&self) -> bool {
        matches!(
            self,
            Statement::Select(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::With(_)
                | Statement::CreateTable(CreateTable {
                    source: Some(_),
                    ..
                })
                | Statement::Call(_)
                | Statement::Execute { .. }
                | Statement::Explain(_)
                | Statement::Declare(_)
        )
    }

    /// Returns the columns of the rows for the client; `None` if the statement returns no rows. The
    /// columns of EXECUTE are those of the prepared statement, which only the session knows. COPY
    /// TO is not a query: `None`.
    pub fn columns(&self) -> Option<Vec<ResultColumn>> {
        match self {
            Statement::Select(select) => Some(describe(select.columns())),
            Statement::Insert(insert) => described_returning(&insert.returning),
            Statement::Update(update) => described_returning(&update.returning),
            Statement::Delete(delete) => described_returning(&delete.returning),
            Statement::With(changes) => changes.main.columns(),
            Statement::Call(call) if !call.columns.is_empty() => Some(
                call.columns
                    .iter()
                    .map(|(name, ty)| ResultColumn {
                        name: name.clone(),
                        ty: ty.plain(),
                        origin: None,
                    })
                    .collect(),
            ),
            Statement::Explain(explain) => Some(vec![ResultColumn {
                ty: match explain.options.format {
                    ExplainFormat::Json => Type::of(TypeKind::Json),
                    _ => Type::TEXT,
                },
                ..ResultColumn::text("QUERY PLAN")
            }]),
            Statement::Show(name) if name == "all" => Some(vec![
                ResultColumn::text("name"),
                ResultColumn::text("setting"),
                ResultColumn::text("description"),
            ]),
            Statement::Show(name) => Some(vec![ResultColumn::text(crate::settings::display_name(
                name,
            ))]),
            _ => None,
        }
    }

    /// Returns whether the statement cannot change the database.
    pub fn is_read_only(&self) -> bool {
        !matches!(
            self,
            Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::With(_)
                | Statement::CreateTable(_)
                | Statement::DropTable(_)
                | Statement::CreateIndex(_)
                | Statement::DropIndex(_)
                | Statement::AlterTable(_)
                | Statement::Truncate(_)
                | Statement::CreateSequence(_)
                | Statement::AlterSequence(_)
                | Statement::DropSequence(_)
                | Statement::CreateView(_)
                | Statement::AlterView(_)
                | Statement::DropView(_)
                | Statement::RefreshView(_)
                | Statement::CreateEnum(_)
                | Statement::CreateComposite(_)
                | Statement::AlterComposite(_)
                | Statement::CreateDomain(_)
                | Statement::AlterDomain(_)
                | Statement::AlterType(_)
                | Statement::DropType(_)
                | Statement::CreateSchema(_)
                | Statement::DropSchema(_)
                | Statement::RenameSchema(_)
                | Statement::CreateExtension(_)
                | Statement::DropExtension(_)
                | Statement::DropAbsent(_)
                | Statement::AlterExtension(_)
                | Statement::CreateRoutine(_)
                | Statement::DropRoutine(_)
                | Statement::AlterRoutine(_)
                | Statement::Call(_)
                | Statement::Do(_)
                | Statement::CreateDatabase(_)
                | Statement::DropDatabase(_)
                | Statement::AlterDatabase(_)
                | Statement::CreateRole(_)
                | Statement::AlterRole(_)
                | Statement::DropRole(_)
                | Statement::Grant(_)
                | Statement::GrantRole(_)
                | Statement::AlterOwner(_)
                | Statement::SetSchema(_)
                | Statement::RenameView(_)
                | Statement::DropOwned(_)
                | Statement::ReassignOwned(_)
                | Statement::DefaultPrivileges(_)
                | Statement::Comment(_)
        ) && !matches!(self, Statement::Copy(copy) if copy.direction == super::CopyDirection::In)
            && !matches!(self, Statement::Select(select) if select.locking.is_some())
            && !matches!(
                self,
                Statement::Explain(e) if e.options.analyze && !e.statement.is_read_only()
            )
    }
}

fn described_returning(targets: &[Target]) -> Option<Vec<ResultColumn>> {
    (!targets.is_empty()).then(|| describe(targets))
}

fn describe(targets: &[Target]) -> Vec<ResultColumn> {
    targets
        .iter()
        .map(|t| ResultColumn {
            name: t.name.clone(),
            ty: t.expr.ty,
            origin: t.origin,
        })
        .collect()
}

impl ResultColumn {
    /// Returns a text column that does not belong to a table.
    pub fn text(name: &str) -> ResultColumn {
        ResultColumn {
            name: name.to_owned(),
            ty: Type::TEXT,
            origin: None,
        }
    }
}
