//! System information functions about catalog objects, with which clients describe a database.

use std::sync::Arc;

use rust_decimal::prelude::ToPrimitive;

use super::library::{pure, stable};
use super::{ScalarFunction, objects};
use crate::binder::{VisibleColumns, explicit_path, search_path, view_is_updatable};
use crate::catalog::{
    CATALOG_SCHEMA, CatalogView, Event, Events, RoutineDef, Snapshot, ViewDef, temporary,
};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::pg_catalog as pg;
use crate::types::TypeKind::{
    Bool, Char, Int2, Int4, Int8, Name, Numeric, Oid, RegClass, RegCollation, RegNamespace,
    RegOper, RegOperator, RegProcedure, RegType, Text,
};
use crate::types::{Element, Type, TypeKind};
use crate::value::{Array, Value};

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { strict: false, ..stable("format_type", &[Oid, Int4], Text, format_type) },
    stable("pg_table_is_visible", &[Oid], Bool, is_visible),
    stable("pg_type_is_visible", &[Oid], Bool, type_is_visible),
    stable("pg_function_is_visible", &[Oid], Bool, |a, cx| {
        let path = |(routine, catalog): (Arc<RoutineDef>, Arc<Snapshot>)| {
            search_path(&*catalog, cx).contains(&routine.schema)
        };
        Ok(Value::Bool(routine(a, cx).is_none_or(path)))
    }),
    stable("pg_collation_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_opclass_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_operator_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_get_userbyid", &[Oid], Name, user_by_id),
    stable("pg_get_expr", &[Text, Oid], Text, expression),
    stable("pg_get_expr", &[Text, Oid, Bool], Text, expression),
    stable("pg_get_indexdef", &[Oid], Text, index_definition),
    stable("pg_get_indexdef", &[Oid, Int4, Bool], Text, index_definition),
    stable("pg_get_constraintdef", &[Oid], Text, constraint_definition),
    stable("pg_get_constraintdef", &[Oid, Bool], Text, constraint_definition),
    stable("pg_get_viewdef", &[Oid], Text, view_definition),
    stable("pg_get_viewdef", &[Text], Text, view_definition),
    stable("pg_get_viewdef", &[Text, Bool], Text, view_definition),
    stable("pg_get_viewdef", &[Oid, Bool], Text, view_definition),
    stable("pg_get_viewdef", &[Oid, Int4], Text, view_definition),
    stable("pg_get_ruledef", &[Oid], Text, |_, _| Ok(Value::Null)),
    stable("pg_get_ruledef", &[Oid, Bool], Text, |_, _| Ok(Value::Null)),
    stable("pg_get_triggerdef", &[Oid], Text, trigger_definition),
    stable("pg_get_triggerdef", &[Oid, Bool], Text, trigger_definition),
    stable("pg_get_statisticsobjdef_columns", &[Oid], Text, |_, _| Ok(Value::Null)),
    stable("pg_get_partkeydef", &[Oid], Text, |a, cx| {
        let table = cx.catalog().relation(oid(a)).filter(|table| table.id == oid(a));
        Ok(text(table.and_then(|table| pg::partition_key(&table))))
    }),
    stable("pg_get_serial_sequence", &[Text, Text], Text, serial_sequence),
    stable("pg_get_function_result", &[Oid], Text, function_result),
    stable("pg_get_function_arguments", &[Oid], Text, |a, cx| function_arguments(a, false, cx)),
    stable("pg_get_function_identity_arguments", &[Oid], Text,
        |a, cx| function_arguments(a, true, cx)),
    stable("pg_get_function_sqlbody", &[Oid], Text, |_, _| Ok(Value::Null)),
    stable("pg_relation_is_publishable", &[RegClass], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_relation_is_updatable", &[RegClass, Bool], Int4, relation_is_updatable),
    stable("pg_column_is_updatable", &[RegClass, Int2, Bool], Bool, column_is_updatable),
    stable("obj_description", &[Oid, Name], Text, object_description),
    stable("obj_description", &[Oid], Text, object_description),
    stable("shobj_description", &[Oid, Name], Text, object_description),
    stable("col_description", &[Oid, Int4], Text, |a, cx| {
        let column = a.get(1).and_then(Value::as_int);
        let of_table = pg::comment(&cx.catalog(), oid(a), column);
        let number = i16::try_from(column.unwrap_or(0)).unwrap_or(0);
        let of_view = || pg::comment_on(&cx.catalog(), Some(pg::class::RELATION), oid(a), number);
        Ok(text(of_table.or_else(of_view)))
    }),
    stable("pg_describe_object", &[Oid, Oid, Int4], Text, described),
    stable("to_regclass", &[Text], RegClass, |a, cx| to_object(a, RegClass, cx)),
    stable("to_regprocedure", &[Text], RegProcedure, |a, cx| to_object(a, RegProcedure, cx)),
    stable("to_regoper", &[Text], RegOper, |a, cx| to_object(a, RegOper, cx)),
    stable("to_regoperator", &[Text], RegOperator, |a, cx| to_object(a, RegOperator, cx)),
    stable("to_regcollation", &[Text], RegCollation, |a, cx| to_object(a, RegCollation, cx)),
    stable("to_regtype", &[Text], RegType, |a, cx| to_object(a, RegType, cx)),
    stable("to_regnamespace", &[Text], RegNamespace, |a, cx| to_object(a, RegNamespace, cx)),
    stable("acldefault", &[Char, Oid], TypeKind::Array(Element::TEXT), default_privileges),
    stable("pg_char_to_encoding", &[Name], Int4, |a, _| {
        let utf8 = a.first().and_then(Value::as_text).is_some_and(|name| name.eq_ignore_ascii_case("utf8"));
        Ok(Value::Int4(if utf8 { 6 } else { -1 }))
    }),
    stable("getdatabaseencoding", &[], Name, |_, _| Ok(Value::text("UTF8"))),
    stable("current_schemas", &[Bool], TypeKind::Array(Element::NAME), current_schemas),
    stable("pg_get_functiondef", &[Oid], Text, function_definition),
    stable("pg_get_statisticsobjdef", &[Oid], Text, |_, _| Ok(Value::Null)),
    stable("pg_get_partition_constraintdef", &[Oid], Text, |a, cx| {
        let catalog = cx.catalog();
        let table = catalog.relation(oid(a)).filter(|table| table.id == oid(a));
        Ok(text(table.and_then(|table| pg::partition_constraint(&catalog, &table))))
    }),
    stable("pg_conversion_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_statistics_obj_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_ts_config_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_ts_dict_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_ts_parser_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_ts_template_is_visible", &[Oid], Bool, |_, _| Ok(Value::Bool(true))),
    stable("pg_tablespace_location", &[Oid], Text, |_, _| Ok(Value::text(""))),
    pure("pg_size_pretty", &[Int8], Text, size_pretty),
    pure("pg_size_pretty", &[Numeric], Text, |a, _| match a {
        [Value::Numeric(size)] => Ok(Value::text(match size.trunc().to_i128() {
            Some(whole) if whole.abs() >= SMALL => in_units(whole),
            _ => format!("{size} bytes"),
        })),
        _ => Ok(Value::Null),
    }),
    stable("current_schema", &[], Name, |_, cx| {
        Ok(text(explicit_path(&*cx.catalog(), cx).into_iter().next()))
    }),
    stable("pg_my_temp_schema", &[], Oid, |_, cx| {
        let own = cx.temporary();
        let there = cx.temporary_in(&*cx.catalog()).is_some();
        Ok(Value::Oid(own.filter(|_| there).map_or(0, |own| own.id)))
    }),
    stable("pg_is_other_temp_schema", &[Oid], Bool, |args, cx| {
        let name = pg::namespace_name(&cx.catalog(), oid(args));
        let own = cx.temporary_schema();
        Ok(Value::Bool(name.is_some_and(|name| {
            temporary::is_temporary(&name) && name != own
        })))
    }),
];

