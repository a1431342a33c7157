//! More views of `information_schema`: routines and their parameters, and the usage of types.

use super::information::{NUMBERS, of_type, yes};
use super::routines::result_oid;
use super::rows::Rows;
use super::{RowInputs, type_name};
use crate::catalog::{ArgMode, CATALOG_SCHEMA, Language, RoutineDef, RoutineKind};
use crate::types::{Type, TypeKind};
use crate::value::Value;

fn number(number: usize) -> Value {
    Value::Int4(number as i32)
}

fn text_of(number: usize) -> Value {
    Value::text(number.to_string())
}

/// Returns NULL for each integer column, whose default is otherwise 0.
fn nothing(rows: &Rows) -> Vec<(&'static str, Value)> {
    let numbers = rows.columns_of(&[TypeKind::Int4]);
    numbers
        .into_iter()
        .map(|name| (name, Value::Null))
        .collect()
}

/// Returns the catalog, schema and name of a type.
fn names_of_type(ty: Type, around: &RowInputs<'_>) -> [Value; 3] {
    let of_user = around.snapshot.type_by_id(ty.oid());
    let schema = of_user.as_ref().map_or(CATALOG_SCHEMA, |of| &of.schema);
    [
        Value::text(around.database),
        Value::text(schema),
        Value::text(ty.kind.catalog_name()),
    ]
}

/// Returns `data_type` of a type.
fn data_type(ty: Type, around: &RowInputs<'_>) -> Value {
    let found = of_type(ty, around.snapshot).into_iter();
    let mut data_type = found.filter(|(name, _)| *name == "data_type");
    data_type.next().map_or(Value::Null, |(_, value)| value)
}

fn specific_name(routine: &RoutineDef) -> Value {
    Value::text(format!("{}_{}", routine.name, routine.id))
}

/// Adds the rows of `routines`, for user-defined routines.
pub fn routines(rows: &mut Rows, around: &RowInputs<'_>) {
    let nothing = nothing(rows);
    for routine in around.snapshot.all_routines() {
        let result = result_oid(&routine);
        let function = routine.kind == RoutineKind::Function;
        let of_user = around.snapshot.type_by_id(result);
        let schema = of_user.as_ref().map_or(CATALOG_SCHEMA, |of| &of.schema);
        let built_in = TypeKind::from_oid(result);
        let data_type = match (built_in, of_user.is_some()) {
            (_, true) => Some("USER-DEFINED".to_owned()),
            (Some(TypeKind::Array(_)), _) => Some("ARRAY".to_owned()),
            _ => type_name(around.snapshot, result, around.cx),
        };
        let udt = match (&of_user, built_in) {
            (Some(of), _) => Some(of.name.clone()),
            (None, Some(kind)) => Some(kind.catalog_name().to_owned()),
            _ => data_type.clone(),
        };
        let of_function = |value: Option<String>| match value {
            Some(value) if function => Value::text(value),
            _ => Value::Null,
        };
        let (body, language) = match routine.language {
            Language::Sql => ("SQL", "SQL"),
            Language::PlPgSql => ("EXTERNAL", "PLPGSQL"),
            Language::C => ("EXTERNAL", "C"),
        };
        let database = || Value::text(around.database);
        let own = [
            ("specific_catalog", database()),
            ("specific_schema", Value::text(&routine.schema)),
            ("specific_name", specific_name(&routine)),
            ("routine_catalog", database()),
            ("routine_schema", Value::text(&routine.schema)),
            ("routine_name", Value::text(&routine.name)),
            (
                "routine_type",
                Value::text(if function { "FUNCTION" } else { "PROCEDURE" }),
            ),
            ("data_type", of_function(data_type)),
            (
                "type_udt_catalog",
                of_function(Some(around.database.to_owned())),
            ),
            ("type_udt_schema", of_function(Some(schema.to_owned()))),
            ("type_udt_name", of_function(udt)),
            ("dtd_identifier", of_function(Some("0".to_owned()))),
            ("routine_body", Value::text(body)),
            (
                "routine_definition",
                match routine.atomic {
                    true => Value::Null,
                    false => Value::text(&routine.body),
                },
            ),
            ("external_language", Value::text(language)),
            ("parameter_style", Value::text("GENERAL")),
            (
                "is_deterministic",
                yes(routine.volatility == crate::bound::Volatility::Immutable),
            ),
            ("sql_data_access", Value::text("MODIFIES")),
            (
                "is_null_call",
                if function {
                    yes(routine.strict)
                } else {
                    Value::Null
                },
            ),
            ("schema_level_routine", yes(true)),
            ("max_dynamic_result_sets", Value::Int4(0)),
            (
                "security_type",
                Value::text(if routine.definer {
                    "DEFINER"
                } else {
                    "INVOKER"
                }),
            ),
            ("as_locator", yes(false)),
            ("is_udt_dependent", yes(false)),
        ];
        rows.add(nothing.iter().cloned().chain(own));
    }
}

