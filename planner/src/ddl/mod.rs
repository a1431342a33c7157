//! Statements that change the catalog. They run inside the user's transaction like any other.

mod alter;
mod build_index;
mod changes;
mod create;
mod drop;
mod names;
mod rewrite;
mod role;
mod rules;
mod schema;
mod sequence;
mod view;

use fencepost_sql::bound::Statement;
use fencepost_sql::catalog::{Catalog, Snapshot};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;

use crate::exec::Cx;

/// A NOTICE or WARNING for the client.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// What it says.
    pub report: SqlError,
}

impl Notice {
    /// A notice.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Notice {
        Notice {
            severity: "NOTICE",
            report: SqlError::new(sqlstate, message),
        }
    }

    /// A warning.
    pub fn warning(sqlstate: SqlState, message: impl Into<String>) -> Notice {
        Notice {
            severity: "WARNING",
            report: SqlError::new(sqlstate, message),
        }
    }
}

/// The catalog as one DDL statement uses it.
pub struct DdlCx<'a> {
    /// Where definitions are stored.
    pub catalog: &'a Catalog,
    /// The definitions the statement was bound with.
    pub snapshot: &'a Snapshot,
    /// What to tell the client.
    pub notices: &'a mut Vec<Notice>,
    /// Rows that the statement has made, where its tag tells them.
    pub rows: Option<u64>,
    /// Fresh random bytes for a password.
    pub salt: [u8; 16],
}

/// Runs a DDL statement; its command tag.
pub async fn run_ddl(
    statement: &Statement,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    match statement {
        Statement::CreateTable(create) => create::create_table(create, cx, ddl).await,
        Statement::CreateIndex(create) => create::create_index(create, cx, ddl).await,
        Statement::AlterTable(alter) => alter::alter_table(alter, cx, ddl).await,
        Statement::DropTable(drop) => drop::drop_table(drop, cx, ddl).await,
        Statement::DropIndex(drop) => drop::drop_index(drop, cx, ddl).await,
        Statement::Truncate(truncate) => drop::truncate(truncate, cx, ddl).await,
        Statement::CreateSequence(create) => sequence::create_sequence(create, cx, ddl).await,
        Statement::AlterSequence(alter) => sequence::alter_sequence(alter, cx, ddl).await,
        Statement::DropSequence(drop) => sequence::drop_sequence(drop, cx, ddl).await,
        Statement::CreateView(create) => view::create_view(create, cx, ddl).await,
        Statement::DropView(drop) => view::drop_view(drop, cx, ddl).await,
        Statement::CreateSchema(create) => schema::create_schema(create, cx, ddl).await,
        Statement::DropSchema(drop) => schema::drop_schema(drop, cx, ddl).await,
        Statement::CreateRole(create) => role::create_role(create, cx, ddl).await,
        Statement::AlterRole(alter) => role::alter_role(alter, cx, ddl).await,
        Statement::DropRole(drop) => role::drop_role(drop, cx, ddl).await,
        _ => Err(SqlError::internal("not a DDL statement").into()),
    }
}

/// The command name of a statement for [`run_ddl`]; `None` for any other.
pub fn ddl_command(statement: &Statement) -> Option<&'static str> {
    Some(match statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::AlterTable(alter) => alter.tag(),
        Statement::DropTable(_) => "DROP TABLE",
        Statement::DropIndex(_) => "DROP INDEX",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::CreateSequence(_) => "CREATE SEQUENCE",
        Statement::AlterSequence(_) => "ALTER SEQUENCE",
        Statement::DropSequence(_) => "DROP SEQUENCE",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::DropView(_) => "DROP VIEW",
        Statement::CreateSchema(_) => "CREATE SCHEMA",
        Statement::DropSchema(_) => "DROP SCHEMA",
        Statement::CreateRole(_) => "CREATE ROLE",
        Statement::AlterRole(_) => "ALTER ROLE",
        Statement::DropRole(_) => "DROP ROLE",
        _ => return None,
    })
}
