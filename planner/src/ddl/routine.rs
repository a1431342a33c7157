//! CREATE, ALTER and DROP of functions and procedures.

use std::sync::Arc;

use fencepost_sql::binder::ObjectRename;
use fencepost_sql::bound::{AlterRoutine, CreateRoutine, DropRoutine};
use fencepost_sql::catalog::{
    CatalogView, Guards, Object, RoutineDef, RoutineKind, TableDef, ViewDef,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::parser::{self, RoutineChange};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::ROW_TYPE;

use super::authorize::Authorizer;
use super::cascades::tell;
use super::changes::Changes;
use super::extension::check_free;
use super::follow::{rename_in_tables, rename_in_views};
use super::ownership::claim;
use super::routine_rules::{drop_rules, rule_description, ruled_by};
use super::view::{drop_views, remove_views, touch, view_description};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// SQLSTATE 42P13, `invalid_function_definition`.
const INVALID_FUNCTION: SqlState = SqlState::new(b"42P13");
/// SQLSTATE 42723, `duplicate_function`.
const DUPLICATE_FUNCTION: SqlState = SqlState::new(b"42723");

/// Returns the routine of a schema with this name and these argument types.
pub fn same(
    ddl: &DdlCx<'_>,
    (schema, name): (&str, &str),
    kinds: &[fencepost_sql::types::TypeKind],
) -> Option<Arc<RoutineDef>> {
    let named = ddl.snapshot.routines(Some(schema), name);
    let mut named = named.into_iter();
    named.find(|routine| routine.input_kinds() == kinds)
}

/// Runs CREATE FUNCTION and CREATE PROCEDURE. Returns the command tag.
pub async fn create_routine(
    statement: &CreateRoutine,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let changes = Changes::begin(cx, ddl).await?;
    let asker = Authorizer::of(cx, ddl)?;
    if statement.planning.leakproof {
        check_leakproof(&asker)?;
    }
    let mut routine = RoutineDef {
        id: 0,
        schema: statement.schema.clone(),
        name: statement.name.clone(),
        owner: asker.role,
        kind: statement.kind,
        language: statement.language,
        args: statement.args.clone(),
        result: statement.result.clone(),
        volatility: statement.volatility,
        strict: statement.strict,
        definer: statement.definer,
        planning: statement.planning,
        body: statement.body.clone(),
        atomic: statement.atomic,
        settings: statement.settings.clone(),
        version: changes.version,
        guards: Guards::none(),
        as_called: None,
    };
    let place = (statement.schema.as_str(), statement.name.as_str());
    match same(ddl, place, &routine.input_kinds()) {
        Some(old) => {
            if !statement.or_replace {
                return Err(duplicate(&routine).into());
            }
            asker.owns(old.kind.into(), old.id, &old.name)?;
            check_replaceable(&old, &routine)?;
            routine.id = old.id;
            routine.owner = old.owner;
            routine.guards = old.guards.clone();
            ddl.catalog.replace_routine(cx.tx, &routine).await?;
        }
        None => {
            routine.id = ddl.catalog.next_oid(cx.tx).await?;
            routine.guards = Guards::create(cx.tx, routine.id, routine.version).await?;
            ddl.catalog.insert_routine(cx.tx, &routine).await?;
            let object = Object::new(routine.kind.into(), routine.id);
            claim(object, &routine.schema, cx, ddl).await?;
        }
    }
    changes.finish(cx, ddl).await?;
    Ok(match statement.kind {
        RoutineKind::Function => "CREATE FUNCTION",
        RoutineKind::Procedure => "CREATE PROCEDURE",
    })
}

/// Returns error 42501 unless the role is a superuser.
fn check_leakproof(asker: &Authorizer<'_>) -> Result<(), SqlError> {
    match asker.superuser {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "only superuser can define a leakproof function",
        )),
    }
}

/// Returns error 42723.
pub fn duplicate(routine: &RoutineDef) -> SqlError {
    SqlError::new(
        DUPLICATE_FUNCTION,
        format!(
            "{} \"{}\" already exists with same argument types",
            routine.kind.name(),
            routine.name
        ),
    )
}

