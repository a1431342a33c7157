//! The user-defined types in `pg_type` and `pg_enum`.

use super::attributes::{collation, shape, typed_text};
use super::privileges::{acl, owner};
use super::rows::{Rows, object};
use super::{RowInputs, definitions, namespace_oid};
use crate::binder::DeparseContext;
use crate::catalog::{ObjectKind, Snapshot, UserType};
use crate::types::composites::{ROW_ARRAY, ROW_TYPE};
use crate::types::domains::DomainCheck;
use crate::types::{Domain, Enum, TypeCategory, TypeKind};
use crate::value::Value;

/// Adds the rows of `pg_type`: each type and its array type.
pub(super) fn types(rows: &mut Rows, around: &RowInputs<'_>) {
    for ty in around.snapshot.types().all() {
        let acl = acl(around.snapshot, ObjectKind::Type, ty.id);
        let owner = owner(around.snapshot, ObjectKind::Type, ty.id);
        match ty.of {
            UserType::Domain(domain) => add_domain(rows, around, domain),
            UserType::Enum(of) => {
                let of = of.definition();
                let own = [
                    ("typacl", acl),
                    ("typlen", Value::Int2(4)),
                    ("typbyval", Value::Bool(true)),
                    ("typalign", Value::text("i")),
                    ("typtype", Value::text("e")),
                    ("typcategory", Value::text("E")),
                    ("typinput", object(3506, "enum_in")),
                    ("typoutput", object(3507, "enum_out")),
                    ("typreceive", object(3532, "enum_recv")),
                    ("typsend", object(3533, "enum_send")),
                    ("typstorage", Value::text("p")),
                ];
                let names = (of.name.as_str(), of.array_name.as_str());
                let ids = (of.id, of.array_id);
                add_with_arrays(rows, around, (ids, names, &ty.schema), owner, own, "i");
            }
            UserType::Citext(of) => {
                let of = of.definition();
                let names = (of.name.as_str(), of.array_name.as_str());
                let ids = (of.id, of.array_id);
                let own = [
                    ("typacl", acl),
                    ("typlen", Value::Int2(-1)),
                    ("typalign", Value::text("i")),
                    ("typtype", Value::text("b")),
                    ("typcategory", Value::text("S")),
                    ("typcollation", Value::Oid(collation(TypeKind::Text))),
                    ("typinput", object(46, "textin")),
                    ("typoutput", object(47, "textout")),
                    ("typreceive", object(2414, "textrecv")),
                    ("typsend", object(2415, "textsend")),
                    ("typstorage", Value::text("x")),
                ];
                add_with_arrays(rows, around, (ids, names, &ty.schema), owner, own, "i");
            }
            UserType::Composite(of) => {
                let of = of.definition();
                let names = (of.name.as_str(), of.array_name.as_str());
                let ids = (of.id, of.array_id);
                let own = composite(of.relation, acl);
                add_with_arrays(rows, around, (ids, names, &ty.schema), owner, own, "d");
            }
        }
    }
    let tables = around.snapshot.tables();
    let tables = tables
        .iter()
        .map(|of| (ObjectKind::Table, of.id, &of.schema, &of.name));
    let views = around.snapshot.views();
    let views = views.map(|of| (ObjectKind::View, of.id, &of.schema, &of.name));
    for (kind, id, schema, name) in tables.chain(views) {
        let array_name = format!("_{name}");
        let named = (
            (id | ROW_TYPE, id | ROW_ARRAY),
            (name.as_str(), array_name.as_str()),
            schema.as_str(),
        );
        let owner = owner(around.snapshot, kind, id);
        let own = composite(id, Value::Null);
        add_with_arrays(rows, around, named, owner, own, "d");
    }
}

