//! The extensions of a database, as the catalog defines them.

use super::about::Object;
use crate::extensions::{Extension, PLPGSQL};

/// The oid of plpgsql, the built-in extension.
const PLPGSQL_OID: u32 = 13575;

/// An extension.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionDef {
    /// The oid of the extension.
    pub id: u32,
    /// The name of the extension.
    pub name: String,
    /// The schema of its objects.
    pub schema: String,
    /// The installed version.
    pub version: String,
    /// The objects of the extension, by system catalog and oid. They are dropped with it and not
    /// without it.
    pub members: Vec<(u32, u32)>,
}

impl ExtensionDef {
    /// Returns plpgsql, which is not stored in the catalog.
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

    /// Returns whether the extension is built in.
    pub fn is_built_in(&self) -> bool {
        self.id == PLPGSQL_OID
    }

    /// Returns whether the object belongs to the extension.
    pub fn has(&self, object: Object) -> bool {
        self.members.contains(&object.key())
    }
}
