//! CREATE ROLE, ALTER ROLE, DROP ROLE.
//!
//! Superusers may run them, and roles with CREATEROLE for roles that are not superusers. Every role
//! may change its own password. Plain passwords are converted to verifiers before they are stored.
//! Plans that depend on changed privileges are invalidated by `touch.rs`.

use std::sync::Arc;

use fencepost_sql::bound::{
    AlterDatabase, AlterRole, CreateRole, DatabaseChange, DropRole, RoleChange, RoleOptions,
    RoleRef, SettingChange,
};
use fencepost_sql::catalog::{
    CatalogView, Object, ObjectKind, RoleDef, RoleSettings, SETTINGS_OF_ALL, SUPERUSER_OID,
    Security, Snapshot,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::password::Verifier;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::{Type, TypeKind, text_in};
use fencepost_sql::value::Value;

use super::authorize::Authorizer;
use super::changes::Changes;
use super::database::{alter_database, change_settings, missing};
use super::membership::{check_admin, join, touch_roles};
use super::ownership::role_of;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// The detail of the error for names that no role of a user may have.
const RESERVED: &str = "Role names starting with \"pg_\" are reserved.";

/// Runs CREATE ROLE. Returns the command tag.
pub async fn create_role(
    statement: &CreateRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let (name, options) = (&statement.name, &statement.options);
    let asker = Authorizer::of(cx, ddl)?;
    check_attributes(options, &asker, "create")?;
    if !asker.superuser && !creates_roles(&asker, ddl) {
        return Err(denied("permission denied to create role").into());
    }
    check_not_reserved(name, RESERVED)?;
    if ddl.snapshot.role(name)?.is_some() {
        let message = format!("role \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
    }
    if options.sysid {
        let message = "SYSID can no longer be specified";
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let mut role = RoleDef::new(0, name);
    apply(options, &mut role, cx, ddl)?;
    for of in &options.member_of {
        let of = existing(of, ddl)?;
        check_admin(&asker, &of, ddl)?;
        join(&mut role, &of, (false, asker.role), ddl)?;
    }
    begin_change(cx, ddl).await?;
    role.id = ddl.catalog.next_oid(cx.tx).await?;
    ddl.catalog.insert_role(cx.tx, &role).await?;
    let members = options.members.iter().map(|member| (member, false));
    let admins = options.admins.iter().map(|member| (member, true));
    for (member, admin) in members.chain(admins) {
        let mut member = RoleDef::clone(&*role_of(member, cx, ddl)?);
        join(&mut member, &role, (admin, asker.role), ddl)?;
        ddl.catalog.replace_role(cx.tx, &member).await?;
    }
    Ok("CREATE ROLE")
}

/// Checks that no predefined role has this name; 42939 with `detail` otherwise.
fn check_not_reserved(name: &str, detail: &str) -> Result<(), SqlError> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let message = format!("role name \"{name}\" is reserved");
    Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail))
}

/// Returns whether the role has CREATEROLE.
fn creates_roles(asker: &Authorizer<'_>, ddl: &DdlCx<'_>) -> bool {
    let role = ddl.snapshot.security().role(asker.role);
    role.is_some_and(|role| role.create_role)
}

/// Returns an error if the statement gives an attribute that only superusers may give.
fn check_attributes(
    options: &RoleOptions,
    asker: &Authorizer<'_>,
    what: &str,
) -> Result<(), SqlError> {
    let given = [
        (options.superuser, "superusers", "superuser"),
        (options.replication, "replication users", "replication"),
        (options.bypass_rls, "bypassrls users", "bypassrls"),
    ];
    for (given, users, attribute) in given {
        let refused = match what {
            "create" if given == Some(true) => format!("must be superuser to create {users}"),
            "alter" if given.is_some() && attribute == "superuser" => {
                "must be superuser to alter superuser roles or change superuser attribute"
                    .to_owned()
            }
            "alter" if given.is_some() => format!(
                "must be superuser to alter {attribute} roles or change {attribute} attribute"
            ),
            _ => continue,
        };
        if !asker.superuser {
            return Err(denied(&refused));
        }
    }
    Ok(())
}

