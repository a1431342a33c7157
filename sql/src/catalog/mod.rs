//! The catalog: definitions of tables, indexes and roles, kept in ordinary trees and changed by
//! ordinary transactions.

mod alter;
mod ddl;
mod def;
mod encode;
mod guard;
pub mod outcomes;
mod partition;
mod rules;
mod sequence;
mod snapshot;
mod store;
mod view;

pub use ddl::{Ddl, statements};
pub use def::{
    CATALOG_SCHEMA, CatalogView, ColumnDef, IndexColumn, IndexDef, IndexKind, IndexMore,
    PUBLIC_SCHEMA, Predicate, RoleDef, TableDef,
};
pub use guard::{Guards, all_guard, guard_table};
pub use outcomes::{Ending, Outcomes};
pub use partition::{PARTITIONS_DEFAULT, PARTITIONS_MAX, Partitioning, Roots};
pub use rules::{CheckDef, ColumnMore, ForeignKeyDef, Identity, Referential, TableRules};
pub use sequence::{SequenceDef, Taken};
pub use snapshot::Snapshot;
pub use store::{Catalog, SUPERUSER_OID};
pub use view::ViewDef;
