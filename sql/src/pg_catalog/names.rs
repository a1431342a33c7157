//! The names and oids of objects.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{Relation, types};
use crate::binder::{search_path, type_for};
use crate::catalog::{CATALOG_SCHEMA, CatalogView, PUBLIC_SCHEMA, RoleDef, Snapshot};
use crate::context::EvalContext;
use crate::functions::quote_ident;

/// The oid of the schema `pg_catalog`.
pub const PG_CATALOG_NAMESPACE: u32 = 11;
/// The oid of the schema `public`.
pub const PUBLIC_NAMESPACE: u32 = 2200;
/// The oid of `information_schema`.
pub const INFORMATION_NAMESPACE: u32 = 13207;

/// Returns the schemas and their oids.
pub fn namespaces(snapshot: &Snapshot) -> Vec<(u32, String)> {
    let system = [
        (PG_CATALOG_NAMESPACE, CATALOG_SCHEMA),
        (PUBLIC_NAMESPACE, PUBLIC_SCHEMA),
        (INFORMATION_NAMESPACE, "information_schema"),
    ];
    let there = |(oid, _): &(u32, &str)| *oid != PUBLIC_NAMESPACE || snapshot.has_first_public();
    let system = system.into_iter().filter(there);
    let system = system.map(|(oid, name)| (oid, name.to_owned()));
    let own = snapshot.schemas().into_iter();
    system.chain(own.map(|(name, oid)| (oid, name))).collect()
}

/// Returns the oid of a schema.
pub fn namespace_oid(snapshot: &Snapshot, name: &str) -> Option<u32> {
    let mut all = namespaces(snapshot).into_iter();
    all.find(|(_, of)| of == name).map(|(oid, _)| oid)
}

/// Returns the name of a schema.
pub fn namespace_name(snapshot: &Snapshot, oid: u32) -> Option<String> {
    let mut all = namespaces(snapshot).into_iter();
    all.find(|(of, _)| *of == oid).map(|(_, name)| name)
}

/// Returns the oid of a table, an index or a system relation.
pub fn relation_oid(snapshot: &Snapshot, schema: Option<&str>, name: &str) -> Option<u32> {
    if let Some(relation) = Relation::named(schema, name) {
        return Some(relation.oid);
    }
    if let Some(table) = snapshot.table(schema, name).ok()? {
        return Some(table.id);
    }
    if let Some(view) = snapshot.view(schema, name).ok()? {
        return Some(view.id);
    }
    if let Some(sequence) = snapshot.sequence(schema, name).ok()? {
        return Some(sequence.id);
    }
    let ty = snapshot.user_type(schema, name);
    if let Some(of) = ty.and_then(|ty| ty.as_composite()) {
        return Some(of.definition().relation);
    }
    let table = snapshot.table_of_index(schema, name).ok()??;
    table.index(name).map(|index| index.id)
}

/// Returns the schema and name of a relation.
pub fn relation_name(snapshot: &Snapshot, oid: u32) -> Option<(String, String)> {
    let mut of_catalog = Relation::all().iter();
    if let Some(relation) = of_catalog.find(|relation| relation.oid == oid) {
        return Some((relation.schema.to_owned(), relation.name.to_owned()));
    }
    if let Some(view) = snapshot.views().find(|view| view.id == oid) {
        return Some((view.schema.clone(), view.name.clone()));
    }
    if let Some(sequence) = snapshot.sequences().find(|sequence| sequence.id == oid) {
        return Some((sequence.schema.clone(), sequence.name.clone()));
    }
    let types = snapshot.types().all();
    let composite = types.iter().find(|ty| {
        let of = ty.as_composite();
        of.is_some_and(|of| of.definition().relation == oid)
    });
    if let Some(ty) = composite {
        return Some((ty.schema.clone(), ty.name.clone()));
    }
    let table = snapshot.relation(oid)?;
    let mut indexes = table.indexes.iter();
    let name = match indexes.find(|index| index.id == oid) {
        Some(index) => &index.name,
        None => &table.name,
    };
    Some((table.schema.clone(), name.clone()))
}

/// Returns the oid of a type by its SQL or catalog name, along the search path.
pub fn type_oid(snapshot: &Snapshot, name: &str, cx: &EvalContext) -> Option<u32> {
    if let Some(oid) = types::by_name(name) {
        return Some(oid);
    }
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).ok()?;
    let written = parser.parse_data_type().ok()?;
    let ty = type_for(&written, snapshot, cx).ok()?;
    Some(ty.oid())
}

/// Returns the SQL name of a type, qualified if its schema is not on the search path.
pub fn type_name(snapshot: &Snapshot, oid: u32, cx: &EvalContext) -> Option<String> {
    let Some(ty) = snapshot.type_by_id(oid) else {
        return types::sql_name(oid);
    };
    let mut name = quote_ident(&ty.name);
    if !search_path(snapshot, cx).contains(&ty.schema) {
        name = format!("{}.{name}", quote_ident(&ty.schema));
    }
    if ty.id != oid {
        name += "[]";
    }
    Some(name)
}

/// Returns the oid of a role.
pub fn role_oid(snapshot: &Snapshot, name: &str) -> Option<u32> {
    let role = snapshot.role(name).ok()??;
    Some(role.id)
}

/// Returns the name of a role.
pub fn role_name(snapshot: &Snapshot, oid: u32) -> Option<String> {
    let roles = snapshot.roles();
    let of = |role: &&std::sync::Arc<RoleDef>| role.id == oid;
    roles.iter().find(of).map(|role| role.name.clone())
}