/// Runs ALTER ROLE. Returns the command tag.
pub async fn alter_role(
    statement: &AlterRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    if let RoleChange::SettingOfAll(database, change) = &statement.change {
        return set_for_all((database.as_deref(), change), &asker, cx, ddl).await;
    }
    let renames = matches!(statement.change, RoleChange::Rename(_));
    if let RoleRef::Named(name) = &statement.role
        && !renames
    {
        check_not_reserved(name, "Cannot alter reserved roles.")?;
    }
    let role = role_of(&statement.role, cx, ddl)?;
    let options = match &statement.change {
        RoleChange::Options(options) => options,
        RoleChange::Rename(to) => return rename_role(&role, to, &asker, cx, ddl).await,
        RoleChange::Setting(database, change) => {
            return set_for_role(&role, (database.as_deref(), change), &asker, cx, ddl).await;
        }
        RoleChange::SettingOfAll(..) => {
            return Err(SqlError::internal("ALTER ROLE ALL was looked at").into());
        }
    };
    check_attributes(options, &asker, "alter")?;
    if !asker.superuser {
        if role.superuser {
            return Err(denied(
                "must be superuser to alter superuser roles or change superuser attribute",
            )
            .into());
        }
        let own_password = role.id == asker.role
            && *options
                == RoleOptions {
                    password: options.password.clone(),
                    ..RoleOptions::default()
                };
        if !own_password && !creates_roles(&asker, ddl) {
            return Err(denied("permission denied").into());
        }
    }
    if role.id == SUPERUSER_OID && options.superuser == Some(false) {
        // No other role could restore the attribute.
        return Err(denied("permission denied to alter role")
            .detail("The bootstrap superuser must have the SUPERUSER attribute.")
            .into());
    }
    let mut changed = RoleDef::clone(&role);
    apply(options, &mut changed, cx, ddl)?;
    let mut changes = Changes::begin(cx, ddl).await?;
    ddl.catalog.replace_role(cx.tx, &changed).await?;
    if changed.superuser != role.superuser {
        touch_roles(&[SUPERUSER_OID], cx, ddl, &mut changes).await?;
    } else if changed.inherit != role.inherit {
        touch_roles(&[role.id], cx, ddl, &mut changes).await?;
    }
    changes.finish(cx, ddl).await?;
    Ok("ALTER ROLE")
}

/// Runs ALTER ROLE … RENAME TO. Returns the command tag.
async fn rename_role(
    role: &RoleDef,
    to: &str,
    asker: &Authorizer<'_>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    for (name, which) in [
        (cx.eval.session_user.clone(), "session"),
        (cx.eval.current_user(), "current"),
    ] {
        if role.name == name {
            let message = format!("{which} user cannot be renamed");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
    }
    for name in [role.name.as_str(), to] {
        check_not_reserved(name, RESERVED)?;
    }
    if ddl.snapshot.role(to)?.is_some() {
        let message = format!("role \"{to}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
    }
    if role.superuser && !asker.superuser {
        return Err(denied("must be superuser to rename superusers").into());
    }
    if !asker.superuser && !creates_roles(asker, ddl) {
        return Err(denied("permission denied to rename role").into());
    }
    let renamed = RoleDef {
        name: to.to_owned(),
        ..role.clone()
    };
    begin_change(cx, ddl).await?;
    ddl.catalog.replace_role(cx.tx, &renamed).await?;
    Ok("ALTER ROLE")
}

/// Runs ALTER ROLE … SET and RESET. Returns the command tag.
async fn set_for_role(
    role: &RoleDef,
    (database, change): (Option<&str>, &SettingChange),
    asker: &Authorizer<'_>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    if role.superuser && !asker.superuser {
        return Err(denied("must be superuser to alter superusers").into());
    }
    if !asker.superuser && role.id != asker.role && !creates_roles(asker, ddl) {
        return Err(denied("permission denied").into());
    }
    let database = match database {
        None => 0,
        Some(name) => match ddl.snapshot.database_named(name) {
            Some(database) => database.id,
            None => return Err(missing(name).into()),
        },
    };
    keep_settings(role, (database, change), asker, cx, ddl).await
}

/// Runs ALTER ROLE ALL … SET and RESET. For one database it acts like ALTER DATABASE. For all
/// databases, the settings are stored with the first superuser, which always exists.
async fn set_for_all(
    (database, change): (Option<&str>, &SettingChange),
    asker: &Authorizer<'_>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    if !asker.superuser {
        return Err(denied("must be superuser to alter settings globally").into());
    }
    if let Some(name) = database {
        let alter = AlterDatabase {
            name: name.to_owned(),
            change: DatabaseChange::Setting(change.clone()),
        };
        alter_database(&alter, cx, ddl).await?;
        return Ok("ALTER ROLE");
    }
    let mut roles = ddl.snapshot.roles().into_iter();
    let first = roles.find(|role| role.id == SUPERUSER_OID);
    let first = first.ok_or_else(|| SqlError::internal("the first superuser is gone"))?;
    let first = RoleDef::clone(&first);
    keep_settings(&first, (SETTINGS_OF_ALL, change), asker, cx, ddl).await
}

async fn keep_settings(
    role: &RoleDef,
    (database, change): (u32, &SettingChange),
    asker: &Authorizer<'_>,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let mut changed = role.clone();
    let at = changed
        .settings
        .iter()
        .position(|of| of.database == database);
    let at = at.unwrap_or_else(|| {
        changed.settings.push(RoleSettings {
            database,
            settings: Vec::new(),
        });
        changed.settings.len() - 1
    });
    let settings = &mut changed.settings[at].settings;
    change_settings(settings, change, asker.superuser, cx.eval)?;
    changed.settings.retain(|of| !of.settings.is_empty());
    begin_change(cx, ddl).await?;
    ddl.catalog.replace_role(cx.tx, &changed).await?;
    Ok("ALTER ROLE")
}

