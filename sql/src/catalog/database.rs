//! Databases: what a client connects to, each with definitions of its own.
//!
//! ```text
//! roles tree    the roles and the databases, which all databases see
//! database ───► tree of its definitions: tables, types, schemas …, each database its own
//! ```
//! A fresh catalog has `template1`, `template0` and `postgres`, whose oids are PostgreSQL's. A catalog of before there
//! were several has none: whoever opens it makes these three, and what it has is of `postgres`.

use crate::pg_catalog::DATABASE_OID;

/// The oid of `template1`.
pub const TEMPLATE1_OID: u32 = 1;
/// The oid of `template0`.
pub const TEMPLATE0_OID: u32 = 4;

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseDef {
    /// Its oid.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The raw address of the root of the tree of its definitions.
    pub definitions: u64,
    /// IS_TEMPLATE: who may make databases may copy it, and nobody drops it.
    pub is_template: bool,
    /// ALLOW_CONNECTIONS
    pub connects: bool,
    /// Sessions that it may have at a time; -1 is any number.
    pub connections: i32,
    /// LC_COLLATE
    pub collate: String,
    /// LC_CTYPE
    pub ctype: String,
    /// ALTER DATABASE … SET: what its sessions begin with.
    pub settings: Vec<(String, String)>,
}

impl DatabaseDef {
    /// A database as CREATE DATABASE makes it where nothing else is said.
    pub fn new(id: u32, name: impl Into<String>) -> DatabaseDef {
        DatabaseDef {
            id,
            name: name.into(),
            definitions: 0,
            is_template: false,
            connects: true,
            connections: -1,
            collate: "C".to_owned(),
            ctype: "C".to_owned(),
            settings: Vec::new(),
        }
    }

    /// Those that a fresh catalog has, with what is said about each.
    pub(super) fn first() -> [(DatabaseDef, &'static str); 3] {
        let template = |id, name| DatabaseDef {
            is_template: true,
            ..DatabaseDef::new(id, name)
        };
        let unmodified = DatabaseDef {
            connects: false,
            ..template(TEMPLATE0_OID, "template0")
        };
        [
            (
                template(TEMPLATE1_OID, "template1"),
                "default template for new databases",
            ),
            (unmodified, "unmodifiable empty database"),
            (
                DatabaseDef::new(DATABASE_OID, "postgres"),
                "default administrative connection database",
            ),
        ]
    }
}
