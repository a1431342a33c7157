//! The list of system relations.

use std::sync::LazyLock;

use crate::types::{Element, Type, TypeKind};

/// A relation of the catalog.
#[derive(Debug)]
pub struct Relation {
    /// The oid.
    pub oid: u32,
    /// The schema.
    pub schema: &'static str,
    /// The name.
    pub name: &'static str,
    /// `r` for a table, `v` for a view.
    pub kind: &'static str,
    /// The names and types of the columns.
    pub columns: Vec<(&'static str, Type)>,
}

impl Eq for Relation {}

impl PartialEq for Relation {
    fn eq(&self, other: &Relation) -> bool {
        self.oid == other.oid
    }
}

static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let lines = include_str!("relations.txt").lines();
    lines.filter_map(relation).collect()
});

/// Parses a line; returns `None` for a comment.
fn relation(line: &'static str) -> Option<Relation> {
    let mut words = line.split(' ');
    let (schema, oid) = (words.next()?, words.next()?.parse().ok()?);
    let (kind, name) = (words.next()?, words.next()?);
    let columns = words.filter_map(|word| word.split_once(':'));
    Some(Relation {
        oid,
        schema,
        name,
        kind,
        columns: columns.map(|(name, ty)| (name, type_of(ty))).collect(),
    })
}

/// Returns the type with a name; text for a type that does not exist here.
fn type_of(name: &str) -> Type {
    Type::of(match name {
        "_aclitem" => TypeKind::Array(Element::TEXT),
        _ => TypeKind::from_catalog_name(name).unwrap_or(TypeKind::Text),
    })
}

impl Relation {
    /// Returns all relations.
    pub fn all() -> &'static [Relation] {
        &RELATIONS
    }

    /// Returns the relation with a name; the default schema is `pg_catalog`.
    pub fn named(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
        let schema = schema.unwrap_or("pg_catalog");
        let mut all = Relation::all().iter();
        all.find(|relation| relation.name == name && relation.schema == schema)
    }
}
