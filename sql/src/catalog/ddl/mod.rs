//! The statements that recreate all definitions of a database, as dumps need them.
//!
//! ```text
//! roles ─► schemas ─► extensions ─► types ─► sequences
//!       ─► routines, tables, views, each after the objects that it needs      others.rs, tables.rs
//!       ─► indexes ─► partitions ─► foreign keys ─► triggers
//!       ─► rows of materialized views
//!       ─► owners, privileges, comments, settings                             about.rs
//! ```
//! A table is created with its keys and checks. Other indexes and foreign keys have statements of
//! their own, so that they can be created after the rows are loaded. A partition is created and
//! filled as a table of its own, and then attached. Statements that restrict access, or that act on
//! inserted rows, come after all rows.
//!
//! The statements refer to objects by quoted names with their schemas. Stored texts of users are
//! not changed. Their names belong to the schema of their object or to `public`, so [`Ddl::schema`]
//! and `public` are the search path of each statement. Temporary objects are omitted, as are the
//! current values of sequences, which the catalog does not contain.

mod about;
mod others;
mod tables;

use std::sync::Arc;

use super::{
    Object, PUBLIC_SCHEMA, RoutineDef, Snapshot, TableDef, TypeDef, UserType, ViewDef, temporary,
};
use crate::order::StableSort;
use crate::parser::{calls, mentions};
use crate::types::Type;
use crate::types::composites::ROW_TYPE;

/// The kind of object that a statement creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdlKind {
    /// A role, a membership in a role, or a setting of a role.
    Role,
    /// A schema.
    Schema,
    /// An extension, with all its objects.
    Extension,
    /// An enum, a domain or a composite type.
    Type,
    /// A sequence that belongs to no identity column.
    Sequence,
    /// A function or procedure.
    Routine,
    /// A table with rows of its own.
    Table,
    /// A partitioned table.
    PartitionedTable,
    /// The identity property of a column.
    Identity,
    /// A view.
    View,
    /// A materialized view, without rows.
    MaterializedView,
    /// The rows of a materialized view.
    Refresh,
    /// An index without a constraint.
    Index,
    /// The attachment of a partition.
    Partition,
    /// A foreign key, or a CHECK that is NOT VALID.
    ForeignKey,
    /// A trigger.
    Trigger,
    /// The owner, the privileges or the comment of an object.
    About,
}

impl DdlKind {
    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            DdlKind::Role => "role",
            DdlKind::Schema => "schema",
            DdlKind::Extension => "extension",
            DdlKind::Type => "type",
            DdlKind::Sequence => "sequence",
            DdlKind::Routine => "routine",
            DdlKind::Table => "table",
            DdlKind::PartitionedTable => "partitioned table",
            DdlKind::Identity => "identity",
            DdlKind::View => "view",
            DdlKind::MaterializedView => "materialized view",
            DdlKind::Refresh => "refresh",
            DdlKind::Index => "index",
            DdlKind::Partition => "partition",
            DdlKind::ForeignKey => "foreign key",
            DdlKind::Trigger => "trigger",
            DdlKind::About => "about",
        }
    }
}

/// A statement that recreates an object or a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ddl {
    /// The kind of object.
    pub kind: DdlKind,
    /// The schema of the object, which comes first in the search path of the statement.
    pub schema: String,
    /// The name of the object. For a routine it includes the parameter types; for a property it is
    /// the name of its object.
    pub name: String,
    /// The text, which may consist of several statements.
    pub statement: String,
}

impl Ddl {
    fn new(kind: DdlKind, schema: &str, name: &str, statement: String) -> Ddl {
        Ddl {
            kind,
            schema: schema.to_owned(),
            name: name.to_owned(),
            statement,
        }
    }
}

/// Returns the statements that recreate a database, without rows except those of materialized
/// views. The passwords of roles are included only `with_passwords`.
pub fn statements(snapshot: &Snapshot, with_passwords: bool) -> Vec<Ddl> {
    let tables = permanent_tables(snapshot);
    let mut made = about::roles(snapshot, with_passwords);
    made.extend(others::schemas(snapshot));
    made.extend(others::extensions(snapshot));
    made.extend(others::types(snapshot));
    made.extend(others::sequences(snapshot));
    made.extend(in_order(snapshot, &tables));
    made.extend(tables::indexes(&tables, |table| !table.is_parent()));
    made.extend(tables::attachments(&tables));
    made.extend(tables::indexes(&tables, TableDef::is_parent));
    made.extend(tables::foreign_keys(&tables));
    made.extend(others::view_defaults(snapshot));
    made.extend(others::triggers(snapshot, &tables));
    made.extend(others::refreshes(snapshot));
    made.extend(others::sequence_owners(snapshot));
    made.extend(about::objects(snapshot, &tables));
    made
}

/// Returns all tables except temporary ones, in the order of their creation.
fn permanent_tables(snapshot: &Snapshot) -> Vec<Arc<TableDef>> {
    let mut tables = snapshot.tables();
    tables.retain(|table| is_permanent(&table.schema));
    tables.order_by_key(|table| table.id);
    tables
}

fn is_permanent(schema: &str) -> bool {
    !temporary::is_temporary(schema)
}

