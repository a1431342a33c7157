//! Types that CREATE TYPE made, as the catalog has them.

use foldhash::HashMap;
use std::sync::Arc;

use super::def::TableDef;
use super::guard::Guards;
use super::view::ViewDef;
use crate::order::InOrder;
use crate::types::composites::{CompositeDef, Field, ROW_ARRAY, ROW_TYPE};
use crate::types::{Citext, Composite, Domain, Enum, Type, TypeKind};

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    /// Its oid.
    pub id: u32,
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub of: UserType,
    /// Raised by each statement that changes it.
    pub version: u64,
    /// The objects that hold `version`; each transaction whose plan names the type guards one of them.
    pub guards: Guards,
}

/// What users make types of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UserType {
    /// CREATE TYPE … AS ENUM
    Enum(Enum),
    /// CREATE DOMAIN
    Domain(Domain),
    /// CREATE TYPE … AS (…), or a table
    Composite(Composite),
    /// What the extension citext has made
    Citext(Citext),
}

impl TypeDef {
    /// The type itself.
    pub fn kind(&self) -> TypeKind {
        match self.of {
            UserType::Enum(of) => TypeKind::Enum(of),
            UserType::Domain(of) => TypeKind::Domain(of),
            UserType::Composite(of) => TypeKind::Composite(of),
            UserType::Citext(of) => TypeKind::Citext(of),
        }
    }

    /// The oid of the type of its arrays, if there is one.
    pub fn array_id(&self) -> Option<u32> {
        match self.of {
            UserType::Enum(of) => Some(of.definition().array_id),
            UserType::Composite(of) => Some(of.definition().array_id),
            UserType::Citext(of) => Some(of.definition().array_id),
            UserType::Domain(_) => None,
        }
    }

    /// The enum, if it is one.
    pub fn as_enum(&self) -> Option<Enum> {
        match self.of {
            UserType::Enum(of) => Some(of),
            _ => None,
        }
    }

    /// The composite type, if it is one.
    pub fn as_composite(&self) -> Option<Composite> {
        match self.of {
            UserType::Composite(of) => Some(of),
            _ => None,
        }
    }

    /// The domain, if it is one.
    pub fn as_domain(&self) -> Option<Domain> {
        match self.of {
            UserType::Domain(of) => Some(of),
            _ => None,
        }
    }

    /// The name in messages, with its schema where that is not `public`.
    pub fn shown(&self) -> &'static str {
        self.kind().name()
    }
}

/// The type of a table's rows, or of arrays of them, as if it had been made; the table's guards are its.
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
    /// The type of its rows as if it had been made; its guards are the view's.
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

/// The type of a table's rows.
pub fn row_type(table: &TableDef) -> Composite {
    let columns = table.columns.iter();
    let columns = columns.map(|column| (column.name.clone(), column.declared()));
    type_of_rows(table.id, (&table.schema, &table.name), columns)
}

impl ViewDef {
    /// The type of its rows.
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

/// All types that users made, by oid.
#[derive(Clone, Debug, Default)]
pub struct TypeSet {
    by_oid: HashMap<u32, Arc<TypeDef>>,
    by_name: HashMap<(String, String), Arc<TypeDef>>,
}

impl TypeSet {
    /// Those.
    pub fn of(types: Vec<TypeDef>) -> TypeSet {
        let mut set = TypeSet::default();
        types.into_iter().for_each(|ty| set.add(ty));
        set
    }

    /// Adds a type.
    pub fn add(&mut self, ty: TypeDef) {
        let ty = Arc::new(ty);
        self.by_oid.insert(ty.id, Arc::clone(&ty));
        if let Some(id) = ty.array_id() {
            self.by_oid.insert(id, Arc::clone(&ty));
        }
        let name = (ty.schema.clone(), ty.name.clone());
        self.by_name.insert(name, ty);
    }

    /// The domain with this oid as it is now.
    pub fn domain(&self, oid: u32) -> Option<Domain> {
        self.by_oid.get(&oid)?.as_domain()
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Arc<TypeDef>> {
        let mut all: Vec<_> = self.by_name.values().cloned().collect();
        all.order_by_key(|ty| ty.id);
        all
    }

    /// The type of a name.
    pub fn named(&self, schema: &str, name: &str) -> Option<Arc<TypeDef>> {
        let name = (schema.to_owned(), name.to_owned());
        self.by_name.get(&name).cloned()
    }

    /// The type of an oid, or that whose arrays are of it.
    pub fn with_oid(&self, oid: u32) -> Option<&Arc<TypeDef>> {
        self.by_oid.get(&oid)
    }

    /// A type as it is by now.
    pub fn now(&self, ty: Type) -> Type {
        let kind = self.kind(ty.oid()).unwrap_or(ty.kind);
        Type { kind, ..ty }
    }

    /// The type of an oid, a built-in one or one of arrays included.
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
