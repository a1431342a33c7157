//! DROP EXPRESSION, ALTER CONSTRAINT, VALIDATE CONSTRAINT, and ADD CONSTRAINT … USING INDEX.

use super::super::expr::Clause;
use super::super::{Binder, names};
use crate::bound::{AlterAction, AlterTable, Statement};
use crate::catalog::{IndexKind, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser::{ConstraintAction, ConstraintActionSyntax};

impl Binder<'_> {
    /// Binds VALIDATE CONSTRAINT.
    pub(super) fn validate(
        &mut self,
        table: &TableDef,
        name: &str,
    ) -> Result<AlterAction, SqlError> {
        if table.is_parent() {
            return Err(SqlError::unsupported(
                "VALIDATE CONSTRAINT of a partitioned table",
            ));
        }
        if let Some(check) = table.rules.checks.iter().find(|check| check.name == name) {
            let stored = |binder: &mut Binder<'_>| binder.stored(table, &check.text, Clause::Check);
            let condition = self.of_table(table, stored)?;
            return Ok(AlterAction::ValidateCheck {
                name: name.to_owned(),
                condition: self.condition(condition, "CHECK")?,
            });
        }
        if table.rules.foreign_keys.iter().any(|key| key.name == name) {
            let name = name.to_owned();
            return Ok(AlterAction::ValidateForeignKey { name });
        }
        let of = format!("constraint \"{name}\" of relation \"{}\"", table.name);
        Err(
            match table.index(name).is_some_and(|index| index.constraint) {
                true => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("{of} is not a foreign key or check constraint"),
                ),
                false => SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{of} does not exist")),
            },
        )
    }

    pub(in super::super) fn constraint_action(
        &mut self,
        syntax: &ConstraintActionSyntax,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = &syntax.table;
        let schema = schema.as_deref();
        let table = match self.catalog.table(schema, name)? {
            None if !syntax.if_exists => return Err(names::no_relation(schema, name)),
            table => table,
        };
        let actions = match &table {
            Some(table) => vec![self.constraint_action_on(table, &syntax.does)?],
            None => Vec::new(),
        };
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized: false,
            name: name.clone(),
            table,
            only: false,
            actions,
        }))
    }

    fn constraint_action_on(
        &self,
        table: &TableDef,
        does: &ConstraintAction,
    ) -> Result<AlterAction, SqlError> {
        match does {
            ConstraintAction::DropExpression { column, if_exists } => {
                let at = table
                    .column(column)
                    .ok_or_else(|| names::no_column_of(column, &table.name))?;
                if table.columns[at].more.generated.is_some() {
                    return Ok(AlterAction::DropExpression { column: at });
                }
                let message = format!(
                    "column \"{column}\" of relation \"{}\" is not a stored generated column",
                    table.name
                );
                match if_exists {
                    true => Ok(AlterAction::Notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("{message}, skipping"),
                    )),
                    false => Err(not_ready(message)),
                }
            }
            ConstraintAction::Defer { name, when } => {
                let mut keys = table.rules.foreign_keys.iter();
                let of = format!("constraint \"{name}\" of relation \"{}\"", table.name);
                if keys.any(|key| key.name == *name) {
                    if table.hierarchy.is_some() {
                        let what = "ALTER CONSTRAINT of a partitioned table";
                        return Err(SqlError::unsupported(what));
                    }
                    return Ok(AlterAction::DeferForeignKey {
                        name: name.clone(),
                        when: *when,
                    });
                }
                Err(match table.has_constraint(name) {
                    true => SqlError::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("{of} is not a foreign key constraint"),
                    ),
                    false => {
                        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{of} does not exist"))
                    }
                })
            }
            ConstraintAction::UseIndex {
                name,
                primary,
                index,
                when,
            } => {
                self.check_key_index(table, index, *primary)?;
                if when.0 {
                    let what = "a DEFERRABLE constraint USING INDEX";
                    return Err(SqlError::unsupported(what));
                }
                Ok(AlterAction::UseIndex {
                    index: index.clone(),
                    name: name.clone().unwrap_or_else(|| index.clone()),
                    primary: *primary,
                })
            }
        }
    }

    /// Checks that the existing index can become the index of a constraint.
    fn check_key_index(&self, table: &TableDef, name: &str, primary: bool) -> Result<(), SqlError> {
        if table.is_parent() {
            let what =
                "ALTER TABLE / ADD CONSTRAINT USING INDEX is not supported on partitioned tables";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let Some(index) = table.index(name) else {
            let other = self.catalog.table_of_index(Some(&table.schema), name)?;
            return Err(match other {
                Some(_) => not_ready(format!(
                    "index \"{name}\" does not belong to table \"{}\"",
                    table.name
                )),
                None => SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("index \"{name}\" does not exist"),
                ),
            });
        };
        if index.constraint {
            let message = format!("index \"{name}\" is already associated with a constraint");
            return Err(not_ready(message));
        }
        let plain = |c: &crate::catalog::IndexColumn| !c.desc && !c.nulls_first;
        let crooked = index.columns.iter().position(|column| !plain(column));
        let wrong = if !index.is_unique() {
            format!("\"{name}\" is not a unique index")
        } else if !index.more.expressions.is_empty() {
            format!("index \"{name}\" contains expressions")
        } else if index.is_partial() {
            format!("\"{name}\" is a partial index")
        } else if index.kind != IndexKind::BTree {
            format!("index \"{name}\" is not a btree")
        } else if let Some(at) = crooked {
            format!(
                "index \"{name}\" column number {} does not have default sorting behavior",
                at + 1
            )
        } else if primary && table.primary_key().is_some() {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!(
                    "multiple primary keys for table \"{}\" are not allowed",
                    table.name
                ),
            ));
        } else {
            return Ok(());
        };
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, wrong)
            .detail("Cannot create a primary key or unique constraint using such an index."))
    }
}

/// Returns the error 55000 with this message.
fn not_ready(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
