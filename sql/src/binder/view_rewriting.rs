//! INSERT, UPDATE and DELETE on views. The statement is bound as if the view were a table, and then
//! rewritten to its base relation. If the view has INSTEAD OF triggers, it stays a statement on the
//! view.

use std::sync::Arc;

use sqlparser::ast::ObjectName;

use super::Binder;
use super::needs::Columns;
use super::rules::Change;
use super::updatable::ViewChain;
use crate::bound::{
    Delete, Expr, From, Insert, InsertSource, LeafSource, Node, Select, Statement, Target, Update,
    slots_of,
};
use crate::catalog::acl::Privileges;
use crate::catalog::{ColumnDef, Event, ObjectKind, TableDef};
use crate::error::{SqlError, SqlState};
use crate::types::Type;
use crate::value::Value;

/// The first slot of the columns of a view while a statement on it is bound; it is beyond all other
/// slots.
const VIEW_SLOTS: usize = 1 << 24;

/// The relation that a statement changes.
pub(super) struct ChangeTarget {
    /// The table, or the view as a table, that the names refer to.
    pub(super) table: Arc<TableDef>,
    /// The base relation, if the target is a view that is rewritten.
    pub(super) through: Option<ViewChain>,
}

impl ChangeTarget {
    /// Returns the first slot of its columns, and the number of slots after which other relations
    /// follow.
    pub(super) fn slots(&self) -> (usize, usize) {
        match &self.through {
            None => (0, slots_of(self.table.columns.len())),
            Some(through) => (VIEW_SLOTS, slots_of(through.base.columns.len())),
        }
    }
}

impl ViewChain {
    /// Replaces the columns of the view, in the slots from `first` on, by their expressions.
    fn place(&self, expr: &mut Expr, first: usize) {
        expr.replace_columns(&|slot| self.columns.get(slot.checked_sub(first)?).cloned());
    }

    fn place_in_targets(&self, targets: &mut [Target], first: usize) {
        targets
            .iter_mut()
            .for_each(|t| self.place(&mut t.expr, first));
    }

    fn place_in_from(&self, from: &mut From) {
        match from {
            From::Nothing => {}
            From::Leaf(leaf) => {
                if let LeafSource::Lateral(lateral) = &mut leaf.source {
                    let args = lateral.args.iter_mut();
                    args.for_each(|(_, arg)| self.place(arg, VIEW_SLOTS));
                }
            }
            From::Join(join) => {
                self.place_in_from(&mut join.left);
                self.place_in_from(&mut join.right);
                join.on.iter_mut().for_each(|on| self.place(on, VIEW_SLOTS));
            }
        }
    }

    /// Returns the conditions of the views, combined with the condition of the statement.
    fn filter(&self, filter: Option<Expr>) -> Option<Expr> {
        let filter = filter.map(|mut filter| {
            self.place(&mut filter, VIEW_SLOTS);
            filter
        });
        match (self.filter.clone(), filter) {
            (Some(of_view), Some(filter)) => {
                let parts = vec![of_view, filter];
                Some(Expr::new(Type::BOOL, Node::And(parts)))
            }
            (one, other) => one.or(other),
        }
    }
}

