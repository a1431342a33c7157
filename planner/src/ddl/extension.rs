//! CREATE, ALTER and DROP EXTENSION. The objects of an extension are catalog rows like those of
//! users.

use std::sync::Arc;

use fencepost_sql::bound::{AlterExtension, CreateExtension, DropExtension, ExtensionChange};
use fencepost_sql::catalog::acl::Privileges;
use fencepost_sql::catalog::{
    ArgMode, CATALOG_SCHEMA, CatalogView, ExtensionDef, Guards, Language, Object, ObjectAttributes,
    ObjectKind, Parallel, Planning, RoutineArg, RoutineDef, RoutineKind, RoutineResult,
    SUPERUSER_OID, TypeDef, UserType, denied, temporary,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::extensions::{Extension, ExtensionFunction};
use fencepost_sql::parser;
use fencepost_sql::pg_catalog::class;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::citext::CitextDef;
use fencepost_sql::types::{Citext, Type};

use super::authorize::Authorizer;
use super::changes::Changes;
use super::drop_type::drop_types;
use super::ownership::claim_for;
use super::routine::{drop_routines, duplicate, same};
use super::type_names;
use super::{DdlCx, Notice};
use crate::exec::Cx;

/// Runs CREATE EXTENSION. Returns the command tag.
pub async fn create_extension(
    statement: &CreateExtension,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "CREATE EXTENSION";
    let name = &statement.name;
    check_name(name)?;
    if ddl.snapshot.extension(name).is_some() {
        let message = format!("extension \"{name}\" already exists");
        if !statement.if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        let message = format!("{message}, skipping");
        ddl.notices
            .push(Notice::new(SqlState::DUPLICATE_OBJECT, message));
        return Ok(TAG);
    }
    let of = available(name)?;
    if let Some(version) = statement
        .version
        .as_deref()
        .filter(|of_it| *of_it != of.version)
    {
        let message = format!(
            "extension \"{name}\" has no installation script nor update path for version \
             \"{version}\""
        );
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
    }
    let schema = statement.schema.as_deref().ok_or_else(|| {
        let message = "no schema has been selected to create in";
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
    })?;
    check_schema(schema, ddl)?;
    let asker = Authorizer::of(cx, ddl)?;
    check_allowed(&asker, of, ddl)?;
    let changes = Changes::begin(cx, ddl).await?;
    let mut extension = ExtensionDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name: name.clone(),
        schema: schema.to_owned(),
        version: of.version.to_owned(),
        members: Vec::new(),
    };
    for name in of.types {
        let id = create_citext((schema, name), changes.version, cx, ddl).await?;
        extension.members.push((class::TYPE, id));
    }
    for provided in of.provided() {
        let id = create_function(provided, (schema, changes.version), cx, ddl).await?;
        extension.members.push((class::ROUTINE, id));
    }
    ddl.catalog.insert_extension(cx.tx, &extension).await?;
    let object = Object::new(ObjectKind::Extension, extension.id);
    let about = ObjectAttributes {
        owner: Some(asker.role).filter(|owner| *owner != SUPERUSER_OID),
        comments: vec![(0, of.comment.to_owned())],
        ..ObjectAttributes::of(object)
    };
    ddl.catalog.replace_about(cx.tx, None, &about).await?;
    changes.finish(cx, ddl).await?;
    Ok(TAG)
}

fn check_name(name: &str) -> Result<(), SqlError> {
    let detail = match name {
        _ if name.contains("--") => "Extension names must not contain \"--\".",
        _ if name.starts_with('-') || name.ends_with('-') => {
            "Extension names must not begin or end with \"-\"."
        }
        _ if name.contains(['/', '\\']) => {
            "Extension names must not contain directory separator characters."
        }
        _ => return Ok(()),
    };
    let message = format!("invalid extension name: \"{name}\"");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(detail))
}

fn available(name: &str) -> Result<&'static Extension, SqlError> {
    Extension::named(name).ok_or_else(|| {
        let message = format!("extension \"{name}\" is not available");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .hint("The extensions that there are, pg_available_extensions lists.")
    })
}

/// Returns error 3F000 if the schema does not exist.
fn check_schema(schema: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    if schema == CATALOG_SCHEMA || temporary::is_temporary(schema) {
        let what = format!("an extension in the schema {schema}");
        return Err(SqlError::unsupported(what));
    }
    match ddl.snapshot.schema_exists(schema) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        )),
    }
}

fn check_allowed(asker: &Authorizer<'_>, of: &Extension, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let security = ddl.snapshot.security();
    let may_create = || {
        let allowed = security.allowed(asker.role, security.database(), Privileges::CREATE);
        !allowed.is_none()
    };
    if asker.superuser || (of.is_trusted && may_create()) {
        return Ok(());
    }
    let message = format!("permission denied to create extension \"{}\"", of.name);
    Err(denied(message).hint(match of.is_trusted {
        true => "Must have CREATE privilege on current database to create this extension.",
        false => "Must be superuser to create this extension.",
    }))
}

