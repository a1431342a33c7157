//! CREATE and ALTER TYPE, and the texts in the catalog that a changed type affects.
//!
//! A change of a type gives new versions to the tables with columns of it, because the type of a
//! column lists the labels. So plans that use these tables are made again. A plan that names the
//! type without such a table guards the type.

use std::sync::Arc;

use fencepost_sql::binder::{StoredText, domain_conditions, unbound};
use fencepost_sql::bound::{AlterType, AlterTypeAction, CreateEnum};
use fencepost_sql::catalog::{
    Guards, Object, ObjectKind, Snapshot, TableDef, TypeDef, TypeSet, UserType,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::quote_ident;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::citext::CitextDef;
use fencepost_sql::types::composites::is_made_of;
use fencepost_sql::types::enums::{EnumDef, Label};
use fencepost_sql::types::{Citext, Composite, Domain, Enum};

use super::changes::Changes;
use super::enum_labels::{check_label, free_place, label_exists, labels_of, position};
use super::ownership::claim;
use super::type_names::check_free;
use super::typed_columns::columns_of;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs CREATE TYPE … AS ENUM. Returns the command tag.
pub async fn create_enum(
    statement: &CreateEnum,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let schema = statement.schema.as_deref().unwrap_or_default();
    check_free(schema, &statement.name, ddl)?;
    let changes = Changes::begin(cx, ddl).await?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let array_id = ddl.catalog.next_oid(cx.tx).await?;
    let mut labels: Vec<Label> = Vec::with_capacity(statement.labels.len());
    for name in &statement.labels {
        check_label(name)?;
        if labels.iter().any(|label| label.name == *name) {
            let message =
                "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
            let detail = format!("Key (enumtypid, enumlabel)=({id}, {name}) already exists.");
            let error = SqlError::new(SqlState::UNIQUE_VIOLATION, message).detail(detail);
            return Err(error.into());
        }
        labels.push(Label {
            id: ddl.catalog.next_oid(cx.tx).await?,
            place: (labels.len() + 1) as f64,
            name: name.clone(),
        });
    }
    let of = Enum::of(EnumDef::named(
        id,
        array_id,
        (schema, &statement.name),
        labels,
    ));
    let ty = TypeDef {
        id,
        schema: schema.to_owned(),
        name: statement.name.clone(),
        of: UserType::Enum(of),
        version: changes.version,
        guards: Guards::create(cx.tx, id, changes.version).await?,
    };
    ddl.catalog.insert_type(cx.tx, &ty).await?;
    let object = Object::new(ObjectKind::Type, ty.id);
    claim(object, &ty.schema, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok("CREATE TYPE")
}

/// Runs ALTER TYPE. Returns the command tag.
pub async fn alter_type(
    statement: &AlterType,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "ALTER TYPE";
    let schema = statement.schema.as_deref().unwrap_or_default();
    let Some(ty) = ddl.snapshot.types().named(schema, &statement.name) else {
        return Err(SqlError::internal("a type is gone").into());
    };
    let mut changed = TypeDef::clone(&ty);
    let of_labels = matches!(
        statement.action,
        AlterTypeAction::AddValue { .. } | AlterTypeAction::RenameValue { .. }
    );
    let mut labels = match ty.as_enum() {
        Some(of) => labels_of(of),
        None if of_labels => return Err(not_an_enum(&ty).into()),
        None => Vec::new(),
    };
    match &statement.action {
        AlterTypeAction::AddValue {
            label,
            if_not_exists,
            beside,
        } => {
            check_label(label)?;
            if labels.iter().any(|of| of.name == *label) {
                if !if_not_exists {
                    return Err(label_exists(label, "").into());
                }
                ddl.notices.push(Notice {
                    severity: "NOTICE",
                    report: label_exists(label, ", skipping"),
                });
                return Ok(TAG);
            }
            let beside = beside.as_ref();
            let place = free_place(&labels, beside.map(|(after, name)| (*after, name.as_str())))?;
            labels.push(Label {
                id: 0,
                place,
                name: label.clone(),
            });
        }
        AlterTypeAction::RenameValue { from, to } => {
            check_label(to)?;
            let at = position(&labels, from)?;
            if labels.iter().any(|of| of.name == *to) {
                return Err(label_exists(to, "").into());
            }
            labels[at].name.clone_from(to);
        }
        AlterTypeAction::Rename(to) => {
            check_free(schema, to, ddl)?;
            changed.name.clone_from(to);
        }
        AlterTypeAction::SetSchema(to) if *to == schema => return Ok(TAG),
        AlterTypeAction::SetSchema(to) => {
            check_free(to, &statement.name, ddl)?;
            changed.schema.clone_from(to);
        }
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    for label in labels.iter_mut().filter(|label| label.id == 0) {
        label.id = ddl.catalog.next_oid(cx.tx).await?;
    }
    let name = (changed.schema.as_str(), changed.name.as_str());
    changed.of = match ty.of {
        UserType::Enum(of) => {
            let array_id = of.definition().array_id;
            UserType::Enum(Enum::of(EnumDef::named(ty.id, array_id, name, labels)))
        }
        UserType::Domain(of) => {
            let mut definition = of.definition().clone();
            definition.rename(name.0, name.1);
            UserType::Domain(Domain::of(definition))
        }
        UserType::Composite(of) => {
            let mut definition = of.definition().clone();
            definition.rename(name.0, name.1);
            UserType::Composite(Composite::of(definition))
        }
        UserType::Citext(of) => {
            let array_id = of.definition().array_id;
            UserType::Citext(Citext::of(CitextDef::named(ty.id, array_id, name)))
        }
    };
    changed.version = changes.version;
    check_texts(&changed, cx, ddl)?;
    replace(&changed, &mut changes, cx, ddl).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

/// Stores a changed type, and gives new versions to the definitions that contain it.
pub async fn replace(
    changed: &TypeDef,
    changes: &mut Changes,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<(), StatementStop> {
    for over in ddl.snapshot.types().all() {
        if over.id != changed.id && is_made_of(over.kind(), changed.id) {
            let over = TypeDef {
                version: changes.version,
                ..TypeDef::clone(&over)
            };
            ddl.catalog.replace_type(cx.tx, &over).await?;
        }
    }
    for table in ddl.snapshot.tables() {
        if columns_of(&table, changed).next().is_some() {
            changes.take(cx, &table).await?;
        }
    }
    changes.touch_routines(changed.id, cx, ddl).await?;
    ddl.catalog.replace_type(cx.tx, changed).await
}

/// Returns error 0A000 if a text in the catalog could not be bound any more with the changed type.
pub fn check_texts(changed: &TypeDef, cx: &Cx<'_>, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let others = ddl.snapshot.types().all();
    let others = others.into_iter().filter(|of| of.id != changed.id);
    let others = others.map(|of| TypeDef::clone(&of));
    let after: Vec<TypeDef> = others.chain([changed.clone()]).collect();
    if let Some(lost) = lost_domains(&after, ddl).first() {
        let what = format!("this ALTER TYPE of a type that the domain {lost} names");
        return Err(SqlError::unsupported(what));
    }
    match dependents(after, cx, ddl).first() {
        None => Ok(()),
        Some(lost) => {
            let what = format!("this ALTER TYPE of a type that the {lost} names");
            Err(SqlError::unsupported(what))
        }
    }
}

/// Returns the domains among these types with constraints that name a type that is not among them.
pub(super) fn lost_domains(after: &[TypeDef], ddl: &DdlCx<'_>) -> Vec<&'static str> {
    let there = Snapshot::clone(ddl.snapshot).with_types(TypeSet::of(after.to_vec()));
    let lost = after.iter().filter_map(|ty| {
        let definition = ty.as_domain()?.definition();
        let texts = || definition.checks.iter().map(|check| check.text.as_str());
        let understood = |catalog| domain_conditions(definition, texts(), catalog).is_ok();
        (understood(ddl.snapshot) && !understood(&there)).then_some(&*definition.display_name)
    });
    lost.collect()
}

/// Returns error 42809.
fn not_an_enum(ty: &TypeDef) -> SqlError {
    let message = format!("{} is not an enum", ty.display_name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

/// A text in the catalog that can no longer be bound after the change of types.
pub(super) struct UnboundText {
    pub(super) table: Arc<TableDef>,
    pub(super) text: StoredText,
}

impl std::fmt::Display for UnboundText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = quote_ident(&self.table.name);
        let column = |at: usize| quote_ident(&self.table.columns[at].name);
        match &self.text {
            StoredText::Default(at) => {
                write!(
                    f,
                    "default value for column {} of table {table}",
                    column(*at)
                )
            }
            StoredText::Generated(at) => write!(f, "column {} of table {table}", column(*at)),
            StoredText::Check(name) => {
                write!(f, "constraint {} on table {table}", quote_ident(name))
            }
            StoredText::Index(name) => write!(f, "index {}", quote_ident(name)),
            StoredText::Trigger(name) => {
                write!(f, "trigger {} on table {table}", quote_ident(name))
            }
        }
    }
}

pub(super) fn dependents(types: Vec<TypeDef>, cx: &Cx<'_>, ddl: &DdlCx<'_>) -> Vec<UnboundText> {
    let after = Snapshot::clone(ddl.snapshot).with_types(TypeSet::of(types));
    let mut lost = Vec::new();
    for table in ddl.snapshot.tables() {
        for text in unbound(&table, &after, cx.eval) {
            // The text may have been invalid before.
            if !unbound(&table, ddl.snapshot, cx.eval).contains(&text) {
                let table = Arc::clone(&table);
                lost.push(UnboundText { table, text });
            }
        }
    }
    lost
}
