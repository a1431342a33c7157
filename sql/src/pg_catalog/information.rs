//! The views of `information_schema`.

use std::sync::Arc;

use super::attributes::{expression, typed_text};
use super::constraints::parent_index;
use super::definitions::{condition, expression as deparsed_expression, view_definition};
use super::names::namespaces;
use super::privileges::owner_name;
use super::rows::Rows;
use super::sequences::is_of_identity;
use super::{Constraint, RowInputs, reader};
use crate::binder::{VisibleColumns, view_is_updatable};
use crate::catalog::{
    CATALOG_SCHEMA, CheckOption, Collation, Event, Identity, ObjectKind, Referential, Snapshot,
    TableDef, temporary,
};
use crate::types::{Domain, Type, TypeKind};
use crate::value::Value;

pub(super) fn yes(it_is: bool) -> Value {
    Value::text(if it_is { "YES" } else { "NO" })
}

fn number(number: u32) -> Value {
    Value::Int4(number as i32)
}

/// Adds the rows of `schemata`.
pub fn schemata(rows: &mut Rows, around: &RowInputs<'_>) {
    for (oid, name) in namespaces(around.snapshot) {
        rows.add([
            ("catalog_name", Value::text(around.database)),
            ("schema_name", Value::text(name)),
            (
                "schema_owner",
                owner_name(around.snapshot, ObjectKind::Schema, oid),
            ),
        ]);
    }
}

/// Adds the row of `information_schema_catalog_name`.
pub fn catalog_name(rows: &mut Rows, around: &RowInputs<'_>) {
    rows.add([("catalog_name", Value::text(around.database))]);
}

/// Adds the rows of `enabled_roles`.
pub fn enabled_roles(rows: &mut Rows, around: &RowInputs<'_>) {
    for role in around.snapshot.roles() {
        rows.add([("role_name", Value::text(&role.name))]);
    }
}

/// Returns the tables in the sense of the SQL standard, without materialized views.
fn standard(around: &RowInputs<'_>) -> Vec<Arc<TableDef>> {
    let mut tables = around.snapshot.tables();
    tables.retain(|table| table.materialized.is_none());
    tables
}

/// Adds the rows of `tables`.
pub fn tables(rows: &mut Rows, around: &RowInputs<'_>) {
    let mut add = |schema: &str, name: &str, kind: &str, users: bool| {
        rows.add([
            ("table_catalog", Value::text(around.database)),
            ("table_schema", Value::text(schema)),
            ("table_name", Value::text(name)),
            ("table_type", Value::text(kind)),
            ("is_insertable_into", yes(users)),
            ("is_typed", yes(false)),
        ]);
    };
    for relation in super::Relation::all() {
        let kind = if relation.kind == "v" {
            "VIEW"
        } else {
            "BASE TABLE"
        };
        add(relation.schema, relation.name, kind, false);
    }
    for table in standard(around) {
        let kind = match temporary::is_temporary(&table.schema) {
            true => "LOCAL TEMPORARY",
            false => "BASE TABLE",
        };
        add(&table.schema, &table.name, kind, true);
    }
    for view in around.snapshot.views() {
        let (events, _) = view_is_updatable(view, around.snapshot, false);
        add(&view.schema, &view.name, "VIEW", events.has(Event::Insert));
    }
}

/// Adds the rows of `views`.
pub fn views(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for view in around.snapshot.views() {
        let (events, _) = view_is_updatable(view, around.snapshot, false);
        let instead = view.instead();
        rows.add([
            ("table_catalog", Value::text(around.database)),
            ("table_schema", Value::text(&view.schema)),
            ("table_name", Value::text(&view.name)),
            (
                "view_definition",
                Value::text(view_definition(&reader, view)),
            ),
            (
                "check_option",
                Value::text(match view.check_option() {
                    None => "NONE",
                    Some(CheckOption::Local) => "LOCAL",
                    Some(CheckOption::Cascaded) => "CASCADED",
                }),
            ),
            (
                "is_updatable",
                yes(events.has(Event::Update) && events.has(Event::Delete)),
            ),
            ("is_insertable_into", yes(events.has(Event::Insert))),
            ("is_trigger_updatable", yes(instead.has(Event::Update))),
            ("is_trigger_deletable", yes(instead.has(Event::Delete))),
            (
                "is_trigger_insertable_into",
                yes(instead.has(Event::Insert)),
            ),
        ]);
    }
}

