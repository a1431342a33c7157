//! Triggers: `pg_trigger`, `information_schema.triggers`, and deparsed definitions.

use std::sync::Arc;

use super::definitions::condition as condition_of;
use super::rows::{Rows, vector};
use super::{RowInputs, reader};
use crate::binder::{DeparseContext, VisibleColumns};
use crate::catalog::{CatalogView, Event, PUBLIC_SCHEMA, Snapshot, TableDef, Timing, TriggerDef};
use crate::functions::quote_ident as quoted;
use crate::value::Value;

/// The oid of `pg_trigger`.
pub const TRIGGER_CLASS: u32 = 2620;

/// Returns `tgtype`: the timing, level and events of a trigger as bits.
fn bits(trigger: &TriggerDef) -> i16 {
    let events = trigger.events.all().map(|event| match event {
        Event::Insert => 1 << 2,
        Event::Delete => 1 << 3,
        Event::Update => 1 << 4,
        Event::Truncate => 1 << 5,
    });
    let timing = match trigger.timing {
        Timing::Before => 1 << 1,
        Timing::After => 0,
        Timing::Instead => 1 << 6,
    };
    events.fold(i16::from(trigger.row) | timing, |all, bit| all | bit)
}

/// Adds the rows of `pg_trigger`.
pub fn triggers(rows: &mut Rows, around: &RowInputs<'_>) {
    for table in around.snapshot.tables_and_views() {
        for trigger in &table.rules.triggers {
            let mut args = Vec::new();
            for arg in &trigger.args {
                args.extend_from_slice(arg.as_bytes());
                args.push(0);
            }
            let columns = trigger.columns.iter();
            let columns = columns.map(|at| Value::Int2(table.columns[*at].attnum));
            let constraint = trigger.constraint.as_ref();
            let condition = trigger.condition.as_deref();
            rows.add([
                ("oid", Value::Oid(trigger.id)),
                ("tgrelid", Value::Oid(table.id)),
                (
                    "tgparentid",
                    Value::Oid(table.link(trigger.id).unwrap_or(0)),
                ),
                ("tgname", Value::text(&trigger.name)),
                ("tgfoid", Value::Oid(trigger.function)),
                ("tgtype", Value::Int2(bits(trigger))),
                ("tgenabled", Value::text(trigger.enabled.letter())),
                (
                    "tgconstrrelid",
                    Value::Oid(constraint.and_then(|c| c.from).unwrap_or(0)),
                ),
                (
                    "tgconstraint",
                    Value::Oid(constraint.map_or(0, |_| trigger.id)),
                ),
                (
                    "tgdeferrable",
                    Value::Bool(constraint.is_some_and(|c| c.deferrable)),
                ),
                (
                    "tginitdeferred",
                    Value::Bool(constraint.is_some_and(|c| c.deferred)),
                ),
                ("tgnargs", Value::Int2(trigger.args.len() as i16)),
                ("tgattr", vector(columns)),
                ("tgargs", Value::Bytea(args)),
                ("tgoldtable", name(&trigger.transition[0])),
                ("tgnewtable", name(&trigger.transition[1])),
                ("tgqual", condition.map_or(Value::Null, Value::text)),
            ]);
        }
    }
}

fn name(name: &Option<String>) -> Value {
    name.as_deref().map_or(Value::Null, Value::text)
}

/// Adds the rows of `information_schema.triggers`: one for each event.
pub fn information(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for table in around.snapshot.tables_and_views() {
        for trigger in &table.rules.triggers {
            for event in trigger.events.all().filter(|e| *e != Event::Truncate) {
                let alike = |other: &&TriggerDef| {
                    other.timing == trigger.timing
                        && other.row == trigger.row
                        && other.events.has(event)
                        && other.name <= trigger.name
                };
                let order = table.rules.triggers.iter().filter(alike).count();
                let condition = trigger.condition.as_deref();
                let condition = condition
                    .map(|text| condition_of(&reader, text, VisibleColumns::Trigger(&table)));
                let action = format!("EXECUTE FUNCTION {}", call(around.snapshot, trigger, None));
                rows.add([
                    ("trigger_catalog", Value::text(around.database)),
                    ("trigger_schema", Value::text(&table.schema)),
                    ("trigger_name", Value::text(&trigger.name)),
                    ("event_manipulation", Value::text(event.written())),
                    ("event_object_catalog", Value::text(around.database)),
                    ("event_object_schema", Value::text(&table.schema)),
                    ("event_object_table", Value::text(&table.name)),
                    ("action_order", Value::Int4(order as i32)),
                    (
                        "action_condition",
                        condition.map_or(Value::Null, Value::text),
                    ),
                    ("action_statement", Value::text(action)),
                    (
                        "action_orientation",
                        Value::text(if trigger.row { "ROW" } else { "STATEMENT" }),
                    ),
                    ("action_timing", Value::text(trigger.timing.written())),
                    ("action_reference_old_table", name(&trigger.transition[0])),
                    ("action_reference_new_table", name(&trigger.transition[1])),
                ]);
            }
        }
    }
}

