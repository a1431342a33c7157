//! The actions of ALTER TABLE.

use sqlparser::ast;

use super::super::Binder;
use super::constraint::{Shape, check_not_deferrable};
use super::key_constraint;
use crate::bound::AlterAction;
use crate::catalog::TableDef;
use crate::error::SqlError;

impl Binder<'_> {
    pub(super) fn alter_action(
        &mut self,
        table: &TableDef,
        operation: &ast::AlterTableOperation,
    ) -> Result<AlterAction, SqlError> {
        use ast::AlterTableOperation as Op;
        match operation {
            Op::AddConstraint {
                constraint,
                not_valid,
            } => self.add_constraint(table, constraint, !*not_valid),
            Op::SetOptionsParens { .. } | Op::OwnerTo { .. } => Ok(AlterAction::Nothing),
            other => {
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(2).collect();
                Err(SqlError::unsupported(format!(
                    "ALTER TABLE {}",
                    words.join(" ")
                )))
            }
        }
    }

    fn add_constraint(
        &mut self,
        table: &TableDef,
        constraint: &ast::TableConstraint,
        validate: bool,
    ) -> Result<AlterAction, SqlError> {
        let shape = Shape::of(table);
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                check_not_deferrable(key.characteristics.as_ref())?;
                let key = key_constraint(table, key.name.as_ref(), &key.columns, "PRIMARY KEY")?;
                Ok(AlterAction::AddPrimaryKey(key))
            }
            ast::TableConstraint::Unique(key) => {
                check_not_deferrable(key.characteristics.as_ref())?;
                let key = key_constraint(table, key.name.as_ref(), &key.columns, "UNIQUE")?;
                Ok(AlterAction::AddUnique(key))
            }
            ast::TableConstraint::ForeignKey(key) => {
                let key = self.new_foreign_key(&shape, key.name.as_ref(), None, key)?;
                Ok(AlterAction::AddForeignKey(key, validate))
            }
            ast::TableConstraint::Check(check) => {
                let check = self.new_check(&shape, check.name.as_ref(), &check.expr)?;
                Ok(AlterAction::AddCheck(check, validate))
            }
            _ => Err(SqlError::unsupported("this kind of constraint")),
        }
    }
}
