//! DROP OWNED: drops the objects that roles own in the database, and revokes the privileges granted
//! to them.
//!
//! Objects that are dropped together do not block each other. Databases are not dropped, but the
//! roles lose their privileges on them.

use std::sync::Arc;

use fencepost_sql::bound::DropOwned;
use fencepost_sql::catalog::acl::{Acl, revoke, same};
use fencepost_sql::catalog::{
    DefaultAcl, ExtensionDef, Object, ObjectKind, RoutineDef, SUPERUSER_OID, SequenceDef, Snapshot,
    TableDef, TypeDef, ViewDef, denied,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::pg_catalog::namespace_name;
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::authorize::Authorizer;
use super::changes::Changes;
use super::drop::drop_tables;
use super::drop_type::drop_types;
use super::extension::drop_extensions;
use super::membership::touch_roles;
use super::ownership::{role_of, store};
use super::routine::drop_routines;
use super::sequence::{drop_defaults, remove};
use super::view::{drop_views, remove_views};
use crate::exec::Cx;

/// Runs DROP OWNED. Returns the command tag.
pub async fn drop_owned(
    statement: &DropOwned,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let mut roles = Vec::new();
    for role in &statement.roles {
        let role = role_of(role, cx, ddl)?;
        if !ddl
            .snapshot
            .security()
            .has_privileges_of(asker.role, role.id)
        {
            return Err(denied("permission denied to drop objects").into());
        }
        if role.id == SUPERUSER_OID {
            let message = format!(
                "cannot drop objects owned by role {} because they are required by the database \
                 system",
                role.name
            );
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message).into());
        }
        roles.push(role.id);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let going = OwnedObjects::of(&roles, statement.cascade, ddl.snapshot)?;
    going.drop(statement.cascade, cx, ddl, &mut changes).await?;
    // The tables that lose a column are stored before the catalog is read again: their old
    // definitions name dropped types.
    let version = changes.version;
    changes.finish(cx, ddl).await?;
    // Dropped objects have no plans and no privileges any more.
    let now = ddl.catalog.snapshot(cx.tx).await?;
    let left = DdlCx {
        catalog: ddl.catalog,
        snapshot: &now,
        notices: &mut Vec::new(),
        rows: None,
        salt: ddl.salt,
    };
    take_back(&roles, cx, &left).await?;
    let mut changes = Changes::at(version);
    touch_roles(&roles, cx, &left, &mut changes).await?;
    changes.finish(cx, &left).await?;
    Ok("DROP OWNED")
}

/// The objects to drop.
#[derive(Default)]
struct OwnedObjects {
    tables: Vec<Arc<TableDef>>,
    /// The views, including materialized views.
    views: Vec<Arc<ViewDef>>,
    sequences: Vec<Arc<SequenceDef>>,
    routines: Vec<Arc<RoutineDef>>,
    types: Vec<Arc<TypeDef>>,
    extensions: Vec<Arc<ExtensionDef>>,
    schemas: Vec<(String, u32)>,
}

impl OwnedObjects {
    /// Returns the objects that these roles own. A schema is dropped with all objects in it;
    /// without CASCADE the roles must own these too.
    fn of(roles: &[u32], cascade: bool, snapshot: &Snapshot) -> Result<OwnedObjects, SqlError> {
        let owned: Vec<Object> = roles
            .iter()
            .flat_map(|role| snapshot.owned_by(*role))
            .collect();
        let owns = |object: Object| owned.iter().any(|of| of.key() == object.key());
        let mut schemas = snapshot.schemas();
        schemas.retain(|(_, id)| owns(Object::new(ObjectKind::Schema, *id)));
        let goes = |kind: ObjectKind, id: u32, schema: &str| {
            let own = owns(Object::new(kind, id));
            let within = schemas.iter().any(|(name, _)| name == schema);
            match own || !within || cascade {
                true => Ok(own || within),
                false => Err(still_there(schema)),
            }
        };
        let mut going = OwnedObjects::default();
        for table in snapshot.tables() {
            if goes(ObjectKind::Table, table.id, &table.schema)? {
                going.views.extend(table.as_view().map(Arc::new));
                going.tables.push(table);
            }
        }
        for view in snapshot.views() {
            if goes(ObjectKind::View, view.id, &view.schema)? {
                going.views.push(Arc::clone(view));
            }
        }
        for sequence in snapshot.sequences() {
            let with_table = sequence.owner;
            let with_table = with_table.is_some_and(|id| going.tables.iter().any(|t| t.id == id));
            // A sequence that a table owns is dropped with the table, and is in the same schema.
            let kind = ObjectKind::Sequence;
            if !with_table && sequence.owner.is_none() && goes(kind, sequence.id, &sequence.schema)?
            {
                going.sequences.push(Arc::clone(sequence));
            }
        }
        for extension in snapshot.extensions() {
            let within = schemas.iter().any(|(name, _)| *name == extension.schema);
            if owns(Object::new(ObjectKind::Extension, extension.id)) || (within && cascade) {
                going.extensions.push(Arc::clone(extension));
            }
        }
        for routine in snapshot.all_routines() {
            let object = Object::new(routine.kind.into(), routine.id);
            if going.extensions.iter().any(|of| of.has(object)) {
                continue;
            }
            if goes(routine.kind.into(), routine.id, &routine.schema)? {
                going.routines.push(routine);
            }
        }
        for ty in snapshot.types().all() {
            let object = Object::new(ObjectKind::Type, ty.id);
            if going.extensions.iter().any(|of| of.has(object)) {
                continue;
            }
            if goes(ObjectKind::Type, ty.id, &ty.schema)? {
                going.types.push(ty);
            }
        }
        going.schemas = schemas;
        Ok(going)
    }