/// Adds the rows of `parameters`, for user-defined routines.
pub fn parameters(rows: &mut Rows, around: &RowInputs<'_>) {
    let nothing = nothing(rows);
    for routine in around.snapshot.all_routines() {
        for (at, arg) in (1..).zip(&routine.args) {
            let mode = match arg.mode {
                ArgMode::In | ArgMode::Variadic => "IN",
                ArgMode::InOut => "INOUT",
                ArgMode::Out | ArgMode::Table => "OUT",
            };
            let name = match arg.name.as_str() {
                "" => Value::Null,
                name => Value::text(name),
            };
            let [catalog, schema, udt] = names_of_type(arg.ty, around);
            let own = [
                ("specific_catalog", Value::text(around.database)),
                ("specific_schema", Value::text(&routine.schema)),
                ("specific_name", specific_name(&routine)),
                ("ordinal_position", number(at)),
                ("parameter_mode", Value::text(mode)),
                ("is_result", yes(false)),
                ("as_locator", yes(false)),
                ("parameter_name", name),
                ("data_type", data_type(arg.ty, around)),
                ("udt_catalog", catalog),
                ("udt_schema", schema),
                ("udt_name", udt),
                ("dtd_identifier", text_of(at)),
                (
                    "parameter_default",
                    arg.default.as_ref().map_or(Value::Null, Value::text),
                ),
            ];
            rows.add(nothing.iter().cloned().chain(own));
        }
    }
}

/// Adds the rows of `attributes`: the fields of composite types.
pub fn attributes(rows: &mut Rows, around: &RowInputs<'_>) {
    for ty in around.snapshot.types().all() {
        let Some(of) = ty.as_composite() else {
            continue;
        };
        let Some(definition) = around.snapshot.type_by_id(of.definition().id) else {
            continue;
        };
        for (at, field) in (1..).zip(&of.definition().fields) {
            let [catalog, schema, udt] = names_of_type(field.ty, around);
            let own = [
                ("udt_catalog", Value::text(around.database)),
                ("udt_schema", Value::text(&definition.schema)),
                ("udt_name", Value::text(&definition.name)),
                ("attribute_name", Value::text(&field.name)),
                ("ordinal_position", number(at)),
                ("is_nullable", yes(true)),
                ("attribute_udt_catalog", catalog),
                ("attribute_udt_schema", schema),
                ("attribute_udt_name", udt),
                ("dtd_identifier", text_of(at)),
                ("is_derived_reference_attribute", yes(false)),
            ];
            let found = of_type(field.ty, around.snapshot).into_iter();
            let found = found.filter(|(name, _)| !name.starts_with("udt_"));
            let nulls = NUMBERS.map(|column| (column, Value::Null));
            rows.add(nulls.into_iter().chain(found).chain(own));
        }
    }
}

/// Adds the rows of `user_defined_types`: composite types.
pub fn composites(rows: &mut Rows, around: &RowInputs<'_>) {
    let nothing = nothing(rows);
    for ty in around.snapshot.types().all() {
        let Some(of) = ty.as_composite() else {
            continue;
        };
        let Some(definition) = around.snapshot.type_by_id(of.definition().id) else {
            continue;
        };
        let own = [
            ("user_defined_type_catalog", Value::text(around.database)),
            ("user_defined_type_schema", Value::text(&definition.schema)),
            ("user_defined_type_name", Value::text(&definition.name)),
            ("user_defined_type_category", Value::text("STRUCTURED")),
            ("is_instantiable", yes(true)),
        ];
        rows.add(nothing.iter().cloned().chain(own));
    }
}

/// Calls `add` with each column of user tables and views, its number and its declared type.
fn each_column(around: &RowInputs<'_>, mut add: impl FnMut((&str, &str), (&str, usize), Type)) {
    for table in around.snapshot.tables() {
        if table.materialized.is_some() {
            continue;
        }
        for column in &table.columns {
            let number = usize::try_from(column.attnum).unwrap_or(0);
            add(
                (&table.schema, &table.name),
                (&column.name, number),
                column.declared(),
            );
        }
    }
    for view in around.snapshot.views() {
        for (at, (name, ty)) in (1..).zip(&view.columns) {
            add((&view.schema, &view.name), (name, at), *ty);
        }
    }
}

