//! GRANT and REVOKE of membership in roles.

use fencepost_sql::bound::GrantRole;
use fencepost_sql::catalog::{Membership, RoleDef, Security, denied};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;

use super::authorize::Authorizer;
use super::changes::Changes;
use super::ownership::role_of;
use super::role::existing;
use super::touch::touch_all_of;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// SQLSTATE 0LP01, `invalid_grant_operation`.
const INVALID_GRANT: SqlState = SqlState::new(b"0LP01");

/// Returns the command tag.
pub fn tag(statement: &GrantRole) -> &'static str {
    match statement.revoke {
        true => "REVOKE ROLE",
        false => "GRANT ROLE",
    }
}

/// Runs GRANT role TO role and REVOKE role FROM role. Returns the command tag.
pub async fn grant_role(
    statement: &GrantRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let by = match &statement.by {
        Some(by) => role_of(by, cx, ddl)?.id,
        None => asker.role,
    };
    if by != asker.role && !asker.superuser {
        return Err(denied("must be superuser to set grantor").into());
    }
    let mut roles = Vec::new();
    for name in &statement.roles {
        let role = existing(name, ddl)?;
        check_admin(&asker, &role, ddl)?;
        roles.push(role);
    }
    let mut members = Vec::new();
    for member in &statement.members {
        members.push(RoleDef::clone(&*role_of(member, cx, ddl)?));
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for role in &roles {
        for member in &mut members {
            match statement.revoke {
                true => part(member, role, statement.admin, ddl),
                false => join(member, role, (statement.admin, by), ddl)?,
            }
        }
    }
    for member in &members {
        ddl.catalog.replace_role(cx.tx, member).await?;
    }
    let changed: Vec<u32> = roles.iter().map(|role| role.id).collect();
    touch_roles(&changed, cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(tag(statement))
}

/// Invalidates the plans that depend on the privileges of these roles, or of roles that they are
/// members of.
pub async fn touch_roles(
    roles: &[u32],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let security = ddl.snapshot.security();
    let reached = roles
        .iter()
        .flat_map(|role| security.roles_of(*role, false));
    let reached: Vec<u32> = reached.collect();
    touch_all_of(&reached, cx, ddl, changes).await
}

/// Checks that the role may grant membership in `role`: superusers and its admins may; roles with
/// CREATEROLE may unless `role` is a superuser.
pub fn check_admin(
    asker: &Authorizer<'_>,
    role: &RoleDef,
    ddl: &DdlCx<'_>,
) -> Result<(), SqlError> {
    let security: &Security = ddl.snapshot.security();
    if role.superuser {
        return match asker.superuser {
            true => Ok(()),
            false => Err(denied("must be superuser to alter superusers")),
        };
    }
    let creates = security
        .role(asker.role)
        .is_some_and(|role| role.create_role);
    match asker.superuser || creates || security.is_admin_of(asker.role, role.id) {
        true => Ok(()),
        false => Err(denied(format!(
            "must have admin option on role \"{}\"",
            role.name
        ))),
    }
}

/// Makes a role a member of another; reports a notice if it already is one.
pub fn join(
    member: &mut RoleDef,
    role: &RoleDef,
    (admin, grantor): (bool, u32),
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    if role.name == "pg_database_owner" {
        let message = "role \"pg_database_owner\" cannot have explicit members";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    if member.name == "pg_database_owner" {
        let message = "role \"pg_database_owner\" cannot be a member of any role";
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    let security = ddl.snapshot.security();
    if member.id == role.id || security.roles_of(role.id, false).contains(&member.id) {
        let message = format!(
            "role \"{}\" is a member of role \"{}\"",
            role.name, member.name
        );
        return Err(SqlError::new(INVALID_GRANT, message));
    }
    let known = member.member_of.iter_mut().find(|of| of.role == role.id);
    match known {
        Some(known) if known.admin || !admin => {
            let message = format!(
                "role \"{}\" is already a member of role \"{}\"",
                member.name, role.name
            );
            let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
            ddl.notices.push(notice);
        }
        Some(known) => known.admin = true,
        None => member.member_of.push(Membership {
            role: role.id,
            admin,
            grantor,
        }),
    }
    Ok(())
}

/// Ends the membership of a role, or only its admin option; reports a warning if it is no member.
fn part(member: &mut RoleDef, role: &RoleDef, admin: bool, ddl: &mut DdlCx<'_>) {
    let known = member.member_of.iter_mut().find(|of| of.role == role.id);
    match known {
        Some(known) if admin => known.admin = false,
        Some(_) => member.member_of.retain(|of| of.role != role.id),
        None => {
            let message = format!(
                "role \"{}\" is not a member of role \"{}\"",
                member.name, role.name
            );
            let notice = Notice::warning(SqlState::WARNING, message);
            ddl.notices.push(notice);
        }
    }
}
