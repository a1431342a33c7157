//! The privileges that a statement requires. They are collected during name resolution, and checked
//! once the statement is bound.
//!
//! A statement needs a privilege on a table as a whole, or on each column that it reads or writes.
//! For the relations in a view's query the owner of the view needs the privilege, not the user of
//! the view. The columns of a view are recorded like those of a table.

use std::cell::RefCell;
use std::rc::Rc;

use super::Binder;
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind, Security, TableDef, ViewDef, no_privilege};
use crate::error::SqlError;

/// The attribute numbers of the columns of a relation that are read.
pub(super) type Columns = Rc<RefCell<Vec<i16>>>;

/// One required privilege.
#[derive(Debug)]
pub(super) struct Need {
    role: u32,
    object: Object,
    name: String,
    /// The privilege that is required on the object in any case.
    wanted: Privileges,
    /// The columns read; if there are any, SELECT is required.
    reads: Columns,
    /// The columns on which a privilege is required.
    columns: Vec<(Privileges, i16)>,
    /// Whether the rows are locked, which also requires UPDATE on any column.
    locks: bool,
    /// Whether no guard in the plan detects a change of the privileges.
    unguarded: bool,
}

/// An oid that no role has; it stands for a role that was dropped.
const NO_ROLE: u32 = u32::MAX;

impl Binder<'_> {
    /// Returns the role whose privileges apply to this part of the statement.
    pub(super) fn acting(&self) -> Option<(u32, &Security)> {
        let security = self.catalog.security()?;
        let role = self.role.unwrap_or_else(|| {
            let known = self.catalog.role(&self.cx.current_user()).ok().flatten();
            known.map_or(NO_ROLE, |role| role.id)
        });
        Some((role, security))
    }

    fn need(&mut self, object: Object, name: &str, wanted: Privileges) -> Columns {
        let reads = Columns::default();
        self.note(object, &reads);
        let role = match self.acting() {
            Some((role, security)) if !security.is_superuser(role) => role,
            _ => return reads,
        };
        self.needs.push(Need {
            role,
            object,
            name: name.to_owned(),
            wanted,
            reads: Rc::clone(&reads),
            columns: Vec::new(),
            locks: false,
            unguarded: object.kind == ObjectKind::Sequence,
        });
        reads
    }

    /// Requires SELECT on a relation of FROM.
    pub(super) fn need_read(&mut self, kind: ObjectKind, id: u32, name: &str) -> Columns {
        self.need(Object::new(kind, id), name, Privileges::SELECT)
    }

    /// Marks these relations as locked, in the entries that were added after the first `since`.
    pub(super) fn need_locks(&mut self, relations: &[Object], since: usize) {
        let needs = self.needs.iter_mut().skip(since);
        for need in needs.filter(|need| relations.contains(&need.object)) {
            need.locks = true;
        }
    }

    /// Requires SELECT on a view, and makes the statement depend on the view.
    pub(super) fn need_view(&mut self, view: &ViewDef) -> Columns {
        self.params.name_view(view);
        self.need_read(ObjectKind::View, view.id, &view.name)
    }

    /// Marks the entries added after the first `since` as guarded: they belong to a default, which
    /// the guard of its table covers.
    pub(super) fn guard_needs(&mut self, since: usize) {
        let needs = self.needs.iter_mut().skip(since);
        needs.for_each(|need| need.unguarded = false);
    }

    /// Requires a privilege to change a table. SELECT is required only if a returned column is
    /// read.
    pub(super) fn need_change(&mut self, table: &TableDef, wanted: Privileges) -> Columns {
        self.need(object_of(table), &table.name, wanted)
    }

    /// Requires a privilege on columns, given by position, of a table that is changed.
    pub(super) fn need_columns(&mut self, table: &TableDef, wanted: Privileges, columns: &[usize]) {
        let object = object_of(table);
        self.note_columns(table, columns);
        let mut needs = self.needs.iter_mut().rev();
        let Some(need) =
            needs.find(|need| need.object == object && need.wanted != Privileges::SELECT)
        else {
            return;
        };
        need.wanted = need.wanted.and(wanted);
        let numbers = columns.iter().map(|at| table.columns[*at].attnum);
        need.columns.extend(numbers.map(|number| (wanted, number)));
    }

    /// Requires a privilege on any other object.
    pub(super) fn need_use(&mut self, object: Object, name: &str, wanted: Privileges) {
        self.need(object, name, wanted);
    }

    /// Requires one of these privileges.
    pub(super) fn need_one_of(&mut self, object: Object, name: &str, any: &[Privileges]) {
        let has = |one: &&Privileges| {
            let acting = self.acting();
            acting.is_some_and(|(role, security)| security.allowed(role, object, **one).has(**one))
        };
        let had = any.iter().find(has).or(any.first());
        if let Some(one) = had {
            self.need(object, name, *one);
        }
    }

    /// Returns whether privilege checks do not apply, as for a superuser.
    pub(super) fn passes_all(&self) -> bool {
        self.acting()
            .is_none_or(|(role, security)| security.is_superuser(role))
    }

    /// Checks USAGE on a schema, which name resolution in it requires; 42501 without it.
    pub(super) fn check_usage(&self, schema: Option<&str>) -> Result<(), SqlError> {
        let (Some(name), Some((role, security))) = (schema, self.acting()) else {
            return Ok(());
        };
        if self.cx.temporary().is_some_and(|own| own.schema == name) {
            return Ok(());
        }
        match self.schema_object(name) {
            Some(schema) => security.check(role, schema, Privileges::USAGE, name),
            None => Ok(()),
        }
    }

    fn schema_object(&self, name: &str) -> Option<Object> {
        let id = self.catalog.schema_oid(name);
        id.map(|id| Object::new(ObjectKind::Schema, id))
    }

    /// Checks all required privileges; 42501 for a missing one.
    pub(super) fn check_needs(&mut self) -> Result<(), SqlError> {
        let Some(security) = self.catalog.security() else {
            return Ok(());
        };
        if self.needs.iter().any(|need| need.unguarded) {
            self.params.watch_catalog();
        }
        for need in &self.needs {
            if !need.is_met(security) {
                return Err(no_privilege(need.object.kind, &need.name));
            }
        }
        Ok(())
    }
}

