//! The schemas `pg_catalog` and `information_schema`: the catalog as PostgreSQL's clients query it.
//!
//! # Picture
//! ```text
//! relations.txt ─► relation.rs     the relations and their columns
//! Snapshot ──────► objects.rs      pg_class, pg_description
//!      attributes.rs  pg_attribute, pg_attrdef
//!      constraints.rs pg_constraint
//!      indexes.rs     pg_index
//!      sequences.rs   pg_sequence
//! types.txt ─────► types.rs        pg_type
//!      builtin/       pg_proc of pg_catalog, pg_operator, pg_cast, pg_aggregate, operator classes
//!      partition_hierarchy.rs  partitioned tables and partitions
//!      depend/        pg_depend, pg_shdepend, pg_rewrite
//!      routines.rs    pg_proc of user-defined functions
//!      triggers.rs    pg_trigger
//!      user_types.rs  the user-defined types of pg_type, pg_enum
//!      server.rs      namespaces, roles, databases, settings, access methods and similar
//!      privileges.rs  owners, privileges, comments
//!      grants.rs      privileges in information_schema
//!      extensions.rs  pg_extension, pg_available_extensions
//!      views.rs       pg_tables, pg_indexes
//!      information.rs information_schema
//!      names.rs       names and oids of objects
//!      definition_text.rs  definitions as SQL
//!      definitions.rs expressions and queries in definitions
//!      standard.rs    more of information_schema: routines, usage of types
//! ```
//! These relations store nothing: their rows are computed from a catalog snapshot on request. A
//! relation without rows here concerns a feature that does not exist, and is empty. Objects that
//! PostgreSQL has have PostgreSQL's oids. The oids of user objects begin at 16384.

mod attributes;
mod builtin;
pub mod class;
mod column_statistics;
mod constraints;
mod definition_text;
mod definitions;
mod depend;
mod extensions;
mod grants;
mod indexes;
mod information;
mod names;
mod objects;
mod partition_hierarchy;
mod privileges;
mod relation;
mod routines;
mod rows;
mod sequences;
mod server;
mod standard;
mod triggers;
mod types;
mod user_types;
mod view_text;
mod views;

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::Snapshot;
use crate::context::EvalContext;
use crate::cursors::CursorInfo;
use crate::statements::NamedStatement;
use crate::value::Value;

pub use attributes::collation;
pub use builtin::{Operator, Procedure};
pub use definition_text::{Constraint, index_column, index_definition, without_parentheses};
pub(crate) use definition_text::{look, with_options};
pub use definitions::{expression as deparsed_expression, reader, view_definition};
pub use names::{
    INFORMATION_NAMESPACE, PG_CATALOG_NAMESPACE, PUBLIC_NAMESPACE, namespace_name, namespace_oid,
    relation_name, relation_oid, role_name, role_oid, type_name, type_oid,
};
pub use objects::comment;
pub use partition_hierarchy::{
    bound_text, edges_text, partition_bound, partition_constraint, partition_key,
};
pub use privileges::{acl_value, comment as comment_on};
pub use relation::Relation;
pub use routines::{routine_arguments, routine_definition, routine_result};
pub use rows::Rows;
pub(crate) use sequences::SEQUENCE_COLUMNS;
pub use sequences::{serial_sequence, takes_values_of};
pub use server::{DATABASE_OID, collation_name, collation_oid};
pub use triggers::{trigger_comment, trigger_definition};
pub use user_types::{domain_check, domain_check_text};
pub use view_text::view_text;

/// The inputs from which rows are computed.
pub struct RowInputs<'a> {
    /// The catalog as the querying transaction sees it.
    pub snapshot: &'a Snapshot,
    /// The evaluation context of the session.
    pub cx: &'a EvalContext,
    /// The name of the database.
    pub database: &'a str,
    /// The cursors of the session.
    pub cursors: &'a [CursorInfo],
    /// The prepared statements of the session.
    pub prepared: &'a HashMap<Box<str>, Arc<dyn NamedStatement>>,
}

