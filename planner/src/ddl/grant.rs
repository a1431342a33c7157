//! GRANT and REVOKE of privileges, ALTER DEFAULT PRIVILEGES.

use fencepost_sql::bound::{DefaultPrivileges, Grant, NamedObject, RoleRef};
use fencepost_sql::catalog::acl::{self, Acl, Dependent, PUBLIC, Privileges};
use fencepost_sql::catalog::{DefaultAcl, Object, ObjectKind, RoleDef, denied, no_privilege};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::order::StableSort;
use fencepost_sql::stop::StatementStop;

use super::authorize::{Authorizer, schema_object};
use super::changes::Changes;
use super::ownership::{about, role_of, store};
use super::touch::touch;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// SQLSTATE 0LP01, `invalid_grant_operation`.
const INVALID_GRANT: SqlState = SqlState::new(b"0LP01");
/// SQLSTATE 01007, `privilege_not_granted`.
const NOT_GRANTED: SqlState = SqlState::new(b"01007");
/// SQLSTATE 01006, `privilege_not_revoked`.
const NOT_REVOKED: SqlState = SqlState::new(b"01006");

/// The kind of change to an access control list.
#[derive(Clone, Copy)]
struct GrantChange {
    revoke: bool,
    option: bool,
    cascade: bool,
}

/// Returns the oids of the roles that get or lose privileges.
fn grantees(
    list: &[Option<RoleRef>],
    how: GrantChange,
    cx: &Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<Vec<u32>, SqlError> {
    let mut all = Vec::with_capacity(list.len());
    for grantee in list {
        all.push(match grantee {
            None if how.option && !how.revoke => {
                let message = "grant options can only be granted to roles";
                return Err(SqlError::new(INVALID_GRANT, message));
            }
            None => PUBLIC,
            Some(role) => role_of(role, cx, ddl)?.id,
        });
    }
    Ok(all)
}

/// Runs GRANT and REVOKE. Returns the command tag.
pub async fn grant(
    statement: &Grant,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let how = GrantChange {
        revoke: statement.revoke,
        option: statement.option,
        cascade: statement.cascade,
    };
    let grantees = grantees(&statement.grantees, how, cx, ddl)?;
    if let Some(by) = &statement.by
        && role_of(by, cx, ddl)?.id != asker.role
    {
        let message = "grantor must be current user";
        return Err(SqlError::new(INVALID_GRANT, message).into());
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for object in &statement.objects {
        let mut said = about(object.object, ddl);
        for (privileges, columns) in &statement.privileges {
            if columns.is_empty() {
                whole(
                    object,
                    *privileges,
                    (how, &grantees),
                    &asker,
                    &mut said,
                    ddl,
                )?;
                continue;
            }
            for column in columns {
                let wanted = privileges.unwrap_or(ObjectKind::OF_COLUMNS);
                let of = (object, column.as_str());
                one_column(of, wanted, (how, &grantees), &asker, &mut said, ddl)?;
            }
        }
        store(&said, object.object, cx, ddl).await?;
        touch(object.object, cx, ddl, &mut changes).await?;
    }
    changes.finish(cx, ddl).await?;
    Ok(if statement.revoke { "REVOKE" } else { "GRANT" })
}

/// Returns the grantor, and those of the wanted privileges that it may grant. Warnings report the
/// others.
fn givable(
    named: &NamedObject,
    list: &Acl,
    (wanted, all): (Privileges, bool),
    how: GrantChange,
    (asker, ddl): (&Authorizer<'_>, &mut DdlCx<'_>),
) -> Result<(u32, Privileges), SqlError> {
    let security = ddl.snapshot.security();
    let object = named.object;
    let (grantor, givable) = security.grantor(asker.role, (object, list), wanted);
    if givable.is_none() {
        let any = security.allowed(asker.role, object, object.kind.privileges());
        let options = security.grantor(asker.role, (object, list), object.kind.privileges());
        let of_columns = security.allowed_any_column(asker.role, object, ObjectKind::OF_COLUMNS);
        if any.is_none() && options.1.is_none() && !of_columns {
            return Err(no_privilege(object.kind, &named.name));
        }
    }
    let (state, none, some) = match how.revoke {
        false => (
            NOT_GRANTED,
            "no privileges were granted for",
            "not all privileges were granted for",
        ),
        true => (
            NOT_REVOKED,
            "no privileges could be revoked for",
            "not all privileges could be revoked for",
        ),
    };
    let problem = match () {
        () if givable.is_none() => none,
        () if givable != wanted && !all => some,
        () => return Ok((grantor, givable)),
    };
    let message = format!("{problem} \"{}\"", named.name);
    ddl.notices.push(Notice::warning(state, message));
    Ok((grantor, givable))
}

/// Changes an access control list.
fn change(
    list: &mut Acl,
    (grantor, grantees): (u32, &[u32]),
    privileges: Privileges,
    how: GrantChange,
    owner: u32,
) -> Result<(), SqlError> {
    for grantee in grantees {
        match how.revoke {
            false => acl::grant(list, (grantor, *grantee), privileges, how.option),
            true => {
                let only = (how.option, how.cascade);
                acl::revoke(list, (grantor, *grantee), privileges, only, owner)
                    .map_err(|Dependent| dependent())?;
            }
        }
    }
    Ok(())
}

fn dependent() -> SqlError {
    SqlError::new(SqlState::DEPENDENT_OBJECTS, "dependent privileges exist")
        .hint("Use CASCADE to revoke them too.")
}

fn whole(
    named: &NamedObject,
    privileges: Option<Privileges>,
    (how, grantees): (GrantChange, &[u32]),
    asker: &Authorizer<'_>,
    said: &mut fencepost_sql::catalog::ObjectAttributes,
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let object = named.object;
    let wanted = privileges.unwrap_or_else(|| object.kind.privileges());
    let owner = ddl.snapshot.security().owner(object);
    let mut list = said.acl.clone().unwrap_or_else(|| object.first_acl(owner));
    let asked = (wanted, privileges.is_none());
    let (grantor, given) = givable(named, &list, asked, how, (asker, &mut *ddl))?;
    change(&mut list, (grantor, grantees), given, how, owner)?;
    said.acl = Some(list);
    if how.revoke {
        // Privileges on single columns are revoked, too.
        let of_columns = given.within(ObjectKind::OF_COLUMNS);
        for (_, list) in &mut said.columns {
            change(list, (grantor, grantees), of_columns, how, owner)?;
        }
        said.columns.retain(|(_, list)| !list.is_empty());
    }
    Ok(())
}

fn one_column(
    (named, column): (&NamedObject, &str),
    wanted: Privileges,
    (how, grantees): (GrantChange, &[u32]),
    asker: &Authorizer<'_>,
    said: &mut fencepost_sql::catalog::ObjectAttributes,
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let columns = ddl.snapshot.column_names(named.object.id);
    let Some(at) = columns.iter().position(|name| name == column) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                named.name
            ),
        ));
    };
    let number = i16::try_from(at + 1).unwrap_or(i16::MAX);
    let owner = ddl.snapshot.security().owner(named.object);
    let before = said.columns.iter().position(|(of, _)| *of == number);
    let mut list = before.map_or_else(Vec::new, |at| said.columns[at].1.clone());
    // A role with the grant option on the whole table may also grant privileges on each column.
    let whole = said
        .acl
        .clone()
        .unwrap_or_else(|| named.object.first_acl(owner));
    let mut both = list.clone();
    both.extend(whole);
    let (grantor, given) = givable(named, &both, (wanted, false), how, (asker, &mut *ddl))?;
    change(&mut list, (grantor, grantees), given, how, owner)?;
    said.columns.retain(|(of, _)| *of != number);
    if !list.is_empty() {
        said.columns.push((number, list));
        said.columns.order_by_key(|(of, _)| *of);
    }
    Ok(())
}

