//! GRANT, REVOKE, ALTER … OWNER TO and COMMENT ON: the objects that the statements name.

use super::{Binder, names};
use crate::bound::{
    AlterAction, AlterOwner, AlterTable, Comment, Grant, NamedObject, RenameView, SetSchema,
    Statement,
};
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind, RoutineKind};
use crate::error::{SqlError, SqlState};
use crate::parser::{
    GrantSyntax, GrantTargets, ObjectName, RoutineName, SecuritySyntax, privilege_of,
};
use crate::pg_catalog::{Constraint, Procedure, Relation};
use crate::types::Type;

impl Binder<'_> {
    pub(super) fn security(&mut self, syntax: &SecuritySyntax) -> Result<Statement, SqlError> {
        match syntax {
            SecuritySyntax::Grant(grant) => self.grant(grant),
            SecuritySyntax::Owner {
                object,
                if_exists,
                to,
            } => {
                let found = self.object_if_there(object, *if_exists)?;
                let qualified =
                    names::qualified_name(object.name.schema.as_deref(), &object.name.name);
                Ok(Statement::AlterOwner(AlterOwner {
                    object: found,
                    name: (object.kind, qualified),
                    to: to.clone(),
                }))
            }
            SecuritySyntax::Schema {
                object,
                if_exists,
                to,
                tag,
            } => {
                let found = self.object_if_there(object, *if_exists)?;
                self.schema_oid(to)?;
                Ok(Statement::SetSchema(SetSchema {
                    object: found,
                    name: names::qualified_name(object.name.schema.as_deref(), &object.name.name),
                    to: to.clone(),
                    tag,
                }))
            }
            SecuritySyntax::RenameView {
                object,
                if_exists,
                column,
                to,
            } => {
                let found = self.object_if_there(object, *if_exists)?;
                Ok(Statement::RenameView(RenameView {
                    object: found,
                    name: names::qualified_name(object.name.schema.as_deref(), &object.name.name),
                    column: column.clone(),
                    to: to.clone(),
                }))
            }
            SecuritySyntax::Comment { object, part, text } => {
                self.comment(object, part.as_deref(), text.as_deref())
            }
        }
    }

    /// Returns the named object; `None` if it does not exist and `if_exists` is set.
    fn object_if_there(
        &mut self,
        of: &ObjectName,
        if_exists: bool,
    ) -> Result<Option<NamedObject>, SqlError> {
        match self.object(of) {
            Ok(found) => Ok(Some(found)),
            Err(missing) if if_exists && missing.sqlstate() == SqlState::UNDEFINED_TABLE => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the object of this name.
    fn object(&mut self, of: &ObjectName) -> Result<NamedObject, SqlError> {
        let RoutineName { schema, name, .. } = &of.name;
        let found = |kind, id, name: &str| {
            Ok(NamedObject {
                object: Object::new(kind, id),
                name: name.to_owned(),
            })
        };
        match of.kind {
            ObjectKind::Function | ObjectKind::Procedure => {
                let kind = match of.kind {
                    ObjectKind::Procedure => Some(RoutineKind::Procedure),
                    _ => None,
                };
                match self.named_routine(&of.name, kind)? {
                    Ok(routine) => found(routine.kind.into(), routine.id, &routine.name),
                    Err(_) if self.is_built_in(&of.name)? => Err(SqlError::unsupported(format!(
                        "changing the built-in function \"{name}\""
                    ))),
                    Err(missing) => Err(missing),
                }
            }
            ObjectKind::Schema => {
                let schema = self.schema_oid(name)?;
                found(ObjectKind::Schema, schema, name)
            }
            ObjectKind::Type => {
                let ty = self.type_named(schema.as_deref(), name)?;
                found(ObjectKind::Type, ty.id, &ty.name)
            }
            ObjectKind::Database => match self.catalog.database_named(name) {
                Some(database) => found(ObjectKind::Database, database.id, name),
                None => Err(SqlError::new(
                    SqlState::INVALID_CATALOG_NAME,
                    format!("database \"{name}\" does not exist"),
                )),
            },
            ObjectKind::Role => match self.catalog.role(name)? {
                Some(role) => found(ObjectKind::Role, role.id, name),
                None => Err(no_role(name)),
            },
            ObjectKind::Extension => match self.catalog.extension_named(name) {
                Some(extension) => found(ObjectKind::Extension, extension.id, name),
                None => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("extension \"{name}\" does not exist"),
                )),
            },
            ObjectKind::Index => {
                let Some(table) = self.catalog.table_of_index(schema.as_deref(), name)? else {
                    return Err(names::no_relation(schema.as_deref(), name));
                };
                let index = table.index(name).map_or(0, |index| index.id);
                found(ObjectKind::Index, index, name)
            }
            _ => self.relation_object(of),
        }
    }

    /// Returns the table, view or sequence of this name.
    fn relation_object(&mut self, of: &ObjectName) -> Result<NamedObject, SqlError> {
        let (schema, name) = (of.name.schema.as_deref(), of.name.name.as_str());
        let is_system = Relation::named(schema, name).is_some();
        if !is_system {
            self.check_schema(schema, false)?;
        }
        let relation = match self.catalog.table(schema, name)? {
            Some(table) => Some((ObjectKind::Table, table.id)),
            None => match self.catalog.view(schema, name)? {
                Some(view) => Some((ObjectKind::View, view.id)),
                None => {
                    let sequence = self.catalog.sequence(schema, name)?;
                    sequence.map(|sequence| (ObjectKind::Sequence, sequence.id))
                }
            },
        };
        match relation {
            Some((kind, _)) if is_other(of.kind, kind) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a {}", of.kind.name()),
            )),
            Some((kind, id)) => Ok(NamedObject {
                object: Object::new(kind, id),
                name: name.to_owned(),
            }),
            None if is_system => Err(SqlError::unsupported(format!(
                "changing the system relation \"{name}\""
            ))),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!(
                    "relation \"{}\" does not exist",
                    names::qualified_name(schema, name)
                ),
            )),
        }
    }

    /// Returns whether a name, with the types of its arguments if it has any, is that of a built-in
    /// function.
    fn is_built_in(&mut self, name: &RoutineName) -> Result<bool, SqlError> {
        if name.schema.as_deref().is_some_and(|of| of != "pg_catalog") {
            return Ok(false);
        }
        let Some(args) = &name.args else {
            return Ok(Procedure::named(&name.name).next().is_some());
        };
        let mut types = Vec::with_capacity(args.len());
        for arg in args.iter().filter(|arg| arg.mode.is_input()) {
            types.push(Type::of(self.value_type(&arg.ty)?.kind).oid());
        }
        Ok(Procedure::named(&name.name).any(|of| of.args == types))
    }

    /// Returns the oid of a schema; 3F000 if it does not exist.
    fn schema_oid(&self, name: &str) -> Result<u32, SqlError> {
        self.catalog.schema_oid(name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{name}\" does not exist"),
            )
        })
    }

    fn grant(&mut self, grant: &GrantSyntax) -> Result<Statement, SqlError> {
        let mut objects = Vec::new();
        match &grant.objects {
            GrantTargets::Named(list) => {
                for name in list {
                    let found = self.object(name)?;
                    if !objects.contains(&found) {
                        objects.push(found);
                    }
                }
            }
            GrantTargets::AllIn(kind, other, schemas) => {
                for schema in schemas {
                    self.schema_oid(schema)?;
                    let all = self.catalog.objects_in(schema);
                    let wanted = |of: &NamedObject| {
                        of.object.kind == *kind || Some(of.object.kind) == *other
                    };
                    objects.extend(all.into_iter().filter(wanted));
                }
            }
        }
        // An empty list of objects still has an object kind, which determines the valid privileges.
        let of_all = match &grant.objects {
            GrantTargets::AllIn(kind, ..) => *kind,
            GrantTargets::Named(_) => ObjectKind::Table,
        };
        let mut privileges = Vec::with_capacity(grant.privileges.len());
        if grant.privileges.is_empty() {
            privileges.push((None, Vec::new()));
        }
        for (name, columns) in &grant.privileges {
            let mut one = None;
            if !name.is_empty() {
                let kinds = objects.iter().map(|of| of.object.kind);
                let mut last = None;
                for kind in kinds {
                    last = Some(privilege_of(kind, name)?);
                }
                one = match last {
                    Some(one) => Some(one),
                    None => Some(privilege_of(of_all, name)?),
                };
            }
            let of_columns = one.unwrap_or(ObjectKind::OF_COLUMNS);
            if !columns.is_empty() && !ObjectKind::OF_COLUMNS.has(of_columns) {
                return Err(SqlError::new(
                    SqlState::new(b"0LP01"),
                    format!(
                        "invalid privilege type {} for column",
                        name.to_ascii_uppercase()
                    ),
                ));
            }
            privileges.push((one, columns.clone()));
        }
        Ok(Statement::Grant(Box::new(Grant {
            revoke: grant.revoke,
            option: grant.option,
            privileges: merged(privileges),
            objects,
            grantees: grant.grantees.clone(),
            cascade: grant.cascade,
            by: grant.by.clone(),
        })))
    }

    fn comment(
        &mut self,
        of: &ObjectName,
        part: Option<&str>,
        text: Option<&str>,
    ) -> Result<Statement, SqlError> {
        let RoutineName { schema, name, .. } = &of.name;
        let text = text.map(str::to_owned);
        if of.kind == ObjectKind::Constraint {
            let table = self.table_called(schema.as_deref(), name)?;
            let wanted = part.unwrap_or_default();
            let mut all = Constraint::all(&table);
            let Some(found) = all.find(|constraint| constraint.name() == wanted) else {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!(
                        "constraint \"{wanted}\" for table \"{}\" does not exist",
                        table.name
                    ),
                ));
            };
            return Ok(Statement::Comment(Comment {
                object: NamedObject {
                    object: Object::new(ObjectKind::Constraint, found.id()),
                    name: table.name.clone(),
                },
                of: Object::new(ObjectKind::Table, table.id),
                column: 0,
                text,
            }));
        }
        let found = self.object(of)?;
        if found.object.kind == ObjectKind::Table {
            let table = self.table_called(schema.as_deref(), name)?;
            let missing = |part: &str| names::no_column_of(part, &table.name);
            let column = match part {
                Some(part) => Some(table.column(part).ok_or_else(|| missing(part))?),
                None => None,
            };
            return Ok(Statement::AlterTable(AlterTable {
                later: Vec::new(),
                materialized: false,
                name: table.name.clone(),
                table: Some(table),
                only: false,
                actions: vec![AlterAction::Comment { column, text }],
            }));
        }
        let mut column = 0;
        if let Some(part) = part {
            let view = self.catalog.view(schema.as_deref(), name)?;
            let Some(view) = view else {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot comment on columns of \"{name}\""),
                ));
            };
            let at = view.columns.iter().position(|(of, _)| of == part);
            let at = at.ok_or_else(|| names::no_column_of(part, name))?;
            column = i16::try_from(at + 1).unwrap_or(i16::MAX);
        }
        let owner = match found.object.kind {
            ObjectKind::Index => {
                let table = self.catalog.table_of_index(schema.as_deref(), name)?;
                table.map_or(found.object, |table| {
                    Object::new(ObjectKind::Table, table.id)
                })
            }
            _ => found.object,
        };
        Ok(Statement::Comment(Comment {
            object: found,
            of: owner,
            column,
            text,
        }))
    }
}

/// Returns whether a relation has another kind than the statement says; TABLE may name any kind.
fn is_other(said: ObjectKind, is: ObjectKind) -> bool {
    said != is && said != ObjectKind::Table
}

/// Combines the privileges on whole objects into one entry.
fn merged(
    privileges: Vec<(Option<Privileges>, Vec<String>)>,
) -> Vec<(Option<Privileges>, Vec<String>)> {
    let mut whole: Option<Privileges> = None;
    let mut all = Vec::new();
    for (privileges, columns) in privileges {
        match (privileges, columns.is_empty()) {
            (Some(one), true) => whole = Some(whole.map_or(one, |before| before.and(one))),
            _ => all.push((privileges, columns)),
        }
    }
    if whole.is_some() {
        all.insert(0, (whole, Vec::new()));
    }
    all
}

/// Returns the error 42704 for a role that does not exist.
pub(super) fn no_role(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("role \"{name}\" does not exist"),
    )
}
