//! `search_path`: the schemas in which unqualified names are looked up, and the schema of new
//! relations.

use std::sync::Arc;

use super::Binder;
use crate::bound::{AlterTypeAction, NamedObject, SequenceOptions, Statement};
use crate::catalog::acl::Privileges;
use crate::catalog::{
    CatalogView, DatabaseDef, ExtensionDef, Object, ObjectKind, PUBLIC_SCHEMA, RoleDef, RoutineDef,
    Security, SequenceDef, TableDef, TypeDef, ViewDef, temporary,
};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};

/// Returns the existing schemas of the setting, in order. The session's temporary schema comes
/// first, unless the setting contains it.
pub fn search_path(catalog: &dyn CatalogView, cx: &EvalContext) -> Vec<String> {
    let mut path = explicit_path(catalog, cx);
    if let Some(own) = cx.temporary_in(catalog)
        && !path.contains(&own)
    {
        path.insert(0, own);
    }
    path
}

/// Returns the existing schemas of the setting, in order.
pub fn explicit_path(catalog: &dyn CatalogView, cx: &EvalContext) -> Vec<String> {
    let setting = cx.settings.get("search_path").unwrap_or_default();
    let user = cx.current_user();
    let own = cx.temporary_in(catalog);
    let own = own.as_deref();
    let usable = usable(catalog, &user);
    let usable = |name: &str| own == Some(name) || usable(name);
    let named = setting.split(',').map(|part| {
        let part = part.trim();
        let quoted = part.strip_prefix('"').and_then(|p| p.strip_suffix('"'));
        let name = quoted.map_or_else(|| part.to_owned(), |p| p.replace("\"\"", "\""));
        match name.as_str() {
            "$user" => user.clone(),
            temporary::ALIAS => own.unwrap_or(temporary::ALIAS).to_owned(),
            // SET stores quoted names without their quotes.
            name if catalog.schema_exists(name) => name.to_owned(),
            name => name.to_ascii_lowercase(),
        }
    });
    let there = named.filter(|name| catalog.schema_exists(name));
    there.filter(|name| usable(name)).collect()
}

/// Returns a predicate for the schemas on which a role has USAGE.
fn usable(catalog: &dyn CatalogView, user: &str) -> impl Fn(&str) -> bool {
    let role = catalog.role(user).ok().flatten();
    let asked = catalog
        .security()
        .zip(role)
        .filter(|(_, role)| !role.superuser);
    move |name| {
        let Some((security, role)) = &asked else {
            return true;
        };
        let id = catalog.schema_oid(name).unwrap_or(0);
        let schema = Object::new(ObjectKind::Schema, id);
        let allowed = security.allowed(role.id, schema, Privileges::USAGE);
        !allowed.is_none()
    }
}

/// A view of the catalog in which unqualified names are looked up along a search path.
pub(crate) struct PathView<'a> {
    pub(crate) catalog: &'a dyn CatalogView,
    pub(crate) path: &'a [String],
}