fn of_column(
    around: &RowInputs<'_>,
    (schema, table): (&str, &str),
    column: &str,
) -> [(&'static str, Value); 4] {
    [
        ("table_catalog", Value::text(around.database)),
        ("table_schema", Value::text(schema)),
        ("table_name", Value::text(table)),
        ("column_name", Value::text(column)),
    ]
}

/// Adds the rows of `column_udt_usage`: the types of columns; for a domain its base type.
pub fn column_types(rows: &mut Rows, around: &RowInputs<'_>) {
    each_column(around, |of, (column, _), ty| {
        let below = ty.as_domain().map_or(ty, |domain| domain.definition().base);
        let [catalog, schema, name] = names_of_type(below, around);
        let own = [
            ("udt_catalog", catalog),
            ("udt_schema", schema),
            ("udt_name", name),
        ];
        rows.add(own.into_iter().chain(of_column(around, of, column)));
    });
}

/// Adds the rows of `column_domain_usage`: the columns that have a domain type.
pub fn column_domains(rows: &mut Rows, around: &RowInputs<'_>) {
    each_column(around, |of, (column, _), ty| {
        if let Some(domain) = ty.as_domain() {
            let definition = domain.definition();
            let own = [
                ("domain_catalog", Value::text(around.database)),
                ("domain_schema", Value::text(&definition.schema)),
                ("domain_name", Value::text(&definition.name)),
            ];
            rows.add(own.into_iter().chain(of_column(around, of, column)));
        }
    });
}

/// Adds the rows of `element_types`: the element types of array columns.
pub fn elements(rows: &mut Rows, around: &RowInputs<'_>) {
    let nothing = nothing(rows);
    let views: Vec<_> = around
        .snapshot
        .views()
        .map(|view| (&view.schema, &view.name))
        .collect();
    each_column(around, |(schema, table), (_, at), ty| {
        let Some(element) = ty.element() else {
            return;
        };
        let is_view = views
            .iter()
            .any(|(of, name)| *of == schema && *name == table);
        let [catalog, of, name] = names_of_type(Type::of(element.kind), around);
        let own = [
            ("object_catalog", Value::text(around.database)),
            ("object_schema", Value::text(schema)),
            ("object_name", Value::text(table)),
            (
                "object_type",
                Value::text(if is_view { "VIEW" } else { "TABLE" }),
            ),
            ("collection_type_identifier", text_of(at)),
            ("data_type", data_type(Type::of(element.kind), around)),
            ("udt_catalog", catalog),
            ("udt_schema", of),
            ("udt_name", name),
            ("dtd_identifier", Value::text(format!("a{at}"))),
        ];
        rows.add(nothing.iter().cloned().chain(own));
    });
}

/// Adds the rows of `view_table_usage`: the relations that a view reads, without those that it
/// reads only through other views.
pub fn view_tables(rows: &mut Rows, around: &RowInputs<'_>) {
    for view in around.snapshot.views() {
        let others = around.snapshot.views();
        let within: Vec<u32> = others
            .filter(|other| view.views.contains(&other.id))
            .flat_map(|other| other.tables.iter().chain(&other.views).copied())
            .collect();
        let all = view.tables.iter().chain(&view.views);
        for read in all.filter(|read| !within.contains(read)) {
            let Some((schema, name)) = around.snapshot.place_of_relation(*read) else {
                continue;
            };
            rows.add([
                ("view_catalog", Value::text(around.database)),
                ("view_schema", Value::text(&view.schema)),
                ("view_name", Value::text(&view.name)),
                ("table_catalog", Value::text(around.database)),
                ("table_schema", Value::text(schema)),
                ("table_name", Value::text(name)),
            ]);
        }
    }
}

/// Adds the row of `character_sets`: UTF8.
pub fn character_sets(rows: &mut Rows, around: &RowInputs<'_>) {
    rows.add([
        ("character_set_name", Value::text("UTF8")),
        ("character_repertoire", Value::text("UCS")),
        ("form_of_use", Value::text("UTF8")),
        ("default_collate_catalog", Value::text(around.database)),
        ("default_collate_schema", Value::text(CATALOG_SCHEMA)),
        ("default_collate_name", Value::text("C")),
    ]);
}

/// Adds the rows of `collations`.
pub fn collations(rows: &mut Rows, around: &RowInputs<'_>) {
    for name in ["default", "C", "POSIX"] {
        rows.add([
            ("collation_catalog", Value::text(around.database)),
            ("collation_schema", Value::text(CATALOG_SCHEMA)),
            ("collation_name", Value::text(name)),
            ("pad_attribute", Value::text("NO PAD")),
        ]);
    }
}
