//! What says how PostgreSQL keeps rows: that what it names is there.

use super::super::{Binder, names};
use crate::bound::{AlterAction, AlterTable, Statement};
use crate::error::{SqlError, SqlState};
use crate::parser::{KeepingSyntax, KeptKind, KeptPart};

impl Binder<'_> {
    pub(in super::super) fn alter_keeping(
        &mut self,
        syntax: &KeepingSyntax,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = &syntax.name;
        let schema = schema.as_deref();
        let table = match syntax.of {
            KeptKind::Index => self.catalog.table_of_index(schema, name)?,
            KeptKind::Table | KeptKind::Materialized => self.catalog.table(schema, name)?,
        };
        let materialized = syntax.of == KeptKind::Materialized;
        match &table {
            None if !syntax.if_exists => return Err(names::no_relation(schema, name)),
            Some(table) if materialized && table.materialized.is_none() => {
                let message = format!("\"{name}\" is not a materialized view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => {}
        }
        if let Some(table) = &table {
            for part in &syntax.parts {
                match part {
                    KeptPart::Column(column) if table.column(column).is_none() => {
                        return Err(names::no_column_of(column, &table.name));
                    }
                    KeptPart::Index(index) if table.index(index).is_none() => {
                        return Err(SqlError::new(
                            SqlState::UNDEFINED_OBJECT,
                            format!(
                                "index \"{index}\" for table \"{}\" does not exist",
                                table.name
                            ),
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(Statement::AlterTable(AlterTable {
            materialized,
            name: name.clone(),
            table,
            only: false,
            actions: vec![AlterAction::Nothing {
                of_index: syntax.of == KeptKind::Index,
            }],
        }))
    }
}