/// Adds the rows of `sequences`, except those of identity columns.
pub fn sequences(rows: &mut Rows, around: &RowInputs<'_>) {
    let all = around.snapshot.sequences();
    for sequence in all.filter(|sequence| !is_of_identity(around, sequence)) {
        let bits = 8 * u32::from(sequence.kind.size().unsigned_abs());
        let text = |number: i64| Value::text(number.to_string());
        rows.add([
            ("sequence_catalog", Value::text(around.database)),
            ("sequence_schema", Value::text(&sequence.schema)),
            ("sequence_name", Value::text(&sequence.name)),
            ("data_type", Value::text(sequence.kind.name())),
            ("numeric_precision", number(bits)),
            ("numeric_precision_radix", number(2)),
            ("numeric_scale", number(0)),
            ("start_value", text(sequence.start)),
            ("minimum_value", text(sequence.min)),
            ("maximum_value", text(sequence.max)),
            ("increment", text(sequence.increment)),
            ("cycle_option", yes(sequence.cycle)),
        ]);
    }
}

/// Returns the values that describe a type, by the names of the columns of `columns`.
pub(super) fn of_type(ty: Type, snapshot: &Snapshot) -> Vec<(&'static str, Value)> {
    use TypeKind as T;
    // A domain over another domain has only these columns.
    if let Some(base) = ty.as_domain() {
        let definition = base.definition();
        return vec![
            ("data_type", Value::text("USER-DEFINED")),
            ("udt_schema", Value::text(&definition.schema)),
            ("udt_name", Value::text(&definition.name)),
        ];
    }
    let of_user = snapshot.type_by_id(ty.oid());
    let schema = of_user.as_ref().map_or(CATALOG_SCHEMA, |of| &of.schema);
    let mut all = vec![
        (
            "data_type",
            Value::text(match ty.kind {
                T::Enum(_) | T::Citext(_) | T::Composite(_) => "USER-DEFINED",
                T::Array(_) => "ARRAY",
                kind => kind.name(),
            }),
        ),
        ("udt_schema", Value::text(schema)),
        ("udt_name", Value::text(ty.kind.catalog_name())),
    ];
    let digits = |precision: u32, radix: u32, scale: Option<u32>| {
        [
            ("numeric_precision", number(precision)),
            ("numeric_precision_radix", number(radix)),
            ("numeric_scale", scale.map_or(Value::Null, number)),
        ]
    };
    match ty.kind {
        T::Int2 => all.extend(digits(16, 2, Some(0))),
        T::Int4 => all.extend(digits(32, 2, Some(0))),
        T::Int8 => all.extend(digits(64, 2, Some(0))),
        T::Float4 => all.extend(digits(24, 2, None)),
        T::Float8 => all.extend(digits(53, 2, None)),
        T::Numeric => match ty.precision_scale() {
            Some((precision, scale)) => all.extend(digits(precision, 10, Some(scale))),
            None => all.push(("numeric_precision_radix", number(10))),
        },
        T::Date => all.push(("datetime_precision", number(0))),
        T::Timestamp | T::TimestampTz => {
            let digits = u32::try_from(ty.typmod).unwrap_or(6);
            all.push(("datetime_precision", number(digits)));
        }
        T::VarChar | T::BpChar | T::Text => {
            /// The maximum length of a text, in bytes.
            const OCTETS_MAX: u32 = 1 << 30;
            let length = ty.length().map(|length| length as u32);
            let octets = length.map_or(OCTETS_MAX, |length| length.saturating_mul(4));
            all.push((
                "character_maximum_length",
                length.map_or(Value::Null, number),
            ));
            all.push(("character_octet_length", number(octets)));
        }
        _ => {}
    }
    all
}