/// Runs ALTER DEFAULT PRIVILEGES. Returns the command tag.
pub async fn default_privileges(
    statement: &DefaultPrivileges,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let how = GrantChange {
        revoke: statement.revoke,
        option: statement.option,
        cascade: statement.cascade,
    };
    let grantees = grantees(&statement.grantees, how, cx, ddl)?;
    let mut roles: Vec<std::sync::Arc<RoleDef>> = Vec::new();
    for role in &statement.roles {
        roles.push(role_of(role, cx, ddl)?);
    }
    if roles.is_empty() {
        roles.push(role_of(&RoleRef::Own, cx, ddl)?);
    }
    let security = ddl.snapshot.security();
    for role in &roles {
        if !security.is_member_of(asker.role, role.id) {
            return Err(denied(format!("must be member of role \"{}\"", role.name)).into());
        }
    }
    let mut schemas = Vec::new();
    for name in &statement.schemas {
        match schema_object(ddl.snapshot, name).id {
            0 => {
                return Err(SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{name}\" does not exist"),
                )
                .into());
            }
            id => schemas.push(id),
        }
    }
    if schemas.is_empty() {
        schemas.push(0);
    }
    let changes = Changes::begin(cx, ddl).await?;
    for role in &roles {
        for schema in &schemas {
            let of = (role.id, *schema);
            one_default(statement, of, (how, &grantees), cx, ddl).await?;
        }
    }
    changes.finish(cx, ddl).await?;
    Ok("ALTER DEFAULT PRIVILEGES")
}

async fn one_default(
    statement: &DefaultPrivileges,
    (role, schema): (u32, u32),
    (how, grantees): (GrantChange, &[u32]),
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    let kind = statement.kind;
    let known = ddl.snapshot.security().defaults().iter();
    let mut known = known.filter(|of| of.role == role && of.schema == schema);
    let known = known.find(|of| of.kind == kind).cloned();
    let fresh = || match schema {
        0 => Object::new(kind, 0).first_acl(role),
        _ => Vec::new(),
    };
    let mut list = known.as_ref().map_or_else(fresh, |of| of.acl.clone());
    let wanted = statement.privileges.unwrap_or_else(|| kind.privileges());
    change(&mut list, (role, grantees), wanted, how, role)?;
    // Without a schema, the list replaces the built-in defaults, even if it is empty. For one
    // schema, it is added to them.
    let is_default = acl::same(&list, &fresh());
    if known.is_none() && is_default {
        return Ok(());
    }
    let id = match &known {
        Some(known) => known.id,
        None => ddl.catalog.next_oid(cx.tx).await?,
    };
    let of = DefaultAcl {
        id,
        role,
        schema,
        kind,
        acl: list,
    };
    let catalog = ddl.catalog;
    catalog
        .replace_default_acl(cx.tx, (known.is_some(), &of), is_default)
        .await
}
