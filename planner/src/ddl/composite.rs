//! CREATE TYPE … AS (…) and ALTER TYPE … ATTRIBUTE.
//!
//! Stored values are not rewritten: a field keeps its position in them, and an added field gets a
//! new position (COMPOSITE-1). An attribute with stored values keeps its type. An attribute with
//! values in an index cannot be dropped.

use fencepost_sql::bound::{AlterComposite, AttributeChange, CreateComposite};
use fencepost_sql::catalog::{Guards, Object, ObjectKind, TypeDef, UserType};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::composites::{CompositeDef, Field, is_made_of};
use fencepost_sql::types::{Composite, Type};

use super::changes::Changes;
use super::ownership::claim;
use super::type_names::check_free;
use super::user_type::{check_texts, replace};
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// The maximal number of attributes of a type, including dropped ones.
const PLACES_MAX: u16 = 1600;

/// Runs CREATE TYPE … AS (…). Returns the command tag.
pub async fn create_composite(
    statement: &CreateComposite,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let (schema, name) = (statement.schema.as_str(), statement.name.as_str());
    check_free(schema, name, ddl)?;
    if ddl.snapshot.relation_exists(schema, name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists"),
        )
        .into());
    }
    let changes = Changes::begin(cx, ddl).await?;
    let mut fields = Vec::with_capacity(statement.attributes.len());
    for (name, ty) in &statement.attributes {
        let place = free_place(fields.len())?;
        fields.push(field(name, *ty, place));
    }
    let relation = ddl.catalog.next_oid(cx.tx).await?;
    let array = ddl.catalog.next_oid(cx.tx).await?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let definition = CompositeDef::named((id, array, relation), (schema, name), fields);
    let ty = TypeDef {
        id,
        schema: schema.to_owned(),
        name: name.to_owned(),
        of: UserType::Composite(Composite::of(definition)),
        version: changes.version,
        guards: Guards::create(cx.tx, id, changes.version).await?,
    };
    ddl.catalog.insert_type(cx.tx, &ty).await?;
    claim(Object::new(ObjectKind::Type, id), schema, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok("CREATE TYPE")
}

fn field(name: &str, ty: Type, place: u16) -> Field {
    Field {
        name: name.to_owned(),
        ty,
        place,
    }
}

/// Returns the next position, or error 54011 if the type has had too many attributes.
fn free_place(places: usize) -> Result<u16, SqlError> {
    let place = u16::try_from(places).ok();
    place.filter(|place| *place < PLACES_MAX).ok_or_else(|| {
        SqlError::new(
            SqlState::new(b"54011"),
            format!("tables can have at most {PLACES_MAX} columns"),
        )
    })
}

/// Runs ALTER TYPE … ATTRIBUTE. Returns the command tag.
pub async fn alter_composite(
    statement: &AlterComposite,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let ty = &statement.ty;
    let Some(composite) = ty.as_composite() else {
        return Err(SqlError::internal("a composite type is none").into());
    };
    let mut definition = composite.definition().clone();
    for change in &statement.changes {
        alter(&mut definition, change, ddl)?;
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    let changed = TypeDef {
        of: UserType::Composite(Composite::of(definition)),
        version: changes.version,
        ..TypeDef::clone(ty)
    };
    check_texts(&changed, cx, ddl)?;
    replace(&changed, &mut changes, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok("ALTER TYPE")
}

fn alter(
    definition: &mut CompositeDef,
    change: &AttributeChange,
    ddl: &mut DdlCx<'_>,
) -> Result<(), SqlError> {
    let relation = definition.name.clone();
    let position = |definition: &CompositeDef, name: &str| {
        definition.fields.iter().position(|f| f.name == name)
    };
    let missing = |name: &str| {
        let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    };
    let taken = |name: &str| {
        let message = format!("column \"{name}\" of relation \"{relation}\" already exists");
        SqlError::new(SqlState::DUPLICATE_COLUMN, message)
    };
    match change {
        AttributeChange::Add(name, ty) => {
            if position(definition, name).is_some() {
                return Err(taken(name));
            }
            check_member(definition, *ty)?;
            let place = free_place(usize::from(definition.places))?;
            definition.places = place + 1;
            definition.fields.push(field(name, *ty, place));
        }
        AttributeChange::Drop(name, if_exists) => match position(definition, name) {
            Some(at) => {
                check_no_index(definition, ddl)?;
                definition.fields.remove(at);
            }
            None if *if_exists => {
                let message = missing(name).message().to_owned() + ", skipping";
                let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
                ddl.notices.push(notice);
            }
            None => return Err(missing(name)),
        },
        AttributeChange::Type(name, ty) => {
            let at = position(definition, name).ok_or_else(|| missing(name))?;
            check_member(definition, *ty)?;
            check_unused(definition, ddl)?;
            definition.fields[at].ty = *ty;
        }
        AttributeChange::Rename(from, to) => {
            let at = position(definition, from).ok_or_else(|| missing(from))?;
            if position(definition, to).is_some() {
                return Err(taken(to));
            }
            definition.fields[at].name.clone_from(to);
        }
    }
    Ok(())
}

/// Returns error 0A000 if an index has values of the type, because its keys contain all fields.
fn check_no_index(definition: &CompositeDef, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    for table in ddl.snapshot.tables() {
        for index in &table.indexes {
            let mut keys = index.columns.iter();
            let uses = |ty: Type| is_made_of(ty.kind, definition.id);
            if keys.any(|key| uses(index.type_of(&table, key.column))) {
                let what = "DROP ATTRIBUTE of a type that an index has values of";
                return Err(SqlError::unsupported(what));
            }
        }
    }
    Ok(())
}

/// Returns error 42P16 if the type would contain itself (COMPOSITE-2).
fn check_member(definition: &CompositeDef, ty: Type) -> Result<(), SqlError> {
    match is_made_of(ty.kind, definition.id) {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "composite type {} cannot be made a member of itself",
                definition.display_name
            ),
        )),
    }
}

/// Returns error 0A000 if a column has values of the type.
fn check_unused(definition: &CompositeDef, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    for table in ddl.snapshot.tables() {
        let mut columns = table.columns.iter();
        let uses = |ty: Type| is_made_of(ty.kind, definition.id);
        if let Some(column) = columns.find(|column| uses(column.declared())) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!(
                    "cannot alter type \"{}\" because column \"{}.{}\" uses it",
                    definition.name, table.name, column.name
                ),
            ));
        }
    }
    Ok(())
}
