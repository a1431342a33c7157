//! COMMENT ON.

use sqlparser::ast;

use super::super::{Binder, names};
use crate::bound::{AlterAction, AlterTable, Statement};
use crate::error::{SqlError, SqlState};

impl Binder<'_> {
    pub(in super::super) fn comment(
        &mut self,
        on: &ast::CommentObject,
        name: &ast::ObjectName,
        text: Option<&str>,
    ) -> Result<Statement, SqlError> {
        let (table, column) = match on {
            ast::CommentObject::Table => (self.table(name)?, None),
            ast::CommentObject::Column => {
                let mut parts = names::parts(name)?;
                let column = parts.pop().filter(|_| !parts.is_empty()).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified")
                })?;
                let schema = parts.len().checked_sub(2).map(|at| names::fold(parts[at]));
                let table = parts.last().map_or_else(String::new, |t| names::fold(t));
                let table = self.table_called(schema.as_deref(), &table)?;
                let column = self.column_of(&table, column)?;
                (table, Some(column))
            }
            other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
        };
        Ok(Statement::AlterTable(AlterTable {
            name: table.name.clone(),
            table: Some(table),
            actions: vec![AlterAction::Comment {
                column,
                // An empty one is none.
                text: text.filter(|text| !text.is_empty()).map(str::to_owned),
            }],
        }))
    }
}
