//! DROP TYPE and DROP DOMAIN, with the objects that depend on the types.

use std::sync::Arc;

use fencepost_sql::binder::StoredText;
use fencepost_sql::bound::DropType;
use fencepost_sql::catalog::{
    CatalogView, Object, ObjectKind, RoutineDef, TableDef, TypeDef, ViewDef,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::quote_ident;
use fencepost_sql::order::StableSort;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::is_made_of;

use super::alter::drop_column;
use super::cascades::tell;
use super::changes::Changes;
use super::routine::drop_routines;
use super::typed_columns::{columns_of, is_declared, is_of, is_of_column};
use super::user_type::{UnboundText, dependents, lost_domains};
use super::view::{drop_views, remove_views, view_description};
use super::{DdlCx, Notice, extension};
use crate::exec::Cx;
use crate::reclaim::drop_index;

/// Runs DROP TYPE and DROP DOMAIN. Returns the command tag.
pub async fn drop_type(
    statement: &DropType,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let mut types: Vec<Arc<TypeDef>> = Vec::new();
    for (schema, name) in &statement.names {
        let plain = schema.as_deref();
        let found = plain.and_then(|schema| ddl.snapshot.types().named(schema, name));
        match (found, plain) {
            (Some(ty), _) => types.push(ty),
            (None, Some(schema)) if !ddl.snapshot.schema_exists(schema) => {
                let message = format!("schema \"{schema}\" does not exist, skipping");
                notice(ddl, message);
            }
            (None, _) => {
                let name = plain.map_or_else(|| name.clone(), |s| format!("{s}.{name}"));
                notice(ddl, format!("type \"{name}\" does not exist, skipping"));
            }
        }
    }
    types.order_by_key(|ty| ty.id);
    types.dedup_by_key(|ty| ty.id);
    for ty in &types {
        extension::check_free(Object::new(ObjectKind::Type, ty.id), ddl)?;
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    drop_types((&types, statement.cascade), &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(match statement.domain {
        true => "DROP DOMAIN",
        false => "DROP TYPE",
    })
}

/// Drops types and their dependent objects. Without CASCADE, returns an error that lists these.
/// Tables and views that are in `already_dropped` do not count.
pub async fn drop_types(
    (types, cascade): (&[Arc<TypeDef>], bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    if types.is_empty() {
        return Ok(());
    }
    let named = types;
    let mut types: Vec<Arc<TypeDef>> = Vec::new();
    for ty in named.iter().flat_map(|ty| with_domains(ty, ddl)) {
        if types.iter().all(|of| of.id != ty.id) {
            types.push(ty);
        }
    }
    let types = types.as_slice();
    check_members(types, cascade, ddl)?;
    let mut left = ddl.snapshot.types().all();
    left.retain(|ty| types.iter().all(|going| going.id != ty.id));
    let after: Vec<TypeDef> = left.iter().map(|ty| TypeDef::clone(ty)).collect();
    if let Some(domain) = lost_domains(&after, ddl).first() {
        let what = format!("DROP TYPE of a type that a constraint of the domain {domain} names");
        return Err(SqlError::unsupported(what).into());
    }
    let mut lost = dependents(left.iter().map(|ty| TypeDef::clone(ty)).collect(), cx, ddl);
    let is_dropped = |id: u32| already_dropped.contains(&id);
    let of_column = |lost: &UnboundText| match lost.text {
        StoredText::Default(at) | StoredText::Generated(at) => types
            .iter()
            .any(|ty| is_of_column(&lost.table.columns[at], ty)),
        _ => false,
    };
    lost.retain(|lost| !is_dropped(lost.table.id) && !of_column(lost));
    let mut descriptions = Vec::new();
    for ty in types {
        if named.iter().all(|of| of.id != ty.id) {
            let below = |of: &&Arc<TypeDef>| {
                let base = ty.as_domain().map(|of| of.definition().base.oid());
                base.is_some_and(|base| is_of(base, of))
            };
            let below = types.iter().find(below).unwrap_or(ty);
            descriptions.push((format!("type {}", ty.display_name()), below));
        }
        for table in ddl.snapshot.tables() {
            let goes = is_dropped(table.id) || table.materialized.is_some();
            let declared = |at: &usize| is_declared(&table.columns[*at], ty);
            let columns = columns_of(&table, ty).filter(declared);
            for at in columns.filter(|_| !goes) {
                let column = quote_ident(&table.columns[at].name);
                let column = format!("column {column} of table {}", quote_ident(&table.name));
                descriptions.push((column, ty));
            }
        }
    }
    let first = types[0].clone();
    descriptions.extend(lost.iter().map(|lost| (lost.to_string(), &first)));
    let reads = |view: &Arc<ViewDef>| {
        let mut names = types.iter();
        names.any(|ty| {
            let mut columns = view.columns.iter();
            view.types.contains(&ty.id) || columns.any(|(_, of)| is_of(of.oid(), ty))
        })
    };
    let mut views = ddl.snapshot.queries();
    views.retain(|view| !is_dropped(view.id) && reads(view));
    let routines = routines_with(types, already_dropped, ddl);
    let of_routines = routines.iter().map(|routine| {
        let what = format!("{} {}", routine.kind.name(), routine.signature());
        (what, &first)
    });
    descriptions.extend(of_routines.collect::<Vec<_>>());
    let of_views = views.iter().map(|v| (view_description(v, ddl), &first));
    descriptions.extend(of_views.collect::<Vec<_>>());
    if !descriptions.is_empty() && !cascade {
        return Err(needed(&first, &descriptions).into());
    }
    for (what, _) in &descriptions {
        tell(what, ddl);
    }
    let mut dropped = already_dropped.to_vec();
    let going = drop_views(&views, true, ddl)?;
    remove_views(&going, already_dropped, cx, ddl, changes).await?;
    dropped.extend(going.iter().map(|view| view.id));
    drop_routines((&routines, true), &dropped, cx, ddl, changes).await?;
    for lost in &lost {
        lose(lost, cx, ddl, changes).await?;
    }
    for table in ddl.snapshot.tables() {
        if !dropped.contains(&table.id) {
            drop_columns(&table, types, &dropped, cx, ddl, changes).await?;
        }
    }
    for ty in types {
        ddl.catalog.remove_type(cx.tx, ty).await?;
    }
    Ok(())
}

/// Returns a type, and the domains over it.
fn with_domains(ty: &Arc<TypeDef>, ddl: &DdlCx<'_>) -> Vec<Arc<TypeDef>> {
    let all = ddl.snapshot.types().all().into_iter();
    let over = all.filter(|of| of.id != ty.id && of.as_domain().is_some_and(|d| d.is_over(ty.id)));
    std::iter::once(Arc::clone(ty)).chain(over).collect()
}

/// Returns the functions and procedures with one of the types in their signatures.
fn routines_with(
    types: &[Arc<TypeDef>],
    already_dropped: &[u32],
    ddl: &DdlCx<'_>,
) -> Vec<Arc<RoutineDef>> {
    let mut all = ddl.snapshot.all_routines();
    all.retain(|routine| {
        let args = routine.args.iter().map(|arg| arg.ty);
        let columns = routine.result.columns.iter().map(|(_, ty)| *ty);
        let mut named = args.chain(columns).chain([routine.result.ty]);
        !already_dropped.contains(&routine.id)
            && named.any(|of| types.iter().any(|ty| is_of(of.oid(), ty)))
    });
    all
}

/// Returns error 2BP01, or 0A000 with CASCADE, if a remaining composite type has an attribute of a
/// dropped type.
fn check_members(types: &[Arc<TypeDef>], cascade: bool, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let mut descriptions: Vec<(String, &Arc<TypeDef>)> = Vec::new();
    let mut left = ddl.snapshot.types().all();
    left.retain(|ty| types.iter().all(|going| going.id != ty.id));
    for of in left.iter().filter_map(|ty| ty.as_composite()) {
        for field in &of.definition().fields {
            let needs = |ty: &&Arc<TypeDef>| is_made_of(field.ty.kind, ty.id);
            if let Some(ty) = types.iter().find(needs) {
                let (column, type_name) = (quote_ident(&field.name), &of.definition().display_name);
                descriptions.push((format!("column {column} of composite type {type_name}"), ty));
            }
        }
    }
    match (descriptions.is_empty(), cascade) {
        (true, _) => Ok(()),
        (false, false) => Err(needed(&types[0], &descriptions)),
        (false, true) => {
            let what = "DROP TYPE … CASCADE of the type of an attribute";
            Err(SqlError::unsupported(what))
        }
    }
}

/// Drops the columns of a table that have dropped types.
async fn drop_columns(
    table: &TableDef,
    types: &[Arc<TypeDef>],
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let going = |table: &TableDef| {
        let mut columns = table.columns.iter();
        columns.position(|column| types.iter().any(|ty| is_of_column(column, ty)))
    };
    if going(table).is_none() {
        return Ok(());
    }
    let mut views = ddl.snapshot.views_of(table.id).into_iter();
    if views.any(|view| !already_dropped.contains(&view.id)) {
        let what = "DROP TYPE … CASCADE where a view reads the table of a column";
        return Err(SqlError::unsupported(what).into());
    }
    let mut table = changes.take(cx, table).await?.clone();
    while let Some(at) = going(&table) {
        if table.is_partition_column(at) || !table.generated_from(at).is_empty() {
            let what = "DROP TYPE … CASCADE of the type of a partition column, \
                        or of one that others are generated from";
            return Err(SqlError::unsupported(what).into());
        }
        Box::pin(drop_column((at, true), cx, ddl, changes, &mut table)).await?;
    }
    changes.put(table);
    Ok(())
}

/// Drops a default, a constraint or an index that names a dropped type.
async fn lose(
    lost: &UnboundText,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let mut table = changes.take(cx, &lost.table).await?.clone();
    match &lost.text {
        StoredText::Default(at) => table.columns[*at].default = None,
        StoredText::Check(name) => table.rules.checks.retain(|check| check.name != *name),
        StoredText::Trigger(name) => table.rules.triggers.retain(|t| t.name != *name),
        StoredText::Index(name) => {
            if let Some(at) = table.indexes.iter().position(|index| index.name == *name) {
                let removed = table.indexes.remove(at);
                drop_index(cx.tx, ddl.catalog.reclaim_list(), &removed).await?;
            }
        }
        StoredText::Generated(_) => {
            let what = "DROP TYPE … CASCADE where a generated column names the type";
            return Err(SqlError::unsupported(what).into());
        }
    }
    changes.put(table);
    Ok(())
}

fn notice(ddl: &mut DdlCx<'_>, message: String) {
    ddl.notices
        .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
}

/// Returns error 2BP01.
fn needed(first: &TypeDef, descriptions: &[(String, &Arc<TypeDef>)]) -> SqlError {
    let lines = descriptions.iter().map(|(what, ty)| {
        let name = ty.display_name();
        format!("{what} depends on type {name}")
    });
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!(
            "cannot drop type {} because other objects depend on it",
            first.display_name()
        ),
    )
    .detail(lines.collect::<Vec<_>>().join("\n"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
