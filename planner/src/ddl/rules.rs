//! The creation, validation and removal of CHECK and FOREIGN KEY constraints.

use std::sync::Arc;

use fencepost_sql::bound::{Expr, NewCheck, NewForeignKey, RelatedTable, RowRules};
use fencepost_sql::catalog::{CheckDef, ForeignKeyDef, TableDef};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::DdlCx;
use super::build_index::RowWalk;
use super::cascades::tell;
use super::changes::Changes;
use super::names::fit;
use crate::exec::Cx;
use crate::store::read_row;
use crate::write::{ForeignKeyActions, References};

/// Adds a CHECK constraint to `table`. Checks the existing rows if `validate` is set.
pub async fn add_check(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    table: &mut TableDef,
    check: &NewCheck,
    validate: bool,
) -> Result<(), StatementStop> {
    let columns = match check.columns[..] {
        [only] => vec![only],
        _ => Vec::new(),
    };
    let name = constraint_name(table, check.name.as_deref(), &columns, "check")?;
    if validate {
        validate_check(cx, table, (name.as_str(), &check.condition)).await?;
    }
    table.rules.checks.push(CheckDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name,
        text: check.text.clone(),
        valid: validate,
        no_inherit: check.no_inherit,
    });
    Ok(())
}

/// Runs VALIDATE CONSTRAINT for a CHECK constraint: checks the rows unless it is already valid.
pub async fn validate_named_check(
    cx: &mut Cx<'_>,
    table: &mut TableDef,
    (name, condition): (&str, &Expr),
) -> Result<(), StatementStop> {
    let known = |check: &CheckDef| check.name == name && check.valid;
    if !table.rules.checks.iter().any(known) {
        validate_check(cx, table, (name, condition)).await?;
    }
    let mut checks = table.rules.checks.iter_mut();
    if let Some(check) = checks.find(|check| check.name == name) {
        check.valid = true;
    }
    Ok(())
}

/// Checks the existing rows against a CHECK constraint.
pub async fn validate_check(
    cx: &mut Cx<'_>,
    table: &TableDef,
    (name, condition): (&str, &Expr),
) -> Result<(), StatementStop> {
    let mut rows = Rows::of(table);
    while let Some(row) = rows.next(cx).await? {
        if cx.deep_value(condition, row).await? == Value::Bool(false) {
            return Err(violated_by_some_row(table, name).into());
        }
    }
    Ok(())
}

/// Checks the existing rows against a FOREIGN KEY constraint of their table.
pub async fn validate_foreign_key(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
    name: &str,
) -> Result<(), StatementStop> {
    let mut last = table.clone();
    let keys = &mut last.rules.foreign_keys;
    let Some(at) = keys.iter().position(|key| key.name == name) else {
        return Err(SqlError::internal("a foreign key that is not there").into());
    };
    if std::mem::replace(&mut table.rules.foreign_keys[at].valid, true) {
        return Ok(());
    }
    let key = keys.remove(at);
    let parent = match key.parent == table.id {
        true => None,
        false => Some(changes.by_id(cx, ddl, key.parent).await?.clone()),
    };
    keys.push(key);
    check_references(cx, &last, parent).await
}

/// Adds a FOREIGN KEY to `table`, and its back reference to the referenced table (FK-2). Checks the
/// existing rows if `validate` is set.
pub async fn add_foreign_key(
    cx: &mut Cx<'_>,
    ddl: &DdlCx<'_>,
    changes: &mut Changes,
    table: &mut TableDef,
    (key, validate): (&NewForeignKey, bool),
) -> Result<(), StatementStop> {
    let name = constraint_name(table, key.name.as_deref(), &key.columns, "fkey")?;
    let parent = key.parent.as_ref().map_or(table.id, |parent| parent.id);
    let referenced = key.parent.as_deref().unwrap_or(table);
    let position = match key.of_primary_key {
        true => referenced.indexes.iter().position(|index| index.primary),
        false => referenced.unique_index_of(&key.parent_columns),
    };
    let Some(index) = position.map(|position| referenced.indexes[position].id) else {
        return Err(SqlError::internal("a foreign key without an index").into());
    };
    table.rules.foreign_keys.push(ForeignKeyDef {
        id: ddl.catalog.next_oid(cx.tx).await?,
        name,
        columns: key.columns.clone(),
        parent,
        parent_columns: key.parent_columns.clone(),
        index,
        on_delete: key.on_delete,
        delete_columns: key.delete_columns.clone(),
        on_update: key.on_update,
        full: key.full,
        deferrable: key.deferrable,
        deferred: key.deferred,
        valid: validate,
        unchecked: false,
        inert: false,
    });
    let parent = match &key.parent {
        None => {
            note_reference(table, table.id);
            None
        }
        Some(parent) => {
            let parent = changes.take(cx, parent).await?;
            note_reference(parent, table.id);
            // This definition has the trees of the table's leaves.
            key.parent.as_deref().cloned()
        }
    };
    match validate {
        true => check_references(cx, table, parent).await,
        false => Ok(()),
    }
}