/// Creates the type citext, owned by the first superuser.
async fn create_citext(
    (schema, name): (&str, &str),
    version: u64,
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<u32, StatementStop> {
    type_names::check_free(schema, name, ddl)?;
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let array_id = ddl.catalog.next_oid(cx.tx).await?;
    let ty = TypeDef {
        id,
        schema: schema.to_owned(),
        name: name.to_owned(),
        of: UserType::Citext(Citext::of(CitextDef::named(id, array_id, (schema, name)))),
        version,
        guards: Guards::create(cx.tx, id, version).await?,
    };
    ddl.catalog.insert_type(cx.tx, &ty).await?;
    let object = Object::new(ObjectKind::Type, id);
    claim_for(SUPERUSER_OID, object, schema, cx, ddl).await?;
    Ok(id)
}

/// Creates a function of the extension. The first superuser owns it, whichever role creates the
/// extension.
async fn create_function(
    provided: &ExtensionFunction,
    (schema, version): (&str, u64),
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
) -> Result<u32, StatementStop> {
    let function = &provided.function;
    let args = function
        .args
        .iter()
        .enumerate()
        .map(|(at, kind)| RoutineArg {
            name: provided.names.get(at).copied().unwrap_or("").to_owned(),
            mode: ArgMode::In,
            ty: Type::of(*kind),
            default: None,
        });
    let id = ddl.catalog.next_oid(cx.tx).await?;
    let routine = RoutineDef {
        id,
        schema: schema.to_owned(),
        name: function.name.to_owned(),
        owner: SUPERUSER_OID,
        kind: RoutineKind::Function,
        language: Language::C,
        planning: Planning {
            parallel: Parallel::Safe,
            cost: Language::C.usual_cost(),
            ..Planning::of(false)
        },
        args: args.collect(),
        result: RoutineResult {
            ty: Type::of(function.result),
            set: false,
            trigger: false,
            columns: Vec::new(),
            record: false,
        },
        volatility: function.volatility,
        strict: function.strict,
        definer: false,
        body: provided.symbol.to_owned(),
        atomic: false,
        settings: Vec::new(),
        version,
        guards: Guards::create(cx.tx, id, version).await?,
        as_called: None,
    };
    if same(ddl, (schema, &routine.name), &routine.input_kinds()).is_some() {
        return Err(duplicate(&routine).into());
    }
    ddl.catalog.insert_routine(cx.tx, &routine).await?;
    let object = Object::new(ObjectKind::Function, id);
    claim_for(SUPERUSER_OID, object, schema, cx, ddl).await?;
    Ok(id)
}

fn missing(name: &str) -> SqlError {
    let message = format!("extension \"{name}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Runs DROP EXTENSION. Returns the command tag.
pub async fn drop_extension(
    statement: &DropExtension,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    let asker = Authorizer::of(cx, ddl)?;
    let mut extensions = Vec::new();
    for name in &statement.names {
        match ddl.snapshot.extension(name) {
            Some(extension) => {
                asker.owns(ObjectKind::Extension, extension.id, name)?;
                extensions.push(Arc::clone(extension));
            }
            None if statement.if_exists => {
                let message = format!("extension \"{name}\" does not exist, skipping");
                let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
                ddl.notices.push(notice);
            }
            None => return Err(missing(name).into()),
        }
    }
    let mut changes = Changes::begin(cx, ddl).await?;
    drop_extensions((&extensions, statement.cascade), &[], cx, ddl, &mut changes).await?;
    changes.finish(cx, ddl).await?;
    Ok("DROP EXTENSION")
}

/// Drops extensions and their objects, and with `cascade` the objects that depend on them. Skips
/// relations that are in `already_dropped`.
pub async fn drop_extensions(
    (extensions, cascade): (&[Arc<ExtensionDef>], bool),
    already_dropped: &[u32],
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
    changes: &mut Changes,
) -> Result<(), StatementStop> {
    for extension in extensions {
        if !changes.drops(extension.id) {
            continue;
        }
        if extension.is_built_in() {
            let what = format!("DROP EXTENSION {}", extension.name);
            return Err(SqlError::unsupported(what).into());
        }
        let routines = functions(extension, ddl);
        let dropped = Box::pin(drop_routines(
            (&routines, cascade),
            already_dropped,
            cx,
            ddl,
            changes,
        ))
        .await;
        if let Err(halt) = dropped {
            return Err(needed(halt, extension));
        }
        let mut types = ddl.snapshot.types().all();
        types.retain(|ty| extension.has(Object::new(ObjectKind::Type, ty.id)));
        let dropped = Box::pin(drop_types(
            (&types, cascade),
            already_dropped,
            cx,
            ddl,
            changes,
        ))
        .await;
        if let Err(halt) = dropped {
            return Err(needed(halt, extension));
        }
        ddl.catalog.remove_extension(cx.tx, extension.id).await?;
    }
    Ok(())
}

/// Returns the functions of an extension.
fn functions(extension: &ExtensionDef, ddl: &DdlCx<'_>) -> Vec<Arc<RoutineDef>> {
    let mut routines = ddl.snapshot.all_routines();
    routines.retain(|of| extension.has(Object::new(of.kind.into(), of.id)));
    routines
}

/// Rewrites a dependency error of an extension's object as one of the extension itself.
fn needed(halt: StatementStop, extension: &ExtensionDef) -> StatementStop {
    match halt {
        StatementStop::Error(error) if error.sqlstate() == SqlState::DEPENDENT_OBJECTS => {
            let message = format!(
                "cannot drop extension {} because other objects depend on it",
                extension.name
            );
            let fields = error.fields();
            let mut error = SqlError::new(SqlState::DEPENDENT_OBJECTS, message);
            if let Some(detail) = &fields.detail {
                error = error.detail(detail.clone());
            }
            if let Some(hint) = &fields.hint {
                error = error.hint(hint.clone());
            }
            error.into()
        }
        other => other,
    }
}

/// Returns error 2BP01 if an extension needs the object.
pub fn check_free(object: Object, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let Some(extension) = ddl.snapshot.extension_of(object) else {
        return Ok(());
    };
    let (description, name) = (ddl.snapshot.object_description(object), &extension.name);
    let message = format!("cannot drop {description} because extension {name} requires it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
        .hint(format!("You can drop extension {name} instead.")))
}

/// Runs ALTER EXTENSION. Returns the command tag.
pub async fn alter_extension(
    statement: &AlterExtension,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<&'static str, StatementStop> {
    const TAG: &str = "ALTER EXTENSION";
    let name = &statement.name;
    let extension = ddl.snapshot.extension(name).cloned();
    let extension = extension.ok_or_else(|| missing(name))?;
    let asker = Authorizer::of(cx, ddl)?;
    match &statement.change {
        ExtensionChange::Update(to) => {
            asker.owns(ObjectKind::Extension, extension.id, name)?;
            let is = &extension.version;
            if to.as_ref().is_some_and(|to| to != is) {
                let to = to.as_deref().unwrap_or_default();
                let message = format!(
                    "extension \"{name}\" has no update path \
                     from version \"{is}\" to version \"{to}\""
                );
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
            }
            let message = format!("version \"{is}\" of extension \"{name}\" is already installed");
            let notice = Notice::new(SqlState::SUCCESSFUL_COMPLETION, message);
            ddl.notices.push(notice);
        }
        ExtensionChange::Schema(to) => {
            check_schema(to, ddl)?;
            asker.owns(ObjectKind::Extension, extension.id, name)?;
            asker.creates_in(to)?;
            if Extension::named(name).is_some_and(|of| !of.is_relocatable()) {
                let message = format!("extension \"{name}\" does not support SET SCHEMA");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
            }
            if extension.schema != *to {
                move_extension(&extension, to, cx, ddl).await?;
            }
        }
    }
    Ok(TAG)
}

async fn move_extension(
    extension: &ExtensionDef,
    to: &str,
    cx: &mut Cx<'_>,
    ddl: &mut DdlCx<'_>,
) -> Result<(), StatementStop> {
    if extension.members.iter().any(|(of, _)| *of == class::TYPE) {
        let what = format!("SET SCHEMA of the extension {}", extension.name);
        return Err(SqlError::unsupported(what).into());
    }
    let changes = Changes::begin(cx, ddl).await?;
    for routine in functions(extension, ddl) {
        if same(ddl, (to, &routine.name), &routine.input_kinds()).is_some() {
            return Err(duplicate(&routine).into());
        }
        check_uncalled(&routine.name, ddl)?;
        let moved = RoutineDef {
            schema: to.to_owned(),
            version: changes.version,
            ..RoutineDef::clone(&routine)
        };
        ddl.catalog.replace_routine(cx.tx, &moved).await?;
    }
    let moved = ExtensionDef {
        schema: to.to_owned(),
        ..extension.clone()
    };
    ddl.catalog.remove_extension(cx.tx, extension.id).await?;
    ddl.catalog.insert_extension(cx.tx, &moved).await?;
    changes.finish(cx, ddl).await
}

/// Returns error 0A000 if a text in the catalog calls a function of this name, because it would
/// have to name another schema.
fn check_uncalled(name: &str, ddl: &DdlCx<'_>) -> Result<(), SqlError> {
    let calls = |text: &str| parser::calls(text, name);
    let queries = ddl.snapshot.queries();
    let called = queries.iter().any(|view| calls(&view.text))
        || ddl.snapshot.tables().iter().any(|table| {
            let mut defaults = table.columns.iter().filter_map(|c| c.default.as_deref());
            defaults.any(calls)
        });
    match called {
        true => Err(SqlError::unsupported(
            "SET SCHEMA of an extension that tables or views use",
        )),
        false => Ok(()),
    }
}