/// Returns the names of a domain.
fn of_domain(domain: Domain, around: &RowInputs<'_>) -> [(&'static str, Value); 3] {
    let definition = domain.definition();
    [
        ("domain_catalog", Value::text(around.database)),
        ("domain_schema", Value::text(&definition.schema)),
        ("domain_name", Value::text(&definition.name)),
    ]
}

fn all_domains(around: &RowInputs<'_>) -> Vec<Domain> {
    let types = around.snapshot.types().all();
    types.iter().filter_map(|ty| ty.as_domain()).collect()
}

/// Adds the rows of `domains`.
pub fn domains(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    for domain in all_domains(around) {
        let definition = domain.definition();
        let default = definition.default.as_deref();
        let default = default.map(|text| typed_text(text, definition.base));
        let default =
            default.map(|text| deparsed_expression(&reader, &text, VisibleColumns::Nothing));
        let own = [
            ("udt_catalog", Value::text(around.database)),
            ("dtd_identifier", Value::text("1")),
            ("domain_default", default.map_or(Value::Null, Value::text)),
        ];
        let nothing = NUMBERS.map(|column| (column, Value::Null));
        let own = nothing.into_iter().chain(own);
        let own = own.chain(of_domain(domain, around));
        let mut of_base = of_type(definition.base, around.snapshot);
        if definition.base.element().is_some() {
            // PostgreSQL shows the type of a base that is an array instead of ARRAY.
            of_base[0].1 = Value::text(definition.base.kind.name());
        }
        rows.add(own.chain(of_base));
    }
}

/// Adds the rows of `domain_constraints`.
pub fn domain_constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    for domain in all_domains(around) {
        for check in &domain.definition().checks {
            let own = [
                ("constraint_catalog", Value::text(around.database)),
                (
                    "constraint_schema",
                    Value::text(&domain.definition().schema),
                ),
                ("constraint_name", Value::text(&check.name)),
                ("is_deferrable", yes(false)),
                ("initially_deferred", yes(false)),
            ];
            rows.add(own.into_iter().chain(of_domain(domain, around)));
        }
    }
}

/// The columns that are NULL by default.
pub(super) const NUMBERS: [&str; 8] = [
    "character_maximum_length",
    "character_octet_length",
    "numeric_precision",
    "numeric_precision_radix",
    "numeric_scale",
    "datetime_precision",
    "interval_precision",
    "maximum_cardinality",
];