/// Deparses the function call; the function is qualified if its schema is not on `path`.
fn call(snapshot: &Snapshot, trigger: &TriggerDef, path: Option<&[String]>) -> String {
    let args = trigger.args.iter();
    let args = args.map(|arg| format!("'{}'", arg.replace('\'', "''")));
    let args = args.collect::<Vec<_>>().join(", ");
    let Some(routine) = snapshot.routine_by_id(trigger.function) else {
        return format!("-({args})");
    };
    let found = path.map_or(routine.schema == PUBLIC_SCHEMA, |path| {
        path.contains(&routine.schema)
    });
    match found {
        true => format!("{}({args})", quoted(&routine.name)),
        false => format!(
            "{}.{}({args})",
            quoted(&routine.schema),
            quoted(&routine.name)
        ),
    }
}

/// Deparses the trigger with this oid as CREATE TRIGGER. In pretty mode, a schema on `path` is
/// omitted.
pub fn trigger_definition(
    reader: &DeparseContext<'_>,
    oid: u32,
    path: &[String],
) -> Option<String> {
    let (table, at) = find(reader.snapshot, oid)?;
    let trigger = &table.rules.triggers[at];
    Some(definition(reader, &table, trigger, path))
}

/// Returns the comment on the trigger with this oid.
pub fn trigger_comment(snapshot: &Snapshot, oid: u32) -> Option<String> {
    let (table, at) = find(snapshot, oid)?;
    table.rules.triggers[at].comment.clone()
}

fn find(snapshot: &Snapshot, oid: u32) -> Option<(Arc<TableDef>, usize)> {
    snapshot.tables_and_views().into_iter().find_map(|table| {
        let mut own = table.rules.triggers.iter();
        let at = own.position(|trigger| trigger.id == oid)?;
        Some((table, at))
    })
}

fn relation(table: &TableDef, short: bool, path: &[String]) -> String {
    match short && path.contains(&table.schema) {
        true => quoted(&table.name),
        false => format!("{}.{}", quoted(&table.schema), quoted(&table.name)),
    }
}

fn definition(
    reader: &DeparseContext<'_>,
    table: &TableDef,
    trigger: &TriggerDef,
    path: &[String],
) -> String {
    let (snapshot, pretty) = (reader.snapshot, reader.style.pretty);
    let events = trigger.events.all().map(|event| {
        let mut text = event.written().to_owned();
        if event == Event::Update && !trigger.columns.is_empty() {
            let columns = trigger.columns.iter();
            let columns = columns.map(|at| quoted(&table.columns[*at].name));
            text += &format!(" OF {}", columns.collect::<Vec<_>>().join(", "));
        }
        text
    });
    let constraint = trigger.constraint.as_ref();
    let mut text = format!(
        "CREATE {}TRIGGER {} {} {} ON {} ",
        constraint.map_or("", |_| "CONSTRAINT "),
        quoted(&trigger.name),
        trigger.timing.written(),
        events.collect::<Vec<_>>().join(" OR "),
        relation(table, pretty, path)
    );
    if let Some(constraint) = constraint {
        let from = constraint.from.and_then(|id| snapshot.relation(id));
        if let Some(from) = from {
            text += &format!("FROM {} ", relation(&from, true, path));
        }
        text += if constraint.deferrable { "" } else { "NOT " };
        text += "DEFERRABLE INITIALLY ";
        text += if constraint.deferred {
            "DEFERRED "
        } else {
            "IMMEDIATE "
        };
    }
    if trigger.sees_rows() {
        text += "REFERENCING ";
        for (which, name) in ["OLD", "NEW"].iter().zip(&trigger.transition) {
            if let Some(name) = name {
                text += &format!("{which} TABLE AS {} ", quoted(name));
            }
        }
    }
    text += "FOR EACH ";
    text += if trigger.row { "ROW " } else { "STATEMENT " };
    if let Some(condition) = &trigger.condition {
        let deparsed = condition_of(reader, condition, VisibleColumns::Trigger(table));
        text += &format!("WHEN ({deparsed}) ");
    }
    text += &format!("EXECUTE FUNCTION {}", call(snapshot, trigger, Some(path)));
    text
}
