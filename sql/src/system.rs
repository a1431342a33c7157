//! The system tables: rows about the state of the machines of a database. They are in the schema
//! `pg_catalog`, take no name from a user's table, and are read-only.

use crate::pg_catalog::Relation;
use crate::types::{Type, TypeKind};

/// A system table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemTable {
    /// `pg_fencepost_machines`: the machines of the configuration.
    Machines,
    /// `pg_fencepost_regions`: the regions and the machines that store them.
    Regions,
    /// `pg_fencepost_configurations`: the configuration, with failure domains in the order of the
    /// machines.
    Configurations,
    /// `pg_fencepost_reconfigurations`: the times of the steps of recent reconfigurations on the
    /// queried machine, in microseconds since the first step.
    Reconfigurations,
    /// `pg_fencepost_partitions`: the partitions of tables and the machines that store them.
    Partitions,
    /// `pg_fencepost_ddl`: the statements that recreate the schema without data. Superusers also
    /// see passwords.
    Ddl,
    /// A system catalog or view that PostgreSQL has.
    Catalog(&'static Relation),
}

impl SystemTable {
    const ALL: [SystemTable; 6] = [
        SystemTable::Machines,
        SystemTable::Regions,
        SystemTable::Configurations,
        SystemTable::Reconfigurations,
        SystemTable::Partitions,
        SystemTable::Ddl,
    ];

    /// Returns the table with this name, which is already folded to lower case.
    pub fn named(schema: Option<&str>, name: &str) -> Option<SystemTable> {
        if let Some(relation) = Relation::named(schema, name) {
            return Some(SystemTable::Catalog(relation));
        }
        if schema.is_some_and(|schema| schema != "pg_catalog") {
            return None;
        }
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            SystemTable::Machines => "pg_fencepost_machines",
            SystemTable::Regions => "pg_fencepost_regions",
            SystemTable::Configurations => "pg_fencepost_configurations",
            SystemTable::Reconfigurations => "pg_fencepost_reconfigurations",
            SystemTable::Partitions => "pg_fencepost_partitions",
            SystemTable::Ddl => "pg_fencepost_ddl",
            SystemTable::Catalog(relation) => relation.name,
        }
    }

    /// Returns the schema.
    pub const fn schema(self) -> &'static str {
        match self {
            SystemTable::Catalog(relation) => relation.schema,
            _ => "pg_catalog",
        }
    }

    /// Returns the oid; 0 for a table that PostgreSQL does not have.
    pub const fn oid(self) -> u32 {
        match self {
            SystemTable::Catalog(relation) => relation.oid,
            _ => 0,
        }
    }

    /// Returns the names and types of the columns.
    pub fn columns(self) -> &'static [(&'static str, Type)] {
        const BOOL: Type = Type::BOOL;
        const INT4: Type = Type::of(TypeKind::Int4);
        const INT8: Type = Type::of(TypeKind::Int8);
        const TEXT: Type = Type::of(TypeKind::Text);
        match self {
            SystemTable::Machines => &[
                ("machine", INT4),
                ("is_this", BOOL),
                ("is_manager", BOOL),
                ("is_reachable", BOOL),
                ("state", TEXT),
                ("regions", INT4),
                ("replicas", INT4),
                ("clock_uncertainty_us", INT8),
                ("memory_used", INT8),
                ("memory_limit", INT8),
            ],
            SystemTable::Regions => &[
                ("region", INT8),
                ("primary_machine", INT4),
                ("backups", TEXT),
            ],
            SystemTable::Configurations => &[
                ("configuration", INT8),
                ("machines", TEXT),
                ("manager", INT4),
                ("replicas", INT4),
                ("domains", TEXT),
            ],
            SystemTable::Reconfigurations => {
                &[("configuration", INT8), ("step", TEXT), ("after_us", INT8)]
            }
            SystemTable::Partitions => &[
                ("table_name", TEXT),
                ("partition", INT4),
                ("machine", INT4),
                ("region", INT8),
                ("root", INT8),
            ],
            SystemTable::Ddl => &[
                ("position", INT4),
                ("kind", TEXT),
                ("schema_name", TEXT),
                ("name", TEXT),
                ("statement", TEXT),
            ],
            SystemTable::Catalog(relation) => &relation.columns,
        }
    }
}
