//! Statements that change the catalog. They run inside the user's transaction, like other
//! statements.

mod alter;
mod authorize;
mod build_index;
mod cascades;
mod changes;
mod composite;
mod constraint_actions;
mod create;
mod cx;
mod database;
mod domain;
mod drop;
mod drop_locks;
mod drop_owned;
mod drop_type;
mod enum_labels;
mod extension;
mod follow;
mod grant;
mod hierarchy_keys;
mod keep;
mod locks;
mod materialized;
mod membership;
mod names;
mod ownership;
mod partition_action;
mod partition_hierarchy;
mod referencing;
mod rename_schema;
mod rename_view;
mod rewrite;
mod role;
mod routine;
mod routine_rules;
mod rules;
mod schema;
mod schema_elements;
mod sequence;
mod set_schema;
mod temporary;
mod touch;
mod trigger;
mod type_names;
mod typed_columns;
mod user_type;
mod view;

use fencepost_sql::bound::Statement;
use fencepost_sql::catalog::{Catalog, RoutineKind};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{Strength, Work};

use crate::exec::Cx;

pub use cx::{DdlCx, Notice};
pub use locks::lock_for_ddl;
pub use temporary::{
    drop_temporary_schema, end_temporary, made_until_commit, make_temporary_schema,
    makes_temporary, open_temporary_schema,
};

/// Waits for other transactions that change the catalog, and takes the lock on changes. It runs
/// before the statement is bound, so that the statement is bound with their changes.
///
/// # Errors
/// 55P03 if the wait exceeds `lock_timeout`; a conflict if they have changed definitions that the
/// transaction has read.
pub fn await_catalog_lock<'a>(
    cx: &'a mut Cx<'_>,
    catalog: &'a Catalog,
) -> Work<'a, Result<(), StatementStop>> {
    Box::pin(async move {
        cx.queue(catalog.heart(), Strength::Update).await?;
        catalog.catch_up(cx.tx).await
    })
}

/// Runs a DDL statement. Returns its command tag.
pub fn run_ddl<'a>(
    statement: &'a Statement,
    cx: &'a mut Cx<'_>,
    ddl: &'a mut DdlCx<'_>,
) -> Work<'a, Result<&'static str, StatementStop>> {
    Box::pin(async move {
        authorize::Authorizer::of(cx, ddl)?.check(statement, &cx.eval.database)?;
        let notices = ddl.notices.len();
        let done = run_statement(statement, cx, ddl).await?;
        cascades::gather(ddl.notices, notices);
        if may_drop(statement) {
            ownership::forget_dropped(cx, ddl).await?;
        }
        Ok(done)
    })
}

/// Returns whether the statement may drop objects.
fn may_drop(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::DropTable(_)
            | Statement::DropIndex(_)
            | Statement::DropSequence(_)
            | Statement::DropView(_)
            | Statement::DropType(_)
            | Statement::DropSchema(_)
            | Statement::DropExtension(_)
            | Statement::DropRoutine(_)
            | Statement::DropRole(_)
            | Statement::DropDatabase(_)
            | Statement::DropOwned(_)
            | Statement::AlterTable(_)
    )
}

async fn run_statement(
    statement: &Statement,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
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
        Statement::AlterView(alter) => view::alter_view(alter, cx, ddl).await,
        Statement::DropView(drop) => view::drop_view(drop, cx, ddl).await,
        Statement::RefreshView(refresh) => materialized::refresh(refresh, cx, ddl).await,
        Statement::CreateEnum(create) => user_type::create_enum(create, cx, ddl).await,
        Statement::CreateComposite(create) => composite::create_composite(create, cx, ddl).await,
        Statement::AlterComposite(alter) => composite::alter_composite(alter, cx, ddl).await,
        Statement::CreateDomain(create) => domain::create_domain(create, cx, ddl).await,
        Statement::AlterDomain(alter) => domain::alter_domain(alter, cx, ddl).await,
        Statement::AlterType(alter) => user_type::alter_type(alter, cx, ddl).await,
        Statement::DropType(drop) => drop_type::drop_type(drop, cx, ddl).await,
        Statement::CreateSchema(create) => schema::create_schema(create, cx, ddl).await,
        Statement::DropSchema(drop) => schema::drop_schema(drop, cx, ddl).await,
        Statement::RenameSchema(of) => rename_schema::rename_schema(of, cx, ddl).await,
        Statement::CreateExtension(of) => extension::create_extension(of, cx, ddl).await,
        Statement::DropExtension(drop) => extension::drop_extension(drop, cx, ddl).await,
        Statement::AlterExtension(of) => extension::alter_extension(of, cx, ddl).await,
        Statement::DropAbsent(drop) => {
            let message = drop.notice.clone();
            let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
            ddl.notices.push(notice);
            Ok(drop.command)
        }
        Statement::CreateRoutine(create) => routine::create_routine(create, cx, ddl).await,
        Statement::DropRoutine(drop) => routine::drop_routine(drop, cx, ddl).await,
        Statement::AlterRoutine(alter) => routine::alter_routine(alter, cx, ddl).await,
        Statement::CreateDatabase(create) => database::create_database(create, cx, ddl).await,
        Statement::DropDatabase(drop) => database::drop_database(drop, cx, ddl).await,
        Statement::AlterDatabase(alter) => database::alter_database(alter, cx, ddl).await,
        Statement::CreateRole(create) => role::create_role(create, cx, ddl).await,
        Statement::AlterRole(alter) => role::alter_role(alter, cx, ddl).await,
        Statement::DropRole(drop) => role::drop_role(drop, cx, ddl).await,
        Statement::GrantRole(grant) => membership::grant_role(grant, cx, ddl).await,
        Statement::Grant(grant) => grant::grant(grant, cx, ddl).await,
        Statement::DefaultPrivileges(of) => grant::default_privileges(of, cx, ddl).await,
        Statement::AlterOwner(alter) => ownership::alter_owner(alter, cx, ddl).await,
        Statement::DropOwned(of) => drop_owned::drop_owned(of, cx, ddl).await,
        Statement::RenameView(of) => rename_view::rename_view(of, cx, ddl).await,
        Statement::SetSchema(of) => set_schema::set_schema(of, cx, ddl).await,
        Statement::ReassignOwned(of) => ownership::reassign_owned(of, cx, ddl).await,
        Statement::Comment(comment) => ownership::comment(comment, cx, ddl).await,
        _ => Err(SqlError::internal("not a DDL statement").into()),
    }
}