fn note_reference(parent: &mut TableDef, child: u32) {
    if !parent.rules.referenced_by.contains(&child) {
        parent.rules.referenced_by.push(child);
    }
}

/// Checks the newest foreign key of `child` for all its rows.
async fn check_references(
    cx: &mut Cx<'_>,
    child: &TableDef,
    parent: Option<TableDef>,
) -> Result<(), StatementStop> {
    let mut alone = child.clone();
    let newest = alone
        .rules
        .foreign_keys
        .split_off(child.rules.foreign_keys.len() - 1);
    alone.rules.foreign_keys = newest;
    let related = |table: TableDef| RelatedTable {
        table: Arc::new(table),
        rules: RowRules::default(),
        defaults: Vec::new(),
    };
    let tables = std::iter::once(alone).chain(parent).map(related);
    let Some(references) = References::of(tables.collect()) else {
        return Err(SqlError::internal("a foreign key without an index").into());
    };
    let kept = cx.deferred.take();
    let mut actions = ForeignKeyActions::new(&references);
    let mut rows = Rows::of(child);
    let checked = async {
        while let Some(row) = rows.next(cx).await? {
            actions.inserted(cx, row).await?;
        }
        actions.finish(cx).await
    };
    let checked = checked.await;
    cx.deferred = kept;
    checked
}

/// Removes the foreign keys of `child` for which `goes` returns true, and reports them.
pub fn drop_references(
    child: &mut TableDef,
    ddl: &mut DdlCx<'_>,
    goes: &dyn Fn(&ForeignKeyDef) -> bool,
) {
    let name = child.name.clone();
    let keys = child.rules.foreign_keys.iter().map(|key| key.id);
    let inherited: Vec<u32> = keys.filter(|id| child.link(*id).is_some()).collect();
    child.rules.foreign_keys.retain(|key| {
        if goes(key) && !inherited.contains(&key.id) {
            tell(format_args!("constraint {} on table {name}", key.name), ddl);
        }
        !goes(key)
    });
}

/// Returns the name of a constraint: the given name if it is free, or a name from the table's and
/// columns' names.
pub fn constraint_name(
    table: &TableDef,
    given: Option<&str>,
    columns: &[usize],
    suffix: &str,
) -> Result<String, SqlError> {
    if let Some(name) = given {
        return match table.has_constraint(name) {
            false => Ok(name.to_owned()),
            true => Err(SqlError::new(
                SqlState::DUPLICATE_OBJECT,
                format!(
                    "constraint \"{name}\" for relation \"{}\" already exists",
                    table.name
                ),
            )),
        };
    }
    let names: Vec<&str> = columns
        .iter()
        .map(|c| table.columns[*c].name.as_str())
        .collect();
    let middle = names.join("_");
    let mut number = 0;
    loop {
        let end = match number {
            0 => suffix.to_owned(),
            n => format!("{suffix}{n}"),
        };
        let name = fit(&table.name, &middle, &end);
        if !table.has_constraint(&name) {
            return Ok(name);
        }
        number += 1;
    }
}

fn violated_by_some_row(table: &TableDef, name: &str) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "check constraint \"{name}\" of relation \"{}\" is violated by some row",
            table.name
        ),
    )
    .table(&table.schema, &table.name)
    .constraint(name)
}

/// A scan of the whole rows of a table.
pub struct Rows {
    layout: RowLayout,
    walk: RowWalk,
    words: Vec<u64>,
    row: Vec<Value>,
}

impl Rows {
    pub fn of(table: &TableDef) -> Rows {
        let layout = RowLayout::new(&table.columns);
        Rows {
            row: vec![Value::Null; layout.width()],
            layout,
            walk: RowWalk::new(table),
            words: Vec::new(),
        }
    }

    pub async fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<&[Value]>, StatementStop> {
        while let Some(place) = self.walk.next(cx).await? {
            if read_row(&mut cx.seen(), place.addr, &mut self.words).await? {
                self.layout.decode(&self.words, &mut self.row)?;
                return Ok(Some(&self.row));
            }
        }
        Ok(None)
    }
}