/// Returns the columns of a composite type.
fn composite(relation: u32, acl: Value) -> [(&'static str, Value); 11] {
    [
        ("typacl", acl),
        ("typlen", Value::Int2(-1)),
        ("typalign", Value::text("d")),
        ("typtype", Value::text("c")),
        ("typcategory", Value::text("C")),
        ("typrelid", Value::Oid(relation)),
        ("typinput", object(2290, "record_in")),
        ("typoutput", object(2291, "record_out")),
        ("typreceive", object(2402, "record_recv")),
        ("typsend", object(2403, "record_send")),
        ("typstorage", Value::text("x")),
    ]
}

/// Adds a type with its own columns, and its array type.
fn add_with_arrays(
    rows: &mut Rows,
    around: &RowInputs<'_>,
    ((id, array_id), (name, array_name), schema): ((u32, u32), (&str, &str), &str),
    owner: Value,
    own: [(&'static str, Value); 11],
    align: &str,
) {
    let namespace = namespace_oid(around.snapshot, schema).unwrap_or(0);
    let common = |oid: u32, name: &str| {
        [
            ("oid", Value::Oid(oid)),
            ("typname", Value::text(name)),
            ("typnamespace", Value::Oid(namespace)),
            ("typowner", owner.clone()),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typtypmod", Value::Int4(-1)),
        ]
    };
    let arrays = [("typarray", Value::Oid(array_id))];
    rows.add(common(id, name).into_iter().chain(own).chain(arrays));
    let own = [
        ("typlen", Value::Int2(-1)),
        ("typalign", Value::text(align)),
        ("typtype", Value::text("b")),
        ("typcategory", Value::text("A")),
        ("typelem", Value::Oid(id)),
        ("typsubscript", object(6179, "array_subscript_handler")),
        ("typinput", object(750, "array_in")),
        ("typoutput", object(751, "array_out")),
        ("typreceive", object(2400, "array_recv")),
        ("typsend", object(2401, "array_send")),
        ("typanalyze", object(3816, "array_typanalyze")),
        ("typstorage", Value::text("x")),
    ];
    rows.add(common(array_id, array_name).into_iter().chain(own));
}

/// Adds a domain. It has the columns of its base type, and functions that check it.
fn add_domain(rows: &mut Rows, around: &RowInputs<'_>, domain: Domain) {
    let definition = domain.definition();
    let (root, base) = (domain.root(), definition.base);
    let (by_value, align, storage) = shape(root);
    let category = match root.kind.category() {
        TypeCategory::Boolean => "B",
        TypeCategory::Numeric => "N",
        TypeCategory::String => "S",
        TypeCategory::DateTime => "D",
        TypeCategory::Timespan => "T",
        TypeCategory::Enum => "E",
        TypeCategory::Array => "A",
        TypeCategory::Composite => "C",
        _ => "U",
    };
    let (output, send) = match root.kind {
        TypeKind::Enum(_) => (object(3507, "enum_out"), object(3533, "enum_send")),
        TypeKind::Array(_) => (object(751, "array_out"), object(2401, "array_send")),
        TypeKind::Composite(_) => (object(2291, "record_out"), object(2403, "record_send")),
        kind => super::types::output_of(kind.oid()),
    };
    let default = definition.default.as_deref();
    let default = default.map_or(Value::Null, |text| Value::text(typed_text(text, base)));
    rows.add([
        ("oid", Value::Oid(definition.id)),
        ("typname", Value::text(&definition.name)),
        (
            "typnamespace",
            Value::Oid(namespace_oid(around.snapshot, &definition.schema).unwrap_or(0)),
        ),
        (
            "typowner",
            owner(around.snapshot, ObjectKind::Type, definition.id),
        ),
        (
            "typacl",
            acl(around.snapshot, ObjectKind::Type, definition.id),
        ),
        ("typisdefined", Value::Bool(true)),
        ("typdelim", Value::text(",")),
        ("typlen", Value::Int2(root.kind.size())),
        ("typbyval", Value::Bool(by_value)),
        ("typalign", Value::text(align)),
        ("typstorage", Value::text(storage)),
        ("typtype", Value::text("d")),
        ("typcategory", Value::text(category)),
        ("typinput", object(2597, "domain_in")),
        ("typreceive", object(2598, "domain_recv")),
        ("typoutput", output),
        ("typsend", send),
        ("typnotnull", Value::Bool(definition.not_null)),
        ("typbasetype", Value::Oid(base.oid())),
        ("typtypmod", Value::Int4(base.typmod)),
        ("typcollation", Value::Oid(collation(root.kind))),
        ("typdefaultbin", default.clone()),
        ("typdefault", default),
    ]);
}

/// Adds the rows of `pg_constraint` for domains.
pub(super) fn constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    for domain in around
        .snapshot
        .types()
        .all()
        .iter()
        .filter_map(|ty| ty.as_domain())
    {
        let definition = domain.definition();
        let namespace = namespace_oid(around.snapshot, &definition.schema).unwrap_or(0);
        for check in &definition.checks {
            let none = || Value::text(" ");
            rows.add([
                ("oid", Value::Oid(check.id)),
                ("conname", Value::text(&check.name)),
                ("connamespace", Value::Oid(namespace)),
                ("contype", Value::text("c")),
                ("convalidated", Value::Bool(check.validated)),
                ("contypid", Value::Oid(definition.id)),
                ("conislocal", Value::Bool(true)),
                ("confupdtype", none()),
                ("confdeltype", none()),
                ("confmatchtype", none()),
                ("conbin", Value::text(&check.text)),
            ]);
        }
    }
}

/// Returns the domain constraint with this oid, and its domain.
pub fn domain_check(snapshot: &Snapshot, oid: u32) -> Option<(Domain, &'static DomainCheck)> {
    let types = snapshot.types().all();
    types.iter().filter_map(|ty| ty.as_domain()).find_map(|of| {
        let mut checks = of.definition().checks.iter();
        Some((of, checks.find(|check| check.id == oid)?))
    })
}

/// Deparses a domain constraint.
pub fn domain_check_text(reader: &DeparseContext<'_>, of: Domain, check: &DomainCheck) -> String {
    definitions::domain_check(reader, check, of.definition().base)
}

/// Adds the rows of `pg_enum`.
pub(super) fn enums(rows: &mut Rows, around: &RowInputs<'_>) {
    for ty in around.snapshot.types().all() {
        for value in ty.as_enum().into_iter().flat_map(Enum::values) {
            rows.add([
                ("oid", Value::Oid(value.oid())),
                ("enumtypid", Value::Oid(ty.id)),
                ("enumsortorder", Value::Float4(value.place() as f32)),
                ("enumlabel", Value::text(value.name())),
            ]);
        }
    }
}
