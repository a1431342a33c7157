//! User-defined types, as the catalog defines them.

use foldhash::HashMap;
use std::sync::Arc;

use super::def::TableDef;
use super::guard::Guards;
use super::view::ViewDef;
use crate::order::StableSort;
use crate::types::composites::{CompositeDef, Field, ROW_ARRAY, ROW_TYPE};
use crate::types::{Citext, Composite, Domain, Enum, Type, TypeKind};

/// The definition of a user-defined type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    /// The oid of the type.
    pub id: u32,
    /// The schema of the type.
    pub schema: String,
    /// The name of the type.
    pub name: String,
    /// The kind of the type, with its definition.
    pub of: UserType,
    /// The version, which each statement that changes the type raises.
    pub version: u64,
    /// The objects that hold `version`; each transaction whose plan refers to the type guards one
    /// of them.
    pub guards: Guards,
}

/// The kinds of user-defined types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UserType {
    /// CREATE TYPE … AS ENUM
    Enum(Enum),
    /// CREATE DOMAIN
    Domain(Domain),
    /// CREATE TYPE … AS (…), or the row type of a table
    Composite(Composite),
    /// The type of the extension citext
    Citext(Citext),
}

impl TypeDef {
    /// Returns the type itself.
    pub fn kind(&self) -> TypeKind {
        match self.of {
            UserType::Enum(of) => TypeKind::Enum(of),
            UserType::Domain(of) => TypeKind::Domain(of),
            UserType::Composite(of) => TypeKind::Composite(of),
            UserType::Citext(of) => TypeKind::Citext(of),
        }
    }

    /// Returns the oid of its array type, if there is one.
    pub fn array_id(&self) -> Option<u32> {
        match self.of {
            UserType::Enum(of) => Some(of.definition().array_id),
            UserType::Composite(of) => Some(of.definition().array_id),
            UserType::Citext(of) => Some(of.definition().array_id),
            UserType::Domain(_) => None,
        }
    }

    /// Returns the enum; `None` for other kinds.
    pub fn as_enum(&self) -> Option<Enum> {
        match self.of {
            UserType::Enum(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the composite type; `None` for other kinds.
    pub fn as_composite(&self) -> Option<Composite> {
        match self.of {
            UserType::Composite(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the domain; `None` for other kinds.
    pub fn as_domain(&self) -> Option<Domain> {
        match self.of {
            UserType::Domain(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the name in messages, with the schema unless that is `public`.
    pub fn display_name(&self) -> &'static str {
        self.kind().name()
    }
}

/// Returns the row type of a table as a type definition; its guards are those of the table.
pub(super) fn row_type_def(table: &TableDef) -> TypeDef {
    let of = row_type(table);
    TypeDef {
        id: of.definition().id,
        schema: table.schema.clone(),
        name: table.name.clone(),
        of: UserType::Composite(of),
        version: table.version,
        guards: table.guards.clone(),
    }
}

impl ViewDef {
    /// Returns the row type of the view as a type definition; its guards are those of the view.
    pub(super) fn row_type_def(&self) -> TypeDef {
        let of = self.row_type();
        TypeDef {
            id: of.definition().id,
            schema: self.schema.clone(),
            name: self.name.clone(),
            of: UserType::Composite(of),
            version: self.version,
            guards: self.guards.clone(),
        }
    }
}

/// Returns the row type of a table.
pub fn row_type(table: &TableDef) -> Composite {
    let columns = table.columns.iter();
    let columns = columns.map(|column| (column.name.clone(), column.declared()));
    type_of_rows(table.id, (&table.schema, &table.name), columns)
}

impl ViewDef {
    /// Returns the row type of the view.
    pub fn row_type(&self) -> Composite {
        let columns = self.columns.iter().cloned();
        type_of_rows(self.id, (&self.schema, &self.name), columns)
    }
}

fn type_of_rows(
    id: u32,
    name: (&str, &str),
    columns: impl Iterator<Item = (String, Type)>,
) -> Composite {
    let fields = columns.zip(0..);
    let fields = fields.map(|((name, ty), place)| Field { name, ty, place });
    let ids = (id | ROW_TYPE, id | ROW_ARRAY, id);
    Composite::of(CompositeDef::named(ids, name, fields.collect()))
}

/// All user-defined types, by oid and by name.
#[derive(Clone, Debug, Default)]
pub struct TypeSet {
    by_oid: HashMap<u32, Arc<TypeDef>>,
    by_name: HashMap<(String, String), Arc<TypeDef>>,
}

impl TypeSet {
    /// Returns the set of these types.
    pub fn of(types: Vec<TypeDef>) -> TypeSet {
        let mut set = TypeSet::default();
        types.into_iter().for_each(|ty| set.add(ty));
        set
    }

    /// Adds a type to the set.
    pub fn add(&mut self, ty: TypeDef) {
        let ty = Arc::new(ty);
        self.by_oid.insert(ty.id, Arc::clone(&ty));
        if let Some(id) = ty.array_id() {
            self.by_oid.insert(id, Arc::clone(&ty));
        }
        let name = (ty.schema.clone(), ty.name.clone());
        self.by_name.insert(name, ty);
    }

    /// Returns the current definition of the domain with this oid.
    pub fn domain(&self, oid: u32) -> Option<Domain> {
        self.by_oid.get(&oid)?.as_domain()
    }

    /// Returns all types, in the order of their oids.
    pub fn all(&self) -> Vec<Arc<TypeDef>> {
        let mut all: Vec<_> = self.by_name.values().cloned().collect();
        all.order_by_key(|ty| ty.id);
        all
    }

    /// Returns the type with this schema and name.
    pub fn named(&self, schema: &str, name: &str) -> Option<Arc<TypeDef>> {
        let name = (schema.to_owned(), name.to_owned());
        self.by_name.get(&name).cloned()
    }

    /// Returns the type with this oid, or with this array type.
    pub fn with_oid(&self, oid: u32) -> Option<&Arc<TypeDef>> {
        self.by_oid.get(&oid)
    }

    /// Returns a type with its current definition.
    pub fn now(&self, ty: Type) -> Type {
        let kind = self.kind(ty.oid()).unwrap_or(ty.kind);
        Type { kind, ..ty }
    }

    /// Returns the type with this oid, including built-in types and array types.
    pub fn kind(&self, oid: u32) -> Option<TypeKind> {
        TypeKind::from_oid(oid).or_else(|| {
            let ty = self.by_oid.get(&oid)?;
            match ty.id == oid {
                true => Some(ty.kind()),
                false => ty.kind().array(),
            }
        })
    }
}
