//! Composite types: those that CREATE TYPE … AS (…) makes, and those of the rows of tables; and `record`, the type of rows
//! of no such type, whose values say themselves what is in them.
//!
//! Definitions are kept as those of enums are: one that says the same is the same one. The type of a table's rows is
//! defined where it is first named.
//!
//! Invariants
//! - COMPOSITE-1: a field keeps its place for good, as values that are stored have their fields by their places; one that
//!   is added has a place that none had before.
//! - COMPOSITE-2: no type is part of itself.

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

/// The oid of a table's row type is that of the table and this.
pub const ROW_TYPE: u32 = 1 << 29;
/// The oid of the type of arrays of a table's rows is that of the table and this.
pub const ROW_ARRAY: u32 = 1 << 30;

/// What there is of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeDef {
    /// The type's oid.
    pub id: u32,
    /// The oid of the type of its arrays.
    pub array_id: u32,
    /// The oid of the relation whose rows are of it, or which stands for it in `pg_class`.
    pub relation: u32,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages, in quotes where it needs them, with its schema where that is not `public`.
    pub shown: String,
    /// The name of the array type in the catalog.
    pub array_name: String,
    /// The name of the array type in messages.
    pub array_shown: String,
    /// What is in it, in order.
    pub fields: Vec<Field>,
    /// How many places there have been.
    pub places: u16,
}

/// What a row has under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type that it was declared to be, which may be a domain.
    pub ty: Type,
    /// Its place in values that are stored.
    pub place: u16,
}

impl CompositeDef {
    /// A type of this schema and name.
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
            shown: String::new(),
            array_name: String::new(),
            array_shown: String::new(),
            places: fields.iter().map(|f| f.place + 1).max().unwrap_or(0),
            fields,
        };
        definition.rename(schema, name);
        definition
    }

    /// Gives it another name.
    pub fn rename(&mut self, schema: &str, name: &str) {
        self.shown = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        self.name = name.to_owned();
        self.array_name = format!("_{name}");
        self.array_shown = format!("{}[]", self.shown);
    }

    /// Is it the type of a table's rows?
    pub fn is_of_table(&self) -> bool {
        self.id & ROW_TYPE != 0
    }

    /// Is it, or is part of it, the type with this oid, or arrays of it?
    pub fn has(&self, oid: u32) -> bool {
        self.id == oid
            || self
                .fields
                .iter()
                .any(|field| is_made_of(field.ty.kind, oid))
    }
}

/// Is a type the one with this oid, or is that part of it?
pub fn is_made_of(kind: TypeKind, oid: u32) -> bool {
    kind.oid() == oid
        || match kind {
            TypeKind::Domain(of) => is_made_of(of.definition().base.kind, oid),
            TypeKind::Composite(of) => of.definition().has(oid),
            TypeKind::Array(element) => is_made_of(element.kind(), oid),
            _ => false,
        }
}

/// A composite type. It is the same type whatever becomes of its fields.
#[derive(Clone, Copy)]
pub struct Composite(&'static CompositeDef);

/// Every definition that there has been, by oid.
static DEFINITIONS: Mutex<Option<HashMap<u32, Vec<&'static CompositeDef>>>> = Mutex::new(None);

impl Composite {
    /// The type of a definition.
    pub fn of(definition: CompositeDef) -> Composite {
        let alike = |kept: &&&'static CompositeDef| {
            let mut fields = kept.fields.iter().zip(&definition.fields);
            **kept == &definition && fields.all(|(a, b)| is_same(a.ty, b.ty))
        };
        let mut all = DEFINITIONS.lock();
        let of_oid = all.get_or_insert_with(HashMap::new);
        let of_oid = of_oid.entry(definition.id).or_default();
        if let Some(same) = of_oid.iter().find(alike) {
            return Composite(same);
        }
        let kept: &'static CompositeDef = Box::leak(Box::new(definition));
        of_oid.push(kept);
        Composite(kept)
    }

    /// Its definition.
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

/// Plans are compared by this text, on several machines.
impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "composite {}", self.0.id)
    }
}

/// What is in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Fields {
    /// What is in a composite type.
    Named(Composite),
    /// Of a row of none: `record`.
    Own(Arc<[Field]>),
}

impl Fields {
    /// Those of a `record`, with these names and types.
    pub fn own(named: impl IntoIterator<Item = (String, Type)>) -> Fields {
        let fields = named.into_iter().zip(0..);
        let field = |((name, ty), place)| Field { name, ty, place };
        Fields::Own(fields.map(field).collect())
    }

    /// Those of a `record` of such values: f1, f2 and so on.
    pub fn numbered(types: impl IntoIterator<Item = Type>) -> Fields {
        let named = types.into_iter().enumerate();
        Fields::own(named.map(|(at, ty)| (format!("f{}", at + 1), ty)))
    }

    /// The type of such rows.
    pub fn kind(&self) -> TypeKind {
        match self {
            Fields::Named(of) => TypeKind::Composite(*of),
            Fields::Own(_) => TypeKind::Record,
        }
    }

    /// The field of a name.
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
    /// A composite type, or `record`.
    pub const fn is_row(self) -> bool {
        matches!(self, TypeKind::Composite(_) | TypeKind::Record)
    }

    /// The composite type, if it is one.
    pub const fn as_composite(self) -> Option<Composite> {
        match self {
            TypeKind::Composite(of) => Some(of),
            _ => None,
        }
    }
}