/// Adds the rows of `columns`. Missing numbers are NULL, not 0.
pub fn columns(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    type Column<'a> = (&'a str, Type, Collation);
    let mut add = |schema: &str, table: &str, (name, ty, of): Column<'_>, more: [Value; 6]| {
        let [position, default, nullable, updatable, identity, generated] = more;
        // The default collation of the database is not shown.
        let said = |text: &str| match of {
            Collation::Default => Value::Null,
            _ => Value::text(text),
        };
        let own = [
            ("table_catalog", Value::text(around.database)),
            ("table_schema", Value::text(schema)),
            ("table_name", Value::text(table)),
            ("column_name", Value::text(name)),
            ("ordinal_position", position.clone()),
            ("column_default", default),
            ("is_nullable", nullable),
            ("collation_catalog", said(around.database)),
            ("collation_schema", said(CATALOG_SCHEMA)),
            ("collation_name", said(of.name())),
            ("udt_catalog", Value::text(around.database)),
            (
                "dtd_identifier",
                Value::text(position.as_int().unwrap_or(0).to_string()),
            ),
            ("is_self_referencing", yes(false)),
            ("is_identity", yes(!identity.is_null())),
            ("identity_generation", identity),
            ("identity_cycle", yes(false)),
            (
                "is_generated",
                Value::text(if generated.is_null() {
                    "NEVER"
                } else {
                    "ALWAYS"
                }),
            ),
            ("generation_expression", generated),
            ("is_updatable", updatable),
        ];
        let domain = ty.as_domain();
        let of_domain = domain.map(|of| of_domain(of, around)).into_iter().flatten();
        let ty = domain.map_or(ty, |of| of.definition().base);
        let nothing = NUMBERS.map(|column| (column, Value::Null));
        rows.add(
            nothing
                .into_iter()
                .chain(own)
                .chain(of_domain)
                .chain(of_type(ty, around.snapshot)),
        );
    };
    for relation in super::Relation::all() {
        for (at, (name, ty)) in (1..).zip(&relation.columns) {
            let nothing = || Value::Null;
            let more = [
                Value::Int4(at),
                nothing(),
                yes(true),
                yes(false),
                nothing(),
                nothing(),
            ];
            let column = (*name, *ty, Collation::Default);
            add(relation.schema, relation.name, column, more);
        }
    }
    for table in standard(around) {
        for column in &table.columns {
            let more = &column.more;
            let default = expression(column).filter(|_| more.generated.is_none());
            let identity = more.identity.map(|identity| match identity {
                Identity::Always => "ALWAYS",
                Identity::ByDefault => "BY DEFAULT",
            });
            let more = [
                Value::Int4(i32::from(column.attnum)),
                default.map_or(Value::Null, |text| {
                    Value::text(deparsed_expression(
                        &reader,
                        &text,
                        VisibleColumns::Table(&table),
                    ))
                }),
                yes(!column.not_null
                    && !column
                        .more
                        .domain
                        .is_some_and(|of| of.definition().not_null)),
                yes(true),
                identity.map_or(Value::Null, Value::text),
                more.generated.as_ref().map_or(Value::Null, |text| {
                    Value::text(condition(&reader, text, VisibleColumns::Table(&table)))
                }),
            ];
            let (name, collation) = (column.name.as_str(), column.more.collation);
            let declared = (name, column.declared(), collation);
            add(&table.schema, &table.name, declared, more);
        }
    }
    for view in around.snapshot.views() {
        let (events, updatable) = view_is_updatable(view, around.snapshot, false);
        let changes = events.has(Event::Update) && events.has(Event::Delete);
        for (column, updatable) in view.as_table().columns.iter().zip(updatable) {
            let nothing = || Value::Null;
            let more = [
                Value::Int4(i32::from(column.attnum)),
                expression(column).map_or(Value::Null, |text| {
                    Value::text(deparsed_expression(&reader, &text, VisibleColumns::Nothing))
                }),
                yes(true),
                yes(changes && updatable),
                nothing(),
                nothing(),
            ];
            add(
                &view.schema,
                &view.name,
                (column.name.as_str(), column.ty, Collation::Default),
                more,
            );
        }
    }
}

/// Calls `add` with each constraint; its names are the first columns.
fn constraints(
    around: &RowInputs<'_>,
    mut add: impl FnMut(&TableDef, &Constraint<'_>, [(&'static str, Value); 3]),
) {
    for table in standard(around) {
        for constraint in Constraint::all(&table) {
            let names = names(around, &table, constraint.name());
            add(&table, &constraint, names);
        }
    }
}

fn names(around: &RowInputs<'_>, table: &TableDef, name: &str) -> [(&'static str, Value); 3] {
    [
        ("constraint_catalog", Value::text(around.database)),
        ("constraint_schema", Value::text(&table.schema)),
        ("constraint_name", Value::text(name)),
    ]
}

fn table_names(around: &RowInputs<'_>, table: &TableDef) -> [(&'static str, Value); 3] {
    [
        ("table_catalog", Value::text(around.database)),
        ("table_schema", Value::text(&table.schema)),
        ("table_name", Value::text(&table.name)),
    ]
}

/// Adds the rows of `table_constraints`.
pub fn table_constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    constraints(around, |table, constraint, names| {
        let (kind, deferrable, deferred) = match constraint {
            Constraint::Key(index) => {
                let kind = if index.primary {
                    "PRIMARY KEY"
                } else {
                    "UNIQUE"
                };
                let deferrable = index.more.deferrable;
                (kind, deferrable.is_some(), deferrable == Some(true))
            }
            Constraint::Check(_) => ("CHECK", false, false),
            Constraint::Foreign(key) => ("FOREIGN KEY", key.deferrable, key.deferred),
        };
        let own = [
            ("constraint_type", Value::text(kind)),
            ("is_deferrable", yes(deferrable)),
            ("initially_deferred", yes(deferred)),
            ("enforced", yes(true)),
            (
                "nulls_distinct",
                match constraint {
                    Constraint::Key(index) if !index.primary => yes(!index.more.nulls_equal),
                    _ => Value::Null,
                },
            ),
        ];
        let names = names.into_iter().chain(table_names(around, table));
        rows.add(names.chain(own));
    });
}

