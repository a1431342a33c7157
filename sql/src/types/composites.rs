//! Composite types: those of CREATE TYPE … AS (…) and the row types of tables. Also `record`, the
//! type of other rows, whose values carry their own field names and types.
//!
//! Definitions are interned as those of enums are: equal definitions are the same one. The row type
//! of a table is defined when it is first named.
//!
//! Invariants
//! - COMPOSITE-1: a field never changes its place, because stored values identify their fields by
//!   place. A new field gets a place that no field had before.
//! - COMPOSITE-2: no type contains itself.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;

use super::domains::is_same;
use super::{Type, TypeKind};
use crate::catalog::PUBLIC_SCHEMA;
use crate::functions::quote_ident;

/// The bit that turns a table's oid into the oid of its row type.
pub const ROW_TYPE: u32 = 1 << 29;
/// The bit that turns a table's oid into the oid of the array type of its rows.
pub const ROW_ARRAY: u32 = 1 << 30;

/// The definition of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeDef {
    /// The oid of the type.
    pub id: u32,
    /// The oid of the array type.
    pub array_id: u32,
    /// The oid of the relation that has the row type, or of the type's own entry in `pg_class`.
    pub relation: u32,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages: quoted if needed, and qualified unless the schema is `public`.
    pub display_name: String,
    /// The name of the array type in the catalog.
    pub array_name: String,
    /// The name of the array type in messages.
    pub array_display_name: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
    /// The number of places that have ever been used.
    pub places: u16,
}

/// A field of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The declared type, which can be a domain.
    pub ty: Type,
    /// The place in stored values.
    pub place: u16,
}

impl CompositeDef {
    /// Creates a definition for a schema and name.
    pub fn named(
        (id, array_id, relation): (u32, u32, u32),
        (schema, name): (&str, &str),
        fields: Vec<Field>,
    ) -> CompositeDef {
        let mut definition = CompositeDef {
            id,
            array_id,
            relation,
            name: String::new(),
            display_name: String::new(),
            array_name: String::new(),
            array_display_name: String::new(),
            places: fields.iter().map(|f| f.place + 1).max().unwrap_or(0),
            fields,
        };
        definition.rename(schema, name);
        definition
    }

    /// Renames the type.
    pub fn rename(&mut self, schema: &str, name: &str) {
        self.display_name = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        self.name = name.to_owned();
        self.array_name = format!("_{name}");
        self.array_display_name = format!("{}[]", self.display_name);
    }

    /// Returns whether it is the row type of a table.
    pub fn is_of_table(&self) -> bool {
        self.id & ROW_TYPE != 0
    }

    /// Returns whether the type with this oid, or an array of it, is this type or part of it.
    pub fn has(&self, oid: u32) -> bool {
        self.id == oid
            || self
                .fields
                .iter()
                .any(|field| is_made_of(field.ty.kind, oid))
    }
}

/// Returns whether a type is the one with this oid, or contains it.
pub fn is_made_of(kind: TypeKind, oid: u32) -> bool {
    kind.oid() == oid
        || match kind {
            TypeKind::Domain(of) => is_made_of(of.definition().base.kind, oid),
            TypeKind::Composite(of) => of.definition().has(oid),
            TypeKind::Array(element) => is_made_of(element.kind(), oid),
            _ => false,
        }
}

/// A composite type. Two values are equal if their oids are, whatever the fields.
#[derive(Clone, Copy)]
pub struct Composite(&'static CompositeDef);

/// Every definition that the process has seen, by oid.
static DEFINITIONS: Mutex<Option<HashMap<u32, Vec<&'static CompositeDef>>>> = Mutex::new(None);

impl Composite {
    /// Returns the type for a definition.
    pub fn of(definition: CompositeDef) -> Composite {
        let alike = |interned: &&&'static CompositeDef| {
            let mut fields = interned.fields.iter().zip(&definition.fields);
            **interned == &definition && fields.all(|(a, b)| is_same(a.ty, b.ty))
        };
        let mut all = DEFINITIONS.lock();
        let of_oid = all.get_or_insert_with(HashMap::new);
        let of_oid = of_oid.entry(definition.id).or_default();
        if let Some(same) = of_oid.iter().find(alike) {
            return Composite(same);
        }
        let interned: &'static CompositeDef = Box::leak(Box::new(definition));
        of_oid.push(interned);
        Composite(interned)
    }

    /// Returns the definition.
    pub const fn definition(self) -> &'static CompositeDef {
        self.0
    }
}

impl PartialEq for Composite {
    fn eq(&self, other: &Composite) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Composite {}

impl Hash for Composite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialOrd for Composite {
    fn partial_cmp(&self, other: &Composite) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Composite {
    fn cmp(&self, other: &Composite) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// Plans are compared by this text across machines.
impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "composite {}", self.0.id)
    }
}

/// The fields of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Fields {
    /// The fields of a composite type.
    Named(Composite),
    /// The fields of a `record`.
    Own(Arc<[Field]>),
}

impl Fields {
    /// Creates the fields of a `record` from names and types.
    pub fn own(named: impl IntoIterator<Item = (String, Type)>) -> Fields {
        let fields = named.into_iter().zip(0..);
        let field = |((name, ty), place)| Field { name, ty, place };
        Fields::Own(fields.map(field).collect())
    }

    /// Creates the fields of a `record` of such values, named f1, f2 and so on.
    pub fn numbered(types: impl IntoIterator<Item = Type>) -> Fields {
        let named = types.into_iter().enumerate();
        Fields::own(named.map(|(at, ty)| (format!("f{}", at + 1), ty)))
    }

    /// Returns the type of rows with these fields.
    pub fn kind(&self) -> TypeKind {
        match self {
            Fields::Named(of) => TypeKind::Composite(*of),
            Fields::Own(_) => TypeKind::Record,
        }
    }

    /// Returns the position of the field with a name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.iter().position(|field| field.name == name)
    }
}

impl Deref for Fields {
    type Target = [Field];

    fn deref(&self) -> &[Field] {
        match self {
            Fields::Named(of) => &of.definition().fields,
            Fields::Own(fields) => fields,
        }
    }
}

impl TypeKind {
    /// Returns whether the type is composite or `record`.
    pub const fn is_row(self) -> bool {
        matches!(self, TypeKind::Composite(_) | TypeKind::Record)
    }

    /// Returns the composite type, if it is one.
    pub const fn as_composite(self) -> Option<Composite> {
        match self {
            TypeKind::Composite(of) => Some(of),
            _ => None,
        }
    }
}