/// Returns whether a routine belongs to an extension.
fn is_brought(snapshot: &Snapshot, routine: &RoutineDef) -> bool {
    let object = Object::new(routine.kind.into(), routine.id);
    snapshot.extension_of(object).is_some()
}

/// An object that may need other such objects.
enum DependentObject {
    Routine(Arc<RoutineDef>),
    Table(Arc<TableDef>),
    /// A view or a materialized view.
    View(Arc<ViewDef>),
}

/// Returns the statements for routines, tables and views, each after the objects that it needs.
/// Objects without such needs come in the order of their creation.
fn in_order(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let routines = snapshot.all_routines().into_iter();
    let routines = routines
        .filter(|of| is_permanent(&of.schema) && !is_brought(snapshot, of))
        .map(DependentObject::Routine);
    let plain = tables.iter().filter(|table| table.materialized.is_none());
    let plain = plain.map(|table| DependentObject::Table(Arc::clone(table)));
    let views = snapshot.queries().into_iter();
    let views = views
        .filter(|of| is_permanent(&of.schema))
        .map(DependentObject::View);
    let things: Vec<DependentObject> = routines.chain(plain).chain(views).collect();
    let mut order = Order {
        needs: things.iter().map(|thing| needs(thing, &things)).collect(),
        seen: vec![false; things.len()],
        order: Vec::with_capacity(things.len()),
    };
    (0..things.len()).for_each(|at| order.visit(at));
    let made = order.order.into_iter().map(|at| &things[at]);
    made.flat_map(|thing| match thing {
        DependentObject::Routine(routine) => others::routine(snapshot, routine),
        DependentObject::Table(table) => tables::table(snapshot, tables, table),
        DependentObject::View(view) => others::view(snapshot, view),
    })
    .collect()
}

/// A depth-first order: needed objects come first. In a cycle, the object that is visited first
/// comes last.
struct Order {
    needs: Vec<Vec<usize>>,
    seen: Vec<bool>,
    order: Vec<usize>,
}

impl Order {
    fn visit(&mut self, first: usize) {
        // An explicit stack, because a chain of views may be too deep for recursion.
        let mut stack = vec![(first, 0)];
        while let Some((at, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut self.seen[at], true) {
                continue;
            }
            match self.needs[at].get(next).copied() {
                Some(needed) => {
                    stack.push((at, next + 1));
                    stack.push((needed, 0));
                }
                None => self.order.push(at),
            }
        }
    }
}

/// Returns the positions in `all` of the objects that `thing` needs.
fn needs(thing: &DependentObject, all: &[DependentObject]) -> Vec<usize> {
    let all = all.iter().enumerate();
    let needed = all.filter(|(_, other)| match (thing, other) {
        (DependentObject::Routine(of), DependentObject::Routine(other)) => {
            of.id != other.id && bound_texts(of).any(|text| calls(text, &other.name))
        }
        (DependentObject::Routine(of), DependentObject::Table(other)) => {
            reads(of, other.id, &other.name)
        }
        (DependentObject::Routine(of), DependentObject::View(other)) => {
            reads(of, other.id, &other.name)
        }
        (DependentObject::Table(of), DependentObject::Routine(other)) => {
            texts(of).any(|text| calls(text, &other.name))
        }
        (DependentObject::View(of), DependentObject::Routine(other)) => {
            calls(&of.text, &other.name)
        }
        (DependentObject::View(of), DependentObject::Table(other)) => of.reads(other.id),
        (DependentObject::View(of), DependentObject::View(other)) => {
            of.id != other.id && of.reads(other.id)
        }
        (DependentObject::Table(_), DependentObject::Table(_) | DependentObject::View(_)) => false,
    });
    needed.map(|(at, _)| at).collect()
}

/// Returns the texts of a routine that are bound when it is created.
fn bound_texts(routine: &RoutineDef) -> impl Iterator<Item = &str> {
    let defaults = routine.args.iter().filter_map(|arg| arg.default.as_deref());
    defaults.chain(routine.atomic.then_some(routine.body.as_str()))
}

/// Returns whether the creation of a routine needs a table or view.
fn reads(routine: &RoutineDef, id: u32, name: &str) -> bool {
    routine.names_type(id | ROW_TYPE) || bound_texts(routine).any(|text| mentions(text, name))
}

/// Returns the expressions of a table that may call routines.
fn texts(table: &TableDef) -> impl Iterator<Item = &str> {
    let columns = table.columns.iter();
    let columns = columns.flat_map(|of| [of.default.as_deref(), of.more.generated.as_deref()]);
    let checks = table.rules.checks.iter().map(|check| check.text.as_str());
    columns.flatten().chain(checks)
}

/// Returns the name as a quoted identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the quoted name with its schema.
fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the name of a type; user-defined types have their schema.
fn type_text(snapshot: &Snapshot, ty: Type) -> String {
    let kind = ty.kind.element().unwrap_or(ty.kind);
    let made = snapshot.type_by_id(kind.oid());
    match made.filter(|of| of.schema == PUBLIC_SCHEMA) {
        Some(_) => format!("{PUBLIC_SCHEMA}.{ty}"),
        None => ty.to_string(),
    }
}

/// Returns whether the type is created by CREATE DOMAIN.
fn is_domain(ty: &TypeDef) -> bool {
    matches!(ty.of, UserType::Domain(_))
}