/// Returns the command of a statement that cannot run inside a transaction block or a function;
/// `None` for other statements.
pub fn command_alone(statement: &Statement) -> Option<&'static str> {
    match statement {
        Statement::CreateDatabase(_) | Statement::DropDatabase(_) => ddl_command(statement),
        Statement::CreateIndex(create) if create.concurrently => Some("CREATE INDEX CONCURRENTLY"),
        Statement::DropIndex(drop) if drop.concurrently => Some("DROP INDEX CONCURRENTLY"),
        _ => None,
    }
}

/// Returns the command name of a statement for [`run_ddl`]; `None` for other statements.
pub fn ddl_command(statement: &Statement) -> Option<&'static str> {
    Some(match statement {
        Statement::CreateTable(create) => create.tag(),
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::AlterTable(alter) => alter.tag(),
        Statement::DropTable(drop) => drop.tag(),
        Statement::DropIndex(_) => "DROP INDEX",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::CreateSequence(_) => "CREATE SEQUENCE",
        Statement::AlterSequence(alter) => alter.tag(),
        Statement::DropSequence(_) => "DROP SEQUENCE",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::AlterView(alter) => alter.tag,
        Statement::DropView(_) => "DROP VIEW",
        Statement::RefreshView(_) => "REFRESH MATERIALIZED VIEW",
        Statement::CreateEnum(_) | Statement::CreateComposite(_) => "CREATE TYPE",
        Statement::AlterComposite(_) => "ALTER TYPE",
        Statement::CreateDomain(_) => "CREATE DOMAIN",
        Statement::AlterDomain(_) => "ALTER DOMAIN",
        Statement::AlterType(_) => "ALTER TYPE",
        Statement::DropType(drop) if drop.domain => "DROP DOMAIN",
        Statement::DropType(_) => "DROP TYPE",
        Statement::CreateSchema(_) => "CREATE SCHEMA",
        Statement::DropSchema(_) => "DROP SCHEMA",
        Statement::RenameSchema(_) => "ALTER SCHEMA",
        Statement::CreateExtension(_) => "CREATE EXTENSION",
        Statement::DropExtension(_) => "DROP EXTENSION",
        Statement::DropAbsent(drop) => drop.command,
        Statement::AlterExtension(_) => "ALTER EXTENSION",
        Statement::CreateRoutine(create) => match create.kind {
            RoutineKind::Function => "CREATE FUNCTION",
            RoutineKind::Procedure => "CREATE PROCEDURE",
        },
        Statement::DropRoutine(drop) => routine::drop_tag(drop.kind),
        Statement::AlterRoutine(_) => "ALTER FUNCTION",
        Statement::CreateDatabase(_) => "CREATE DATABASE",
        Statement::DropDatabase(_) => "DROP DATABASE",
        Statement::AlterDatabase(_) => "ALTER DATABASE",
        Statement::CreateRole(_) => "CREATE ROLE",
        Statement::AlterRole(_) => "ALTER ROLE",
        Statement::DropRole(_) => "DROP ROLE",
        Statement::GrantRole(grant) => membership::tag(grant),
        Statement::Grant(grant) if grant.revoke => "REVOKE",
        Statement::Grant(_) => "GRANT",
        Statement::DefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
        Statement::AlterOwner(_) => "ALTER OWNER",
        Statement::DropOwned(_) => "DROP OWNED",
        Statement::RenameView(_) => "ALTER VIEW",
        Statement::SetSchema(of) => of.tag,
        Statement::ReassignOwned(_) => "REASSIGN OWNED",
        Statement::Comment(_) => "COMMENT",
        _ => return None,
    })
}
