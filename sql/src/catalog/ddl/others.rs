//! The statements that recreate schemas, types, sequences, routines, views and triggers.

use std::sync::Arc;

use super::tables::values;
use super::{Ddl, DdlKind, is_domain, is_permanent, list, qualified, quoted, type_text};
use crate::catalog::{
    CatalogView, Object, ObjectKind, RoutineDef, SequenceDef, Snapshot, TableDef, TriggerState,
    TypeDef, UserType, ViewDef,
};
use crate::context::EvalContext;
use crate::functions::quote_literal;
use crate::order::StableSort;
use crate::pg_catalog::{domain_check_text, reader, routine_definition, trigger_definition};
use crate::types::composites::is_made_of;

/// Returns statements for the schemas.
pub(super) fn schemas(snapshot: &Snapshot) -> Vec<Ddl> {
    let schemas = snapshot.schemas().into_iter();
    let schemas = schemas.filter(|(name, _)| is_permanent(name));
    let create = schemas.map(|(name, _)| {
        let text = format!("CREATE SCHEMA {}", quoted(&name));
        Ddl::new(DdlKind::Schema, &name, &name, text)
    });
    create.collect()
}

/// Returns statements for the extensions, except built-in ones.
pub(super) fn extensions(snapshot: &Snapshot) -> Vec<Ddl> {
    let all = snapshot.extensions().iter().filter(|of| !of.is_built_in());
    let create = all.map(|of| {
        let (name, schema) = (quoted(&of.name), quoted(&of.schema));
        let text = format!("CREATE EXTENSION IF NOT EXISTS {name} WITH SCHEMA {schema}");
        Ddl::new(DdlKind::Extension, &of.schema, &of.name, text)
    });
    create.collect()
}

/// Returns statements for the types, in the order of their creation but after the types that they
/// refer to.
pub(super) fn types(snapshot: &Snapshot) -> Vec<Ddl> {
    let mut left = snapshot.types().all();
    left.retain(|ty| {
        let object = Object::new(ObjectKind::Type, ty.id);
        is_permanent(&ty.schema) && snapshot.extension_of(object).is_none()
    });
    let mut made = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |ty: &TypeDef| {
            let mut others = left.iter().filter(|of| of.id != ty.id);
            others.any(|of| is_made_of(ty.kind(), of.id))
        };
        let next = left.iter().position(|ty| !waits(ty)).unwrap_or(0);
        let ty = left.remove(next);
        let text = create_type(snapshot, &ty);
        made.push(Ddl::new(DdlKind::Type, &ty.schema, &ty.name, text));
    }
    made
}

fn create_type(snapshot: &Snapshot, ty: &TypeDef) -> String {
    let name = qualified(&ty.schema, &ty.name);
    let domain = match ty.of {
        UserType::Enum(of) => {
            let labels = of.values().map(|value| quote_literal(value.name()));
            return format!("CREATE TYPE {name} AS ENUM ({})", list(labels));
        }
        UserType::Composite(of) => {
            let fields = of.definition().fields.iter();
            let fields = fields.map(|field| {
                let ty = type_text(snapshot, field.ty);
                format!("{} {ty}", quoted(&field.name))
            });
            return format!("CREATE TYPE {name} AS ({})", list(fields));
        }
        UserType::Domain(of) => of,
        // The extension creates this type.
        UserType::Citext(_) => return String::new(),
    };
    let (of, domain) = (domain, domain.definition());
    let cx = EvalContext::new(Arc::default(), 0, 0);
    let reader = reader(snapshot, &cx, false);
    let base = type_text(snapshot, domain.base);
    let mut text = format!("CREATE DOMAIN {name} AS {base}");
    if let Some(default) = &domain.default {
        text += &format!(" DEFAULT {default}");
    }
    if domain.not_null {
        text += " NOT NULL";
    }
    for check in domain.checks.iter().filter(|check| check.validated) {
        let condition = domain_check_text(&reader, of, check);
        text += &format!(" CONSTRAINT {} {condition}", quoted(&check.name));
    }
    for check in domain.checks.iter().filter(|check| !check.validated) {
        let condition = domain_check_text(&reader, of, check);
        let check = quoted(&check.name);
        text += &format!("; ALTER DOMAIN {name} ADD CONSTRAINT {check} {condition}");
    }
    text
}

