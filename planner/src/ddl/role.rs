//! CREATE ROLE, ALTER ROLE, DROP ROLE.
//!
//! Only a superuser may, except that every role may change its own password. Plain passwords are
//! made verifiers before they are stored.

use std::sync::Arc;

use fencepost_sql::bound::{AlterRole, CreateRole, DropRole, RoleOptions, RoleRef};
use fencepost_sql::catalog::{CatalogView, RoleDef, SUPERUSER_OID};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::password::Verifier;
use fencepost_sql::stop::Halt;

use super::{DdlCx, Notice};
use crate::exec::Cx;

/// CREATE ROLE.
pub async fn create_role(
    statement: &CreateRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    let (name, options) = (&statement.name, &statement.options);
    if !is_superuser(cx, ddl)? {
        let message = match options.superuser {
            Some(true) => "must be superuser to create superusers",
            _ => "permission denied to create role",
        };
        return Err(denied(message).into());
    }
    if name.starts_with("pg_") {
        let message = format!("role name \"{name}\" is reserved");
        return Err(SqlError::new(SqlState::RESERVED_NAME, message)
            .detail("Role names starting with \"pg_\" are reserved.")
            .into());
    }
    if ddl.snapshot.role(name)?.is_some() {
        let message = format!("role \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
    }
    if options.sysid {
        let message = "SYSID can no longer be specified";
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let mut role = RoleDef {
        id: 0,
        name: name.clone(),
        superuser: false,
        login: false,
        verifier: None,
    };
    apply(options, &mut role, ddl)?;
    begin_change(cx, ddl).await?;
    role.id = ddl.catalog.next_oid(cx.tx).await?;
    ddl.catalog.insert_role(cx.tx, &role).await?;
    Ok("CREATE ROLE")
}

/// ALTER ROLE.
pub async fn alter_role(
    statement: &AlterRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    let options = &statement.options;
    let name = match &statement.role {
        RoleRef::Named(name) => name,
        RoleRef::Own => &cx.eval.user,
    };
    let role = existing(name, ddl)?;
    if !is_superuser(cx, ddl)? {
        if role.superuser || options.superuser.is_some() {
            return Err(denied(
                "must be superuser to alter superuser roles or change superuser attribute",
            )
            .into());
        }
        let own_password = role.name == cx.eval.user
            && options.password.is_some()
            && options.login.is_none()
            && !options.others;
        if !own_password {
            return Err(denied("permission denied").into());
        }
    }
    if role.id == SUPERUSER_OID && options.superuser == Some(false) {
        // There would be nobody left to give it back.
        return Err(denied("permission denied to alter role")
            .detail("The bootstrap superuser must have the SUPERUSER attribute.")
            .into());
    }
    let mut changed = RoleDef::clone(&role);
    apply(options, &mut changed, ddl)?;
    begin_change(cx, ddl).await?;
    ddl.catalog.remove_role(cx.tx, &role).await?;
    ddl.catalog.insert_role(cx.tx, &changed).await?;
    Ok("ALTER ROLE")
}

/// DROP ROLE.
pub async fn drop_role(
    statement: &DropRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, Halt> {
    if !is_superuser(cx, ddl)? {
        return Err(denied("permission denied to drop role").into());
    }
    let mut roles: Vec<Arc<RoleDef>> = Vec::new();
    for name in &statement.names {
        if statement.if_exists && ddl.snapshot.role(name)?.is_none() {
            let message = format!("role \"{name}\" does not exist, skipping");
            ddl.notices
                .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
            continue;
        }
        let role = existing(name, ddl)?;
        if role.name == cx.eval.user {
            let message = "current user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
        }
        if role.id == SUPERUSER_OID {
            let message =
                format!("cannot drop role {name} because it is required by the database system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message).into());
        }
        if roles.iter().all(|r| r.id != role.id) {
            roles.push(role);
        }
    }
    if !roles.is_empty() {
        begin_change(cx, ddl).await?;
    }
    for role in &roles {
        ddl.catalog.remove_role(cx.tx, role).await?;
    }
    Ok("DROP ROLE")
}

async fn begin_change(cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), Halt> {
    let planned = ddl.snapshot.version();
    ddl.catalog.begin_change(cx.tx, planned).await.map(drop)
}

fn is_superuser(cx: &Cx<'_>, ddl: &DdlCx<'_>) -> Result<bool, SqlError> {
    let asking = ddl.snapshot.role(&cx.eval.user)?;
    Ok(asking.is_some_and(|role| role.superuser))
}

fn existing(name: &str, ddl: &DdlCx<'_>) -> Result<Arc<RoleDef>, SqlError> {
    ddl.snapshot.role(name)?.ok_or_else(|| {
        let message = format!("role \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

fn apply(options: &RoleOptions, role: &mut RoleDef, ddl: &mut DdlCx<'_>) -> Result<(), SqlError> {
    role.superuser = options.superuser.unwrap_or(role.superuser);
    role.login = options.login.unwrap_or(role.login);
    if let Some(password) = &options.password {
        role.verifier = match password {
            Some(password) => verifier(password, ddl)?,
            None => None,
        };
    }
    Ok(())
}

/// The verifier of a password, which may be one already; `None` for an empty password, which
/// nobody could log in with.
fn verifier(password: &str, ddl: &mut DdlCx<'_>) -> Result<Option<String>, SqlError> {
    let md5 = password.strip_prefix("md5").is_some_and(|hash| {
        hash.len() == 32 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    });
    if md5 {
        return Err(SqlError::unsupported("an MD5 password"));
    }
    if password.is_empty() {
        let message = "empty string is not a valid password, clearing password";
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
        return Ok(None);
    }
    let given = Verifier::parse(password);
    let verifier = given.unwrap_or_else(|| Verifier::of_password(password, ddl.salt));
    Ok(Some(verifier.to_string()))
}

fn denied(message: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
