//! User-defined functions and procedures: their rows in pg_proc and their definitions as SQL.

use std::fmt::Write;

use super::privileges::acl;
use super::rows::{Rows, vector};
use super::{RowInputs, namespace_oid};
use crate::bound::Volatility;
use crate::catalog::{ArgMode, Language, Parallel, Planning, RoutineDef, RoutineKind};
use crate::extensions;
use crate::functions::quote_ident as quoted;
use crate::types::{Type, TypeKind};
use crate::value::{Array, Value};

/// The oid of the language c.
pub const C_LANGUAGE: u32 = 13;
/// The oid of the language sql.
pub const SQL_LANGUAGE: u32 = 14;
/// The oid of the language plpgsql. PostgreSQL assigns it at initdb; this oid belongs to no other
/// object.
pub const PLPGSQL_LANGUAGE: u32 = 13576;
/// The oid of the pseudo-type record.
const RECORD: u32 = 2249;
/// The oid of the pseudo-type trigger.
const TRIGGER: u32 = 2279;
/// The oid of the pseudo-type void.
const VOID: u32 = 2278;

/// Adds the rows of `pg_proc` for user-defined routines.
pub fn functions(rows: &mut Rows, around: &RowInputs<'_>) {
    for routine in around.snapshot.all_routines() {
        let inputs = vector(routine.inputs().map(|arg| Value::Oid(arg.ty.oid())));
        let names = routine.args.iter().any(|arg| !arg.name.is_empty());
        let modes = routine.args.iter().any(|arg| arg.mode != ArgMode::In);
        let optional = |is: bool, values: Vec<Value>| match is {
            true => Value::from(Array::of(values)),
            false => Value::Null,
        };
        let of = |f: &dyn Fn(&crate::catalog::RoutineArg) -> Value| -> Vec<Value> {
            routine.args.iter().map(f).collect()
        };
        let defaults: Vec<&str> = routine
            .inputs()
            .filter_map(|arg| arg.default.as_deref())
            .collect();
        let variadic = routine
            .args
            .iter()
            .find(|arg| arg.mode == ArgMode::Variadic);
        let variadic = variadic.and_then(|arg| arg.ty.element());
        rows.add([
            ("oid", Value::Oid(routine.id)),
            ("proname", Value::text(&routine.name)),
            (
                "pronamespace",
                Value::Oid(namespace_oid(around.snapshot, &routine.schema).unwrap_or(0)),
            ),
            ("proowner", Value::Oid(routine.owner)),
            (
                "proacl",
                acl(around.snapshot, routine.kind.into(), routine.id),
            ),
            (
                "prolang",
                Value::Oid(match routine.language {
                    Language::Sql => SQL_LANGUAGE,
                    Language::PlPgSql => PLPGSQL_LANGUAGE,
                    Language::C => C_LANGUAGE,
                }),
            ),
            ("procost", Value::Float4(routine.planning.cost)),
            ("prorows", Value::Float4(routine.planning.rows)),
            ("provariadic", Value::Oid(variadic.map_or(0, |ty| ty.oid()))),
            (
                "prokind",
                Value::text(match routine.kind {
                    RoutineKind::Function => "f",
                    RoutineKind::Procedure => "p",
                }),
            ),
            (
                "proconfig",
                optional(!routine.settings.is_empty(), config(&routine)),
            ),
            ("prosecdef", Value::Bool(routine.definer)),
            ("proleakproof", Value::Bool(routine.planning.leakproof)),
            ("proisstrict", Value::Bool(routine.strict)),
            ("proretset", Value::Bool(routine.result.set)),
            ("provolatile", Value::text(volatility_letter(&routine))),
            (
                "proparallel",
                Value::text(routine.planning.parallel.letter()),
            ),
            ("pronargs", Value::Int2(routine.inputs().count() as i16)),
            ("pronargdefaults", Value::Int2(defaults.len() as i16)),
            ("prorettype", Value::Oid(result_oid(&routine))),
            ("proargtypes", inputs),
            (
                "proallargtypes",
                optional(modes, of(&|arg| Value::Oid(arg.ty.oid()))),
            ),
            (
                "proargmodes",
                optional(modes, of(&|arg| Value::text(mode_letter(arg.mode)))),
            ),
            (
                "proargnames",
                optional(names, of(&|arg| Value::text(&arg.name))),
            ),
            (
                "proargdefaults",
                match defaults.is_empty() {
                    true => Value::Null,
                    false => Value::text(defaults.join(", ")),
                },
            ),
            ("probin", library(&routine).map_or(Value::Null, Value::text)),
            (
                "prosrc",
                Value::text(if routine.atomic { "" } else { &routine.body }),
            ),
        ]);
    }
}

/// Returns the shared library of an extension's function, in PostgreSQL's form.
fn library(routine: &RoutineDef) -> Option<String> {
    let of = extensions::of_symbol(&routine.body);
    let of = of.filter(|_| routine.language == Language::C)?;
    Some(format!("$libdir/{}", of.name))
}

fn mode_letter(mode: ArgMode) -> &'static str {
    match mode {
        ArgMode::In => "i",
        ArgMode::Out => "o",
        ArgMode::InOut => "b",
        ArgMode::Variadic => "v",
        ArgMode::Table => "t",
    }
}

/// Returns the SET clauses, each as `name=value`.
fn config(routine: &RoutineDef) -> Vec<Value> {
    let all = routine.settings.iter();
    all.map(|(name, value)| Value::text(format!("{name}={value}")))
        .collect()
}

fn volatility_letter(routine: &RoutineDef) -> &'static str {
    match routine.volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    }
}

