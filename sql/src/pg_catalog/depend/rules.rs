//! Dependencies of constraints and indexes of tables.

use std::collections::BTreeSet;

use super::super::Constraint;
use super::super::constraints::parent_index;
use super::super::objects::visible;
use super::{AUTO, Dependencies, INTERNAL, NORMAL, class};
use crate::binder::{References, VisibleColumns};
use crate::catalog::{CheckDef, ForeignKeyDef, IndexDef, TableDef};
use crate::types::Type;

impl Dependencies<'_, '_> {
    pub(super) fn constraints(&mut self, table: &TableDef) {
        for constraint in Constraint::all(table) {
            match &constraint {
                Constraint::Key(index) => self.key(table, index),
                Constraint::Check(check) => self.check(table, check),
                Constraint::Foreign(key) => self.foreign_key(table, key),
            }
            let linked = table.link(constraint.id());
            if let Some(parents) = linked.filter(|_| !matches!(constraint, Constraint::Check(_))) {
                let of = (class::CONSTRAINT, constraint.id(), 0);
                self.of_partition(of, (class::CONSTRAINT, parents), table.id);
            }
        }
    }

    /// Adds the dependencies of a PRIMARY KEY or UNIQUE constraint.
    fn key(&mut self, table: &TableDef, index: &IndexDef) {
        let of = (class::CONSTRAINT, index.id, 0);
        for number in columns_of(table, index) {
            self.add(of, (class::RELATION, table.id, number), AUTO);
        }
    }

    /// Adds the dependencies of a CHECK constraint. As in PostgreSQL, each column occurs twice: for
    /// the constraint and for the expression.
    fn check(&mut self, table: &TableDef, check: &CheckDef) {
        let of = (class::CONSTRAINT, check.id, 0);
        let place = (table.schema.as_str(), VisibleColumns::Table(table));
        let on = self.expression(of, &check.text, place, Some(Type::BOOL));
        let of_table =
            |(class, id, _): &&(u32, u32, i16)| (*class, *id) == (class::RELATION, table.id);
        let mut own: Vec<i16> = on.iter().filter(of_table).map(|part| part.2).collect();
        if on.is_empty() {
            // The text may not bind; its words then determine the columns.
            let columns = Constraint::Check(check).columns(table);
            own.extend(columns.iter().map(|at| table.columns[*at].attnum));
        }
        if own.is_empty() {
            own.push(0);
        }
        for number in own {
            self.add(of, (class::RELATION, table.id, number), AUTO);
        }
    }

    fn foreign_key(&mut self, table: &TableDef, key: &ForeignKeyDef) {
        let of = (class::CONSTRAINT, key.id, 0);
        for at in &key.columns {
            let column = (class::RELATION, table.id, table.columns[*at].attnum);
            self.add(of, column, AUTO);
        }
        let Some(parent) = self.around.snapshot.relation(key.parent) else {
            return;
        };
        for at in &key.parent_columns {
            let column = (class::RELATION, parent.id, parent.columns[*at].attnum);
            self.add(of, column, NORMAL);
        }
        if let Some(index) = parent_index(&parent, key) {
            self.add(of, (class::RELATION, index.id, 0), NORMAL);
        }
    }

    pub(super) fn indexes(&mut self, table: &TableDef) {
        for index in visible(table) {
            let of = (class::RELATION, index.id, 0);
            if let Some(parents) = table.link(index.id) {
                self.of_partition(of, (class::RELATION, parents), table.id);
            }
            match index.constraint {
                true => self.add(of, (class::CONSTRAINT, index.id, 0), INTERNAL),
                false => self.index(table, index),
            }
        }
    }

    /// Adds the dependencies of an index that belongs to no constraint.
    fn index(&mut self, table: &TableDef, index: &IndexDef) {
        let of = (class::RELATION, index.id, 0);
        let mut plain = columns_of(table, index);
        if plain.is_empty() {
            plain.insert(0);
        }
        for number in plain {
            self.add(of, (class::RELATION, table.id, number), AUTO);
        }
        let expressions = index.more.expressions.iter().map(|of| &of.text);
        let place = (table.schema.as_str(), VisibleColumns::Table(table));
        let mut on = References::new();
        for text in expressions {
            on.extend(
                self.reader
                    .references(text, place, None)
                    .unwrap_or_default(),
            );
        }
        let predicate = index.more.predicate.as_ref();
        let condition = predicate.and_then(|predicate| {
            self.reader
                .references(&predicate.text, place, Some(Type::BOOL))
        });
        for part in on.into_iter().chain(condition.unwrap_or_default()) {
            let own = (part.0, part.1) == (class::RELATION, table.id);
            self.add(of, part, if own { AUTO } else { NORMAL });
        }
    }
}

/// Returns the numbers of an index's columns, including INCLUDE columns, without expressions.
fn columns_of(table: &TableDef, index: &IndexDef) -> BTreeSet<i16> {
    let keys = index.columns.iter().map(|key| key.column);
    let all = keys.chain(index.more.include.iter().copied());
    let columns = all.filter_map(|at| table.columns.get(at));
    columns.map(|column| column.attnum).collect()
}