/// Checks OR REPLACE: it must change neither the result type of a routine nor its argument names.
fn check_replaceable(old: &RoutineDef, new: &RoutineDef) -> Result<(), SqlError> {
    if old.kind != new.kind {
        let detail = format!("\"{}\" is a {}.", old.name, old.kind.name());
        return Err(
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, "cannot change routine kind").detail(detail),
        );
    }
    let refused = |message: String| {
        let hint = format!(
            "Use DROP {} {} first.",
            old.kind.name().to_ascii_uppercase(),
            old.signature()
        );
        Err(SqlError::new(INVALID_FUNCTION, message).hint(hint))
    };
    let (was, is) = (&old.result, &new.result);
    let same = (was.ty.kind, was.set, was.trigger, was.record)
        == (is.ty.kind, is.set, is.trigger, is.record);
    if !same {
        return refused("cannot change return type of existing function".to_owned());
    }
    if was.columns != is.columns {
        return refused("cannot change return type of existing function".to_owned());
    }
    for (was, is) in old.inputs().zip(new.inputs()) {
        if !was.name.is_empty() && was.name != is.name {
            return refused(format!(
                "cannot change name of input parameter \"{}\"",
                was.name
            ));
        }
        if was.default.is_some() && is.default.is_none() {
            return refused("cannot remove parameter defaults from existing function".to_owned());
        }
    }
    Ok(())
}

/// Runs ALTER FUNCTION, ALTER PROCEDURE and ALTER ROUTINE. Returns the command tag.
pub async fn alter_routine(
    statement: &AlterRoutine,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let mut changes = Changes::begin(cx, ddl).await?;
    let mut routine = RoutineDef::clone(&statement.routine);
    routine.version = changes.version;
    match &statement.change {
        RoutineChange::Rename(name) => routine.name.clone_from(name),
        RoutineChange::Schema(schema) => routine.schema.clone_from(schema),
        RoutineChange::Attributes { attributes, .. } => {
            if statement.planning.leakproof && attributes.leakproof.is_some() {
                check_leakproof(&Authorizer::of(cx, ddl)?)?;
            }
            routine.settings.clone_from(&statement.settings);
            routine.planning = statement.planning;
            routine.volatility = attributes.volatility.unwrap_or(routine.volatility);
            routine.strict = attributes.strict.unwrap_or(routine.strict);
            routine.definer = attributes.definer.unwrap_or(routine.definer);
        }
    }
    let place = (routine.schema.as_str(), routine.name.as_str());
    let taken = same(ddl, place, &routine.input_kinds());
    if taken.is_some_and(|other| other.id != routine.id) {
        let message = format!(
            "{} {} already exists in schema \"{}\"",
            routine.kind.name(),
            routine.signature(),
            routine.schema
        );
        return Err(SqlError::new(DUPLICATE_FUNCTION, message).into());
    }
    if let RoutineChange::Rename(to) = &statement.change {
        let renaming = ObjectRename::Routine {
            id: routine.id,
            to: to.clone(),
        };
        let of = (&renaming, statement.routine.name.as_str());
        rename_in_views(of, cx, ddl, &mut changes).await?;
        rename_in_tables(of, cx, ddl, &mut changes).await?;
    }
    ddl.catalog.replace_routine(cx.tx, &routine).await?;
    changes.finish(cx, ddl).await?;
    Ok(tag(
        statement.kind,
        ["ALTER FUNCTION", "ALTER PROCEDURE", "ALTER ROUTINE"],
    ))
}

