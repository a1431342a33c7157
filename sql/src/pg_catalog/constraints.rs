//! Constraints of tables: the rows of `pg_constraint`.

use super::objects::namespace;
use super::rows::Rows;
use super::{Constraint, RowInputs};
use crate::catalog::{ForeignKeyDef, IndexDef, Referential, TableDef};
use crate::value::{Array, Value};

/// Adds the rows of `pg_constraint`. A constraint with an index has the oid of the index.
pub fn constraints(rows: &mut Rows, around: &RowInputs<'_>) {
    super::user_types::constraints(rows, around);
    for table in around.snapshot.tables() {
        for constraint in Constraint::all(&table) {
            let keys = constraint.columns(&table);
            let keys = keys.iter().map(|at| Value::Int2(table.columns[*at].attnum));
            let kind = match &constraint {
                Constraint::Key(index) if index.primary => "p",
                Constraint::Key(_) => "u",
                Constraint::Check(_) => "c",
                Constraint::Foreign(_) => "f",
            };
            let own = [
                ("oid", Value::Oid(constraint.id())),
                ("conname", Value::text(constraint.name())),
                ("connamespace", namespace(around, &table.schema)),
                ("contype", Value::text(kind)),
                ("convalidated", Value::Bool(constraint.is_valid())),
                ("conrelid", Value::Oid(table.id)),
                (
                    "conislocal",
                    Value::Bool(table.link(constraint.id()).is_none()),
                ),
                (
                    "coninhcount",
                    Value::Int4(i32::from(table.link(constraint.id()).is_some())),
                ),
                (
                    "conparentid",
                    Value::Oid(match kind {
                        "c" => 0,
                        _ => table.link(constraint.id()).unwrap_or(0),
                    }),
                ),
                (
                    "connoinherit",
                    Value::Bool(constraint.is_inherited_by_none()),
                ),
                ("conkey", Array::of(keys.collect()).into()),
            ];
            rows.add(own.into_iter().chain(more(&table, &constraint, around)));
        }
        for trigger in &table.rules.triggers {
            if let Some(constraint) = &trigger.constraint {
                let none = || Value::text(" ");
                rows.add([
                    ("oid", Value::Oid(trigger.id)),
                    ("conname", Value::text(&trigger.name)),
                    ("connamespace", namespace(around, &table.schema)),
                    ("contype", Value::text("t")),
                    ("condeferrable", Value::Bool(constraint.deferrable)),
                    ("condeferred", Value::Bool(constraint.deferred)),
                    ("convalidated", Value::Bool(true)),
                    ("conrelid", Value::Oid(table.id)),
                    ("conislocal", Value::Bool(true)),
                    ("connoinherit", Value::Bool(true)),
                    ("confupdtype", none()),
                    ("confdeltype", none()),
                    ("confmatchtype", none()),
                ]);
            }
        }
    }
}

/// Returns the columns that only some constraints have.
fn more(
    table: &TableDef,
    constraint: &Constraint<'_>,
    around: &RowInputs<'_>,
) -> Vec<(&'static str, Value)> {
    let none = || Value::text(" ");
    let foreign = |update: Value, delete: Value, matching: Value| {
        [
            ("confupdtype", update),
            ("confdeltype", delete),
            ("confmatchtype", matching),
        ]
    };
    match constraint {
        Constraint::Key(index) => {
            let deferrable = index.more.deferrable;
            let mut all = vec![
                ("conindid", Value::Oid(index.id)),
                ("condeferrable", Value::Bool(deferrable.is_some())),
                ("condeferred", Value::Bool(deferrable == Some(true))),
            ];
            all.extend(foreign(none(), none(), none()));
            all
        }
        Constraint::Check(check) => {
            let mut all = vec![("conbin", Value::text(&check.text))];
            all.extend(foreign(none(), none(), none()));
            all
        }
        Constraint::Foreign(key) => {
            let parent = around.snapshot.relation(key.parent);
            let matching = Value::text(if key.full { "f" } else { "s" });
            let mut all = vec![
                ("confrelid", Value::Oid(key.parent)),
                ("condeferrable", Value::Bool(key.deferrable)),
                ("condeferred", Value::Bool(key.deferred)),
            ];
            all.extend(foreign(
                letter(key.on_update),
                letter(key.on_delete),
                matching,
            ));
            if !key.delete_columns.is_empty() {
                let numbers = key.listed_on_delete().into_iter();
                let numbers = numbers.map(|at| Value::Int2(table.columns[at].attnum));
                all.push(("confdelsetcols", Array::of(numbers.collect()).into()));
            }
            if let Some(parent) = parent {
                let numbers = key.parent_columns.iter();
                let numbers = numbers.map(|at| Value::Int2(parent.columns[*at].attnum));
                all.push(("confkey", Array::of(numbers.collect()).into()));
                let index = parent_index(&parent, key);
                all.push(("conindid", Value::Oid(index.map_or(0, |index| index.id))));
            }
            all
        }
    }
}

/// Returns the index by which the rows of a parent table are found (FK-1).
pub fn parent_index<'a>(parent: &'a TableDef, key: &ForeignKeyDef) -> Option<&'a IndexDef> {
    let position = parent.referenced_index(key)?;
    parent.indexes.get(position)
}

fn letter(action: Referential) -> Value {
    Value::text(match action {
        Referential::NoAction => "a",
        Referential::Restrict => "r",
        Referential::Cascade => "c",
        Referential::SetNull => "n",
        Referential::SetDefault => "d",
    })
}
