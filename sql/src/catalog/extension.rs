//! Extensions that a database has, as the catalog has them.

use super::about::Object;
use crate::extensions::{Extension, PLPGSQL};

/// The oid of the extension that is there from the start.
const PLPGSQL_OID: u32 = 13575;

/// An extension.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionDef {
    /// Its oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The schema that its objects are in.
    pub schema: String,
    /// Its version.
    pub version: String,
    /// Its objects, by class and oid: they go with it and not without it.
    pub members: Vec<(u32, u32)>,
}

impl ExtensionDef {
    /// plpgsql, which no catalog stores.
    pub(super) fn plpgsql() -> Option<ExtensionDef> {
        let of = Extension::named(PLPGSQL)?;
        Some(ExtensionDef {
            id: PLPGSQL_OID,
            name: of.name.to_owned(),
            schema: of.schema.unwrap_or_default().to_owned(),
            version: of.version.to_owned(),
            members: Vec::new(),
        })
    }

    /// Is it there from the start?
    pub fn is_built_in(&self) -> bool {
        self.id == PLPGSQL_OID
    }

    /// Is the object one of its?
    pub fn has(&self, object: Object) -> bool {
        self.members.contains(&object.key())
    }
}
