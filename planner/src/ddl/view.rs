//! CREATE and DROP VIEW.

use std::sync::Arc;

use fencepost_sql::bound::{AlterView, CreateView, DropView, ViewChange};
use fencepost_sql::catalog::{
    CatalogView, Guards, Object, ObjectKind, TableDef, ViewDef, ViewMore,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::order::StableSort;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::ROW_TYPE;

use super::cascades::tell;
use super::changes::Changes;
use super::create::exists;
use super::drop::remove_table;
use super::ownership::claim;
use super::routine::drop_row_users;
use super::trigger::change_triggers;
use super::type_names::check_not_type;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs CREATE VIEW. Returns the command tag.
pub async fn create_view(
    statement: &CreateView,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "CREATE VIEW";
    let old = ddl
        .snapshot
        .view(Some(&statement.schema), &statement.name)?;
    let taken = ddl
        .snapshot
        .relation_exists(&statement.schema, &statement.name);
    if (old.is_none() || !statement.or_replace) && taken {
        if old.is_none() && statement.or_replace {
            let message = format!("\"{}\" is not a view", statement.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
        }
        exists(&statement.name, false, ddl)?;
    }
    check_not_type(&statement.schema, &statement.name, ddl)?;
    let mut changes = Changes::begin(cx, ddl).await?;
    let (id, guards) = match &old {
        None => {
            let id = ddl.catalog.next_oid(cx.tx).await?;
            (id, Guards::create(cx.tx, id, changes.version).await?)
        }
        Some(old) => {
            check_replaceable(old, statement)?;
            touch(old, cx, ddl, &mut changes).await?;
            (old.id, old.guards.clone())
        }
    };
    let view = ViewDef {
        id,
        schema: statement.schema.clone(),
        name: statement.name.clone(),
        columns: statement.columns.clone(),
        text: statement.text.clone(),
        tables: statement.tables.clone(),
        views: statement.views.clone(),
        types: statement.types.clone(),
        more: ViewMore {
            options: statement.options.clone(),
            ..old
                .as_ref()
                .map_or_else(ViewMore::default, |old| old.more.clone())
        },
        version: changes.version,
        guards,
    };
    if view.views.contains(&id) {
        let message = format!(
            "infinite recursion detected in rules for relation \"{}\"",
            view.name
        );
        return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message).into());
    }
    match &old {
        None => {
            ddl.catalog.insert_view(cx.tx, &view).await?;
            let object = Object::new(ObjectKind::View, view.id);
            claim(object, &view.schema, cx, ddl).await?;
        }
        Some(old) => *changes.view(old) = view,
    }
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Runs ALTER VIEW, except RENAME, and statements about triggers of a view. Returns the command
/// tag.
pub async fn alter_view(
    statement: &AlterView,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let Some(view) = &statement.view else {
        let message = format!("relation \"{}\" does not exist, skipping", statement.name);
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
        return Ok(statement.tag);
    };
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut altered = ViewDef::clone(view);
    let more = &mut altered.more;
    for change in &statement.changes {
        match change {
            ViewChange::Default { column, default } => {
                more.defaults.retain(|(of, _)| of != column);
                more.defaults
                    .extend(default.clone().map(|text| (*column, text)));
                more.defaults.sort();
            }
            ViewChange::Set(options) => {
                more.options
                    .retain(|(name, _)| options.iter().all(|(other, _)| other != name));
                more.options.extend_from_slice(options);
            }
            ViewChange::Reset(names) => {
                more.options.retain(|(name, _)| !names.contains(name));
            }
            ViewChange::Trigger(change) => {
                let mut table = view.as_table();
                change_triggers(change, cx, ddl, &mut table).await?;
                more.triggers = table.rules.triggers;
            }
        }
    }
    touch(view, cx, ddl, &mut changes).await?;
    *changes.view(view) = altered;
    changes.finish(cx, ddl).await?;
    Ok(statement.tag)
}

/// Runs DROP VIEW. Returns the command tag.
pub async fn drop_view(
    statement: &DropView,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    for name in &statement.missing {
        let message = format!("view \"{name}\" does not exist, skipping");
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let going = drop_views(&statement.views, statement.cascade, ddl)?;
    for view in &statement.views {
        let of_rows = (view.id | ROW_TYPE, view.name.as_str());
        drop_row_users(of_rows, statement.cascade, cx, ddl, &mut changes).await?;
    }
    remove_views(&going, &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok("DROP VIEW")
}

/// Returns these views and the views over them, including materialized views. Without CASCADE,
/// views over them that are not in `views` are an error.
pub fn drop_views(
    views: &[Arc<ViewDef>],
    cascade: bool,
    ddl: &mut DdlCx<'_>,
) -> Result<Vec<Arc<ViewDef>>, SqlError> {
    let mut going: Vec<Arc<ViewDef>> = views.to_vec();
    going.order_by_key(|view| view.id);
    going.dedup_by_key(|view| view.id);
    let all = ddl.snapshot.queries();
    let mut next = 0;
    while next < going.len() {
        let view = Arc::clone(&going[next]);
        let (id, on) = (view.id, view_description(&view, ddl));
        add_readers((id, &on), &[], cascade, (&all, &mut going), ddl)?;
        next += 1;
    }
    Ok(going)
}

/// Adds those of `all` that read the relation with oid `id`, except those in `already_dropped`.
fn add_readers(
    (id, on): (u32, &str),
    already_dropped: &[u32],
    cascade: bool,
    (all, going): (&[Arc<ViewDef>], &mut Vec<Arc<ViewDef>>),
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    for other in all {
        let goes =
            already_dropped.contains(&other.id) || going.iter().any(|view| view.id == other.id);
        if goes || !other.reads(id) {
            continue;
        }
        let description = view_description(other, ddl);
        if !cascade {
            return Err(needed(on, &description));
        }
        tell(description, ddl);
        going.push(Arc::clone(other));
    }
    Ok(())
}

/// Drops the views over dropped tables, except those in `already_dropped`. Without CASCADE,
/// returns an error that these views depend on the tables.
pub async fn drop_views_of(
    (tables, cascade): (&[Arc<TableDef>], bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let ids: Vec<u32> = tables.iter().map(|table| table.id).collect();
    let dropped = [already_dropped, &ids].concat();
    let all = ddl.snapshot.queries();
    let mut going: Vec<Arc<ViewDef>> = Vec::new();
    for table in tables {
        let on = format!("{} {}", table.kind_name(), table.name);
        add_readers((table.id, &on), &dropped, cascade, (&all, &mut going), ddl)?;
    }
    let mut next = 0;
    while let Some(view) = going.get(next).cloned() {
        let on = view_description(&view, ddl);
        add_readers((view.id, &on), &dropped, cascade, (&all, &mut going), ddl)?;
        next += 1;
    }
    remove_views(&going, &ids, cx, ddl, changes).await
}

/// Removes views, including materialized views. Invalidates plans that use them, except those of
/// tables that are dropped too (`go`).
pub async fn remove_views(
    views: &[Arc<ViewDef>],
    go: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for view in views {
        if !changes.drops(view.id) {
            continue;
        }
        if view.guards.are_none() {
            let goes = |id: &u32| go.contains(id) || views.iter().any(|other| other.id == *id);
            for table in view.tables.iter().filter(|id| !goes(id)) {
                changes.by_id(cx, ddl, *table).await?;
            }
        }
        match ddl.snapshot.table_by_id(view.id)? {
            Some(table) => Box::pin(remove_table(&table, cx, ddl, changes)).await?,
            None => {
                let of_rows = (view.id | ROW_TYPE, view.name.as_str());
                Box::pin(drop_row_users(of_rows, true, cx, ddl, changes)).await?;
                ddl.catalog.remove_view(cx.tx, view).await?;
            }
        }
    }
    Ok(())
}

/// Gives the view a new version, which invalidates the plans that use it.
pub async fn touch(
    view: &ViewDef,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    changes.view(view);
    changes.touch_routines(view.id | ROW_TYPE, cx, ddl).await
}

/// Returns the description of a view for messages.
pub fn view_description(view: &ViewDef, ddl: &DdlCx<'_>) -> String {
    let table = ddl.snapshot.table_by_id(view.id).ok().flatten();
    let kind = table.map_or("view", |table| table.kind_name());
    format!("{kind} {}", view.name)
}

/// Checks OR REPLACE: it may add columns at the end, and must not change existing columns.
fn check_replaceable(old: &ViewDef, new: &CreateView) -> Result<(), SqlError> {
    let refused = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if new.columns.len() < old.columns.len() {
        return Err(refused("cannot drop columns from view".to_owned()));
    }
    for ((name, ty), (to, new_ty)) in old.columns.iter().zip(&new.columns) {
        if name != to {
            return Err(refused(format!(
                "cannot change name of view column \"{name}\" to \"{to}\""
            ))
            .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if ty != new_ty {
            return Err(refused(format!(
                "cannot change data type of view column \"{name}\" from {ty} to {new_ty}"
            )));
        }
    }
    Ok(())
}

/// Returns error 2BP01.
fn needed(on: &str, dependent: &str) -> SqlError {
    SqlError::new(
        SqlState::DEPENDENT_OBJECTS,
        format!("cannot drop {on} because other objects depend on it"),
    )
    .detail(format!("{dependent} depends on {on}"))
    .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