/// Returns the name of the type's kind in COMMENT ON and similar statements.
pub(super) fn type_kind(ty: &TypeDef) -> &'static str {
    if is_domain(ty) { "DOMAIN" } else { "TYPE" }
}

/// Returns whether the sequence belongs to an identity column.
pub(super) fn is_of_identity(snapshot: &Snapshot, sequence: &SequenceDef) -> bool {
    let owner = sequence.owner.and_then(|owner| snapshot.relation(owner));
    owner.is_some_and(|table| {
        let mut columns = table.columns.iter().map(|column| &column.more);
        columns.any(|more| more.identity.is_some() && more.sequence == Some(sequence.id))
    })
}

fn permanent_sequences(snapshot: &Snapshot) -> Vec<Arc<SequenceDef>> {
    let all = snapshot.sequences().filter(|of| is_permanent(&of.schema));
    let mut all: Vec<_> = all.cloned().collect();
    all.order_by_key(|sequence| sequence.id);
    all
}

/// Returns statements for the sequences that no column definition creates.
pub(super) fn sequences(snapshot: &Snapshot) -> Vec<Ddl> {
    let all = permanent_sequences(snapshot).into_iter();
    let own = all.filter(|sequence| !is_of_identity(snapshot, sequence));
    let create = own.map(|of| {
        let name = qualified(&of.schema, &of.name);
        let text = format!("CREATE SEQUENCE {name} AS {} {}", of.kind, values(&of));
        Ddl::new(DdlKind::Sequence, &of.schema, &of.name, text)
    });
    create.collect()
}

/// Returns statements that assign sequences to their columns.
pub(super) fn sequence_owners(snapshot: &Snapshot) -> Vec<Ddl> {
    let all = permanent_sequences(snapshot).into_iter();
    let owned = all.filter_map(|of| {
        let table = snapshot.relation(of.owner?)?;
        let mut columns = table.columns.iter();
        let column = columns.find(|column| column.more.sequence == Some(of.id))?;
        let text = format!(
            "ALTER SEQUENCE {} OWNED BY {}.{}",
            qualified(&of.schema, &of.name),
            qualified(&table.schema, &table.name),
            quoted(&column.name)
        );
        let made = Ddl::new(DdlKind::About, &of.schema, &of.name, text);
        column.more.identity.is_none().then_some(made)
    });
    owned.collect()
}

/// Returns the statement for a function or procedure.
pub(super) fn routine(snapshot: &Snapshot, routine: &RoutineDef) -> Vec<Ddl> {
    let named = |ty| super::type_text(snapshot, ty);
    let text = routine_definition(routine, &named);
    let name = routine.signature();
    vec![Ddl::new(DdlKind::Routine, &routine.schema, &name, text)]
}

/// Returns the statement for a view, or for a materialized view without its rows.
pub(super) fn view(snapshot: &Snapshot, view: &ViewDef) -> Vec<Ddl> {
    let materialized = snapshot.relation(view.id).is_some();
    let (kind, words, behind) = match materialized {
        true => (
            DdlKind::MaterializedView,
            "MATERIALIZED VIEW",
            " WITH NO DATA",
        ),
        false => (DdlKind::View, "VIEW", ""),
    };
    let columns = view.columns.iter().map(|(name, _)| quoted(name));
    let text = format!(
        "CREATE {words} {} ({}){} AS {}{behind}",
        qualified(&view.schema, &view.name),
        list(columns),
        options(view),
        view.text
    );
    vec![Ddl::new(kind, &view.schema, &view.name, text)]
}

fn options(view: &ViewDef) -> String {
    let all = view.more.options.iter();
    let mut all = all
        .map(|(name, value)| format!("{} = {}", quoted(name), quote_literal(value)))
        .peekable();
    match all.peek() {
        None => String::new(),
        Some(_) => format!(" WITH ({})", list(all)),
    }
}

/// Returns statements for the defaults of view columns.
pub(super) fn view_defaults(snapshot: &Snapshot) -> Vec<Ddl> {
    let mut all = Vec::new();
    for view in views(snapshot) {
        for (column, default) in &view.more.defaults {
            let text = format!(
                "ALTER VIEW {} ALTER COLUMN {} SET DEFAULT {default}",
                qualified(&view.schema, &view.name),
                quoted(&view.columns[*column].0)
            );
            all.push(Ddl::new(DdlKind::About, &view.schema, &view.name, text));
        }
    }
    all
}

