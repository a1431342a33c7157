//! Ownership of objects: the creator owns a new object; ALTER … OWNER TO; REASSIGN OWNED; and
//! comments.

use fencepost_sql::bound::{AlterOwner, Comment, ReassignOwned, RoleRef};
use fencepost_sql::catalog::acl::{Privileges, change_owner};
use fencepost_sql::catalog::{
    CatalogView, Object, ObjectAttributes, ObjectKind, RoleDef, RoutineDef, SUPERUSER_OID, denied,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::pg_catalog::class;
use fencepost_sql::stop::StatementStop;

use super::authorize::{Authorizer, schema_object};
use super::changes::Changes;
use super::role::existing;
use super::touch::touch;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Returns the role that a role reference names.
pub fn role_of(
    role: &RoleRef,
    cx: &Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<std::sync::Arc<RoleDef>, SqlError> {
    match role {
        RoleRef::Named(name) => existing(name, ddl),
        RoleRef::Own => existing(&cx.eval.current_user(), ddl),
    }
}

/// Makes the current role the owner of a new object in a schema, and applies the role's default
/// privileges.
pub async fn claim(
    object: Object,
    schema: &str,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    claim_for(asker.role, object, schema, cx, ddl).await
}

/// Makes another role the owner of a new object, as [`claim`] does.
pub async fn claim_for(
    role: u32,
    object: Object,
    schema: &str,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let of = schema_object(ddl.snapshot, schema).id;
    let routine = matches!(object.kind, ObjectKind::Function | ObjectKind::Procedure);
    let about = ObjectAttributes {
        owner: Some(role).filter(|owner| !routine && *owner != SUPERUSER_OID),
        acl: ddl.snapshot.security().new_acl(role, of, object),
        ..ObjectAttributes::of(object)
    };
    match about.is_empty() {
        true => Ok(()),
        false => ddl.catalog.replace_about(cx.tx, None, &about).await,
    }
}

/// Returns the catalog's entry about an object (owner, privileges, comment) for changes.
pub fn about(object: Object, ddl: &DdlCx<'_>) -> ObjectAttributes {
    let said = ddl.snapshot.security().about(object);
    said.map_or_else(
        || ObjectAttributes::of(object),
        |about| ObjectAttributes::clone(about),
    )
}

/// Stores the entry about an object.
pub async fn store(
    about: &ObjectAttributes,
    object: Object,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    let before = ddl.snapshot.security().about(object);
    let before = before.map(|before| &**before);
    ddl.catalog.replace_about(cx.tx, before, about).await
}

/// Removes the entries of dropped objects, after a statement that may have dropped some.
pub async fn forget_dropped(cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), StatementStop> {
    let security = ddl.snapshot.security();
    let (abouts, defaults) = (security.abouts(), security.defaults());
    if abouts.is_empty() && defaults.is_empty() {
        return Ok(());
    }
    let now = ddl.catalog.snapshot(cx.tx).await?;
    for about in abouts {
        if !now.has_object(about.class, about.id) {
            let nothing = ObjectAttributes {
                class: about.class,
                id: about.id,
                ..ObjectAttributes::default()
            };
            let catalog = ddl.catalog;
            catalog.replace_about(cx.tx, Some(&about), &nothing).await?;
        }
    }
    for of in defaults {
        if of.schema != 0 && !now.has_object(class::SCHEMA, of.schema) {
            let catalog = ddl.catalog;
            catalog.replace_default_acl(cx.tx, (true, of), true).await?;
        }
    }
    Ok(())
}

/// Runs ALTER … OWNER TO. Returns the command tag.
pub async fn alter_owner(
    statement: &AlterOwner,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let tag = owner_tag(statement.name.0);
    let Some(named) = &statement.object else {
        let message = format!("relation \"{}\" does not exist, skipping", statement.name.1);
        let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
        ddl.notices.push(notice);
        return Ok(tag);
    };
    let object = named.object;
    if object.kind == ObjectKind::Index {
        let message = format!("cannot change owner of index \"{}\"", named.name);
        ddl.notices.push(Notice::of_warning(
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("Change the ownership of the index's table, instead."),
        ));
        return Ok(tag);
    }
    let asker = Authorizer::of(cx, ddl)?;
    let security = ddl.snapshot.security();
    security.check_owner(asker.role, object, &named.name)?;
    let to = role_of(&statement.to, cx, ddl)?;
    if security.owner(object) == to.id {
        return Ok(tag);
    }
    check_linked(object, &named.name, ddl)?;
    if !security.is_member_of(asker.role, to.id) {
        return Err(denied(format!("must be member of role \"{}\"", to.name)).into());
    }
    if !asker.superuser {
        check_creates(object, &to, &cx.eval.database, ddl)?;
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    give(object, to.id, cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(tag)
}

fn owner_tag(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::Sequence => "ALTER SEQUENCE",
        ObjectKind::Index => "ALTER INDEX",
        ObjectKind::Schema => "ALTER SCHEMA",
        ObjectKind::Function => "ALTER FUNCTION",
        ObjectKind::Procedure => "ALTER PROCEDURE",
        ObjectKind::Type => "ALTER TYPE",
        ObjectKind::Database => "ALTER DATABASE",
        ObjectKind::Extension => "ALTER EXTENSION",
        ObjectKind::Table | ObjectKind::Constraint | ObjectKind::Role => "ALTER TABLE",
    }
}

/// Returns an error for a sequence that a table owns, because it has the owner of the table.
fn check_linked(object: Object, name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    if object.kind != ObjectKind::Sequence {
        return Ok(());
    }
    let sequence = ddl.snapshot.sequence_by_id(object.id)?;
    let table = match sequence.and_then(|sequence| sequence.owner) {
        Some(table) => ddl.snapshot.table_by_id(table)?,
        None => None,
    };
    match table {
        None => Ok(()),
        Some(table) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot change owner of sequence \"{name}\""),
        )
        .detail(format!(
            "Sequence \"{name}\" is linked to table \"{}\".",
            table.name
        ))),
    }
}