/// Returns the oid of the partition of a row. The arguments are the oid of the partitioned table
/// and the columns of the partition key.
pub static PARTITION_OF: ScalarFunction = ScalarFunction {
    strict: false,
    ..stable("partition_of", &[Oid], Oid, |args, cx| {
        let Some(table) = cx.catalog().relation(oid(args)) else {
            return Ok(Value::Null);
        };
        let Some(tree) = table.tree() else {
            return Ok(Value::Null);
        };
        let value = |column: usize| {
            let at = tree.columns.iter().position(|c| *c == column);
            at.and_then(|at| args.get(at + 1)).unwrap_or(&Value::Null)
        };
        let leaf = tree.leaf_of(&value).ok();
        let leaf = leaf.and_then(|leaf| tree.leaves.get(leaf as usize));
        Ok(leaf.map_or(Value::Null, |leaf| Value::Oid(leaf.id)))
    })
};

/// Returns whether the last argument requests pretty-printing.
fn is_pretty(args: &[Value]) -> bool {
    args.last().and_then(Value::as_bool) == Some(true)
}

/// Deparses an expression over the columns of a relation.
fn expression(args: &[Value], cx: &EvalContext) -> Outcome {
    let Some(Value::Text(stored)) = args.first() else {
        return Ok(Value::Null);
    };
    let catalog = cx.catalog();
    let table = catalog.relation(oid(&args[1..]));
    let over = match &table {
        Some(table) => VisibleColumns::Table(table),
        None => VisibleColumns::Nothing,
    };
    let reader = pg::reader(&catalog, cx, is_pretty(args));
    Ok(Value::text(pg::deparsed_expression(&reader, stored, over)))
}

