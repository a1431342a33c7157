//! Types that CREATE TYPE made, as the catalog has them.

use foldhash::HashMap;
use std::sync::Arc;

use super::guard::Guards;
use crate::types::{Domain, Enum, Type, TypeKind};

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
}

impl TypeDef {
    /// The type itself.
    pub fn kind(&self) -> TypeKind {
        match self.of {
            UserType::Enum(of) => TypeKind::Enum(of),
            UserType::Domain(of) => TypeKind::Domain(of),
        }
    }

    /// The oid of the type of its arrays, if there is one.
    pub fn array_id(&self) -> Option<u32> {
        match self.of {
            UserType::Enum(of) => Some(of.definition().array_id),
            UserType::Domain(_) => None,
        }
    }

    /// The enum, if it is one.
    pub fn as_enum(&self) -> Option<Enum> {
        match self.of {
            UserType::Enum(of) => Some(of),
            UserType::Domain(_) => None,
        }
    }

    /// The domain, if it is one.
    pub fn as_domain(&self) -> Option<Domain> {
        match self.of {
            UserType::Domain(of) => Some(of),
            UserType::Enum(_) => None,
        }
    }

    /// The name in messages, with its schema where that is not `public`.
    pub fn shown(&self) -> &'static str {
        self.kind().name()
    }
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
        all.sort_by_key(|ty| ty.id);
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