/// Adds the rows of `key_column_usage`.
pub fn key_column_usage(rows: &mut Rows, around: &RowInputs<'_>) {
    constraints(around, |table, constraint, names| {
        let parent = match constraint {
            Constraint::Check(_) => return,
            Constraint::Key(_) => None,
            Constraint::Foreign(key) => around.snapshot.relation(key.parent).map(|of| (of, *key)),
        };
        for (nth, at) in constraint.columns(table).into_iter().enumerate() {
            // The position of the referenced column in the parent's key.
            let of_parent = parent.as_ref().and_then(|(parent, key)| {
                let mut columns = parent_index(parent, key)?.columns.iter();
                let position = columns.position(|of| of.column == key.parent_columns[nth])?;
                Some(Value::Int4(position as i32 + 1))
            });
            let own = [
                ("column_name", Value::text(&table.columns[at].name)),
                ("ordinal_position", Value::Int4(nth as i32 + 1)),
                (
                    "position_in_unique_constraint",
                    of_parent.unwrap_or(Value::Null),
                ),
            ];
            let names = names.clone().into_iter().chain(table_names(around, table));
            rows.add(names.chain(own));
        }
    });
}

/// Adds the rows of `constraint_column_usage`. For a foreign key, they are the referenced columns.
pub fn constraint_column_usage(rows: &mut Rows, around: &RowInputs<'_>) {
    constraints(around, |table, constraint, names| {
        let parent = match constraint {
            Constraint::Foreign(key) => around.snapshot.relation(key.parent),
            _ => None,
        };
        let (of, columns) = match (constraint, &parent) {
            (Constraint::Foreign(key), Some(parent)) => (&**parent, key.parent_columns.clone()),
            _ => (table, constraint.columns(table)),
        };
        for at in columns {
            let own = [("column_name", Value::text(&of.columns[at].name))];
            let names = names.clone().into_iter().chain(table_names(around, of));
            rows.add(names.chain(own));
        }
    });
}

/// Adds the rows of `check_constraints`.
pub fn check_constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    let reader = reader(around.snapshot, around.cx, false);
    constraints(around, |table, constraint, names| {
        if let Constraint::Check(check) = constraint {
            let clause = condition(&reader, &check.text, VisibleColumns::Table(table));
            let clause = Value::text(format!("({clause})"));
            rows.add(names.into_iter().chain([("check_clause", clause)]));
        }
    });
    for domain in all_domains(around) {
        for check in &domain.definition().checks {
            let over = VisibleColumns::Domain(domain.definition().base);
            let clause = condition(&reader, &check.text, over);
            rows.add([
                ("constraint_catalog", Value::text(around.database)),
                (
                    "constraint_schema",
                    Value::text(&domain.definition().schema),
                ),
                ("constraint_name", Value::text(&check.name)),
                ("check_clause", Value::text(format!("({clause})"))),
            ]);
        }
    }
}

/// Adds the rows of `referential_constraints`.
pub fn referential_constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    constraints(around, |_, constraint, names| {
        let Constraint::Foreign(key) = constraint else {
            return;
        };
        let Some(parent) = around.snapshot.relation(key.parent) else {
            return;
        };
        let index = parent_index(&parent, key).map_or("", |index| &index.name);
        let action = |action: Referential| Value::text(action.written().unwrap_or("NO ACTION"));
        let own = [
            ("unique_constraint_catalog", Value::text(around.database)),
            ("unique_constraint_schema", Value::text(&parent.schema)),
            ("unique_constraint_name", Value::text(index)),
            (
                "match_option",
                Value::text(if key.full { "FULL" } else { "NONE" }),
            ),
            ("update_rule", action(key.on_update)),
            ("delete_rule", action(key.on_delete)),
        ];
        rows.add(names.into_iter().chain(own));
    });
}