fn oid(args: &[Value]) -> u32 {
    let oid = args.first().and_then(Value::as_int);
    oid.and_then(|oid| u32::try_from(oid).ok()).unwrap_or(0)
}

fn text(text: Option<String>) -> Value {
    text.map_or(Value::Null, Value::text)
}

/// Returns the SQL name of a type with its modifier.
fn format_type(args: &[Value], cx: &EvalContext) -> Outcome {
    let of = match args {
        [Value::Null, ..] => return Ok(Value::Null),
        _ => oid(args),
    };
    let typmod = args.get(1).and_then(Value::as_int);
    let typmod = typmod.and_then(|typmod| i32::try_from(typmod).ok());
    let known = TypeKind::from_oid(of).filter(|kind| *kind != TypeKind::Unknown);
    let name = match (known, typmod) {
        (Some(kind), Some(typmod)) if typmod >= 0 => Some(Type::with(kind, typmod).name()),
        // The type modifier gives no length: only the kind of the type is known.
        (Some(TypeKind::BpChar), Some(_)) => Some("bpchar".to_owned()),
        _ => pg::type_name(&cx.catalog(), of, cx),
    };
    Ok(Value::text(match (of, name) {
        (0, _) => "-".to_owned(),
        (_, name) => name.unwrap_or_else(|| "???".to_owned()),
    }))
}

/// Returns whether a relation is found by its unqualified name.
fn is_visible(args: &[Value], cx: &EvalContext) -> Outcome {
    let snapshot = cx.catalog();
    let name = pg::relation_name(&snapshot, oid(args));
    Ok(name.map_or(Value::Null, |(schema, _)| {
        let path = search_path(&*snapshot, cx);
        Value::Bool(schema == CATALOG_SCHEMA || path.contains(&schema))
    }))
}

fn type_is_visible(args: &[Value], cx: &EvalContext) -> Outcome {
    let snapshot = cx.catalog();
    let of_user = snapshot.type_by_id(oid(args));
    Ok(Value::Bool(of_user.is_none_or(|ty| {
        search_path(&*snapshot, cx).contains(&ty.schema)
    })))
}

