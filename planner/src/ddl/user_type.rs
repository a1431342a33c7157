//! CREATE, ALTER and DROP TYPE; DROP DOMAIN.
//!
//! A change of a type gives new versions to the tables with columns of it, because the type of a
//! column lists the labels. So plans that use these tables are made again. A plan that names the
//! type without such a table guards the type.

use std::sync::Arc;

use fencepost_sql::binder::{StoredText, domain_conditions, unbound};
use fencepost_sql::bound::{AlterType, AlterTypeAction, CreateEnum, DropType};
use fencepost_sql::catalog::{
    CatalogView, ColumnDef, Guards, Object, ObjectKind, RoutineDef, Snapshot, TableDef, TypeDef,
    TypeSet, UserType, ViewDef,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::quote_ident;
use fencepost_sql::order::StableSort;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::citext::CitextDef;
use fencepost_sql::types::composites::is_made_of;
use fencepost_sql::types::enums::{EnumDef, LABEL_BYTES_MAX, Label};
use fencepost_sql::types::{Citext, Composite, Domain, Enum};

use super::alter::drop_column;
use super::cascades::tell;
use super::changes::Changes;
use super::ownership::claim;
use super::routine::drop_routines;
use super::view::{drop_views, remove_views, view_description};
use super::{DdlCx, Notice, extension};
use crate::exec::Cx;
use crate::index;

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

/// Returns error 42710 if a type with this name exists, or a relation, which has a row type of the
/// same name.
pub fn check_free(schema: &str, name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let types = ddl.snapshot.types();
    let of_relation = ddl.snapshot.table(Some(schema), name)?.is_some()
        || ddl.snapshot.view(Some(schema), name)?.is_some();
    match types.named(schema, name).is_some() || of_relation {
        false => Ok(()),
        true => Err(taken(name)),
    }
}

/// Returns an error if a type has the name of a new relation: 42P07 for a composite type, otherwise
/// 42710.
pub fn check_not_type(schema: &str, name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    match ddl.snapshot.types().named(schema, name) {
        None => Ok(()),
        Some(ty) if ty.as_composite().is_some() => Err(SqlError::new(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists"),
        )),
        Some(_) => Err(taken(name).hint(
            "A relation has an associated type of the same name, \
             so you must use a name that doesn't conflict with any existing type.",
        )),
    }
}

fn taken(name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("type \"{name}\" already exists"),
    )
}

fn check_label(name: &str) -> Result<(), SqlError> {
    if name.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    let message = format!("invalid enum label \"{name}\"");
    let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
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
fn lost_domains(after: &[TypeDef], ddl: &DdlCx<'_>) -> Vec<&'static str> {
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

fn labels_of(of: Enum) -> Vec<Label> {
    let label = |label: &Label| Label {
        id: label.id,
        place: label.place,
        name: label.name.clone(),
    };
    of.definition().labels.iter().map(label).collect()
}

fn label_exists(label: &str, end: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_OBJECT,
        format!("enum label \"{label}\" already exists{end}"),
    )
}

fn position(labels: &[Label], name: &str) -> Result<usize, SqlError> {
    let found = labels.iter().position(|label| label.name == name);
    found.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("\"{name}\" is not an existing enum label"),
        )
    })
}

/// Returns a sort position at the end, or before or after (true) another label. Positions never
/// change, because index keys contain them (ENUM-1). So the number of labels between two others is
/// limited.
fn free_place(labels: &[Label], beside: Option<(bool, &str)>) -> Result<f64, SqlError> {
    let Some((after, name)) = beside else {
        return Ok(labels.last().map_or(1.0, |last| last.place + 1.0));
    };
    let at = position(labels, name)?;
    let beside_place = labels[at].place;
    let other = match after {
        true => labels.get(at + 1).map(|next| next.place),
        false => at.checked_sub(1).map(|before| labels[before].place),
    };
    let place = match (other, after) {
        (Some(other), _) => (beside_place + other) / 2.0,
        (None, true) => beside_place + 1.0,
        (None, false) => beside_place - 1.0,
    };
    match place == beside_place || Some(place) == other {
        false => Ok(place),
        true => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("there is no place left beside the enum label \"{name}\""),
        )),
    }
}

/// Returns the columns of a table that have the type, or an array of it.
fn columns_of<'a>(table: &'a TableDef, ty: &'a TypeDef) -> impl Iterator<Item = usize> {
    let all = table.columns.iter().enumerate();
    all.filter(|(_, column)| is_of_column(column, ty))
        .map(|(at, _)| at)
}

fn is_of(oid: u32, ty: &TypeDef) -> bool {
    oid == ty.id || Some(oid) == ty.array_id()
}

/// Returns whether a column has the type, or a domain over it.
fn is_of_column(column: &ColumnDef, ty: &TypeDef) -> bool {
    is_made_of(column.declared().kind, ty.id)
}

/// Returns whether the type is a column's declared type, and not only the base type of its domain.
fn is_declared(column: &ColumnDef, ty: &TypeDef) -> bool {
    match column.more.domain {
        Some(of) => of.definition().id == ty.id,
        None => is_of(column.ty.oid(), ty),
    }
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

/// A text in the catalog that can no longer be bound after the change of types.
struct UnboundText {
    table: Arc<TableDef>,
    text: StoredText,
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

fn dependents(types: Vec<TypeDef>, cx: &Cx<'_>, ddl: &DdlCx<'_>) -> Vec<UnboundText> {
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
        lose(lost, cx, changes).await?;
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
                index::drop_index(cx.tx, &removed).await?;
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