impl PathView<'_> {
    /// Returns the schema that a name refers to: `pg_temp` is the temporary schema of the session.
    fn meant<'a>(&'a self, schema: &'a str) -> &'a str {
        let mut path = self.path.iter();
        let own = path.find(|schema| temporary::is_temporary(schema));
        match own.filter(|_| schema == temporary::ALIAS) {
            Some(own) => own,
            None => schema,
        }
    }

    fn find<T>(
        &self,
        schema: Option<&str>,
        find: impl Fn(&str) -> Result<Option<T>, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        if let Some(schema) = schema {
            return find(self.meant(schema));
        }
        for schema in self.path {
            if let Some(found) = find(schema)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl CatalogView for PathView<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TableDef>>, SqlError> {
        self.find(schema, |schema| self.catalog.table(Some(schema), name))
    }

    fn schema_exists(&self, name: &str) -> bool {
        self.catalog.schema_exists(name)
    }

    fn table_by_id(&self, id: u32) -> Result<Option<Arc<TableDef>>, SqlError> {
        self.catalog.table_by_id(id)
    }

    fn table_of_index(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>, SqlError> {
        self.find(schema, |schema| {
            self.catalog.table_of_index(Some(schema), name)
        })
    }

    fn sequence(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        self.find(schema, |schema| self.catalog.sequence(Some(schema), name))
    }

    fn sequence_by_id(&self, id: u32) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        self.catalog.sequence_by_id(id)
    }

    fn view(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<ViewDef>>, SqlError> {
        self.find(schema, |schema| self.catalog.view(Some(schema), name))
    }

    fn views_of(&self, id: u32) -> Vec<Arc<ViewDef>> {
        self.catalog.views_of(id)
    }

    fn routines(&self, schema: Option<&str>, name: &str) -> Vec<Arc<RoutineDef>> {
        if let Some(schema) = schema {
            return self.catalog.routines(Some(self.meant(schema)), name);
        }
        let of = |schema: &String| self.catalog.routines(Some(schema), name);
        // As in PostgreSQL, an unqualified function name is never looked up in the temporary
        // schema.
        let path = self.path.iter();
        let path = path.filter(|schema| !temporary::is_temporary(schema));
        path.flat_map(of).collect()
    }

    fn routine_by_id(&self, id: u32) -> Option<Arc<RoutineDef>> {
        self.catalog.routine_by_id(id)
    }

    fn user_type(&self, schema: Option<&str>, name: &str) -> Option<Arc<TypeDef>> {
        self.find(schema, |schema| {
            Ok(self.catalog.user_type(Some(schema), name))
        })
        .unwrap_or_default()
    }

    fn user_type_by_id(&self, id: u32) -> Option<Arc<TypeDef>> {
        self.catalog.user_type_by_id(id)
    }

    fn role(&self, name: &str) -> Result<Option<Arc<RoleDef>>, SqlError> {
        self.catalog.role(name)
    }

    fn database_named(&self, name: &str) -> Option<Arc<DatabaseDef>> {
        self.catalog.database_named(name)
    }

    fn extension_named(&self, name: &str) -> Option<Arc<ExtensionDef>> {
        self.catalog.extension_named(name)
    }

    fn schema_oid(&self, name: &str) -> Option<u32> {
        self.catalog.schema_oid(name)
    }

    fn objects_in(&self, schema: &str) -> Vec<NamedObject> {
        self.catalog.objects_in(schema)
    }

    fn security(&self) -> Option<&Security> {
        self.catalog.security()
    }
}

impl Binder<'_> {
    /// Returns the schema in which a new relation is created.
    pub(super) fn schema_for(&self, given: Option<String>) -> Result<String, SqlError> {
        match given {
            Some(name) if name == temporary::ALIAS => Ok(self.cx.temporary_schema()),
            Some(name) if name == self.cx.temporary_schema() => Ok(name),
            Some(name) if temporary::is_temporary(&name) => Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "cannot create relations in temporary schemas of other sessions",
            )),
            Some(name) if self.catalog.schema_exists(&name) => Ok(name),
            Some(name) => Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{name}\" does not exist"),
            )),
            None => self.new_schema().ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    "no schema has been selected to create in",
                )
            }),
        }
    }

    /// Returns the schema in which a relation with an unqualified name is created.
    fn new_schema(&self) -> Option<String> {
        let mut path = self.path.iter();
        let first = self.path.first()?;
        let explicit = || explicit_path(self.catalog, self.cx).first() == Some(first);
        match temporary::is_temporary(first) && !explicit() {
            true => path.find(|schema| !temporary::is_temporary(schema)),
            false => Some(first),
        }
        .cloned()
    }

    /// Returns the schema in which a temporary relation is created.
    pub(super) fn schema_for_temporary(&self, given: Option<String>) -> Result<String, SqlError> {
        match given {
            Some(name) if self.schema_for(Some(name.clone()))? != self.cx.temporary_schema() => {
                Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    "cannot create temporary relation in non-temporary schema",
                ))
            }
            _ => Ok(self.cx.temporary_schema()),
        }
    }

    /// Checks that a named schema exists; 3F000 if it does not exist and `may_miss` is false. The
    /// schemas of the system always exist.
    pub(super) fn check_schema(
        &self,
        schema: Option<&str>,
        may_miss: bool,
    ) -> Result<(), SqlError> {
        match schema {
            Some(name) if !may_miss && !name.starts_with("pg_") && name != "information_schema" => {
                self.schema_for(Some(name.to_owned())).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Completes a statement that the parser has bound already, except for the schemas of its
    /// names.
    pub(super) fn ready(&self, ready: &Statement) -> Result<Statement, SqlError> {
        let mut statement = ready.clone();
        let along = |schema: &mut Option<String>, name: &str| -> Result<(), SqlError> {
            if schema.is_none()
                && let Some(found) = self.catalog.sequence(None, name)?
            {
                *schema = Some(found.schema.clone());
            }
            Ok(())
        };
        let owned = |options: &mut SequenceOptions| -> Result<(), SqlError> {
            let Some(Some((schema @ None, table, _))) = &mut options.owner else {
                return Ok(());
            };
            let Some(found) = self.catalog.table(None, table)? else {
                let message = format!("relation \"{table}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            };
            *schema = Some(found.schema.clone());
            Ok(())
        };
        match &mut statement {
            Statement::CreateSequence(create) => {
                create.schema = Some(self.schema_for(create.schema.take())?);
                owned(&mut create.options)?;
            }
            Statement::AlterSequence(alter) => {
                along(&mut alter.schema, &alter.name)?;
                owned(&mut alter.options)?;
            }
            Statement::DropSequence(drop) => {
                for (schema, name) in &mut drop.names {
                    self.check_schema(schema.as_deref(), drop.if_exists)?;
                    along(schema, name)?;
                }
            }
            Statement::CreateEnum(create) => {
                create.schema = Some(self.schema_for(create.schema.take())?);
            }
            Statement::AlterType(alter) => {
                let ty = self.type_named(alter.schema.as_deref(), &alter.name)?;
                alter.schema = Some(ty.schema.clone());
                if let AlterTypeAction::SetSchema(to) = &alter.action {
                    self.schema_for(Some(to.clone()))?;
                }
            }
            Statement::DropType(drop) => {
                let said = (drop.if_exists, drop.domain);
                for (schema, name) in &mut drop.names {
                    self.check_schema(schema.as_deref(), drop.if_exists)?;
                    match self.catalog.user_type(schema.as_deref(), name) {
                        Some(ty) if drop.domain && ty.as_domain().is_none() => {
                            return Err(super::domain::not_a_domain(&format!("\"{name}\"")));
                        }
                        Some(ty) => *schema = Some(ty.schema.clone()),
                        None => self.check_missing_type(schema.as_deref(), name, said)?,
                    }
                }
            }
            Statement::CreateExtension(create) if create.schema.is_none() => {
                create.schema = self.new_schema();
            }
            _ => {}
        }
        Ok(statement)
    }
}

/// Returns whether the path is the one that the catalog uses by itself: `public` alone.
pub(super) fn is_plain(path: &[String]) -> bool {
    matches!(path, [only] if only == PUBLIC_SCHEMA)
}
