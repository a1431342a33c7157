//! The objects that stored definitions refer to, as `pg_depend` has them.
//!
//! ```text
//!   text ──parser──▶ syntax ──Binder with `references`──▶ Noted ──▶ References
//! ```
//! The binder resolves the names of a definition exactly as it does for a statement that runs. It
//! records each relation, column, function, sequence and type in [`ObjectUses`]. A view or default
//! that the text refers to is bound without recording: its references are its own.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::deparse::scope_over;
use super::expr::Clause;
use super::needs::{Columns, object_of};
use super::path::PathView;
use super::routine_body::{Arguments, parsed_body};
use super::variables::Variables;
use super::{Binder, DeparseContext, ParamTypes, VisibleColumns, search_path};
use crate::catalog::{
    Object, ObjectKind, PUBLIC_SCHEMA, RoutineDef, SUPERUSER_OID, TableDef, ViewDef,
};
use crate::error::SqlError;
use crate::functions::CastContext;
use crate::parser::{parse_expression, parse_query};
use crate::pg_catalog::class;
use crate::types::Type;

/// An object or a part of it: the oid of its catalog, its oid, and an attribute number. The number
/// is 0 for the whole object.
pub type ObjectPart = (u32, u32, i16);

/// The objects that a text refers to, each once. A relation is represented by its columns alone if
/// the columns that are read are known.
pub type References = BTreeSet<ObjectPart>;

/// The objects that a binder has resolved.
#[derive(Debug, Default)]
pub(super) struct ObjectUses {
    objects: Vec<(Object, Columns)>,
    types: Vec<u32>,
}

impl ObjectUses {
    fn finish(self) -> References {
        let mut all = References::new();
        for (object, columns) in &self.objects {
            let (class, id) = object.key();
            let columns = columns.borrow();
            if columns.is_empty() {
                all.insert((class, id, 0));
            }
            all.extend(columns.iter().map(|number| (class, id, *number)));
        }
        let types = self.types.into_iter();
        all.extend(types.map(|id| (class::TYPE, id, 0)));
        let by_columns: Vec<ObjectPart> = all
            .iter()
            .filter(|part| part.2 != 0)
            .map(|(class, id, _)| (*class, *id, 0))
            .collect();
        for whole in by_columns {
            all.remove(&whole);
        }
        all
    }
}

impl Binder<'_> {
    /// Records an object; `columns` collects the columns of it that are read later.
    pub(super) fn note(&mut self, object: Object, columns: &Columns) {
        use ObjectKind as K;
        let kinds = [K::Table, K::View, K::Sequence, K::Function, K::Procedure];
        if let Some(noted) = &mut self.references
            && kinds.contains(&object.kind)
        {
            noted.objects.push((object, Rc::clone(columns)));
        }
    }

    /// Records columns of a table that is written, given by their positions.
    pub(super) fn note_columns(&mut self, table: &TableDef, columns: &[usize]) {
        if let Some(noted) = &mut self.references {
            let numbers = columns.iter().map(|at| table.columns[*at].attnum);
            let numbers: Columns = Rc::new(numbers.collect::<Vec<_>>().into());
            noted.objects.push((object_of(table), numbers));
        }
    }

    /// Records a type if it is user-defined.
    pub(super) fn note_type(&mut self, ty: Type) {
        if let Some(noted) = &mut self.references
            && ty.kind.is_users()
        {
            noted.types.push(ty.oid());
        }
    }

    /// Binds a part that belongs to another object, without recording its references.
    pub(super) fn unnoted<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let noted = self.references.take();
        let bound = bind(self);
        self.references = noted;
        bound
    }
}

impl DeparseContext<'_> {
    /// Returns the objects that an expression refers to; its names belong to `schema`. The
    /// expression is coerced to `to` if it is stored as a value of that type. `None` if it cannot
    /// be bound.
    pub fn references(
        &self,
        text: &str,
        (schema, over): (&str, VisibleColumns<'_>),
        to: Option<Type>,
    ) -> Option<References> {
        let parsed = parse_expression(text).ok()?;
        self.noting((schema, text), (ParamTypes::new(), None), |binder| {
            let mut scope = scope_over(over)?;
            let reads = Columns::default();
            for leaf in &mut scope.leaves {
                leaf.reads = Some(Rc::clone(&reads));
            }
            let bound = binder.scalar(&parsed, &scope, Clause::Check)?;
            match to {
                Some(ty) => binder.coerce(bound, ty, CastContext::Assignment)?,
                None => binder.unknown_to_text(bound)?,
            };
            if let VisibleColumns::Table(table) | VisibleColumns::Trigger(table) = over
                && !reads.borrow().is_empty()
            {
                binder.note(object_of(table), &reads);
            }
            Ok(())
        })
    }

    /// Returns the objects that the query of a view refers to; `None` if it cannot be bound.
    pub fn view_references(&self, view: &ViewDef) -> Option<References> {
        let query = parse_query(&view.text).ok()?;
        let place = (view.schema.as_str(), view.text.as_str());
        self.noting(place, (ParamTypes::new(), None), |binder| {
            binder.query(&query).map(drop)
        })
    }

    /// Returns the objects that an SQL body refers to, if the body is not a string; `None` if it
    /// cannot be bound.
    pub fn body_references(&self, routine: &RoutineDef) -> Option<References> {
        let arguments = Arguments {
            function: &routine.name,
            args: routine.inputs().collect(),
        };
        let types: Vec<Type> = routine.inputs().map(|arg| arg.ty).collect();
        let mut all = References::new();
        for parsed in parsed_body((&routine.body, true)).ok()? {
            let params = ParamTypes::declared(types.clone());
            let place = (routine.schema.as_str(), parsed.text.as_str());
            all.extend(self.noting(place, (params, Some(&arguments)), |binder| {
                binder.statement(parsed.statement()).map(drop)
            })?);
        }
        Some(all)
    }

    /// Runs `bind` with a binder that records references and has every privilege.
    fn noting(
        &self,
        (schema, text): (&str, &str),
        (mut params, variables): (ParamTypes, Option<&dyn Variables>),
        bind: impl FnOnce(&mut Binder<'_>) -> Result<(), SqlError>,
    ) -> Option<References> {
        let mut path = vec![schema.to_owned()];
        let others = search_path(self.snapshot, self.cx).into_iter();
        for other in std::iter::once(PUBLIC_SCHEMA.to_owned()).chain(others) {
            if !path.contains(&other) {
                path.push(other);
            }
        }
        let along = PathView {
            catalog: self.snapshot,
            path: &path,
        };
        let mut binder = Binder::of(text, (&along, &path), &mut params, (self.cx, 0));
        (binder.variables, binder.role) = (variables, Some(SUPERUSER_OID));
        binder.references = Some(ObjectUses::default());
        bind(&mut binder).ok()?;
        binder.references.take().map(ObjectUses::finish)
    }
}
