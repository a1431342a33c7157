//! CREATE, ALTER and DROP SCHEMA.

use std::sync::Arc;

use fencepost_sql::bound::{CreateSchema, DropSchema, RoleRef};
use fencepost_sql::catalog::{
    CatalogView, ExtensionDef, Object, ObjectKind, PUBLIC_SCHEMA, SequenceDef, TableDef, ViewDef,
    denied,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::pg_catalog::PUBLIC_NAMESPACE;
use fencepost_sql::stop::StatementStop;

use super::authorize::Authorizer;
use super::cascades::tell;
use super::changes::Changes;
use super::drop::drop_tables;
use super::drop_type::drop_types;
use super::extension::drop_extensions;
use super::ownership::{claim_for, role_of};
use super::routine::drop_routines;
use super::schema_elements::make_elements;
use super::sequence::remove;
use super::view::{drop_views, remove_views};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// SQLSTATE 42P06, `duplicate_schema`.
pub const DUPLICATE_SCHEMA: SqlState = SqlState::new(b"42P06");

/// Runs CREATE SCHEMA. Returns the command tag.
pub async fn create_schema(
    statement: &CreateSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "CREATE SCHEMA";
    let owner = match &statement.owner {
        Some(role) => role_of(role, cx, ddl)?,
        None => role_of(&RoleRef::Own, cx, ddl)?,
    };
    let asker = Authorizer::of(cx, ddl)?;
    if !ddl.snapshot.security().is_member_of(asker.role, owner.id) {
        return Err(denied(format!("must be member of role \"{}\"", owner.name)).into());
    }
    let name = statement.name.as_ref().unwrap_or(&owner.name);
    check_name(name)?;
    if ddl.snapshot.schema_exists(name) || name == "information_schema" {
        let message = format!("schema \"{name}\" already exists");
        if !statement.if_not_exists {
            return Err(SqlError::new(DUPLICATE_SCHEMA, message).into());
        }
        let message = format!("{message}, skipping");
        ddl.notices.push(Notice::new(DUPLICATE_SCHEMA, message));
        return Ok(TAG);
    }
    let changes = Changes::begin(cx, ddl).await?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    ddl.catalog.insert_schema(cx.tx, id, name).await?;
    let object = Object::new(ObjectKind::Schema, id);
    claim_for(owner.id, object, name, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    if !statement.elements.is_empty() {
        make_elements((name, &owner.name), &statement.elements, cx, ddl).await?;
    }
    Ok(TAG)
}

/// Returns error 42939 for reserved names.
pub fn check_name(name: &str) -> Result<(), SqlError> {
    match name.starts_with("pg_") {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("unacceptable schema name \"{name}\""),
        )
        .detail("The prefix \"pg_\" is reserved for system schemas.")),
    }
}

/// Runs DROP SCHEMA. Returns the command tag.
pub async fn drop_schema(
    statement: &DropSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let mut changes = Changes::begin(cx, ddl).await?;
    for name in &statement.names {
        let Some(id) = ddl.snapshot.schema(name) else {
            let message = format!("schema \"{name}\" does not exist");
            if !statement.if_exists {
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).into());
            }
            let message = format!("{message}, skipping");
            let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
            ddl.notices.push(notice);
            continue;
        };
        let mut tables = ddl.snapshot.tables();
        tables.retain(|table| table.schema == *name);
        let views = ddl.snapshot.views().cloned();
        let views: Vec<Arc<ViewDef>> = views.filter(|view| view.schema == *name).collect();
        // A sequence that a table owns is dropped with the table.
        let lone = |s: &&Arc<SequenceDef>| {
            s.schema == *name && s.owner.is_none_or(|id| tables.iter().all(|t| t.id != id))
        };
        let sequences: Vec<Arc<SequenceDef>> =
            ddl.snapshot.sequences().filter(lone).cloned().collect();
        let mut routines = ddl.snapshot.all_routines();
        routines.retain(|routine| routine.schema == *name);
        let mut types = ddl.snapshot.types().all();
        types.retain(|ty| ty.schema == *name);
        let extensions = ddl.snapshot.extensions().iter();
        let extensions = extensions.filter(|of| of.schema == *name).cloned();
        let extensions: Vec<Arc<ExtensionDef>> = extensions.collect();
        let of_extension = |object: Object| extensions.iter().any(|of| of.has(object));
        let mut within: Vec<String> = extensions
            .iter()
            .map(|of| format!("extension {}", of.name))
            .collect();
        within.extend(relations_of(&tables, &views, &sequences));
        let own = types
            .iter()
            .filter(|ty| !of_extension(Object::new(ObjectKind::Type, ty.id)));
        within.extend(own.map(|ty| format!("type {}", qualified_name(&ty.schema, &ty.name))));
        let own = routines
            .iter()
            .filter(|of| !of_extension(Object::new(of.kind.into(), of.id)));
        within.extend(own.map(|routine| {
            let (kind, signature) = (routine.kind.name(), routine.signature());
            format!("{kind} {}", qualified_name(&routine.schema, &signature))
        }));
        match within.first() {
            Some(first) if !statement.cascade => return Err(needed(name, first).into()),
            _ => within.iter().for_each(|what| tell(what, ddl)),
        }
        let all: Vec<u32> = tables.iter().map(|table| table.id).collect();
        let going = drop_views(&views, true, ddl)?;
        remove_views(&going, &all, cx, ddl, &mut changes).await?;
        let mut dropped: Vec<u32> = going.iter().map(|view| view.id).collect();
        tables.retain(|table| !dropped.contains(&table.id));
        drop_tables((&tables, true), &dropped, cx, ddl, &mut changes).await?;
        dropped.extend(all);
        drop_extensions((&extensions, true), &dropped, cx, ddl, &mut changes).await?;
        drop_routines((&routines, true), &dropped, cx, ddl, &mut changes).await?;
        dropped.extend(routines.iter().map(|routine| routine.id));
        types.retain(|ty| {
            let object = Object::new(ObjectKind::Type, ty.id);
            extensions.iter().all(|of| !of.has(object))
        });
        drop_types((&types, true), &dropped, cx, ddl, &mut changes).await?;
        for sequence in sequences {
            remove(&sequence, cx, ddl).await?;
        }
        match id {
            // The schema public is built in and has no row; a row with its oid marks it as dropped.
            PUBLIC_NAMESPACE => ddl.catalog.insert_schema(cx.tx, id, name).await?,
            id => ddl.catalog.remove_schema(cx.tx, id).await?,
        }
    }
    changes.finish(cx, ddl).await?;
    Ok("DROP SCHEMA")
}

/// Returns the relations of a schema for messages. Partitions are covered by their tables.
fn relations_of(
    tables: &[Arc<TableDef>],
    views: &[Arc<ViewDef>],
    sequences: &[Arc<SequenceDef>],
) -> Vec<String> {
    let tables = tables
        .iter()
        .filter(|table| table.partition_of_table().is_none());
    let tables =
        tables.map(|t| format!("{} {}", t.kind_name(), qualified_name(&t.schema, &t.name)));
    let views = views
        .iter()
        .map(|v| format!("view {}", qualified_name(&v.schema, &v.name)));
    let sequences = sequences
        .iter()
        .map(|s| format!("sequence {}", qualified_name(&s.schema, &s.name)));
    tables.chain(views).chain(sequences).collect()
}

/// Returns an object's name for messages.
fn qualified_name(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC_SCHEMA => name.to_owned(),
        schema => format!("{schema}.{name}"),
    }
}

fn needed(schema: &str, dependent: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop schema {schema} because other objects depend on it"),
    )
    .detail(format!("{dependent} depends on schema {schema}"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