/// Runs DROP ROLE. Returns the command tag.
pub async fn drop_role(
    statement: &DropRole,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    if !asker.superuser && !creates_roles(&asker, ddl) {
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
        if role.name == cx.eval.current_user() {
            let message = "current user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
        }
        if role.name == cx.eval.session_user {
            let message = "session user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
        }
        if role.id == SUPERUSER_OID || Security::is_predefined(role.id) {
            let message =
                format!("cannot drop role {name} because it is required by the database system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message).into());
        }
        if role.superuser && !asker.superuser {
            return Err(denied("must be superuser to drop superusers").into());
        }
        check_unused(&role, cx, ddl).await?;
        if roles.iter().all(|r| r.id != role.id) {
            roles.push(role);
        }
    }
    if roles.is_empty() {
        return Ok("DROP ROLE");
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let dropped_ids: Vec<u32> = roles.iter().map(|role| role.id).collect();
    touch_roles(&dropped_ids, cx, ddl, &mut changes).await?;
    for role in &roles {
        ddl.catalog.remove_role(cx.tx, role).await?;
    }
    for other in ddl.snapshot.roles() {
        let mut left = RoleDef::clone(&other);
        left.member_of.retain(|of| !dropped_ids.contains(&of.role));
        if left.member_of.len() != other.member_of.len() && !dropped_ids.contains(&other.id) {
            ddl.catalog.replace_role(cx.tx, &left).await?;
        }
    }
    changes.finish(cx, ddl).await?;
    Ok("DROP ROLE")
}

/// Returns error 2BP01 for a role that owns objects, or has privileges on objects.
async fn check_unused(
    role: &RoleDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let mut used = uses(role, ddl.snapshot, true);
    for database in ddl.snapshot.databases() {
        if database.id == ddl.snapshot.database() {
            continue;
        }
        let snapshot = ddl.catalog.of(database).snapshot(cx.tx).await?;
        match uses(role, &snapshot, false).len() {
            0 => {}
            1 => used.push(format!("1 object in database {}", database.name)),
            count => used.push(format!("{count} objects in database {}", database.name)),
        }
    }
    if used.is_empty() {
        return Ok(());
    }
    let message = format!(
        "role \"{}\" cannot be dropped because some objects depend on it",
        role.name
    );
    let error = SqlError::new(SqlState::DEPENDENT_OBJECTS, message);
    Err(error.detail(used.join("\n")).into())
}

/// Returns the objects of a database that a role owns or has privileges on. Includes databases
/// themselves if `common` is set.
fn uses(role: &RoleDef, snapshot: &Snapshot, common: bool) -> Vec<String> {
    let mut uses = Vec::new();
    let counts = |object: &Object| common || object.kind != ObjectKind::Database;
    for object in snapshot.owned_by(role.id).into_iter().filter(counts) {
        uses.push(format!("owner of {}", snapshot.object_description(object)));
    }
    let security = snapshot.security();
    for about in security.abouts() {
        let columns = about.columns.iter().map(|(_, acl)| acl);
        let mut items = about.acl.iter().chain(columns).flatten();
        let owns = about.owner == Some(role.id);
        if !owns
            && items.any(|item| item.grantee == role.id)
            && let Some(object) = snapshot.object_of(about.class, about.id)
            && counts(&object)
        {
            let description = snapshot.object_description(object);
            uses.push(format!("privileges for {description}"));
        }
    }
    for of in security.defaults() {
        let mut items = of.acl.iter();
        if of.role == role.id || items.any(|item| item.grantee == role.id) {
            let whose = security.role_name(of.role);
            uses.push(format!(
                "default privileges on new objects belonging to role {whose}"
            ));
        }
    }
    uses
}

async fn begin_change(cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), StatementStop> {
    let planned = ddl.snapshot.version();
    ddl.catalog.begin_change(cx.tx, planned).await.map(drop)
}

/// Returns the role with this name, or error 42704.
pub fn existing(name: &str, ddl: &DdlCx<'_>) -> Result<Arc<RoleDef>, SqlError> {
    ddl.snapshot.role(name)?.ok_or_else(|| {
        let message = format!("role \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

fn apply(
    options: &RoleOptions,
    role: &mut RoleDef,
    cx: &Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let flags = [
        (options.superuser, &mut role.superuser),
        (options.login, &mut role.login),
        (options.inherit, &mut role.inherit),
        (options.create_role, &mut role.create_role),
        (options.create_db, &mut role.create_db),
        (options.replication, &mut role.replication),
        (options.bypass_rls, &mut role.bypass_rls),
    ];
    for (said, flag) in flags {
        *flag = said.unwrap_or(*flag);
    }
    role.connections = options.connections.unwrap_or(role.connections);
    if let Some(until) = &options.valid_until {
        let moment = text_in(&Type::of(TypeKind::TimestampTz), until, &cx.eval.settings)?;
        role.valid_until = match moment {
            Value::TimestampTz(moment) => Some(moment),
            _ => None,
        };
    }
    if let Some(password) = &options.password {
        role.verifier = match password {
            Some(password) => verifier(password, ddl)?,
            None => None,
        };
    }
    Ok(())
}

/// Returns the verifier of a password, which may already be a verifier. Returns `None` for an empty
/// password, which does not allow logins.
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
    Ok(Some(Verifier::of_text(password, ddl.salt).to_string()))
}

fn denied(message: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
