//! The catalog: definitions of tables, indexes and roles, kept in ordinary trees and changed by
//! ordinary transactions.

mod def;
mod encode;
mod snapshot;
mod store;

pub use def::{
    CATALOG_SCHEMA, CatalogView, ColumnDef, IndexColumn, IndexDef, IndexKind, PUBLIC_SCHEMA,
    RoleDef, TableDef,
};
pub use snapshot::Snapshot;
pub use store::{Catalog, SUPERUSER_OID, guard_table};
