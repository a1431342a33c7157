//! The dependencies of objects, and the rules of views. pg_dump orders its output by them, and
//! pg_restore its jobs.
//!
//! ```text
//!   mod.rs      pg_depend, pg_rewrite; how a row is added
//!   tables.rs   tables, columns, defaults, partitions, triggers
//!   rules.rs    constraints and indexes
//!   objects.rs  types, routines, views, sequences, extensions
//!   shared.rs   pg_shdepend: owners and grantees
//! ```
//! Built-in objects of PostgreSQL are pinned: they have no dependency rows. The texts of
//! definitions are bound to find the objects to which they refer (`binder::References`).

mod objects;
mod rules;
mod shared;
mod tables;

use std::collections::HashMap;

use super::attributes::part_oid;
use super::names::namespaces;
use super::rows::Rows;
use super::triggers::TRIGGER_CLASS;
use super::{RowInputs, class, reader};
use crate::binder::{DeparseContext, ObjectPart, References, VisibleColumns};
use crate::types::Type;
use crate::value::Value;

pub use shared::dependencies as shared_dependencies;

/// The kinds of dependencies.
const NORMAL: &str = "n";
const AUTO: &str = "a";
const INTERNAL: &str = "i";
const EXTENSION: &str = "e";
/// The dependency of an index, constraint or trigger of a partition on that of the parent.
const PARTITION_PRIMARY: &str = "P";
/// The dependency of the same object on the partition.
const PARTITION_SECONDARY: &str = "S";

/// Adds the rows of `pg_depend`.
pub fn dependencies(rows: &mut Rows, around: &RowInputs<'_>) {
    let schemas = namespaces(around.snapshot).into_iter();
    let mut all = Dependencies {
        rows,
        around,
        reader: reader(around.snapshot, around.cx, false),
        schemas: schemas.map(|(oid, name)| (name, oid)).collect(),
    };
    for table in around.snapshot.tables() {
        all.table(&table);
        all.constraints(&table);
        all.indexes(&table);
        all.triggers(&table);
    }
    for view in around.snapshot.views() {
        all.view(view);
    }
    for query in around.snapshot.queries() {
        all.rule(&query);
    }
    for ty in around.snapshot.types().all() {
        all.user_type(&ty);
    }
    for routine in around.snapshot.all_routines() {
        all.routine(&routine);
    }
    for sequence in around.snapshot.sequences() {
        let relation = (class::RELATION, sequence.id, 0);
        all.in_schema(relation, &sequence.schema);
    }
    for default in around.snapshot.security().defaults() {
        if default.schema != 0 {
            let schema = (class::SCHEMA, default.schema, 0);
            all.add((class::DEFAULT_ACL, default.id, 0), schema, AUTO);
        }
    }
    for extension in around.snapshot.extensions() {
        all.extension(extension);
    }
}

/// The rows of `pg_depend` under construction.
struct Dependencies<'r, 'a> {
    rows: &'r mut Rows,
    around: &'a RowInputs<'a>,
    reader: DeparseContext<'a>,
    /// The oids of the schemas by name.
    schemas: HashMap<String, u32>,
}

impl Dependencies<'_, '_> {
    fn add(&mut self, (class, id, part): ObjectPart, on: ObjectPart, kind: &str) {
        self.rows.add([
            ("classid", Value::Oid(class)),
            ("objid", Value::Oid(id)),
            ("objsubid", Value::Int4(i32::from(part))),
            ("refclassid", Value::Oid(on.0)),
            ("refobjid", Value::Oid(on.1)),
            ("refobjsubid", Value::Int4(i32::from(on.2))),
            ("deptype", Value::text(kind)),
        ]);
    }

    /// Adds the dependency of an object on its schema.
    fn in_schema(&mut self, of: ObjectPart, schema: &str) {
        if let Some(id) = self.schemas.get(schema).copied() {
            self.add(of, (class::SCHEMA, id, 0), NORMAL);
        }
    }

    /// Adds the dependency of an object on its type, if that is user-defined.
    fn of_type(&mut self, of: ObjectPart, ty: Type) {
        if ty.kind.is_users() {
            self.add(of, (class::TYPE, ty.oid(), 0), NORMAL);
        }
    }

    fn normal(&mut self, of: ObjectPart, on: &References) {
        for part in on {
            self.add(of, *part, NORMAL);
        }
    }

    /// Adds the references of an expression and returns them; none if it cannot be bound.
    fn expression(
        &mut self,
        of: ObjectPart,
        text: &str,
        place: (&str, VisibleColumns<'_>),
        to: Option<Type>,
    ) -> References {
        let on = self.reader.references(text, place, to).unwrap_or_default();
        self.normal(of, &on);
        on
    }

    /// Adds the row type of a relation and the array type of these rows.
    fn row_type(&mut self, relation: u32, (id, array): (u32, u32)) {
        let of = (class::TYPE, id, 0);
        self.add(of, (class::RELATION, relation, 0), INTERNAL);
        self.add((class::TYPE, array, 0), of, INTERNAL);
    }

    /// Adds the dependencies of a partition's object on its parent's object and on the partition.
    fn of_partition(&mut self, of: ObjectPart, (class, parents): (u32, u32), partition: u32) {
        self.add(of, (class, parents, 0), PARTITION_PRIMARY);
        let table = (class::RELATION, partition, 0);
        self.add(of, table, PARTITION_SECONDARY);
    }
}

/// Adds the rows of `pg_rewrite`: each view is a rule.
pub fn rules(rows: &mut Rows, around: &RowInputs<'_>) {
    for view in around.snapshot.queries() {
        rows.add([
            ("oid", Value::Oid(rule_oid(view.id))),
            ("rulename", Value::text("_RETURN")),
            ("ev_class", Value::Oid(view.id)),
            ("ev_type", Value::text("1")),
            ("ev_enabled", Value::text("O")),
            ("is_instead", Value::Bool(true)),
        ]);
    }
}

fn rule_oid(view: u32) -> u32 {
    part_oid(view, 0)
}