/// Returns the default privileges on an object of some kind: those of PUBLIC and of its owner.
fn default_privileges(args: &[Value], cx: &EvalContext) -> Outcome {
    let [Value::Text(kind), _] = args else {
        return Ok(Value::Null);
    };
    let (public, owner) = match kind.as_str() {
        "c" => return Ok(Array::default().into()),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let what = format!("unrecognized objtype abbreviation: {other}");
            return Err(SqlError::internal(what));
        }
    };
    let name = pg::role_name(&cx.catalog(), oid(&args[1..])).unwrap_or_default();
    let name = super::quote_ident(&name);
    let mut items = Vec::new();
    if !public.is_empty() {
        items.push(Value::text(format!("={public}/{name}")));
    }
    items.push(Value::text(format!("{name}={owner}/{name}")));
    Ok(Array::of(items).into())
}

fn user_by_id(args: &[Value], cx: &EvalContext) -> Outcome {
    let name = pg::role_name(&cx.catalog(), oid(args));
    let unknown = || format!("unknown (OID={})", oid(args));
    Ok(Value::text(name.unwrap_or_else(unknown)))
}

fn index_definition(args: &[Value], cx: &EvalContext) -> Outcome {
    let of = oid(args);
    let Some(table) = cx.catalog().relation(of) else {
        return Ok(Value::Null);
    };
    let Some(index) = table.indexes.iter().find(|index| index.id == of) else {
        return Ok(Value::Null);
    };
    let column = args.get(1).and_then(Value::as_int).unwrap_or(0);
    let pretty = args.get(2).and_then(Value::as_bool) == Some(true);
    let catalog = cx.catalog();
    let reader = pg::reader(&catalog, cx, pretty);
    Ok(match usize::try_from(column) {
        Ok(0) => Value::text(pg::index_definition(&reader, &table, index)),
        Ok(column) => text(pg::index_column(Some(&reader), &table, index, column - 1)),
        Err(_) => Value::Null,
    })
}

fn constraint_definition(args: &[Value], cx: &EvalContext) -> Outcome {
    let of = oid(args);
    let snapshot = cx.catalog();
    let reader = pg::reader(&snapshot, cx, is_pretty(args));
    if let Some((domain, check)) = pg::domain_check(&snapshot, of) {
        return Ok(Value::text(pg::domain_check_text(&reader, domain, check)));
    }
    for table in snapshot.tables() {
        let mut all = pg::Constraint::all(&table);
        if let Some(constraint) = all.find(|constraint| constraint.id() == of) {
            let path = search_path(&*snapshot, cx);
            let definition = constraint.definition(&reader, &path, &table);
            return Ok(Value::text(definition));
        }
    }
    Ok(Value::Null)
}

fn trigger_definition(args: &[Value], cx: &EvalContext) -> Outcome {
    let snapshot = cx.catalog();
    let reader = pg::reader(&snapshot, cx, is_pretty(args));
    let path = search_path(&*snapshot, cx);
    Ok(text(pg::trigger_definition(&reader, oid(args), &path)))
}

fn view_definition(args: &[Value], cx: &EvalContext) -> Outcome {
    let of = match args.first() {
        Some(name @ Value::Text(_)) => match objects::named(name, RegClass, cx)? {
            Value::Object(object) => object.oid,
            _ => return Ok(Value::Null),
        },
        _ => oid(args),
    };
    let snapshot = cx.catalog();
    let view = snapshot.queries().into_iter().find(|view| view.id == of);
    // A wrap column as the argument also requests pretty-printing.
    let wraps = matches!(args.get(1), Some(Value::Int4(_)));
    let reader = pg::reader(&snapshot, cx, wraps || is_pretty(args));
    let definition = |view: &Arc<ViewDef>| pg::view_definition(&reader, view);
    Ok(text(view.as_ref().map(definition)))
}

