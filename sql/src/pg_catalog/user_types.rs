//! What `pg_type` and `pg_enum` have of types that users made.

use super::privileges::{acl, owner};
use super::rows::{Rows, object};
use super::{Around, namespace_oid};
use crate::catalog::ObjectKind;
use crate::value::Value;

/// The rows of `pg_type`: each type and that of its arrays.
pub(super) fn types(rows: &mut Rows, around: &Around<'_>) {
    for ty in around.snapshot.types().all() {
        let definition = ty.of.definition();
        let namespace = namespace_oid(around.snapshot, &ty.schema).unwrap_or(0);
        let common = |oid: u32, name: &str| {
            [
                ("oid", Value::Oid(oid)),
                ("typname", Value::text(name)),
                ("typnamespace", Value::Oid(namespace)),
                ("typowner", owner(around.snapshot, ObjectKind::Type, ty.id)),
                ("typisdefined", Value::Bool(true)),
                ("typdelim", Value::text(",")),
                ("typalign", Value::text("i")),
                ("typtypmod", Value::Int4(-1)),
            ]
        };
        let own = [
            ("typacl", acl(around.snapshot, ObjectKind::Type, ty.id)),
            ("typlen", Value::Int2(4)),
            ("typbyval", Value::Bool(true)),
            ("typtype", Value::text("e")),
            ("typcategory", Value::text("E")),
            ("typarray", Value::Oid(definition.array_id)),
            ("typinput", object(3506, "enum_in")),
            ("typoutput", object(3507, "enum_out")),
            ("typreceive", object(3532, "enum_recv")),
            ("typsend", object(3533, "enum_send")),
            ("typstorage", Value::text("p")),
        ];
        rows.add(common(ty.id, &definition.name).into_iter().chain(own));
        let own = [
            ("typlen", Value::Int2(-1)),
            ("typtype", Value::text("b")),
            ("typcategory", Value::text("A")),
            ("typelem", Value::Oid(ty.id)),
            ("typsubscript", object(6179, "array_subscript_handler")),
            ("typinput", object(750, "array_in")),
            ("typoutput", object(751, "array_out")),
            ("typreceive", object(2400, "array_recv")),
            ("typsend", object(2401, "array_send")),
            ("typanalyze", object(3816, "array_typanalyze")),
            ("typstorage", Value::text("x")),
        ];
        let of_arrays = common(definition.array_id, &definition.array_name);
        rows.add(of_arrays.into_iter().chain(own));
    }
}

/// `pg_enum`.
pub(super) fn enums(rows: &mut Rows, around: &Around<'_>) {
    for ty in around.snapshot.types().all() {
        for value in ty.of.values() {
            rows.add([
                ("oid", Value::Oid(value.oid())),
                ("enumtypid", Value::Oid(ty.id)),
                ("enumsortorder", Value::Float4(value.place() as f32)),
                ("enumlabel", Value::text(value.name())),
            ]);
        }
    }
}
