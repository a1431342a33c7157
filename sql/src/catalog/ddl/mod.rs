//! Definitions as the statements that make them again.
//!
//! ```text
//! roles ─► schemas ─► extensions ─► types ─► sequences ─► routines, tables, views, each behind what it needs
//!       ─► indexes ─► partitions ─► foreign keys ─► triggers ─► rows of materialized views     tables.rs, others.rs
//!       ─► owners, privileges, comments, settings                                              about.rs
//! ```
//! A table comes with its keys and checks; other indexes and foreign keys have statements of their own, so that they can
//! be made once there are rows. A partition is made as a table of its own, so that it can be filled, and attached then. What
//! keeps others out, or does something when rows come, comes after all rows.
//!
//! What is made is named with its schema, in quotes. Texts that users wrote are as they were kept: their names are of the
//! schema of what they are in, or of `public`, so [`Ddl::schema`] and `public` are the search path of each statement.
//! What is temporary is left out, and so is how far sequences are, which the catalog does not say.

mod about;
mod others;
mod tables;

use std::sync::Arc;

use super::{
    Object, PUBLIC_SCHEMA, RoutineDef, Snapshot, TableDef, TypeDef, UserType, ViewDef, temporary,
};
use crate::order::InOrder;
use crate::parser::{calls, mentions};
use crate::types::Type;
use crate::types::composites::ROW_TYPE;

/// What a statement makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdlKind {
    /// A role, or what is said of one.
    Role,
    /// A schema.
    Schema,
    /// An extension, with all that it brings along.
    Extension,
    /// An enum, a domain or a composite type.
    Type,
    /// A sequence that no identity column has.
    Sequence,
    /// A function or procedure.
    Routine,
    /// A table with rows of its own.
    Table,
    /// A partitioned table.
    PartitionedTable,
    /// That a column is an identity.
    Identity,
    /// A view.
    View,
    /// A materialized view, without rows.
    MaterializedView,
    /// The rows of a materialized view.
    Refresh,
    /// An index that is no constraint.
    Index,
    /// That a table is a partition.
    Partition,
    /// A foreign key, or a CHECK that is NOT VALID.
    ForeignKey,
    /// A trigger.
    Trigger,
    /// Who owns something, who may do what with it, what is said about it.
    About,
}