/// Returns the object of a table, or of the view that the definition describes.
pub(super) fn object_of(table: &TableDef) -> Object {
    let kind = match table.is_view() {
        true => ObjectKind::View,
        false => ObjectKind::Table,
    };
    Object::new(kind, table.id)
}

impl Need {
    fn is_met(&self, security: &Security) -> bool {
        self.may_lock(security) && self.is_allowed(security)
    }

    fn may_lock(&self, security: &Security) -> bool {
        let update = Privileges::UPDATE;
        !self.locks
            || security.allowed(self.role, self.object, update).has(update)
            || security.allowed_any_column(self.role, self.object, update)
    }

    fn is_allowed(&self, security: &Security) -> bool {
        let reads = self.reads.borrow();
        let mut wanted = self.wanted;
        if !reads.is_empty() {
            wanted = wanted.and(Privileges::SELECT);
        }
        let allowed = security.allowed(self.role, self.object, wanted);
        let missing = wanted.without(allowed);
        let mut missing = missing.each();
        missing.all(|(one, _)| {
            let by_column = |number: i16| {
                !security
                    .allowed_column(self.role, self.object, number, one)
                    .is_none()
            };
            let mut columns = self.columns.iter().filter(|(of, _)| *of == one).peekable();
            match one {
                Privileges::SELECT if !reads.is_empty() => reads.iter().all(|c| by_column(*c)),
                // If no columns are recorded, the privilege on any column suffices.
                Privileges::SELECT => security.allowed_any_column(self.role, self.object, one),
                _ => columns.peek().is_some() && columns.all(|(_, c)| by_column(*c)),
            }
        })
    }
}
