//! The catalog: definitions of tables, indexes and roles, stored in ordinary trees and changed by
//! ordinary transactions.

mod about;
pub mod acl;
mod alter;
mod collation;
mod database;
mod ddl;
mod def;
mod dependencies;
mod encode;
mod encode_routine;
mod extension;
mod guard;
pub mod outcomes;
mod partition;
mod partition_hierarchy;
mod reclaim;
mod routine;
mod rules;
mod security;
mod sequence;
mod snapshot;
mod statistics;
mod store;
pub mod temporary;
mod trigger;
mod user_type;
mod view;

pub use about::{DefaultAcl, Object, ObjectAttributes, ObjectKind};
pub use collation::Collation;
pub use database::{DatabaseDef, TEMPLATE0_OID, TEMPLATE1_OID};
pub use ddl::{Ddl, DdlKind, statements};
pub use def::{
    CATALOG_SCHEMA, CatalogView, ColumnDef, EXPRESSION, IndexColumn, IndexDef, IndexExpression,
    IndexKind, IndexMore, KeyOptions, Membership, PUBLIC_SCHEMA, Predicate, RoleDef, RoleSettings,
    SETTINGS_OF_ALL, TableDef,
};
pub use dependencies::Dependencies;
pub(crate) use encode::can_be_in_bounds;
pub use extension::ExtensionDef;
pub use guard::{GuardScope, Guards, all_guard, guard_table, guard_type, guard_view};
pub use outcomes::{Outcomes, TransactionOutcome};
pub use partition::{PARTITIONS_DEFAULT, PARTITIONS_MAX, Partitioning, Roots};
pub use partition_hierarchy::{
    Bound, ColumnConstraint, Edge, HierarchyPosition, Level, Member, PartitionKey, PartitionOf,
    Strategy, Tree, can_hash, hash_of,
};
pub use reclaim::{Garbage, GarbageKind, ReclaimList};
pub use routine::{
    ArgMode, Language, Parallel, Planning, PolymorphicInstance, RoutineArg, RoutineDef,
    RoutineKind, RoutineResult, columns_of_row, guard_routine,
};
pub use rules::{
    CheckDef, ColumnMore, ForeignKeyDef, Identity, Referential, Storage, TableRules, set_options,
};
pub use security::{CHECKPOINT, DATABASE_OWNER, SIGNAL_BACKEND, Security, denied, no_privilege};
pub use sequence::{SequenceDef, SequenceState, Steps, ValueRange};
pub use snapshot::Snapshot;
pub use statistics::StoredStatistics;
pub(crate) use store::FIRST_USER_OID;
pub use store::{Catalog, SUPERUSER_OID};
pub use trigger::{ConstraintTrigger, Event, Events, Timing, TriggerDef, TriggerState};
pub use user_type::{TypeDef, TypeSet, UserType, row_type};
pub use view::{CheckOption, Materialized, ViewDef, ViewMore};