impl Binder<'_> {
    /// Returns the relation of this name, which a statement changes.
    pub(super) fn changing_target(
        &mut self,
        name: &ObjectName,
        event: Event,
    ) -> Result<ChangeTarget, SqlError> {
        let Some(view) = self.view(name)? else {
            let table = self.changed_table(name)?;
            return Ok(ChangeTarget {
                table,
                through: None,
            });
        };
        if view.is_done_instead(event) {
            self.params.name_view(&view);
            let table = Arc::new(view.as_table());
            return Ok(ChangeTarget {
                table,
                through: None,
            });
        }
        let through = self.through(&view, event)?;
        Ok(ChangeTarget {
            table: Arc::clone(&through.view_table),
            through: Some(through),
        })
    }

    /// Returns the query of the view `table`, whose INSTEAD OF triggers perform the change.
    pub(super) fn instead_query(
        &mut self,
        table: &TableDef,
    ) -> Result<Option<Box<Select>>, SqlError> {
        if !table.is_view() {
            return Ok(None);
        }
        let view = self.catalog.view(Some(&table.schema), &table.name)?;
        let view = view.ok_or_else(|| SqlError::internal("a view that is gone"))?;
        Ok(Some(Box::new(self.query_of(&view, ObjectKind::View)?)))
    }

    /// Requires the privileges on the relations below the view: the wanted ones on its columns, and
    /// SELECT if the statement reads the view.
    fn need_below(
        &mut self,
        through: &ViewChain,
        reads: &Columns,
        wanted: &[(Privileges, Vec<usize>)],
    ) {
        let mut wanted = wanted.to_vec();
        let read = !reads.borrow().is_empty();
        for level in &through.levels {
            let acting = std::mem::replace(&mut self.role, level.role);
            let reads = self.need_change(&level.under, Privileges::NONE);
            if read {
                reads.borrow_mut().extend(&level.reads);
            }
            for (privilege, columns) in &mut wanted {
                *columns = columns.iter().filter_map(|at| level.column(*at)).collect();
                self.need_columns(&level.under, *privilege, columns);
            }
            self.role = acting;
        }
    }

    /// Rewrites an INSERT into a view; it has values for the columns `given` of the view.
    pub(super) fn insert_through(
        &mut self,
        through: ViewChain,
        (reads, given): (&Columns, &[usize]),
        mut insert: Insert,
    ) -> Result<Statement, SqlError> {
        let base = Arc::clone(&through.base);
        let mut from: Vec<Option<usize>> = vec![None; base.columns.len()];
        for column in given {
            let to = through.written(*column, Event::Insert)?;
            if from[to].replace(*column).is_some() {
                return Err(assigned_twice(&base, to));
            }
        }
        let of_views = through.defaults()?;
        let mut defaults = Vec::with_capacity(from.len());
        for (at, (column, from)) in base.columns.iter().zip(&from).enumerate() {
            let of_view = of_views.iter().find(|(of, _)| *of == at);
            defaults.push(match (from, of_view) {
                (Some(_), _) => Expr::constant(column.ty, Value::Null),
                (None, None) => self.default_of(column)?,
                (None, Some((_, text))) => self.default_of(&ColumnDef {
                    default: Some((*text).to_owned()),
                    ..column.clone()
                })?,
            });
        }
        let arranged = |row: &[Expr]| -> Vec<Expr> {
            let each = from.iter().zip(&defaults);
            let each = each.map(|(from, default)| match from {
                Some(from) => row[*from].clone(),
                None => default.clone(),
            });
            each.collect()
        };
        match &mut insert.source {
            InsertSource::Values(rows) => rows
                .iter_mut()
                .for_each(|row| *row = arranged(row.as_slice())),
            InsertSource::Select { row, .. } => *row = arranged(row.as_slice()),
        }
        let mut updates = Vec::new();
        let update = insert.on_conflict.iter_mut();
        for update in update.filter_map(|conflict| conflict.update.as_mut()) {
            let (width, shift) = (through.columns.len(), base.columns.len());
            let place = |slot: usize| match slot.checked_sub(width) {
                None => through.columns.get(slot).cloned(),
                Some(excluded) => {
                    let mut expr = through.columns.get(excluded)?.clone();
                    expr.remap_columns(&mut |slot| slot + shift);
                    Some(expr)
                }
            };
            for assignment in &mut update.assignments {
                let to = through.written(assignment.column, Event::Insert)?;
                if updates.contains(&to) {
                    return Err(assigned_twice(&base, to));
                }
                updates.push(to);
                assignment.column = to;
                assignment.value.replace_columns(&place);
            }
            let filter = update.filter.iter_mut();
            filter.for_each(|filter| filter.replace_columns(&place));
        }
        through.place_in_targets(&mut insert.returning, 0);
        let back = |to: &usize| {
            let mut all = 0..through.view_table.columns.len();
            all.find(|at| through.written(*at, Event::Insert).ok() == Some(*to))
        };
        let updated: Vec<usize> = updates.iter().filter_map(back).collect();
        let mut wanted = vec![(Privileges::INSERT, given.to_vec())];
        if !updates.is_empty() {
            wanted.push((Privileges::UPDATE, updated));
        }
        self.need_below(&through, reads, &wanted);
        let change = Change {
            inserts: true,
            deletes: false,
            updates: &updates,
        };
        insert.integrity = self.integrity(&base, change)?;
        insert.integrity.rules.views = through.checks;
        insert.table = base;
        Ok(Statement::Insert(Box::new(insert)))
    }

    /// Rewrites an UPDATE of a view.
    pub(super) fn update_through(
        &mut self,
        through: ViewChain,
        reads: &Columns,
        mut update: Update,
    ) -> Result<Statement, SqlError> {
        let base = Arc::clone(&through.base);
        let set: Vec<usize> = update.assignments.iter().map(|a| a.column).collect();
        let mut columns = Vec::with_capacity(set.len());
        for assignment in &mut update.assignments {
            let to = through.written(assignment.column, Event::Update)?;
            if columns.contains(&to) {
                return Err(assigned_twice(&base, to));
            }
            columns.push(to);
            assignment.column = to;
            through.place(&mut assignment.value, VIEW_SLOTS);
        }
        if let Some(from) = &mut update.from {
            through.place_in_from(from);
        }
        update.filter = through.filter(update.filter);
        through.place_in_targets(&mut update.returning, VIEW_SLOTS);
        self.need_below(&through, reads, &[(Privileges::UPDATE, set)]);
        let change = Change {
            updates: &columns,
            ..Change::default()
        };
        update.integrity = self.integrity(&base, change)?;
        update.integrity.rules.views = through.checks;
        update.view = self.instead_query(&base)?;
        update.table = base;
        Ok(Statement::Update(Box::new(update)))
    }

    /// Rewrites a DELETE from a view.
    pub(super) fn delete_through(
        &mut self,
        through: ViewChain,
        reads: &Columns,
        mut delete: Delete,
    ) -> Result<Statement, SqlError> {
        let base = Arc::clone(&through.base);
        if let Some(using) = &mut delete.using {
            through.place_in_from(using);
        }
        delete.filter = through.filter(delete.filter);
        through.place_in_targets(&mut delete.returning, VIEW_SLOTS);
        self.need_below(&through, reads, &[(Privileges::DELETE, Vec::new())]);
        let change = Change {
            deletes: true,
            ..Change::default()
        };
        delete.integrity = self.integrity(&base, change)?;
        delete.view = self.instead_query(&base)?;
        delete.table = base;
        Ok(Statement::Delete(Box::new(delete)))
    }
}

/// Returns the error 42601 for two view columns that are the same table column.
fn assigned_twice(base: &TableDef, column: usize) -> SqlError {
    let name = &base.columns[column].name;
    let message = format!("multiple assignments to same column \"{name}\"");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
