//! What a statement has to be allowed to do, noted while its names are found, and looked at once it is bound.
//!
//! A statement needs a privilege of a table as a whole, or of each column that it reads or writes. What stands in a view is
//! needed by the view's owner, not by who reads the view. A view's columns are noted as those of a table are.

use std::cell::RefCell;
use std::rc::Rc;

use super::Binder;
use crate::catalog::acl::Privileges;
use crate::catalog::{Object, ObjectKind, Security, TableDef, ViewDef, no_privilege};
use crate::error::SqlError;

/// The numbers of columns of a relation that are read.
pub(super) type Columns = Rc<RefCell<Vec<i16>>>;

/// That something has to be allowed.
#[derive(Debug)]
pub(super) struct Need {
    role: u32,
    object: Object,
    name: String,
    /// Whatever is done to it.
    wanted: Privileges,
    /// SELECT is wanted if one of these is.
    reads: Columns,
    /// Columns that something is wanted of.
    columns: Vec<(Privileges, i16)>,
    /// Its rows are locked: UPDATE of any column is wanted, too.
    locks: bool,
    /// No guard in the plan tells that the answer has changed.
    unguarded: bool,
}

/// No role has this oid: that of who is gone.
const NOBODY: u32 = u32::MAX;

impl Binder<'_> {
    /// The role that this part of the statement is for.
    pub(super) fn acting(&self) -> Option<(u32, &Security)> {
        let security = self.catalog.security()?;
        let role = self.role.unwrap_or_else(|| {
            let known = self.catalog.role(&self.cx.current_user()).ok().flatten();
            known.map_or(NOBODY, |role| role.id)
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

    /// A relation of FROM is read.
    pub(super) fn need_read(&mut self, kind: ObjectKind, id: u32, name: &str) -> Columns {
        self.need(Object::new(kind, id), name, Privileges::SELECT)
    }

    /// The rows of these relations are locked, as far as they have been needed since there were so many needs.
    pub(super) fn need_locks(&mut self, relations: &[Object], since: usize) {
        let needs = self.needs.iter_mut().skip(since);
        for need in needs.filter(|need| relations.contains(&need.object)) {
            need.locks = true;
        }
    }

    /// The same of a view, on which the statement depends.
    pub(super) fn need_view(&mut self, view: &ViewDef) -> Columns {
        self.params.name_view(view);
        self.need_read(ObjectKind::View, view.id, &view.name)
    }

    /// What has been needed since there were so many is told by the guard of the table that it is a default of.
    pub(super) fn guard_needs(&mut self, since: usize) {
        let needs = self.needs.iter_mut().skip(since);
        needs.for_each(|need| need.unguarded = false);
    }

    /// A table is changed: it is read only if one of the columns that come back is.
    pub(super) fn need_change(&mut self, table: &TableDef, wanted: Privileges) -> Columns {
        self.need(object_of(table), &table.name, wanted)
    }

    /// Something is wanted of columns of a table that is changed, by their positions.
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

    /// Something else is done with an object.
    pub(super) fn need_use(&mut self, object: Object, name: &str, wanted: Privileges) {
        self.need(object, name, wanted);
    }

    /// One of these privileges is needed.
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

    /// Is nothing denied to who asks?
    pub(super) fn passes_all(&self) -> bool {
        self.acting()
            .is_none_or(|(role, security)| security.is_superuser(role))
    }

    /// 42501 where names of a schema may not be looked for.
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

    /// 42501 for what is not allowed.
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

/// A table, or the view that it is.
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
                // Any column will do where none is told.
                Privileges::SELECT => security.allowed_any_column(self.role, self.object, one),
                _ => columns.peek().is_some() && columns.all(|(_, c)| by_column(*c)),
            }
        })
    }
}
