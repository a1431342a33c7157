//! Changes of a table definition when its columns change: column positions are adjusted everywhere.
//!
//! The binder applies each action to its copy of the definition as the planner does to the stored
//! one. So the later actions of an ALTER TABLE are bound to the result of the earlier ones.

use std::sync::Arc;

use super::def::{ColumnDef, EXPRESSION, TableDef};
use crate::parser::{mentions, renamed};

impl TableDef {
    /// Appends a column.
    pub fn push_column(&mut self, column: ColumnDef) {
        self.columns.push(column);
        self.number_columns();
    }

    /// Removes a column, with the indexes and constraints that depend on it. That can violate
    /// CAT-1; the caller that stores the definition provides a first index.
    pub fn remove_column(&mut self, column: usize) {
        let removed = self.columns.remove(column);
        self.number_columns();
        let id = self.id;
        self.indexes.retain(|index| !index.concerns(column));
        for more in self.indexes.iter_mut().map(|index| &mut index.more) {
            move_all(&mut more.include, column);
            if let Some(predicate) = &mut more.predicate {
                let condition = &mut predicate.condition;
                condition.remap_columns(&mut |slot| moved(slot, column));
            }
        }
        for index in &mut self.indexes {
            for expression in &mut index.more.expressions {
                let value = &mut expression.value;
                value.remap_columns(&mut |slot| moved(slot, column));
            }
            let keys = index.columns.iter_mut();
            for key in keys.filter(|key| key.column < EXPRESSION) {
                key.column = moved(key.column, column);
            }
        }
        if let Some(by) = &mut self.partitioning {
            by.column = moved(by.column, column);
        }
        if let Some(hierarchy) = &mut self.hierarchy {
            if let Some(key) = &mut hierarchy.key {
                move_all(&mut key.columns, column);
            }
            if let Some(tree) = &mut hierarchy.tree {
                Arc::make_mut(tree).lost_column(column);
            }
        }
        let rules = &mut self.rules;
        rules
            .checks
            .retain(|check| !mentions(&check.text, &removed.name));
        rules.comments.retain(|(on, _)| *on != Some(column));
        for on in rules.comments.iter_mut().filter_map(|(on, _)| on.as_mut()) {
            *on = moved(*on, column);
        }
        rules
            .triggers
            .retain(|trigger| !trigger.concerns(column, &removed.name));
        for trigger in &mut rules.triggers {
            move_all(&mut trigger.columns, column);
        }
        rules.foreign_keys.retain(|key| {
            let own = key.parent == id && key.parent_columns.contains(&column);
            !own && !key.columns.contains(&column)
        });
        for key in &mut rules.foreign_keys {
            move_all(&mut key.columns, column);
            if key.parent == id {
                move_all(&mut key.parent_columns, column);
            }
        }
    }

    /// Adjusts foreign keys after column `column` of the referenced table `parent` was dropped.
    pub fn parent_lost_column(&mut self, parent: u32, column: usize) {
        for key in &mut self.rules.foreign_keys {
            if key.parent == parent {
                move_all(&mut key.parent_columns, column);
            }
        }
    }

    /// Renames a column, also in expressions.
    pub fn rename_column(&mut self, column: usize, to: &str) {
        let from = std::mem::replace(&mut self.columns[column].name, to.to_owned());
        self.rename_in_expressions(&from, to);
    }

    /// Renames the table, also in whole-row references of expressions. Returns the old name.
    pub fn rename(&mut self, to: &str) -> String {
        let from = std::mem::replace(&mut self.name, to.to_owned());
        // A column has precedence over a whole-row reference of the same name.
        if self.column(&from).is_none() {
            self.rename_in_expressions(&from, to);
        }
        from
    }

    fn rename_in_expressions(&mut self, from: &str, to: &str) {
        for check in &mut self.rules.checks {
            check.text = renamed(&check.text, from, to);
        }
        let conditions = self.rules.triggers.iter_mut();
        for condition in conditions.flat_map(|trigger| &mut trigger.condition) {
            *condition = renamed(condition, from, to);
        }
        let conditions = self.indexes.iter_mut().map(|i| &mut i.more.predicate);
        for predicate in conditions.flatten() {
            predicate.text = renamed(&predicate.text, from, to);
        }
        let expressions = self.indexes.iter_mut();
        for expression in expressions.flat_map(|index| &mut index.more.expressions) {
            expression.text = renamed(&expression.text, from, to);
        }
        for column in &mut self.columns {
            if let Some(text) = &mut column.more.generated {
                *text = renamed(text, from, to);
            }
        }
    }

    /// Returns the generated columns that read `column`.
    pub fn generated_from(&self, column: usize) -> Vec<&ColumnDef> {
        let name = &self.columns[column].name;
        let reads = |c: &&ColumnDef| {
            let text = c.more.generated.as_deref();
            text.is_some_and(|text| mentions(text, name))
        };
        self.columns.iter().filter(reads).collect()
    }

    fn number_columns(&mut self) {
        for (number, column) in (1..).zip(&mut self.columns) {
            column.attnum = number;
        }
    }
}

pub(in crate::catalog) fn move_all(columns: &mut [usize], removed: usize) {
    for column in columns {
        *column = moved(*column, removed);
    }
}

/// Returns the position of a column after another one was removed.
fn moved(column: usize, removed: usize) -> usize {
    column - usize::from(column > removed)
}
