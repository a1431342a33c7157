//! Databases: clients connect to a database, and each database has definitions of its own.
//!
//! ```text
//! roles tree    the roles and the databases, which are common to all databases
//! database ───► tree of its definitions: tables, types, schemas …, separate for each database
//! ```
//! A new catalog has `template1`, `template0` and `postgres`, with PostgreSQL's oids. A catalog
//! from a version with a single database has none of them. The machine that opens it creates these
//! three, and the existing definitions belong to `postgres`.

use crate::pg_catalog::DATABASE_OID;

/// The oid of `template1`.
pub const TEMPLATE1_OID: u32 = 1;
/// The oid of `template0`.
pub const TEMPLATE0_OID: u32 = 4;

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseDef {
    /// The oid of the database.
    pub id: u32,
    /// The name of the database.
    pub name: String,
    /// The raw address of the root of the tree of its definitions.
    pub definitions: u64,
    /// IS_TEMPLATE: every role with CREATEDB may copy the database, and it cannot be dropped.
    pub is_template: bool,
    /// ALLOW_CONNECTIONS
    pub connects: bool,
    /// The largest number of concurrent sessions; -1 is unlimited.
    pub connections: i32,
    /// LC_COLLATE
    pub collate: String,
    /// LC_CTYPE
    pub ctype: String,
    /// ALTER DATABASE … SET: the settings with which its sessions start.
    pub settings: Vec<(String, String)>,
}

impl DatabaseDef {
    /// Returns a database with the defaults of CREATE DATABASE.
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

    /// Returns the databases of a new catalog, each with its comment.
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