/// Returns all rows of a relation.
pub fn rows(relation: &'static Relation, around: &RowInputs<'_>) -> Vec<Vec<Value>> {
    let mut rows = rows::Rows::of(relation);
    let make: fn(&mut rows::Rows, &RowInputs<'_>) = match (relation.schema, relation.name) {
        ("pg_catalog", "pg_class") => objects::classes,
        ("pg_catalog", "pg_attribute") => attributes::attributes,
        ("pg_catalog", "pg_attrdef") => attributes::defaults,
        ("pg_catalog", "pg_stats") => column_statistics::columns,
        ("pg_catalog", "pg_index") => indexes::indexes,
        ("pg_catalog", "pg_constraint") => constraints::constraints,
        ("pg_catalog", "pg_sequence") => sequences::sequences,
        ("pg_catalog", "pg_trigger") => triggers::triggers,
        ("pg_catalog", "pg_partitioned_table") => partition_hierarchy::partitioned_tables,
        ("pg_catalog", "pg_inherits") => partition_hierarchy::inherits,
        ("pg_catalog", "pg_depend") => depend::dependencies,
        ("pg_catalog", "pg_shdepend") => depend::shared_dependencies,
        ("pg_catalog", "pg_rewrite") => depend::rules,
        ("pg_catalog", "pg_description") => |rows, around| {
            objects::descriptions(rows, around);
            privileges::descriptions(rows, around);
        },
        ("pg_catalog", "pg_shdescription") => privileges::shared_descriptions,
        ("pg_catalog", "pg_auth_members") => privileges::members,
        ("pg_catalog", "pg_group") => privileges::groups,
        ("pg_catalog", "pg_default_acl") => privileges::defaults,
        ("pg_catalog", "pg_init_privs") => privileges::initial,
        ("pg_catalog", "pg_type") => types::types,
        ("pg_catalog", "pg_enum") => user_types::enums,
        ("pg_catalog", "pg_namespace") => server::namespaces,
        ("pg_catalog", "pg_roles") => server::roles,
        ("pg_catalog", "pg_authid") => server::authenticated,
        ("pg_catalog", "pg_user") => server::users,
        ("pg_catalog", "pg_shadow") => server::shadows,
        ("pg_catalog", "pg_timezone_names") => server::zones,
        ("pg_catalog", "pg_database") => server::databases,
        ("pg_catalog", "pg_db_role_setting") => server::database_settings,
        ("pg_catalog", "pg_tablespace") => server::tablespaces,
        ("pg_catalog", "pg_cursors") => server::cursors,
        ("pg_catalog", "pg_prepared_statements") => server::prepared_statements,
        ("pg_catalog", "pg_settings") => server::settings,
        ("pg_catalog", "pg_am") => server::access_methods,
        ("pg_catalog", "pg_language") => server::languages,
        ("pg_catalog", "pg_collation") => server::collations,
        ("pg_catalog", "pg_extension") => extensions::extensions,
        ("pg_catalog", "pg_available_extensions") => extensions::available,
        ("pg_catalog", "pg_available_extension_versions") => extensions::versions,
        ("pg_catalog", "pg_proc") => |rows, around| {
            builtin::functions(rows, around);
            routines::functions(rows, around);
        },
        ("pg_catalog", "pg_operator") => builtin::operators,
        ("pg_catalog", "pg_opfamily") => builtin::families,
        ("pg_catalog", "pg_opclass") => builtin::classes,
        ("pg_catalog", "pg_amop") => builtin::class_operators,
        ("pg_catalog", "pg_amproc") => builtin::class_functions,
        ("pg_catalog", "pg_cast") => builtin::casts,
        ("pg_catalog", "pg_aggregate") => builtin::aggregates,
        ("pg_catalog", "pg_tables") => views::tables,
        ("pg_catalog", "pg_indexes") => views::indexes,
        ("pg_catalog", "pg_views") => views::views,
        ("pg_catalog", "pg_matviews") => views::materialized,
        ("pg_catalog", "pg_sequences") => views::sequences,
        ("information_schema", "schemata") => information::schemata,
        ("information_schema", "tables") => information::tables,
        ("information_schema", "columns") => information::columns,
        ("information_schema", "domains") => information::domains,
        ("information_schema", "domain_constraints") => information::domain_constraints,
        ("information_schema", "views") => information::views,
        ("information_schema", "sequences") => information::sequences,
        ("information_schema", "table_constraints") => information::table_constraints,
        ("information_schema", "key_column_usage") => information::key_column_usage,
        ("information_schema", "constraint_column_usage") => information::constraint_column_usage,
        ("information_schema", "check_constraints") => information::check_constraints,
        ("information_schema", "referential_constraints") => information::referential_constraints,
        ("information_schema", "information_schema_catalog_name") => information::catalog_name,
        ("information_schema", "triggers") => triggers::information,
        ("information_schema", "applicable_roles") => grants::applicable,
        ("information_schema", "column_privileges" | "role_column_grants") => grants::columns,
        ("information_schema", "table_privileges" | "role_table_grants") => grants::tables,
        ("information_schema", "routine_privileges" | "role_routine_grants") => grants::routines,
        ("information_schema", "usage_privileges" | "role_usage_grants") => grants::usage,
        ("information_schema", "enabled_roles") => information::enabled_roles,
        ("information_schema", "routines") => standard::routines,
        ("information_schema", "parameters") => standard::parameters,
        ("information_schema", "attributes") => standard::attributes,
        ("information_schema", "user_defined_types") => standard::composites,
        ("information_schema", "column_udt_usage") => standard::column_types,
        ("information_schema", "column_domain_usage") => standard::column_domains,
        ("information_schema", "element_types") => standard::elements,
        ("information_schema", "view_table_usage") => standard::view_tables,
        ("information_schema", "character_sets") => standard::character_sets,
        ("information_schema", "collations") => standard::collations,
        _ => return Vec::new(),
    };
    make(&mut rows, around);
    rows.made
}

#[cfg(test)]
mod tests;
