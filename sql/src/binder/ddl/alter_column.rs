//! ALTER COLUMN of ALTER TABLE: defaults, NOT NULL, types and identity.

use std::sync::Arc;

use sqlparser::ast;

use super::super::expr::Clause;
use super::super::from::table_leaf;
use super::super::scope::Scope;
use super::super::{Binder, names};
use super::check_column_type;
use super::column_errors::{check_own, in_partition_key};
use super::constraint::keeps_keys;
use crate::bound::{AlterAction, Expr, SetType};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::parser::mentions;
use crate::types::{Type, TypeKind};

impl Binder<'_> {
    pub(super) fn alter_column(
        &mut self,
        table: &mut TableDef,
        ident: &ast::Ident,
        operation: &ast::AlterColumnOperation,
    ) -> Result<AlterAction, SqlError> {
        use ast::AlterColumnOperation as Op;
        let name = names::fold(ident);
        let column = table
            .column(&name)
            .ok_or_else(|| names::no_column_of(&name, &table.name))?;
        match operation {
            Op::SetDefault { .. } | Op::DropDefault
                if table.columns[column].more.generated.is_some() =>
            {
                Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!(
                        "column \"{name}\" of relation \"{}\" is a generated column",
                        table.name
                    ),
                ))
            }
            Op::SetDefault { value } => {
                let bound = self.scalar(value, &Scope::default(), Clause::Default)?;
                let definition = &table.columns[column];
                self.assign(bound, definition)
                    .map_err(super::table::default_error)?;
                let default = Some(self.default_text(value));
                table.columns[column].default.clone_from(&default);
                Ok(AlterAction::SetDefault { column, default })
            }
            Op::DropDefault => Ok(AlterAction::SetDefault {
                column,
                default: None,
            }),
            Op::SetNotNull => Ok(AlterAction::SetNotNull {
                column,
                not_null: true,
            }),
            Op::DropNotNull => {
                self.check_nullable_above(table, column)?;
                Ok(AlterAction::SetNotNull {
                    column,
                    not_null: false,
                })
            }
            Op::SetDataType {
                data_type, using, ..
            } => self.set_type(table, column, data_type, using.as_ref()),
            Op::AddGenerated { generated_as, .. } => {
                self.add_identity(table, column, ident, generated_as.as_ref())
            }
        }
    }

    fn set_type(
        &mut self,
        table: &mut TableDef,
        column: usize,
        data_type: &ast::DataType,
        using: Option<&ast::Expr>,
    ) -> Result<AlterAction, SqlError> {
        let declared = self.type_of(data_type)?;
        check_column_type(&table.columns[column].name, declared)?;
        self.check_type_usage(declared)?;
        let (ty, domain) = (declared.plain(), declared.as_domain());
        let collation = self.type_collation(&table.columns[column].name, declared)?;
        let before = table.columns[column].clone();
        check_own(table, "alter", &before.name)?;
        if table.is_partition_column(column) {
            return Err(in_partition_key(table, "alter", &before.name));
        }
        let changes_kind = before.ty.kind != ty.kind;
        let in_key = |keys: &[crate::catalog::ForeignKeyDef]| {
            keys.iter().any(|key| key.columns.contains(&column))
        };
        if changes_kind
            && (using.is_some() || !keeps_keys(before.ty.kind, ty.kind))
            && (in_key(&table.rules.foreign_keys) || self.is_referenced(table, column)?)
        {
            return Err(SqlError::unsupported(
                "ALTER COLUMN TYPE of a foreign key's column",
            ));
        }
        if self.is_viewed(table, column) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a view or rule",
            ));
        }
        if !table.generated_from(column).is_empty() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used by a generated column",
            ));
        }
        let mut triggers = table.rules.triggers.iter();
        if let Some(trigger) = triggers.find(|trigger| trigger.concerns(column, &before.name)) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot alter type of a column used in a trigger definition",
            )
            .detail(format!(
                "trigger {} on table {} depends on column \"{}\"",
                trigger.name, table.name, before.name
            )));
        }
        let mut after = before.clone();
        after.ty = ty;
        after.more.domain = domain;
        let mut scope = Scope::default();
        scope.push(table_leaf(table, None, 0))?;
        let value = match using {
            Some(using) => self.scalar(using, &scope, Clause::Transform)?,
            None => Expr::column(before.ty, column),
        };
        let value = self.assign(value, &after).map_err(|error| {
            match (error.sqlstate() == SqlState::DATATYPE_MISMATCH, using) {
                (true, None) => cannot_cast(&before.name, ty),
                _ => error,
            }
        })?;
        if before.default.is_some() {
            self.default_of(&after).map_err(|_| {
                SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "default for column \"{}\" cannot be cast automatically to type {ty}",
                        before.name
                    ),
                )
            })?;
        }
        let text = |kind| matches!(kind, TypeKind::Text | TypeKind::VarChar);
        let relabels = using.is_none()
            && domain.is_none()
            && text(before.ty.kind)
            && text(ty.kind)
            && (ty.typmod == -1 || (before.ty.typmod != -1 && before.ty.typmod <= ty.typmod));
        table.columns[column] = after;
        let rules = self.row_rules(table)?;
        Ok(AlterAction::SetType(Box::new(SetType {
            collation,
            column,
            ty,
            domain,
            value,
            rules,
            relabels,
        })))
    }

    /// Returns whether the text of a view mentions the name of the column.
    pub(super) fn is_viewed(&self, table: &TableDef, column: usize) -> bool {
        let name = &table.columns[column].name;
        let views = self.catalog.views_of(table.id);
        views.iter().any(|view| mentions(&view.text, name))
    }

    /// Checks that the parent of a partition allows NULL in the column; 42P16 if it does not.
    fn check_nullable_above(&self, table: &TableDef, column: usize) -> Result<(), SqlError> {
        let of = table.partition_of_table();
        let above = of.map(|of| self.catalog.table_by_id(of.parent));
        let above: Option<Arc<TableDef>> = above.transpose()?.flatten();
        let in_key = table.primary_key().is_some_and(|key| key.covers(column));
        match !in_key && above.is_some_and(|above| above.columns[column].not_null) {
            false => Ok(()),
            true => Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!(
                    "column \"{}\" is marked NOT NULL in parent table",
                    table.columns[column].name
                ),
            )),
        }
    }

    /// Returns whether a foreign key references the column.
    fn is_referenced(&self, table: &TableDef, column: usize) -> Result<bool, SqlError> {
        for child in &table.rules.referenced_by {
            let child: Option<Arc<TableDef>> = self.catalog.table_by_id(*child)?;
            let leads = |key: &crate::catalog::ForeignKeyDef| {
                key.parent == table.id && key.parent_columns.contains(&column)
            };
            if child.is_some_and(|child| child.rules.foreign_keys.iter().any(leads)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn cannot_cast(name: &str, ty: Type) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("column \"{name}\" cannot be cast automatically to type {ty}"),
    )
    .hint(format!("You might need to specify \"USING {name}::{ty}\"."))
}