pub(super) fn result_oid(routine: &RoutineDef) -> u32 {
    match &routine.result {
        result if result.trigger => TRIGGER,
        result if routine.kind == RoutineKind::Procedure && !result.columns.is_empty() => RECORD,
        result if result.ty.kind == TypeKind::Void => VOID,
        result => result.ty.oid(),
    }
}

/// Deparses the arguments as in CREATE FUNCTION. `to_name` omits the defaults. `named` returns the
/// names of types.
pub fn routine_arguments(
    routine: &RoutineDef,
    to_name: bool,
    named: &dyn Fn(Type) -> String,
) -> String {
    let visible = routine.args.iter().filter(|arg| arg.mode != ArgMode::Table);
    let procedure = routine.kind == RoutineKind::Procedure;
    let texts = visible.map(|arg| {
        let mut text = match arg.mode {
            ArgMode::In if procedure => "IN ".to_owned(),
            ArgMode::In | ArgMode::Table => String::new(),
            ArgMode::Out => "OUT ".to_owned(),
            ArgMode::InOut => "INOUT ".to_owned(),
            ArgMode::Variadic => "VARIADIC ".to_owned(),
        };
        if !arg.name.is_empty() {
            text.push_str(&quoted(&arg.name));
            text.push(' ');
        }
        text.push_str(&named(Type::of(arg.ty.kind)));
        if let (Some(default), false) = (&arg.default, to_name) {
            text.push_str(" DEFAULT ");
            text.push_str(default);
        }
        text
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Deparses the clause after RETURNS; `None` for a procedure.
pub fn routine_result(routine: &RoutineDef, named: &dyn Fn(Type) -> String) -> Option<String> {
    if routine.kind == RoutineKind::Procedure {
        return None;
    }
    let result = &routine.result;
    let columns: Vec<String> = routine
        .args
        .iter()
        .filter(|arg| arg.mode == ArgMode::Table)
        .map(|arg| format!("{} {}", quoted(&arg.name), named(Type::of(arg.ty.kind))))
        .collect();
    if !columns.is_empty() {
        return Some(format!("TABLE({})", columns.join(", ")));
    }
    let of = match result.trigger {
        true => "trigger".to_owned(),
        false => named(result.ty),
    };
    Some(match result.set {
        true => format!("SETOF {of}"),
        false => of,
    })
}

/// Deparses the routine as CREATE OR REPLACE FUNCTION, in PostgreSQL's format.
pub fn routine_definition(routine: &RoutineDef, named: &dyn Fn(Type) -> String) -> String {
    let mut out = format!(
        "CREATE OR REPLACE {} {}.{}({})\n",
        routine.kind.name().to_ascii_uppercase(),
        quoted(&routine.schema),
        quoted(&routine.name),
        routine_arguments(routine, false, named)
    );
    if let Some(result) = routine_result(routine, named) {
        let _ = writeln!(out, " RETURNS {result}");
    }
    let _ = writeln!(out, " LANGUAGE {}", routine.language.name());
    let mut words = Vec::new();
    match routine.volatility {
        Volatility::Immutable => words.push("IMMUTABLE"),
        Volatility::Stable => words.push("STABLE"),
        Volatility::Volatile => {}
    }
    let planning = &routine.planning;
    match planning.parallel {
        Parallel::Safe => words.push("PARALLEL SAFE"),
        Parallel::Restricted => words.push("PARALLEL RESTRICTED"),
        Parallel::Unsafe => {}
    }
    if routine.strict {
        words.push("STRICT");
    }
    if routine.definer {
        words.push("SECURITY DEFINER");
    }
    if planning.leakproof {
        words.push("LEAKPROOF");
    }
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if planning.cost != routine.language.usual_cost() {
        words.push(format!("COST {}", six_digits(planning.cost)));
    }
    if planning.rows > 0.0 && planning.rows != Planning::ROWS {
        words.push(format!("ROWS {}", six_digits(planning.rows)));
    }
    if !words.is_empty() {
        let _ = writeln!(out, " {}", words.join(" "));
    }
    for (name, value) in &routine.settings {
        let _ = writeln!(
            out,
            " SET {} TO {}",
            quoted(name),
            setting_text(name, value)
        );
    }
    if routine.atomic {
        let _ = writeln!(out, "{}", routine.body);
        return out;
    }
    let mut tag = match routine.kind {
        RoutineKind::Function => "$function".to_owned(),
        RoutineKind::Procedure => "$procedure".to_owned(),
    };
    while routine.body.contains(&tag) {
        tag.push('x');
    }
    if let Some(library) = library(routine) {
        let _ = writeln!(out, "AS '{library}', {tag}${}{tag}$", routine.body);
        return out;
    }
    let _ = writeln!(out, "AS {tag}${}{tag}$", routine.body);
    out
}

/// Formats a positive number with at most six digits, like C's `%g`.
fn six_digits(number: f32) -> String {
    let scientific = format!("{number:.5e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match power {
        -4..=5 => trimmed(&format!("{number:.*}", (5 - power) as usize)),
        _ => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), power.abs())
        }
    }
}

/// Formats the value of a setting; the elements of a list are quoted separately.
fn setting_text(name: &str, value: &str) -> String {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    if !crate::settings::is_list(name) {
        return literal(value);
    }
    let elements = value.split(',').map(str::trim);
    let plain = elements.map(|element| match element.strip_prefix('"') {
        Some(rest) => rest.trim_end_matches('"').replace("\"\"", "\""),
        None => element.to_owned(),
    });
    plain
        .map(|element| literal(&element))
        .collect::<Vec<_>>()
        .join(", ")
}