fn tag(kind: Option<RoutineKind>, tags: [&'static str; 3]) -> &'static str {
    match kind {
        Some(RoutineKind::Function) => tags[0],
        Some(RoutineKind::Procedure) => tags[1],
        None => tags[2],
    }
}

/// Returns the command tag of a DROP of such a routine.
pub fn drop_tag(kind: Option<RoutineKind>) -> &'static str {
    tag(kind, ["DROP FUNCTION", "DROP PROCEDURE", "DROP ROUTINE"])
}

/// Runs DROP FUNCTION, DROP PROCEDURE and DROP ROUTINE. Returns the command tag.
pub async fn drop_routine(
    statement: &DropRoutine,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    for missing in &statement.missing {
        let message = format!("{missing} does not exist, skipping");
        ddl.notices
            .push(Notice::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for routine in &statement.routines {
        check_free(Object::new(routine.kind.into(), routine.id), ddl)?;
    }
    let routines = (statement.routines.as_slice(), statement.cascade);
    drop_routines(routines, &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok(drop_tag(statement.kind))
}

/// Drops the routines with the row type of a relation in their signatures. Without CASCADE, returns
/// an error that they depend on it.
pub async fn drop_row_users(
    (ty, relation): (u32, &str),
    cascade: bool,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let mut users = ddl.snapshot.all_routines();
    users.retain(|routine| routine.names_type(ty) && !changes.has_dropped(routine.id));
    if let (false, Some(_)) = (cascade, users.first()) {
        let object = ddl.snapshot.object_of_relation(ty & !ROW_TYPE);
        let description = object.map_or_else(String::new, |of| ddl.snapshot.object_description(of));
        let needs = users.iter().map(|of| {
            let (kind, signature) = (of.kind.name(), of.signature());
            format!("{kind} {signature} depends on type {relation}")
        });
        let message = format!("cannot drop {description} because other objects depend on it");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
            .detail(needs.collect::<Vec<_>>().join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
            .into());
    }
    for of in &users {
        tell(format_args!("{} {}", of.kind.name(), of.signature()), ddl);
    }
    drop_routines((&users, true), &[ty & !ROW_TYPE], cx, ddl, changes).await
}

/// Drops routines and the objects that call them. Without CASCADE, returns an error that these
/// depend on them. Skips tables that are in `already_dropped`.
pub async fn drop_routines(
    (routines, cascade): (&[Arc<RoutineDef>], bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for routine in routines {
        if !changes.drops(routine.id) {
            continue;
        }
        let calls = |text: &str| parser::calls(text, &routine.name);
        let mut views: Vec<Arc<ViewDef>> = ddl.snapshot.queries();
        views.retain(|view| calls(&view.text) && !already_dropped.contains(&view.id));
        let ruled = ruled_by(routine, already_dropped, cx, ddl);
        let mut triggered = tables_triggering(ddl, routine.id);
        triggered.retain(|table| !already_dropped.contains(&table.id));
        let mut instead = views_triggering(ddl, routine.id);
        instead.retain(|view| !already_dropped.contains(&view.id));
        if !cascade {
            let needed = |what: String| {
                let on = format!("{} {}", routine.kind.name(), routine.signature());
                SqlError::new(
                    SqlState::DEPENDENT_OBJECTS,
                    format!("cannot drop {on} because other objects depend on it"),
                )
                .detail(format!("{what} depends on {on}"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too.")
            };
            if let Some(view) = views.first() {
                return Err(needed(view_description(view, ddl)).into());
            }
            if let Some((table, trigger)) = triggered.iter().find_map(|table| {
                let own = table.rules.triggers.iter();
                let mut own = own.filter(|trigger| table.link(trigger.id).is_none());
                Some((table, own.find(|trigger| trigger.function == routine.id)?))
            }) {
                let what = format!("trigger {} on table {}", trigger.name, table.name);
                return Err(needed(what).into());
            }
            if let Some((view, trigger)) = instead.first().and_then(|view| {
                let mut own = view.more.triggers.iter();
                Some((view, own.find(|trigger| trigger.function == routine.id)?))
            }) {
                let what = format!("trigger {} on view {}", trigger.name, view.name);
                return Err(needed(what).into());
            }
            if let Some((table, texts)) = ruled.first() {
                return Err(needed(rule_description(table, &texts[0])).into());
            }
        }
        let going = drop_views(&views, true, ddl)?;
        remove_views(&going, already_dropped, cx, ddl, changes).await?;
        for (table, texts) in ruled {
            drop_rules(&table, &texts, cx, ddl, changes).await?;
        }
        for table in triggered {
            let taken = changes.take(cx, &table).await?;
            let name = taken.name.clone();
            let inherited: Vec<u32> = {
                let all = taken.rules.triggers.iter().map(|trigger| trigger.id);
                all.filter(|id| taken.link(*id).is_some()).collect()
            };
            taken.rules.triggers.retain(|trigger| {
                let goes = trigger.function == routine.id;
                if goes && !inherited.contains(&trigger.id) {
                    tell(
                        format_args!("trigger {} on table {name}", trigger.name),
                        ddl,
                    );
                }
                !goes
            });
        }
        for view in instead {
            if changes.has_dropped(view.id) {
                continue;
            }
            for trigger in &view.more.triggers {
                if trigger.function == routine.id {
                    tell(
                        format_args!("trigger {} on view {}", trigger.name, view.name),
                        ddl,
                    );
                }
            }
            touch(&view, cx, ddl, changes).await?;
            let triggers = &mut changes.view(&view).more.triggers;
            triggers.retain(|trigger| trigger.function != routine.id);
        }
        ddl.catalog.remove_routine(cx.tx, routine).await?;
    }
    Ok(())
}

/// Returns the views with triggers that run a function.
fn views_triggering(ddl: &DdlCx<'_>, function: u32) -> Vec<Arc<ViewDef>> {
    let runs = |view: &&Arc<ViewDef>| {
        let mut triggers = view.more.triggers.iter();
        triggers.any(|trigger| trigger.function == function)
    };
    ddl.snapshot.views().filter(runs).cloned().collect()
}

/// Returns the tables with triggers that run a function.
fn tables_triggering(ddl: &DdlCx<'_>, function: u32) -> Vec<Arc<TableDef>> {
    let mut tables = ddl.snapshot.tables();
    tables.retain(|table| {
        let mut triggers = table.rules.triggers.iter();
        triggers.any(|trigger| trigger.function == function)
    });
    tables
}
