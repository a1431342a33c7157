//! ALTER TABLE and ALTER INDEX, by the name of the table, the sequence or the index.

use std::sync::Arc;

use sqlparser::ast;

use super::super::{Binder, names};
use crate::bound::{AlterAction, AlterSequence, AlterTable, SequenceOptions, Statement};
use crate::catalog::TableDef;
use crate::error::{SqlError, SqlState};
use crate::parser::{alters_index_if_exists, alters_materialized};

fn index_renamed(table: Arc<TableDef>, from: String, to: String) -> Statement {
    Statement::AlterTable(AlterTable {
        later: Vec::new(),
        materialized: false,
        name: table.name.clone(),
        table: Some(table),
        only: false,
        actions: vec![AlterAction::RenameIndex { from, to }],
    })
}

impl Binder<'_> {
    pub(in super::super) fn alter_table(
        &mut self,
        alter: &ast::AlterTable,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = names::table_name(&alter.name)?;
        let materialized = alters_materialized(self.text);
        let found = self.catalog.table(schema.as_deref(), &name)?;
        if found.is_none()
            && !materialized
            && let Some(view) = self.catalog.view(schema.as_deref(), &name)?
        {
            return self.alter_view_as_table(view, &alter.operations);
        }
        if found.is_none()
            && !materialized
            && let [ast::AlterTableOperation::RenameTable { table_name }] = &alter.operations[..]
            && let Some(renamed) = self.rename_as_table((schema.as_deref(), &name), table_name)?
        {
            return Ok(renamed);
        }
        let table = match found {
            Some(table) if materialized && table.materialized.is_none() => {
                let message = format!("\"{name}\" is not a materialized view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            None if !alter.if_exists => {
                return Err(names::no_relation(schema.as_deref(), &name));
            }
            table => table,
        };
        let mut actions = Vec::with_capacity(alter.operations.len());
        if let Some(table) = &table {
            let mut working = TableDef::clone(table);
            check_actions(table, &alter.operations)?;
            for operation in &alter.operations {
                self.alter_action(&mut working, operation, &mut actions)?;
            }
        }
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized,
            table,
            name,
            only: alter.only,
            actions,
        }))
    }

    /// Binds ALTER TABLE … RENAME TO of a sequence or an index.
    fn rename_as_table(
        &mut self,
        (schema, from): (Option<&str>, &str),
        to: &ast::RenameTableNameKind,
    ) -> Result<Option<Statement>, SqlError> {
        let (ast::RenameTableNameKind::As(to) | ast::RenameTableNameKind::To(to)) = to;
        let (_, to) = names::table_name(to)?;
        if let Some(sequence) = self.catalog.sequence(schema, from)? {
            return Ok(Some(Statement::AlterSequence(AlterSequence {
                schema: Some(sequence.schema.clone()),
                name: sequence.name.clone(),
                if_exists: false,
                rename: Some(to),
                options: SequenceOptions::default(),
                of_column: true,
            })));
        }
        let table = self.catalog.table_of_index(schema, from)?;
        Ok(table.map(|table| index_renamed(table, from.to_owned(), to)))
    }

    /// Binds ALTER INDEX … RENAME TO. Renaming the index of a constraint also renames the
    /// constraint.
    pub(in super::super) fn alter_index(
        &mut self,
        name: &ast::ObjectName,
        operation: &ast::AlterIndexOperation,
    ) -> Result<Statement, SqlError> {
        let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
        let (schema, from) = names::table_name(name)?;
        let table = self.catalog.table_of_index(schema.as_deref(), &from)?;
        let (_, to) = names::table_name(index_name)?;
        let Some(table) = table else {
            if !alters_index_if_exists(self.text) {
                return Err(names::no_relation(schema.as_deref(), &from));
            }
            return Ok(Statement::AlterTable(AlterTable {
                materialized: false,
                name: from.clone(),
                table: None,
                only: false,
                actions: vec![AlterAction::RenameIndex { from, to }],
                later: Vec::new(),
            }));
        };
        Ok(index_renamed(table, from, to))
    }
}

/// Checks for actions that a materialized view does not allow; 42809 for these.
fn check_actions(
    table: &TableDef,
    operations: &[ast::AlterTableOperation],
) -> Result<(), SqlError> {
    use ast::AlterTableOperation as Op;
    let may = |op: &&Op| matches!(op, Op::RenameColumn { .. } | Op::RenameTable { .. });
    match operations.iter().find(|op| !may(op)) {
        Some(refused) if table.materialized.is_some() => {
            let text = refused.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!(
                    "ALTER action {} cannot be performed on relation \"{}\"",
                    words.join(" "),
                    table.name
                ),
            )
            .detail("This operation is not supported for materialized views."))
        }
        _ => Ok(()),
    }
}