/// Returns which events a relation allows. For views, also returns which columns can be updated.
fn updatable(args: &[Value], cx: &EvalContext) -> (Events, Option<Vec<bool>>) {
    let catalog = cx.catalog();
    let with_triggers = args.last().and_then(Value::as_bool) == Some(true);
    let of = oid(args);
    let mut all = Events::default();
    if let Some(view) = catalog.views().find(|view| view.id == of) {
        let (events, columns) = view_is_updatable(view, &*catalog, with_triggers);
        return (events, Some(columns));
    }
    let table = catalog.relation(of).filter(|table| table.id == of);
    if table.is_some_and(|table| table.materialized.is_none()) {
        for event in [Event::Insert, Event::Update, Event::Delete] {
            all.add(event);
        }
    }
    (all, None)
}

fn relation_is_updatable(args: &[Value], cx: &EvalContext) -> Outcome {
    let (events, _) = updatable(args, cx);
    let bits = events.all().map(|event| match event {
        Event::Update => 1 << 2,
        Event::Insert => 1 << 3,
        Event::Delete => 1 << 4,
        Event::Truncate => 0,
    });
    Ok(Value::Int4(bits.fold(0, |all, bit| all | bit)))
}

fn column_is_updatable(args: &[Value], cx: &EvalContext) -> Outcome {
    let number = args.get(1).and_then(Value::as_int).unwrap_or(0);
    let (events, columns) = updatable(args, cx);
    let changes = events.has(Event::Update) && events.has(Event::Delete);
    let at = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
    let known = match (at, columns) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(at), Some(columns)) => columns.get(at) == Some(&true),
    };
    Ok(Value::Bool(changes && known))
}

/// Returns the comment on an object of a class, or of any class.
fn object_description(args: &[Value], cx: &EvalContext) -> Outcome {
    let class = args.get(1).and_then(Value::as_text);
    let catalog = cx.catalog();
    if class == Some("pg_trigger") {
        return Ok(text(pg::trigger_comment(&catalog, oid(args))));
    }
    let class = match class {
        None => None,
        Some(name) => match pg::Relation::named(None, name) {
            Some(relation) => Some(relation.oid),
            None => return Ok(Value::Null),
        },
    };
    let is_table = class.is_none_or(|class| class == pg::class::RELATION);
    let of_table = is_table.then(|| pg::comment(&catalog, oid(args), None));
    let other = || pg::comment_on(&catalog, class, oid(args), 0);
    Ok(text(of_table.flatten().or_else(other)))
}

fn serial_sequence(args: &[Value], cx: &EvalContext) -> Outcome {
    let [table, Value::Text(column)] = args else {
        return Ok(Value::Null);
    };
    let Value::Object(table) = objects::named(table, RegClass, cx)? else {
        return Ok(Value::Null);
    };
    Ok(text(pg::serial_sequence(&cx.catalog(), table.oid, column)?))
}

/// Returns a user-defined function or procedure.
fn routine(args: &[Value], cx: &EvalContext) -> Option<(Arc<RoutineDef>, Arc<Snapshot>)> {
    let catalog = cx.catalog();
    let routine = catalog.routine_by_id(oid(args))?;
    Some((routine, catalog))
}

/// Returns the name of a type in a routine's signature, qualified if it is not on the search path.
fn type_text(ty: Type, catalog: &Snapshot, cx: &EvalContext) -> String {
    match ty.plain() == ty && !ty.kind.is_users() {
        true => ty.name(),
        false => pg::type_name(catalog, ty.oid(), cx).unwrap_or_else(|| ty.name()),
    }
}

fn function_result(args: &[Value], cx: &EvalContext) -> Outcome {
    if let Some((routine, catalog)) = routine(args, cx) {
        let named = |ty| type_text(ty, &catalog, cx);
        return Ok(text(pg::routine_result(&routine, &named)));
    }
    let function = pg::Procedure::of(oid(args));
    let result = function.and_then(|of| {
        let name = pg::type_name(&cx.catalog(), of.result(), cx)?;
        Some(if of.returns_set() {
            format!("SETOF {name}")
        } else {
            name
        })
    });
    Ok(text(result))
}

