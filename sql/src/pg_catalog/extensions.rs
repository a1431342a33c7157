//! The installed and the available extensions.

use super::privileges::owner;
use super::rows::Rows;
use super::{RowInputs, namespace_oid};
use crate::catalog::{Object, ObjectKind, Snapshot};
use crate::extensions::{AVAILABLE, Extension};
use crate::value::Value;

/// Adds the rows of `pg_extension`.
pub fn extensions(rows: &mut Rows, around: &RowInputs<'_>) {
    for of in around.snapshot.extensions() {
        let known = Extension::named(&of.name);
        let relocatable = known.is_some_and(Extension::is_relocatable);
        let schema = namespace_oid(around.snapshot, &of.schema);
        rows.add([
            ("oid", Value::Oid(of.id)),
            ("extname", Value::text(&of.name)),
            (
                "extowner",
                owner(around.snapshot, ObjectKind::Extension, of.id),
            ),
            ("extnamespace", Value::Oid(schema.unwrap_or(0))),
            ("extrelocatable", Value::Bool(relocatable)),
            ("extversion", Value::text(&of.version)),
        ]);
    }
}

/// Returns the oid and default comment of the built-in extension; `None` if its comment was
/// changed.
pub fn first_comment(snapshot: &Snapshot) -> Option<(u32, &'static str)> {
    let first = snapshot.extensions().iter().find(|of| of.is_built_in())?;
    let object = Object::new(ObjectKind::Extension, first.id);
    let said = snapshot.security().about(object);
    let said = said.is_some_and(|about| !about.comments.is_empty());
    let known = Extension::named(&first.name).filter(|_| !said)?;
    Some((first.id, known.comment))
}

/// Adds the rows of `pg_available_extensions`.
pub fn available(rows: &mut Rows, around: &RowInputs<'_>) {
    for of in &AVAILABLE {
        let installed = around.snapshot.extension(of.name);
        rows.add([
            ("name", Value::text(of.name)),
            ("default_version", Value::text(of.version)),
            (
                "installed_version",
                installed.map_or(Value::Null, |of| Value::text(&of.version)),
            ),
            ("comment", Value::text(of.comment)),
        ]);
    }
}

/// Adds the rows of `pg_available_extension_versions`.
pub fn versions(rows: &mut Rows, around: &RowInputs<'_>) {
    for of in &AVAILABLE {
        let installed = around.snapshot.extension(of.name);
        let installed = installed.is_some_and(|is| is.version == of.version);
        rows.add([
            ("name", Value::text(of.name)),
            ("version", Value::text(of.version)),
            ("installed", Value::Bool(installed)),
            ("superuser", Value::Bool(true)),
            ("trusted", Value::Bool(of.is_trusted)),
            ("relocatable", Value::Bool(of.is_relocatable())),
            ("schema", of.schema.map_or(Value::Null, Value::text)),
            ("comment", Value::text(of.comment)),
        ]);
    }
}
