//! citext, the case-insensitive text type of the extension of that name.
//!
//! A value keeps its original case. Comparisons, sorts, hashes and keys use [`folded`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use parking_lot::Mutex;

use crate::catalog::PUBLIC_SCHEMA;
use crate::functions::quote_ident;

/// The definition of the type in a database.
#[derive(Debug, PartialEq)]
pub struct CitextDef {
    /// The oid of the type.
    pub id: u32,
    /// The oid of the array type.
    pub array_id: u32,
    /// The name in the catalog.
    pub name: String,
    /// The name in messages: quoted if needed, and qualified unless the schema is `public`.
    pub display_name: String,
    /// The name of the array type in the catalog.
    pub array_name: String,
    /// The name of the array type in messages.
    pub array_display_name: String,
}

impl CitextDef {
    /// Creates the definition for a schema and name.
    pub fn named(id: u32, array_id: u32, (schema, name): (&str, &str)) -> CitextDef {
        let display_name = match schema {
            PUBLIC_SCHEMA => quote_ident(name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        };
        CitextDef {
            id,
            array_id,
            name: name.to_owned(),
            array_name: format!("_{name}"),
            array_display_name: format!("{display_name}[]"),
            display_name,
        }
    }
}

/// The citext type of a database. Two values are equal if their oids are, whatever the names.
#[derive(Clone, Copy)]
pub struct Citext(&'static CitextDef);

/// Every definition that the process has seen.
static DEFINITIONS: Mutex<Vec<&'static CitextDef>> = Mutex::new(Vec::new());

impl Citext {
    /// Returns the type for a definition, which is kept until the process ends.
    pub fn of(definition: CitextDef) -> Citext {
        let mut all = DEFINITIONS.lock();
        if let Some(same) = all.iter().find(|of| ***of == definition) {
            return Citext(same);
        }
        let interned: &'static CitextDef = Box::leak(Box::new(definition));
        all.push(interned);
        Citext(interned)
    }

    /// Returns the definition.
    pub const fn definition(self) -> &'static CitextDef {
        self.0
    }
}

/// Returns the folded text by which values are compared.
pub fn folded(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match text.bytes().all(plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.to_lowercase()),
    }
}

impl PartialEq for Citext {
    fn eq(&self, other: &Citext) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Citext {}

impl Hash for Citext {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialOrd for Citext {
    fn partial_cmp(&self, other: &Citext) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Citext {
    fn cmp(&self, other: &Citext) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// Plans are compared by this text across machines.
impl fmt::Debug for Citext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "citext {}", self.0.id)
    }
}
