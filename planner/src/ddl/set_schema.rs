//! ALTER … SET SCHEMA of tables, views and sequences.
//!
//! Texts in the catalog omit the schema of objects in their own schema or in `public`. So the names
//! in a query are qualified when its view moves. If a name would then mean another object, the
//! command is refused.

use std::sync::Arc;

use fencepost_sql::bound::SetSchema;
use fencepost_sql::catalog::{
    CatalogView, PUBLIC_SCHEMA, SequenceDef, Snapshot, TableDef, ViewDef, temporary,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::pg_catalog::view_text;
use fencepost_sql::stop::StatementStop;

use super::authorize::Authorizer;
use super::changes::Changes;
use super::sequence::rename_defaults;
use super::type_names::check_not_type;
use super::view::touch;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs ALTER … SET SCHEMA. Returns the command tag.
pub async fn set_schema(
    statement: &SetSchema,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let (tag, to) = (statement.tag, statement.to.as_str());
    let Some(named) = &statement.object else {
        let message = format!("relation \"{}\" does not exist, skipping", statement.name);
        let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
        ddl.notices.push(notice);
        return Ok(tag);
    };
    let object = named.object;
    let asker = Authorizer::of(cx, ddl)?;
    asker.owns(object.kind, object.id, &named.name)?;
    asker.creates_in(to)?;
    let from = ddl.snapshot.schema_of(object).unwrap_or_default();
    if [from.as_str(), to].into_iter().any(temporary::is_temporary) {
        let message = "cannot move objects into or out of temporary schemas";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    if from == to {
        return Ok(tag);
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let snapshot = ddl.snapshot;
    let mut views = snapshot.views();
    if let Some(table) = snapshot.table_by_id(object.id)? {
        move_table(&table, to, cx, ddl, &mut changes).await?;
    } else if let Some(view) = views.find(|view| view.id == object.id) {
        move_view(view, to, cx, ddl, &mut changes).await?;
    } else if let Some(sequence) = snapshot.sequence_by_id(object.id)? {
        if let Some(owner) = sequence.owner.and_then(|owner| snapshot.relation(owner)) {
            let message = "cannot move an owned sequence into another schema";
            let (name, owner) = (&sequence.name, &owner.name);
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            let detail = format!("Sequence \"{name}\" is linked to table \"{owner}\".");
            return Err(error.detail(detail).into());
        }
        check_free(&sequence.name, to, ddl)?;
        move_sequence(&sequence, to, cx, ddl, &mut changes).await?;
    }
    changes.finish(cx, ddl).await?;
    Ok(tag)
}

/// Moves a table, with its indexes and its sequences.
async fn move_table(
    table: &TableDef,
    to: &str,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    check_unread(table.id, ddl)?;
    let sequences = ddl.snapshot.sequences();
    let sequences = sequences.filter(|sequence| sequence.owner == Some(table.id));
    let sequences: Vec<Arc<SequenceDef>> = sequences.cloned().collect();
    let indexes = table.indexes.iter().filter(|index| !index.is_hidden());
    let names = indexes.map(|index| &index.name);
    let names = names.chain(sequences.iter().map(|sequence| &sequence.name));
    for name in [&table.name].into_iter().chain(names) {
        check_free(name, to, ddl)?;
    }
    check_not_type(to, &table.name, ddl)?;
    let own: Vec<u32> = sequences.iter().map(|sequence| sequence.id).collect();
    check_texts(&texts(table), (&table.schema, to), &own, ddl)?;
    for sequence in &sequences {
        move_sequence(sequence, to, cx, ddl, changes).await?;
    }
    let moved = changes.take(cx, table).await?;
    to.clone_into(&mut moved.schema);
    if let (Some(view), Some(of)) = (table.as_view(), &mut moved.materialized) {
        of.text = view_text(&view, ddl.snapshot, &[]);
    }
    Ok(())
}

async fn move_view(
    view: &ViewDef,
    to: &str,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    check_unread(view.id, ddl)?;
    check_free(&view.name, to, ddl)?;
    check_not_type(to, &view.name, ddl)?;
    check_texts(&[&view.text], (&view.schema, to), &[], ddl)?;
    touch(view, cx, ddl, changes).await?;
    let moved = changes.view(view);
    to.clone_into(&mut moved.schema);
    moved.text = view_text(view, ddl.snapshot, &[]);
    Ok(())
}

async fn move_sequence(
    sequence: &SequenceDef,
    to: &str,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    let moved = SequenceDef {
        schema: to.to_owned(),
        ..sequence.clone()
    };
    rename_defaults(sequence, &moved, cx, ddl, changes).await?;
    ddl.catalog.remove_sequence(cx.tx, sequence).await?;
    ddl.catalog.insert_sequence(cx.tx, &moved).await
}

/// Returns error 42P07 if the schema already has a relation with this name.
fn check_free(name: &str, to: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    if !ddl.snapshot.relation_exists(to, name) {
        return Ok(());
    }
    let message = format!("relation \"{name}\" already exists in schema \"{to}\"");
    Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
}

/// Returns error 0A000 if a view reads the relation, because the view refers to it by name.
fn check_unread(id: u32, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let mut all = ddl.snapshot.queries().into_iter();
    match all.any(|view| view.id != id && view.reads(id)) {
        true => Err(SqlError::unsupported("SET SCHEMA of what a view uses")),
        false => Ok(()),
    }
}

/// Returns the texts that the catalog stores for a table.
fn texts(table: &TableDef) -> Vec<&str> {
    let columns = table.columns.iter();
    let columns = columns.flat_map(|of| [of.default.as_deref(), of.more.generated.as_deref()]);
    let checks = table.rules.checks.iter().map(|check| check.text.as_str());
    let triggers = table.rules.triggers.iter();
    let triggers = triggers.filter_map(|trigger| trigger.condition.as_deref());
    let of_indexes = table.indexes.iter().map(|index| &index.more);
    let of_indexes = of_indexes.flat_map(|more| {
        let expressions = more.expressions.iter().map(|of| of.text.as_str());
        expressions.chain(more.predicate.iter().map(|of| of.text.as_str()))
    });
    let query = table.materialized.iter().map(|of| of.text.as_str());
    let all = columns.flatten().chain(checks).chain(triggers);
    all.chain(of_indexes).chain(query).collect()
}

/// Returns error 0A000 if texts use the name of a type, routine or sequence in one of the two
/// schemas. They might then mean another object. Objects in `public` are found from every schema.
fn check_texts(
    texts: &[&str],
    (from, to): (&str, &str),
    own: &[u32],
    ddl: &DdlCx<'_>,
) -> Result<(), SqlError> {
    let snapshot: &Snapshot = ddl.snapshot;
    let concerned = |schema: &str| schema != PUBLIC_SCHEMA && (schema == from || schema == to);
    let types = snapshot.types().all().into_iter();
    let types = types
        .filter(|of| concerned(&of.schema))
        .map(|of| of.name.clone());
    let routines = snapshot.all_routines().into_iter();
    let routines = routines
        .filter(|of| concerned(&of.schema))
        .map(|of| of.name.clone());
    let sequences = snapshot.sequences();
    let sequences = sequences.filter(|of| concerned(&of.schema) && !own.contains(&of.id));
    let sequences = sequences.map(|of| of.name.clone());
    let mut names = types.chain(routines).chain(sequences);
    let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    let lost = names.find(|name| {
        let name = name.to_lowercase();
        texts.iter().any(|text| text.contains(&name))
    });
    match lost {
        Some(name) => {
            let what = format!("SET SCHEMA of what names \"{name}\" of either schema");
            Err(SqlError::unsupported(what))
        }
        None => Ok(()),
    }
}
