//! Domains: the types of CREATE DOMAIN, each a base type with constraints.
//!
//! Values of a domain are values of its root type, the type at the end of its chain of base types.
//! They are stored, compared and sent as such: an expression never has a domain type. A domain is
//! the type of a target of values: a column (which has it next to its own type), a cast, an
//! argument or a variable. Definitions are interned as those of enums are.
//!
//! Invariants
//! - DOMAIN-1: a domain's base is older than the domain, so the chain of bases ends at a type that
//!   is not a domain.
//! - DOMAIN-2: the root's kind never changes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::{Type, TypeKind};
use crate::bound::Expr;
use crate::catalog::PUBLIC_SCHEMA;
use crate::error::SqlError;
use crate::functions::quote_ident;
use crate::order::StableSort;

/// The definition of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainDef {
    /// The oid of the type.
    pub id: u32,
    /// The schema.
    pub schema: String,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages: quoted if needed, and qualified unless the schema is `public`.
    pub display_name: String,
    /// The base type, which can be a domain, too.
    pub base: Type,
    /// NOT NULL
    pub not_null: bool,
    /// The DEFAULT as SQL text.
    pub default: Option<String>,
    /// The CHECK constraints, in the order of their names.
    pub checks: Vec<DomainCheck>,
}

/// A CHECK constraint of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainCheck {
    /// The oid of the constraint.
    pub id: u32,
    /// The name of the constraint.
    pub name: String,
    /// The condition as SQL text, over VALUE.
    pub text: String,
    /// Whether all existing values are known to satisfy it.
    pub validated: bool,
}

impl DomainDef {
    /// Creates a domain over a base type, without constraints.
    pub fn named(id: u32, (schema, name): (&str, &str), base: Type) -> DomainDef {
        let mut definition = DomainDef {
            id,
            schema: String::new(),
            name: String::new(),
            display_name: String::new(),
            base,
            not_null: false,
            default: None,
            checks: Vec::new(),
        };
        definition.rename(schema, name);
        definition
    }

    /// Renames the domain.
    pub fn rename(&mut self, schema: &str, name: &str) {
        self.display_name = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        self.schema = schema.to_owned();
        self.name = name.to_owned();
    }
}

/// A definition, and its conditions after they have been bound.
struct BoundDomain {
    definition: DomainDef,
    conditions: OnceLock<Result<Vec<Expr>, SqlError>>,
}

/// A domain. Two values are equal if their oids are, whatever the constraints.
#[derive(Clone, Copy)]
pub struct Domain(&'static BoundDomain);

/// Every definition that the process has seen.
static DEFINITIONS: Mutex<Vec<&'static BoundDomain>> = Mutex::new(Vec::new());

impl Domain {
    /// Returns the domain for a definition, whose constraints are sorted by name.
    pub fn of(mut definition: DomainDef) -> Domain {
        definition.checks.order_by(|a, b| a.name.cmp(&b.name));
        let mut all = DEFINITIONS.lock();
        let same = |interned: &&&'static BoundDomain| {
            interned.definition == definition && is_same(interned.definition.base, definition.base)
        };
        if let Some(same) = all.iter().find(same) {
            return Domain(same);
        }
        let interned: &'static BoundDomain = Box::leak(Box::new(BoundDomain {
            definition,
            conditions: OnceLock::new(),
        }));
        all.push(interned);
        Domain(interned)
    }

    /// Returns the definition.
    pub const fn definition(self) -> &'static DomainDef {
        &self.0.definition
    }

    /// Returns the root type, with its modifier.
    pub fn root(self) -> Type {
        let base = self.definition().base;
        match base.kind {
            TypeKind::Domain(of) => of.root(),
            _ => base,
        }
    }

    /// Returns the chain of domains; the domain itself is the last one.
    pub fn levels(self) -> Vec<Domain> {
        let mut all = vec![self];
        let mut base = self.definition().base.kind;
        while let TypeKind::Domain(of) = base {
            all.push(of);
            base = of.definition().base.kind;
        }
        all.reverse();
        all
    }

    /// Returns whether the domain or a type in its chain of bases has this oid.
    pub fn is_over(self, oid: u32) -> bool {
        let base = self.definition().base;
        self.definition().id == oid
            || match base.kind {
                TypeKind::Domain(of) => of.is_over(oid),
                kind => kind.oid() == oid || kind.element().is_some_and(|of| of.oid() == oid),
            }
    }

    /// Returns whether the domain or a domain below it is NOT NULL.
    pub fn is_not_null(self) -> bool {
        self.levels().iter().any(|of| of.definition().not_null)
    }

    /// Returns the DEFAULT of the nearest domain in the chain that has one.
    pub fn default(self) -> Option<&'static str> {
        let mut levels = self.levels().into_iter().rev();
        levels.find_map(|of| of.definition().default.as_deref())
    }

    /// Returns whether the domain and its bases have no constraints.
    pub fn is_free(self) -> bool {
        let ruled = |of: &Domain| of.definition().not_null || !of.definition().checks.is_empty();
        !self.levels().iter().any(ruled)
    }

    /// Returns the conditions of the domain's own constraints. `bind` creates them on the first
    /// call.
    pub(crate) fn conditions(
        self,
        bind: impl FnOnce() -> Result<Vec<Expr>, SqlError>,
    ) -> Result<&'static [Expr], SqlError> {
        match self.0.conditions.get_or_init(bind) {
            Ok(all) => Ok(all),
            Err(error) => Err(error.clone()),
        }
    }
}

/// Returns whether two types and their current definitions are the same.
pub fn is_same(a: Type, b: Type) -> bool {
    let of_elements = |kind: TypeKind| kind.element().unwrap_or(kind);
    match (of_elements(a.kind), of_elements(b.kind)) {
        (TypeKind::Enum(a), TypeKind::Enum(b)) => std::ptr::eq(a.definition(), b.definition()),
        (TypeKind::Domain(a), TypeKind::Domain(b)) => std::ptr::eq(a.0, b.0),
        (TypeKind::Composite(a), TypeKind::Composite(b)) => {
            std::ptr::eq(a.definition(), b.definition())
        }
        _ => a == b,
    }
}

impl PartialEq for Domain {
    fn eq(&self, other: &Domain) -> bool {
        self.definition().id == other.definition().id
    }
}

impl Eq for Domain {}

impl Hash for Domain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition().id.hash(state);
    }
}

impl PartialOrd for Domain {
    fn partial_cmp(&self, other: &Domain) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Domain {
    fn cmp(&self, other: &Domain) -> Ordering {
        self.definition().id.cmp(&other.definition().id)
    }
}

/// Plans are compared by this text across machines.
impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain {}", self.definition().id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_domains_use_root_type_and_nearest_default() {
        let mut first = DomainDef::named(20_001, ("public", "code"), Type::varchar(5));
        first.default = Some("'a'".to_owned());
        first.not_null = true;
        let code = Domain::of(first.clone());
        assert!(std::ptr::eq(code.0, Domain::of(first).0));
        let base = Type::of(TypeKind::Domain(code));
        let second = Domain::of(DomainDef::named(20_002, ("s", "Code"), base));
        assert_eq!(second.root(), Type::varchar(5));
        assert_eq!(second.default(), Some("'a'"));
        assert!(second.is_not_null() && !second.is_free());
        assert_eq!(second.levels(), [code, second]);
        assert!(second.is_over(20_001) && second.is_over(1043) && !code.is_over(20_002));
        assert_eq!(second.definition().display_name, "s.\"Code\"");
    }
}