/// Checks that the new owner could have created the object.
fn check_creates(
    object: Object,
    to: &RoleDef,
    database: &str,
    ddl: &DdlCx<'_>,
) -> Result<(), SqlError> {
    let security = ddl.snapshot.security();
    let (place, name) = match object.kind {
        ObjectKind::Schema | ObjectKind::Database => (security.database(), database.to_owned()),
        _ => match ddl.snapshot.schema_of(object) {
            Some(schema) => (schema_object(ddl.snapshot, &schema), schema),
            None => return Ok(()),
        },
    };
    security.check(to.id, place, Privileges::CREATE, &name)
}

/// Makes another role the owner of an object and of the objects that belong to it.
async fn give(
    object: Object,
    to: u32,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let from = ddl.snapshot.security().owner(object);
    let mut about = about(object, ddl);
    let routine = matches!(object.kind, ObjectKind::Function | ObjectKind::Procedure);
    if !routine {
        about.owner = Some(to).filter(|to| *to != object.first_owner());
    }
    let columns = about.columns.iter_mut().map(|(_, acl)| acl);
    for acl in columns.chain(&mut about.acl) {
        change_owner(acl, from, to);
    }
    store(&about, object, cx, ddl).await?;
    if routine {
        if let Some(routine) = ddl.snapshot.routine_by_id(object.id) {
            let routine = RoutineDef {
                owner: to,
                version: changes.version,
                ..RoutineDef::clone(&routine)
            };
            ddl.catalog.replace_routine(cx.tx, &routine).await?;
        }
        return Ok(());
    }
    touch(object, cx, ddl, changes).await?;
    if object.kind == ObjectKind::Table {
        let sequences: Vec<u32> = ddl
            .snapshot
            .sequences()
            .filter(|sequence| sequence.owner == Some(object.id))
            .map(|sequence| sequence.id)
            .collect();
        for id in sequences {
            let sequence = Object::new(ObjectKind::Sequence, id);
            Box::pin(give(sequence, to, cx, ddl, changes)).await?;
        }
    }
    Ok(())
}

/// Runs REASSIGN OWNED. Returns the command tag.
pub async fn reassign_owned(
    statement: &ReassignOwned,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let security = ddl.snapshot.security();
    let to = role_of(&statement.to, cx, ddl)?;
    let mut from = Vec::new();
    for role in &statement.roles {
        from.push(role_of(role, cx, ddl)?);
    }
    for role in from.iter().chain([&to]) {
        if !security.has_privileges_of(asker.role, role.id) {
            return Err(denied("permission denied to reassign objects").into());
        }
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for role in &from {
        if role.id == SUPERUSER_OID {
            let message = format!(
                "cannot reassign ownership of objects owned by role {} because they are required \
                 by the database system",
                role.name
            );
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message).into());
        }
        for object in ddl.snapshot.owned_by(role.id) {
            // A sequence that a table owns gets its owner with the table.
            if check_linked(object, "", ddl).is_ok() {
                give(object, to.id, cx, ddl, &mut changes).await?;
            }
        }
    }
    changes.finish(cx, ddl).await?;
    Ok("REASSIGN OWNED")
}

/// Runs COMMENT ON an object that is not a table. Returns the command tag.
pub async fn comment(
    statement: &Comment,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let named = &statement.object;
    if statement.of.kind == ObjectKind::Role {
        let security = ddl.snapshot.security();
        let role = security.role(named.object.id).map(|role| role.superuser);
        let creates = security
            .role(asker.role)
            .is_some_and(|role| role.create_role);
        if !asker.superuser && (role == Some(true) || !creates) {
            return Err(denied("permission denied").into());
        }
    } else {
        let kind = match named.object.kind {
            ObjectKind::Constraint => ObjectKind::Table,
            kind => kind,
        };
        let security = ddl.snapshot.security();
        if !security.owns(asker.role, statement.of) {
            let message = format!("must be owner of {} {}", kind.name(), named.name);
            return Err(denied(message).into());
        }
    }
    let changes = Changes::begin(cx, ddl).await?;
    let mut about = about(named.object, ddl);
    about.comments.retain(|(of, _)| *of != statement.column);
    let said = statement.text.iter();
    let said = said.map(|text| (statement.column, text.clone()));
    about.comments.extend(said);
    store(&about, named.object, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok("COMMENT")
}
