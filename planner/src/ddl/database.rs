//! CREATE, ALTER and DROP DATABASE.
//!
//! A new database is a copy of its template as of one snapshot. Definitions keep their oids, and
//! get their own trees, guards and sequence cells ([`copy`]). No other session may be connected to
//! a database that is copied, renamed or dropped. A session that connects meanwhile reads the old
//! state, and gets an error once the database is gone.

mod copy;

use std::time::{Duration, Instant};

use fencepost_sql::bound::{
    AlterDatabase, CreateDatabase, DatabaseChange, DatabaseOptions, DropDatabase, SettingChange,
};
use fencepost_sql::catalog::{
    CatalogView, DatabaseDef, Object, ObjectAttributes, ObjectKind, SUPERUSER_OID, TEMPLATE0_OID,
    denied,
};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::sessions::Signal;
use fencepost_sql::settings::{Settings, check_settable_by, display_name};
use fencepost_sql::stop::StatementStop;

use super::authorize::Authorizer;
use super::changes::Changes;
use super::ownership::{role_of, store};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// The template database that is copied by default.
const TEMPLATE: &str = "template1";
/// The time to wait for other sessions to disconnect, and the interval between checks.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const LOOK_US: u64 = 50_000;

/// Runs CREATE DATABASE. Returns the command tag.
pub async fn create_database(
    statement: &CreateDatabase,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let name = &statement.name;
    let owner = match &statement.owner {
        Some(owner) => role_of(owner, cx, ddl)?.id,
        None => asker.role,
    };
    let security = ddl.snapshot.security();
    if !may_create(&asker, ddl) {
        return Err(denied("permission denied to create database").into());
    }
    if !security.is_member_of(asker.role, owner) {
        let message = format!("must be member of role \"{}\"", security.role_name(owner));
        return Err(denied(message).into());
    }
    let template = statement.template.as_deref().unwrap_or(TEMPLATE);
    let Some(template) = ddl.snapshot.database_named(template) else {
        let message = format!("template database \"{template}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message).into());
    };
    let of_template = Object::new(ObjectKind::Database, template.id);
    if !template.is_template && !security.owns(asker.role, of_template) {
        let message = format!("permission denied to copy database \"{}\"", template.name);
        return Err(denied(message).into());
    }
    let mut database = DatabaseDef {
        collate: template.collate.clone(),
        ctype: template.ctype.clone(),
        ..DatabaseDef::new(0, name)
    };
    for (what, said, mine) in [
        ("collation", &statement.collate, &mut database.collate),
        ("LC_CTYPE", &statement.ctype, &mut database.ctype),
    ] {
        let Some(said) = said.as_ref().filter(|said| *said != mine) else {
            continue;
        };
        if template.id != TEMPLATE0_OID {
            return Err(incompatible(what, said, mine).into());
        }
        mine.clone_from(said);
    }
    if let Some(tablespace) = statement
        .tablespace
        .as_ref()
        .filter(|of| *of != "pg_default")
    {
        let message = match tablespace.as_str() {
            "pg_global" => "pg_global cannot be used as default tablespace".to_owned(),
            other => format!("tablespace \"{other}\" does not exist"),
        };
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
    }
    if ddl.snapshot.database_named(name).is_some() {
        return Err(exists(name).into());
    }
    set_options(&statement.options, &mut database);
    let refused = format!(
        "source database \"{}\" is being accessed by other users",
        template.name
    );
    await_others(&template.name, &refused, cx.eval).await?;
    let changes = Changes::begin(cx, ddl).await?;
    database.id = ddl.catalog.next_oid(cx.tx).await?;
    database.definitions = ddl.catalog.create_definitions(cx.tx).await?;
    ddl.catalog.insert_database(cx.tx, &database).await?;
    copy::copy(&template, &database, changes.version, cx, ddl).await?;
    let object = Object::new(ObjectKind::Database, database.id);
    let about = ObjectAttributes {
        owner: Some(owner).filter(|owner| *owner != SUPERUSER_OID),
        ..ObjectAttributes::of(object)
    };
    if !about.is_empty() {
        store(&about, object, cx, ddl).await?;
    }
    Ok("CREATE DATABASE")
}

/// Runs DROP DATABASE. Returns the command tag.
pub async fn drop_database(
    statement: &DropDatabase,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "DROP DATABASE";
    let name = &statement.name;
    let Some(database) = ddl.snapshot.database_named(name) else {
        if !statement.if_exists {
            return Err(missing(name).into());
        }
        let message = format!("database \"{name}\" does not exist, skipping");
        let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
        ddl.notices.push(notice);
        return Ok(TAG);
    };
    let asker = Authorizer::of(cx, ddl)?;
    asker.owns(ObjectKind::Database, database.id, name)?;
    if database.is_template {
        let message = "cannot drop a template database";
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
    }
    if database.id == ddl.snapshot.database() {
        let message = "cannot drop the currently open database";
        return Err(SqlError::new(SqlState::OBJECT_IN_USE, message).into());
    }
    if statement.force {
        end_others(name, &asker, cx.eval).await?;
    }
    let refused = format!("database \"{name}\" is being accessed by other users");
    await_others(name, &refused, cx.eval).await?;
    Changes::begin(cx, ddl).await?;
    copy::free(&database, cx, ddl).await?;
    Ok(TAG)
}

/// Runs ALTER DATABASE, except OWNER TO. Returns the command tag.
pub async fn alter_database(
    statement: &AlterDatabase,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let name = &statement.name;
    let Some(known) = ddl.snapshot.database_named(name) else {
        return Err(missing(name).into());
    };
    let asker = Authorizer::of(cx, ddl)?;
    asker.owns(ObjectKind::Database, known.id, name)?;
    let mut database = DatabaseDef::clone(&known);
    match &statement.change {
        DatabaseChange::Rename(to) => {
            if !may_create(&asker, ddl) {
                return Err(denied("permission denied to rename database").into());
            }
            if ddl.snapshot.database_named(to).is_some() {
                return Err(exists(to).into());
            }
            if known.id == ddl.snapshot.database() {
                let message = "current database cannot be renamed";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
            let refused = format!("database \"{name}\" is being accessed by other users");
            await_others(name, &refused, cx.eval).await?;
            database.name.clone_from(to);
        }
        DatabaseChange::Options(options) => {
            if options.connects == Some(false) && known.id == ddl.snapshot.database() {
                let message = "cannot disallow connections for current database";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
            }
            set_options(options, &mut database);
        }
        DatabaseChange::Setting(change) => {
            change_settings(&mut database.settings, change, asker.superuser, cx.eval)?
        }
    }
    Changes::begin(cx, ddl).await?;
    ddl.catalog.replace_database(cx.tx, &database).await?;
    Ok("ALTER DATABASE")
}

/// Returns whether the role may create databases (CREATEDB).
fn may_create(asker: &Authorizer<'_>, ddl: &DdlCx<'_>) -> bool {
    let role = ddl.snapshot.security().role(asker.role);
    asker.superuser || role.is_some_and(|role| role.create_db)
}

fn set_options(options: &DatabaseOptions, database: &mut DatabaseDef) {
    database.is_template = options.is_template.unwrap_or(database.is_template);
    database.connects = options.connects.unwrap_or(database.connects);
    database.connections = options.connections.unwrap_or(database.connections);
}

/// Changes the default settings of sessions. Returns 42704 or 22023 if a setting cannot be set in
/// this way.
pub fn change_settings(
    all: &mut Vec<(String, String)>,
    change: &SettingChange,
    superuser: bool,
    eval: &EvalContext,
) -> Result<(), SqlError> {
    let (name, value) = match change {
        SettingChange::Set(name, value) => (name, value.clone()),
        SettingChange::SetCurrent(name) => (name, Some(eval.setting(name).unwrap_or_default())),
        SettingChange::ResetAll => {
            all.clear();
            return Ok(());
        }
    };
    check_settable_by(name, superuser)?;
    change_setting(all, name, value.as_deref(), &eval.settings)
}

fn change_setting(
    all: &mut Vec<(String, String)>,
    name: &str,
    value: Option<&str>,
    settings: &Settings,
) -> Result<(), SqlError> {
    let mut trial = Settings::clone(settings);
    let kept = match value {
        Some(value) => {
            trial.set(name, value)?;
            trial.get(name).map(|value| value.into_owned())
        }
        None => None,
    };
    let name = display_name(name);
    let known = all.iter_mut().find(|(of, _)| of == name);
    match (kept, known) {
        (Some(value), Some((_, known))) => *known = value,
        (Some(value), None) => all.push((name.to_owned(), value)),
        (None, _) => all.retain(|(of, _)| of != name),
    }
    Ok(())
}

/// Returns the session numbers of the other sessions of a database, on all machines.
async fn others(name: &str, eval: &EvalContext) -> Result<Vec<i32>, SqlError> {
    let Some(sessions) = &eval.sessions else {
        return Ok(Vec::new());
    };
    let all = sessions.all().await?.into_iter();
    let of_it = all.filter(|state| state.database == name);
    let of_it = of_it.map(|state| state.session);
    Ok(of_it.filter(|of| *of != eval.backend_pid).collect())
}

/// Waits until no other session is connected to a database; error 55006 after `TIME_LIMIT`.
async fn await_others(name: &str, refused: &str, eval: &EvalContext) -> Result<(), StatementStop> {
    let until = Instant::now() + TIME_LIMIT;
    loop {
        let count = others(name, eval).await?.len();
        if count == 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            let detail = match count {
                1 => "There is 1 other session using the database.".to_owned(),
                _ => format!("There are {count} other sessions using the database."),
            };
            let error = SqlError::new(SqlState::OBJECT_IN_USE, refused);
            return Err(error.detail(detail).into());
        }
        if let Some(sessions) = &eval.sessions {
            sessions.sleep(LOOK_US).await?;
        }
    }
}

/// Terminates the other sessions of a database, for WITH (FORCE).
async fn end_others(
    name: &str,
    asker: &Authorizer<'_>,
    eval: &EvalContext,
) -> Result<(), SqlError> {
    let Some(sessions) = &eval.sessions else {
        return Ok(());
    };
    let user = eval.current_user();
    let by = (user.as_str(), asker.superuser);
    for session in others(name, eval).await? {
        sessions.signal(session, Signal::Terminate, by).await?;
    }
    Ok(())
}

fn exists(name: &str) -> SqlError {
    let message = format!("database \"{name}\" already exists");
    SqlError::new(SqlState::new(b"42P04"), message)
}

pub fn missing(name: &str) -> SqlError {
    let message = format!("database \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CATALOG_NAME, message)
}

fn incompatible(what: &str, said: &str, templates: &str) -> SqlError {
    let message = format!(
        "new {what} ({said}) is incompatible with the {what} of the template database ({templates})"
    );
    let same =
        format!("Use the same {what} as in the template database, or use template0 as template.");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint(same)
}