/// Describes an object as error messages do.
fn described(args: &[Value], cx: &EvalContext) -> Outcome {
    let (class, catalog) = (oid(args), cx.catalog());
    let id = args.get(1..).map_or(0, oid);
    if class == pg::class::ROUTINE {
        let routine = catalog.routine_by_id(id);
        return Ok(text(routine.map(|of| {
            let types = of
                .inputs()
                .map(|arg| type_text(Type::of(arg.ty.kind), &catalog, cx));
            let types = types.collect::<Vec<_>>().join(",");
            let (kind, name) = (of.kind.name(), super::quote_ident(&of.name));
            match search_path(&*catalog, cx).contains(&of.schema) {
                true => format!("{kind} {name}({types})"),
                false => format!("{kind} {}.{name}({types})", super::quote_ident(&of.schema)),
            }
        })));
    }
    let object = catalog.object_of(class, id);
    let object = object.filter(|of| catalog.has_object(class, of.id));
    Ok(text(object.map(|of| catalog.object_description(of))))
}

fn function_arguments(args: &[Value], to_name: bool, cx: &EvalContext) -> Outcome {
    if let Some((routine, catalog)) = routine(args, cx) {
        let named = |ty| type_text(ty, &catalog, cx);
        return Ok(Value::text(pg::routine_arguments(
            &routine, to_name, &named,
        )));
    }
    let function = pg::Procedure::of(oid(args));
    Ok(text(function.map(|of| arguments(of, cx))))
}

fn function_definition(args: &[Value], cx: &EvalContext) -> Outcome {
    let Some((routine, catalog)) = routine(args, cx) else {
        return Ok(Value::Null);
    };
    let named = |ty| type_text(ty, &catalog, cx);
    Ok(Value::text(pg::routine_definition(&routine, &named)))
}

fn arguments(of: &pg::Procedure, cx: &EvalContext) -> String {
    let catalog = cx.catalog();
    let last = of.args.len().saturating_sub(1);
    let arguments = of.args.iter().enumerate().map(|(at, ty)| {
        let name = pg::type_name(&catalog, *ty, cx).unwrap_or_else(|| ty.to_string());
        if of.is_variadic() && at == last {
            format!("VARIADIC {name}")
        } else {
            name
        }
    });
    arguments.collect::<Vec<_>>().join(", ")
}

/// Returns the schemas of the search path.
fn current_schemas(args: &[Value], cx: &EvalContext) -> Outcome {
    let implicit = args.first().and_then(Value::as_bool) == Some(true);
    let catalog = cx.catalog();
    let mut schemas = explicit_path(&*catalog, cx);
    if implicit {
        schemas.insert(0, CATALOG_SCHEMA.to_owned());
        let own = cx.temporary_in(&*catalog);
        if let Some(own) = own.filter(|own| !schemas.contains(own)) {
            schemas.insert(0, own);
        }
    }
    let schemas = schemas.into_iter().map(Value::text);
    Ok(Array::of(schemas.collect()).into())
}

fn to_object(args: &[Value], kind: TypeKind, cx: &EvalContext) -> Outcome {
    match args.first().and_then(Value::as_text) {
        Some(name) => objects::find_or_null(name, kind, cx),
        None => Ok(Value::Null),
    }
}

/// Smaller sizes are shown in bytes.
const SMALL: i128 = 10 * 1024;

/// Shows a size in the unit that leaves at most five digits.
fn size_pretty(args: &[Value], _: &EvalContext) -> Outcome {
    let size = args.first().and_then(Value::as_int).unwrap_or(0);
    Ok(Value::text(in_units(i128::from(size))))
}

/// Returns a number of bytes as text with the unit of PostgreSQL's choice.
fn in_units(bytes: i128) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    if bytes.abs() < SMALL {
        return format!("{bytes} bytes");
    }
    // The size is kept in half units, so that it is rounded only once, at the end.
    let mut size = bytes / 512;
    let mut unit = 1;
    while size.abs() >= 2 * SMALL - 1 && unit + 1 < UNITS.len() {
        size /= 1024;
        unit += 1;
    }
    let half_up = (size + size.signum()) / 2;
    format!("{half_up} {}", UNITS[unit])
}
