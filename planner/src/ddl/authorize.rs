//! Authorization of DDL: the privileges that each DDL statement needs, checked before it runs.

use fencepost_sql::bound::{
    AlterAction, AlterTable, AlterView, NewForeignKey, Statement, TriggerChange, ViewChange,
};
use fencepost_sql::catalog::acl::Privileges;
use fencepost_sql::catalog::{
    CatalogView, Object, ObjectKind, PUBLIC_SCHEMA, Security, Snapshot, TableDef, TriggerDef,
    denied, temporary,
};
use fencepost_sql::context::EvalContext;
use fencepost_sql::error::SqlError;

use super::DdlCx;
use crate::exec::Cx;

/// The role that runs the statement, and the catalog that decides what it may do.
pub struct Authorizer<'a> {
    /// The oid of the role.
    pub role: u32,
    /// Whether the role is a superuser, which passes every check.
    pub superuser: bool,
    snapshot: &'a Snapshot,
}

/// The oid that represents a session's role that no longer exists.
const NO_ROLE: u32 = u32::MAX;

impl<'a> Authorizer<'a> {
    /// Returns the current role of the session that runs the statement.
    pub fn of(cx: &Cx<'_>, ddl: &DdlCx<'a>) -> Result<Authorizer<'a>, SqlError> {
        Authorizer::of_session(cx.eval, ddl.snapshot)
    }

    /// Returns the current role of a session, in a version of the catalog.
    pub fn of_session(
        eval: &EvalContext,
        snapshot: &'a Snapshot,
    ) -> Result<Authorizer<'a>, SqlError> {
        let role = snapshot.role(&eval.current_user())?;
        Ok(Authorizer {
            role: role.as_ref().map_or(NO_ROLE, |role| role.id),
            superuser: role.is_some_and(|role| role.superuser),
            snapshot,
        })
    }

    fn security(&self) -> &'a Security {
        self.snapshot.security()
    }

    /// Returns error 42501 if the role does not own the object.
    pub fn owns(&self, kind: ObjectKind, id: u32, name: &str) -> Result<(), SqlError> {
        let object = Object::new(kind, id);
        self.security().check_owner(self.role, object, name)
    }

    /// Returns error 42501 if the role owns neither the object nor its schema.
    fn may_drop(
        &self,
        kind: ObjectKind,
        id: u32,
        (schema, name): (&str, &str),
    ) -> Result<(), SqlError> {
        let of_schema = schema_object(self.snapshot, schema);
        match self.security().owns(self.role, of_schema) {
            true => Ok(()),
            false => self.owns(kind, id, name),
        }
    }

    /// Returns error 42501 if the role may not create objects in a schema.
    pub fn creates_in(&self, schema: &str) -> Result<(), SqlError> {
        if temporary::is_temporary(schema) {
            let security = self.security();
            let wanted = Privileges::TEMPORARY;
            let allowed = security.allowed(self.role, security.database(), wanted);
            return match allowed.is_none() {
                true => Err(denied(
                    "permission denied to create temporary tables in this database",
                )),
                false => Ok(()),
            };
        }
        let object = schema_object(self.snapshot, schema);
        self.security()
            .check(self.role, object, Privileges::CREATE, schema)
    }

    /// Returns error 42501 if the role may not create schemas.
    pub fn creates_schemas(&self, database: &str) -> Result<(), SqlError> {
        let security = self.security();
        let object = security.database();
        security.check(self.role, object, Privileges::CREATE, database)
    }

    /// Returns error 42501 if the role may not reference columns of the referenced table.
    fn references(&self, key: &NewForeignKey) -> Result<(), SqlError> {
        let Some(parent) = &key.parent else {
            return Ok(());
        };
        let object = Object::new(ObjectKind::Table, parent.id);
        let wanted = Privileges::REFERENCES;
        let by_column = |at: &usize| {
            let number = parent.columns[*at].attnum;
            let security = self.security();
            !security
                .allowed_column(self.role, object, number, wanted)
                .is_none()
        };
        match key.parent_columns.iter().all(by_column) && !key.parent_columns.is_empty() {
            true => Ok(()),
            false => self
                .security()
                .check(self.role, object, wanted, &parent.name),
        }
    }

    fn table(&self, table: &TableDef) -> Result<(), SqlError> {
        self.owns(ObjectKind::Table, table.id, &table.name)
    }

    fn alters(&self, alter: &AlterTable) -> Result<(), SqlError> {
        let Some(table) = &alter.table else {
            return Ok(());
        };
        if let [AlterAction::RenameIndex { from, .. }] = alter.actions.as_slice() {
            return self.owns_through(table, ObjectKind::Index, from);
        }
        if let [AlterAction::Trigger(TriggerChange::Create { trigger, .. })] =
            alter.actions.as_slice()
        {
            let object = Object::new(ObjectKind::Table, table.id);
            return self.triggers((object, &table.name), trigger);
        }
        self.table(table)?;
        for action in &alter.actions {
            match action {
                AlterAction::Trigger(TriggerChange::Enable { keys: true, .. }) => {
                    system_triggers(table)?;
                }
                AlterAction::RenameTable(_) => self.creates_in(&table.schema)?,
                AlterAction::AddForeignKey(key, _) => self.references(key)?,
                AlterAction::AddColumn(add) => {
                    for key in &add.foreign_keys {
                        self.references(key)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn alters_view(&self, alter: &AlterView) -> Result<(), SqlError> {
        let Some(view) = &alter.view else {
            return Ok(());
        };
        if let [ViewChange::Trigger(TriggerChange::Create { trigger, .. })] =
            alter.changes.as_slice()
        {
            let object = Object::new(ObjectKind::View, view.id);
            return self.triggers((object, &view.name), trigger);
        }
        self.owns(ObjectKind::View, view.id, &view.name)
    }

    /// Checks the TRIGGER privilege on the relation, and EXECUTE on the trigger function.
    fn triggers(
        &self,
        (object, name): (Object, &str),
        trigger: &TriggerDef,
    ) -> Result<(), SqlError> {
        let security = self.security();
        security.check(self.role, object, Privileges::TRIGGER, name)?;
        let Some(routine) = self.snapshot.routine_by_id(trigger.function) else {
            return Ok(());
        };
        let object = Object::new(routine.kind.into(), routine.id);
        security.check(self.role, object, Privileges::EXECUTE, &routine.name)
    }

    /// Checks ownership of an object that belongs to a table: it has the owner of the table.
    fn owns_through(&self, table: &TableDef, kind: ObjectKind, name: &str) -> Result<(), SqlError> {
        let object = Object::new(ObjectKind::Table, table.id);
        match self.security().owns(self.role, object) {
            true => Ok(()),
            false => Err(denied(format!("must be owner of {} {name}", kind.name()))),
        }
    }

    /// Returns error 42501 if the role may not run the statement.
    pub fn check(&self, statement: &Statement, database: &str) -> Result<(), SqlError> {
        if self.superuser {
            return Ok(());
        }
        match statement {
            Statement::CreateTable(create) => {
                self.creates_in(&create.schema)?;
                create
                    .foreign_keys
                    .iter()
                    .try_for_each(|key| self.references(key))
            }
            Statement::AlterTable(alter) => self.alters(alter),
            Statement::DropTable(drop) => drop.tables.iter().try_for_each(|table| {
                let name = (table.schema.as_str(), table.name.as_str());
                self.may_drop(ObjectKind::Table, table.id, name)
            }),
            Statement::RefreshView(refresh) => self.table(&refresh.table),
            Statement::CreateIndex(create) => self.table(&create.table),
            Statement::DropIndex(drop) => drop
                .indexes
                .iter()
                .try_for_each(|(table, name)| self.owns_through(table, ObjectKind::Index, name)),
            Statement::Truncate(truncate) => truncate.tables.iter().try_for_each(|table| {
                let object = Object::new(ObjectKind::Table, table.id);
                self.security()
                    .check(self.role, object, Privileges::TRUNCATE, &table.name)
            }),
            Statement::CreateSequence(create) => {
                self.creates_in(create.schema.as_deref().unwrap_or(PUBLIC_SCHEMA))
            }
            Statement::AlterSequence(alter) => {
                let found = self
                    .snapshot
                    .sequence(alter.schema.as_deref(), &alter.name)?;
                found.map_or(Ok(()), |sequence| {
                    self.owns(ObjectKind::Sequence, sequence.id, &sequence.name)
                })
            }
            Statement::DropSequence(drop) => drop.names.iter().try_for_each(|(schema, name)| {
                let found = self.snapshot.sequence(schema.as_deref(), name)?;
                found.map_or(Ok(()), |sequence| {
                    let name = (sequence.schema.as_str(), sequence.name.as_str());
                    self.may_drop(ObjectKind::Sequence, sequence.id, name)
                })
            }),
            Statement::CreateView(create) => {
                self.creates_in(&create.schema)?;
                let old = self.snapshot.view(Some(&create.schema), &create.name)?;
                old.filter(|_| create.or_replace).map_or(Ok(()), |view| {
                    self.owns(ObjectKind::View, view.id, &view.name)
                })
            }
            Statement::AlterView(alter) => self.alters_view(alter),
            Statement::DropView(drop) => drop.views.iter().try_for_each(|view| {
                let name = (view.schema.as_str(), view.name.as_str());
                self.may_drop(ObjectKind::View, view.id, name)
            }),
            Statement::CreateEnum(create) => {
                self.creates_in(create.schema.as_deref().unwrap_or(PUBLIC_SCHEMA))
            }
            Statement::CreateDomain(create) => self.creates_in(&create.schema),
            Statement::CreateComposite(create) => self.creates_in(&create.schema),
            Statement::AlterComposite(alter) => {
                self.owns(ObjectKind::Type, alter.ty.id, &alter.ty.name)
            }
            Statement::AlterDomain(alter) => {
                self.owns(ObjectKind::Type, alter.ty.id, &alter.ty.name)
            }
            Statement::AlterType(alter) => {
                let found = self
                    .snapshot
                    .user_type(alter.schema.as_deref(), &alter.name);
                found.map_or(Ok(()), |ty| self.owns(ObjectKind::Type, ty.id, &ty.name))
            }
            Statement::DropType(drop) => drop.names.iter().try_for_each(|(schema, name)| {
                let found = self.snapshot.user_type(schema.as_deref(), name);
                found.map_or(Ok(()), |ty| {
                    let name = (ty.schema.as_str(), ty.name.as_str());
                    self.may_drop(ObjectKind::Type, ty.id, name)
                })
            }),
            Statement::CreateSchema(_) => self.creates_schemas(database),
            Statement::RenameSchema(of) => match schema_object(self.snapshot, &of.name).id {
                0 => Ok(()),
                id => {
                    self.owns(ObjectKind::Schema, id, &of.name)?;
                    self.creates_schemas(database)
                }
            },
            Statement::DropSchema(drop) => drop.names.iter().try_for_each(|name| {
                let schema = schema_object(self.snapshot, name);
                match schema.id {
                    0 => Ok(()),
                    id => self.owns(ObjectKind::Schema, id, name),
                }
            }),
            Statement::CreateRoutine(create) => self.creates_in(&create.schema),
            Statement::AlterRoutine(alter) => {
                let routine = &alter.routine;
                self.owns(routine.kind.into(), routine.id, &routine.name)
            }
            Statement::DropRoutine(drop) => drop.routines.iter().try_for_each(|routine| {
                let name = (routine.schema.as_str(), routine.name.as_str());
                self.may_drop(routine.kind.into(), routine.id, name)
            }),
            // Other statements check the privileges themselves.
            _ => Ok(()),
        }
    }
}

/// Returns the schema with this name as an object; its oid is 0 if it does not exist.
pub fn schema_object(snapshot: &Snapshot, name: &str) -> Object {
    Object::new(ObjectKind::Schema, snapshot.schema(name).unwrap_or(0))
}

/// Returns error 42501 if ALL triggers of the table include triggers of foreign keys, which only a
/// superuser may switch.
fn system_triggers(table: &TableDef) -> Result<(), SqlError> {
    let own = table.rules.foreign_keys.iter().map(|key| key.id);
    let mut all = own.chain(table.rules.referenced_by.iter().copied());
    match all.next() {
        None => Ok(()),
        Some(id) => Err(denied(format!(
            "permission denied: \"RI_ConstraintTrigger_{id}\" is a system trigger"
        ))),
    }
}