/// Returns all views except temporary ones, in the order of their creation.
fn views(snapshot: &Snapshot) -> Vec<&Arc<ViewDef>> {
    let mut views: Vec<_> = snapshot.views().collect();
    views.retain(|view| is_permanent(&view.schema));
    views.order_by_key(|view| view.id);
    views
}

/// Returns statements that compute the rows of populated materialized views, in an order in which
/// one may read another.
pub(super) fn refreshes(snapshot: &Snapshot) -> Vec<Ddl> {
    let views = snapshot.queries().into_iter().filter(|of| {
        let table = snapshot.relation(of.id);
        let of = table.as_ref().and_then(|table| table.materialized.as_ref());
        of.is_some_and(|of| of.populated)
    });
    let refresh = views.map(|of| {
        let text = format!(
            "REFRESH MATERIALIZED VIEW {}",
            qualified(&of.schema, &of.name)
        );
        Ddl::new(DdlKind::Refresh, &of.schema, &of.name, text)
    });
    refresh.collect()
}

/// Returns statements for the triggers, with their enabled states.
pub(super) fn triggers(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let cx = EvalContext::new(Arc::default(), 0, 0);
    let reader = reader(snapshot, &cx, false);
    let (mut all, mut switched) = (Vec::new(), Vec::new());
    let views = views(snapshot).into_iter();
    let views = views.map(|view| Arc::new(view.as_table()));
    for table in tables.iter().cloned().chain(views) {
        for trigger in &table.rules.triggers {
            // A partition gets the triggers of its parents when they are created on the parents.
            let above = table.link(trigger.id).and_then(|id| {
                let mut all = tables.iter().flat_map(|table| &table.rules.triggers);
                all.find(|trigger| trigger.id == id)
            });
            let enabled = match trigger.enabled {
                TriggerState::Origin => "ENABLE",
                TriggerState::Disabled => "DISABLE",
                TriggerState::Replica => "ENABLE REPLICA",
                TriggerState::Always => "ENABLE ALWAYS",
            };
            let switch = |only: &str| {
                let name = qualified(&table.schema, &table.name);
                let trigger = quoted(&trigger.name);
                format!("ALTER TABLE {only}{name} {enabled} TRIGGER {trigger}")
            };
            let made = |text| Ddl::new(DdlKind::Trigger, &table.schema, &table.name, text);
            if let Some(above) = above {
                if above.enabled != trigger.enabled {
                    switched.push(made(switch("ONLY ")));
                }
                continue;
            }
            let Some(mut text) = trigger_definition(&reader, trigger.id, &[]) else {
                continue;
            };
            if trigger.enabled != TriggerState::Origin {
                text += &format!("; {}", switch(""));
            }
            all.push(made(text));
        }
    }
    all.extend(switched);
    all
}

/// Returns the name of a routine with its parameter types, as statements refer to it.
pub(super) fn routine_name(snapshot: &Snapshot, routine: &RoutineDef) -> String {
    let types = routine.input_kinds().into_iter();
    let types = types.map(|kind| type_text(snapshot, crate::types::Type::of(kind)));
    let name = qualified(&routine.schema, &routine.name);
    format!("{name}({})", list(types))
}

/// Returns the kind, the schema and the name of a table, view or sequence, as statements refer to
/// it.
pub(super) fn relation_object(
    snapshot: &Snapshot,
    id: u32,
) -> Option<(&'static str, String, String)> {
    let named = |kind, schema: &str, name: &str| Some((kind, schema.to_owned(), name.to_owned()));
    if let Some(table) = snapshot.relation(id) {
        if table.id != id {
            let index = table.indexes.iter().find(|index| index.id == id)?;
            return named("INDEX", &table.schema, &index.name);
        }
        let kind = match table.materialized {
            Some(_) => "MATERIALIZED VIEW",
            None => "TABLE",
        };
        return named(kind, &table.schema, &table.name);
    }
    if let Some(view) = snapshot.views().find(|view| view.id == id) {
        return named("VIEW", &view.schema, &view.name);
    }
    let sequence = snapshot.sequence_by_id(id).ok()??;
    named("SEQUENCE", &sequence.schema, &sequence.name)
}