    async fn drop(
        mut self,
        cascade: bool,
        cx: &mut Cx<'_>,
        ddl: &mut DdlCx<'_>,
        changes: &mut Changes,
    ) -> Result<(), StatementStop> {
        let all: Vec<u32> = self.tables.iter().map(|table| table.id).collect();
        let views = drop_views(&self.views, cascade, ddl)?;
        remove_views(&views, &all, cx, ddl, changes).await?;
        let mut dropped: Vec<u32> = views.iter().map(|view| view.id).collect();
        self.tables.retain(|table| !dropped.contains(&table.id));
        drop_tables((&self.tables, cascade), &dropped, cx, ddl, changes).await?;
        dropped.extend(all);
        let extensions = (&self.extensions[..], cascade);
        drop_extensions(extensions, &dropped, cx, ddl, changes).await?;
        drop_routines((&self.routines, cascade), &dropped, cx, ddl, changes).await?;
        dropped.extend(self.routines.iter().map(|routine| routine.id));
        drop_types((&self.types, cascade), &dropped, cx, ddl, changes).await?;
        for sequence in &self.sequences {
            drop_defaults((sequence, cascade), &dropped, cx, ddl, changes).await?;
            remove(sequence, cx, ddl).await?;
        }
        for (_, id) in &self.schemas {
            ddl.catalog.remove_schema(cx.tx, *id).await?;
        }
        Ok(())
    }
}

/// Returns error 2BP01.
fn still_there(schema: &str) -> SqlError {
    let message = "cannot drop desired object(s) because other objects depend on them";
    let error = SqlError::new(SqlState::DEPENDENT_OBJECTS, message);
    let error = error.detail(format!("others have objects in schema {schema}"));
    error.hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Revokes the privileges of roles on the remaining objects, and their default privileges.
async fn take_back(roles: &[u32], cx: &mut Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), StatementStop> {
    let security = ddl.snapshot.security();
    for about in security.abouts() {
        let Some(object) = ddl.snapshot.object_of(about.class, about.id) else {
            continue;
        };
        if !ddl.snapshot.has_object(about.class, about.id) {
            continue;
        }
        let (owner, mut left) = (security.owner(object), (*about).clone());
        let columns = left.columns.iter_mut().map(|(_, acl)| acl);
        for acl in left.acl.iter_mut().chain(columns) {
            revoke_all(acl, roles, owner, object.kind);
        }
        left.columns.retain(|(_, acl)| !acl.is_empty());
        if left != *about {
            store(&left, object, cx, ddl).await?;
        }
    }
    for of in security.defaults() {
        let there = of.schema == 0 || namespace_name(ddl.snapshot, of.schema).is_some();
        if !there {
            continue;
        }
        if roles.contains(&of.role) {
            let privileges = (true, &**of);
            ddl.catalog
                .replace_default_acl(cx.tx, privileges, true)
                .await?;
            continue;
        }
        let mut left = DefaultAcl::clone(of);
        left.acl.retain(|item| !roles.contains(&item.grantee));
        if left.acl.len() != of.acl.len() {
            let first = match of.schema {
                0 => Object::new(of.kind, 0).first_acl(of.role),
                _ => Acl::new(),
            };
            let is_default = same(&left.acl, &first);
            let left = (true, &left);
            ddl.catalog
                .replace_default_acl(cx.tx, left, is_default)
                .await?;
        }
    }
    Ok(())
}

/// Revokes all privileges of `roles`, and the privileges that they have granted to others.
fn revoke_all(acl: &mut Acl, roles: &[u32], owner: u32, kind: ObjectKind) {
    let of = acl
        .iter()
        .filter(|item| roles.contains(&item.grantee) && item.grantee != owner);
    let pairs: Vec<(u32, u32)> = of.map(|item| (item.grantor, item.grantee)).collect();
    for pair in pairs {
        // The revocation cascades, so no dependent privilege can make it fail.
        let _ = revoke(acl, pair, kind.privileges(), (false, true), owner);
    }
}