impl DdlKind {
    /// Its name.
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

/// A statement that makes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ddl {
    /// What it makes.
    pub kind: DdlKind,
    /// The schema that it is in, or where its names are looked for first.
    pub schema: String,
    /// Its name; of a routine with the types of its arguments, of what goes with something else the name of that.
    pub name: String,
    /// Its text, which may be several statements.
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

/// What makes everything of a database again, empty but for materialized views; passwords of roles only `with_passwords`.
pub fn statements(snapshot: &Snapshot, with_passwords: bool) -> Vec<Ddl> {
    let tables = kept_tables(snapshot);
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

/// All tables but temporary ones, in the order in which they were made.
fn kept_tables(snapshot: &Snapshot) -> Vec<Arc<TableDef>> {
    let mut tables = snapshot.tables();
    tables.retain(|table| is_kept(&table.schema));
    tables.order_by_key(|table| table.id);
    tables
}

fn is_kept(schema: &str) -> bool {
    !temporary::is_temporary(schema)
}

/// Does a routine come with its extension?
fn is_brought(snapshot: &Snapshot, routine: &RoutineDef) -> bool {
    let object = Object::new(routine.kind.into(), routine.id);
    snapshot.extension_of(object).is_some()
}

/// What may need others of its like.
enum Thing {
    Routine(Arc<RoutineDef>),
    Table(Arc<TableDef>),
    /// One that is materialized, too.
    View(Arc<ViewDef>),
}

/// Routines, tables and views, each behind what it needs; those that need nothing in the order in which they were made.
fn in_order(snapshot: &Snapshot, tables: &[Arc<TableDef>]) -> Vec<Ddl> {
    let routines = snapshot.all_routines().into_iter();
    let routines = routines
        .filter(|of| is_kept(&of.schema) && !is_brought(snapshot, of))
        .map(Thing::Routine);
    let plain = tables.iter().filter(|table| table.materialized.is_none());
    let plain = plain.map(|table| Thing::Table(Arc::clone(table)));
    let views = snapshot.queries().into_iter();
    let views = views.filter(|of| is_kept(&of.schema)).map(Thing::View);
    let things: Vec<Thing> = routines.chain(plain).chain(views).collect();
    let mut order = Order {
        needs: things.iter().map(|thing| needs(thing, &things)).collect(),
        seen: vec![false; things.len()],
        order: Vec::with_capacity(things.len()),
    };
    (0..things.len()).for_each(|at| order.visit(at));
    let made = order.order.into_iter().map(|at| &things[at]);
    made.flat_map(|thing| match thing {
        Thing::Routine(routine) => others::routine(snapshot, routine),
        Thing::Table(table) => tables::table(snapshot, tables, table),
        Thing::View(view) => others::view(snapshot, view),
    })
    .collect()
}

/// Depth first, so what is needed comes before; where things need each other, the first of them comes last.
struct Order {
    needs: Vec<Vec<usize>>,
    seen: Vec<bool>,
    order: Vec<usize>,
}

impl Order {
    fn visit(&mut self, first: usize) {
        // Explicit, as chains of views may be longer than a stack is.
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

/// Which of `all` a thing needs to be made.
fn needs(thing: &Thing, all: &[Thing]) -> Vec<usize> {
    let all = all.iter().enumerate();
    let needed = all.filter(|(_, other)| match (thing, other) {
        (Thing::Routine(of), Thing::Routine(other)) => {
            of.id != other.id && bound_texts(of).any(|text| calls(text, &other.name))
        }
        (Thing::Routine(of), Thing::Table(other)) => reads(of, other.id, &other.name),
        (Thing::Routine(of), Thing::View(other)) => reads(of, other.id, &other.name),
        (Thing::Table(of), Thing::Routine(other)) => texts(of).any(|text| calls(text, &other.name)),
        (Thing::View(of), Thing::Routine(other)) => calls(&of.text, &other.name),
        (Thing::View(of), Thing::Table(other)) => of.reads(other.id),
        (Thing::View(of), Thing::View(other)) => of.id != other.id && of.reads(other.id),
        (Thing::Table(_), Thing::Table(_) | Thing::View(_)) => false,
    });
    needed.map(|(at, _)| at).collect()
}

/// What of a routine is bound when it is made.
fn bound_texts(routine: &RoutineDef) -> impl Iterator<Item = &str> {
    let defaults = routine.args.iter().filter_map(|arg| arg.default.as_deref());
    defaults.chain(routine.atomic.then_some(routine.body.as_str()))
}

/// Does a routine need a table or view to be made?
fn reads(routine: &RoutineDef, id: u32, name: &str) -> bool {
    routine.names_type(id | ROW_TYPE) || bound_texts(routine).any(|text| mentions(text, name))
}

/// The expressions of a table that may call routines.
fn texts(table: &TableDef) -> impl Iterator<Item = &str> {
    let columns = table.columns.iter();
    let columns = columns.flat_map(|of| [of.default.as_deref(), of.more.generated.as_deref()]);
    let checks = table.rules.checks.iter().map(|check| check.text.as_str());
    columns.flatten().chain(checks)
}

/// In quotes, whatever it is.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name with its schema.
fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// A type, one of users with its schema.
fn type_text(snapshot: &Snapshot, ty: Type) -> String {
    let kind = ty.kind.element().unwrap_or(ty.kind);
    let made = snapshot.type_by_id(kind.oid());
    match made.filter(|of| of.schema == PUBLIC_SCHEMA) {
        Some(_) => format!("{PUBLIC_SCHEMA}.{ty}"),
        None => ty.to_string(),
    }
}

/// Is it a type whose statement is CREATE DOMAIN?
fn is_domain(ty: &TypeDef) -> bool {
    matches!(ty.of, UserType::Domain(_))
}
