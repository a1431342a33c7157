//! The stored texts of a table, and whether they can still be bound after a type or a label is
//! renamed.

use super::expr::Clause;
use super::path::PathView;
use super::{Binder, ParamTypes, index_condition, index_expression, search_path};
use crate::catalog::{CatalogView, RoutineDef, TableDef};
use crate::context::EvalContext;
use crate::parser;

/// One stored text of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredText {
    /// The default of a column, by position.
    Default(usize),
    /// The expression of a generated column, by position.
    Generated(usize),
    /// The condition of a CHECK, by name.
    Check(String),
    /// The condition of an index or an expression in it, by name.
    Index(String),
    /// The condition of a trigger, by name.
    Trigger(String),
}

/// Returns the texts of `table` that cannot be bound in a catalog.
pub fn unbound(table: &TableDef, catalog: &dyn CatalogView, cx: &EvalContext) -> Vec<StoredText> {
    let path = search_path(catalog, cx);
    let along = PathView {
        catalog,
        path: &path,
    };
    // The columns have the types of that catalog.
    let table = &with_types(table, catalog);
    let mut none = ParamTypes::new();
    let mut binder = Binder::of("", (&along, &path), &mut none, (cx, 0));
    let mut lost = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        if binder.default_of(column).is_err() {
            lost.push(StoredText::Default(at));
        }
        if let Some(text) = &column.more.generated {
            let value = binder.of_table(table, |of| of.stored(table, text, Clause::Generated));
            if value
                .and_then(|value| binder.assign(value, column))
                .is_err()
            {
                lost.push(StoredText::Generated(at));
            }
        }
    }
    for check in &table.rules.checks {
        let bound = binder.of_table(table, |of| of.stored(table, &check.text, Clause::Check));
        if bound.is_err() {
            lost.push(StoredText::Check(check.name.clone()));
        }
    }
    for index in &table.indexes {
        if let Some(predicate) = &index.more.predicate
            && index_condition(table, &predicate.text, catalog).is_err()
        {
            lost.push(StoredText::Index(index.name.clone()));
        }
        let mut expressions = index.more.expressions.iter();
        if expressions.any(|of| index_expression(table, &of.text, catalog).is_err()) {
            lost.push(StoredText::Index(index.name.clone()));
        }
    }
    for trigger in &table.rules.triggers {
        if let Some(text) = &trigger.condition
            && binder.trigger_condition(table, text).is_err()
        {
            lost.push(StoredText::Trigger(trigger.name.clone()));
        }
    }
    lost
}

/// Returns the defaults, CHECKs and generated columns of `table` that call a user-defined function.
pub fn calling(
    table: &TableDef,
    routine: &RoutineDef,
    catalog: &dyn CatalogView,
    cx: &EvalContext,
) -> Vec<StoredText> {
    let path = search_path(catalog, cx);
    let along = PathView {
        catalog,
        path: &path,
    };
    let mut none = ParamTypes::new();
    let mut binder = Binder::of("", (&along, &path), &mut none, (cx, 0));
    let mut calls = |text: &str, clause: Clause| {
        parser::calls(text, &routine.name) && {
            let bound = match clause {
                Clause::Default => binder.stored(table, text, clause),
                _ => binder.of_table(table, |binder| binder.stored(table, text, clause)),
            };
            let mut found = false;
            if let Ok(bound) = &bound {
                bound.for_each_routine(&mut |call| found |= call.routine.id == routine.id);
            }
            // A text that cannot be bound may contain the call.
            found || bound.is_err()
        }
    };
    let mut found = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let generated = column.more.generated.as_deref();
        if generated.is_some_and(|text| calls(text, Clause::Generated)) {
            found.push(StoredText::Generated(at));
        }
        let default = column.default.as_deref();
        if default.is_some_and(|text| calls(text, Clause::Default)) {
            found.push(StoredText::Default(at));
        }
    }
    for check in &table.rules.checks {
        if calls(&check.text, Clause::Check) {
            found.push(StoredText::Check(check.name.clone()));
        }
    }
    found
}

fn with_types(table: &TableDef, catalog: &dyn CatalogView) -> TableDef {
    let mut table = table.clone();
    for column in &mut table.columns {
        let is_array = column.ty.element().is_some();
        if let Some(ty) = catalog.user_type_by_id(column.ty.oid()) {
            let kind = Some(ty.kind());
            let kind = if is_array { ty.kind().array() } else { kind };
            column.ty.kind = kind.unwrap_or(column.ty.kind);
        }
    }
    table
}
