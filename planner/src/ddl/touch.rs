//! SEC-1: a change of privileges on an object gives a new version to every definition with plans
//! that depend on the privileges.

use fencepost_sql::catalog::{
    CatalogView, Object, ObjectAttributes, ObjectKind, RoutineDef, SUPERUSER_OID, Security,
};
use fencepost_sql::pg_catalog::{self, PUBLIC_NAMESPACE};
use fencepost_sql::stop::StatementStop;

use super::DdlCx;
use super::changes::Changes;
use crate::exec::Cx;

/// Invalidates the plans whose permission checks depend on an object.
pub async fn touch(
    object: Object,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    match object.kind {
        ObjectKind::Table => {
            if let Some(table) = ddl.snapshot.table_by_id(object.id)? {
                changes.take(cx, &table).await?;
            }
        }
        ObjectKind::View => {
            let mut views = ddl.snapshot.views();
            if let Some(view) = views.find(|view| view.id == object.id) {
                changes.view(view);
            }
        }
        // Other plans that name a sequence check the version of the catalog.
        ObjectKind::Sequence => {
            for table in ddl.snapshot.tables() {
                if pg_catalog::takes_values_of(ddl.snapshot, &table, object.id) {
                    changes.take(cx, &table).await?;
                }
            }
        }
        ObjectKind::Function | ObjectKind::Procedure => {
            if let Some(routine) = ddl.snapshot.routine_by_id(object.id) {
                let routine = RoutineDef {
                    version: changes.version,
                    ..RoutineDef::clone(&routine)
                };
                ddl.catalog.replace_routine(cx.tx, &routine).await?;
            }
        }
        ObjectKind::Schema => {
            let name = pg_catalog::namespace_name(ddl.snapshot, object.id);
            for of in ddl.snapshot.objects_in(&name.unwrap_or_default()) {
                Box::pin(touch(of.object, cx, ddl, changes)).await?;
            }
        }
        ObjectKind::Index
        | ObjectKind::Type
        | ObjectKind::Database
        | ObjectKind::Constraint
        | ObjectKind::Role
        | ObjectKind::Extension => {}
    }
    Ok(())
}

/// Invalidates the plans that depend on objects that these roles own or have privileges on, in all
/// databases.
pub async fn touch_all_of(
    roles: &[u32],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for database in ddl.snapshot.databases() {
        if database.id == ddl.snapshot.database() {
            continue;
        }
        let catalog = ddl.catalog.of(database);
        let snapshot = catalog.snapshot(cx.tx).await?;
        let there = DdlCx {
            catalog: &catalog,
            snapshot: &snapshot,
            notices: &mut Vec::new(),
            rows: None,
            salt: ddl.salt,
        };
        let mut changes = Changes::at(changes.version);
        touch_in(roles, cx, &there, &mut changes).await?;
        changes.finish(cx, &there).await?;
    }
    touch_in(roles, cx, ddl, changes).await
}

async fn touch_in(
    roles: &[u32],
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    // The first superuser, and the predefined roles that read or write all data, concern every
    // table.
    let all = roles
        .iter()
        .any(|role| *role == SUPERUSER_OID || Security::is_predefined(*role));
    if all {
        for table in ddl.snapshot.tables() {
            changes.take(cx, &table).await?;
        }
    }
    let mut touched: Vec<Object> = Vec::new();
    for about in ddl.snapshot.security().abouts() {
        if concerns(&about, roles)
            && let Some(object) = ddl.snapshot.object_of(about.class, about.id)
        {
            touched.push(object);
        }
    }
    for routine in ddl.snapshot.all_routines() {
        let object = Object::new(routine.kind.into(), routine.id);
        if (all || roles.contains(&routine.owner)) && !touched.contains(&object) {
            touched.push(object);
        }
    }
    if all {
        let public = Object::new(ObjectKind::Schema, PUBLIC_NAMESPACE);
        touched.retain(|object| *object != public);
    }
    let mut routines = Vec::new();
    for object in touched {
        // Each routine is stored only once.
        let within = match object.kind {
            ObjectKind::Schema => {
                let name = pg_catalog::namespace_name(ddl.snapshot, object.id);
                let within = ddl.snapshot.objects_in(&name.unwrap_or_default());
                within.into_iter().map(|of| of.object).collect()
            }
            _ => vec![object],
        };
        for object in within {
            let routine = matches!(object.kind, ObjectKind::Function | ObjectKind::Procedure);
            if routine && routines.contains(&object.id) {
                continue;
            }
            if routine {
                routines.push(object.id);
            }
            touch(object, cx, ddl, changes).await?;
        }
    }
    Ok(())
}

fn concerns(about: &ObjectAttributes, roles: &[u32]) -> bool {
    let columns = about.columns.iter().map(|(_, acl)| acl);
    let mut items = about.acl.iter().chain(columns).flatten();
    about.owner.is_some_and(|owner| roles.contains(&owner))
        || items.any(|item| roles.contains(&item.grantee))
}
