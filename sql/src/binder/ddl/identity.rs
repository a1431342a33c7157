//! Changes of identity columns by ALTER TABLE.

use sqlparser::ast;

use super::super::{Binder, names};
use crate::bound::{
    AlterAction, AlterSequence, AlterTable, NewSequence, SequenceOptions, Statement,
};
use crate::catalog::{Identity, TableDef};
use crate::error::{SqlError, SqlState};
use crate::parser::{IdentitySyntax, identity_options};

impl Binder<'_> {
    /// Binds SET GENERATED and DROP IDENTITY.
    pub(in super::super) fn alter_identity(
        &mut self,
        syntax: &IdentitySyntax,
    ) -> Result<Statement, SqlError> {
        let (schema, name) = &syntax.table;
        let table = self.table_called(schema.as_deref(), name)?;
        let column = table
            .column(&syntax.column)
            .ok_or_else(|| names::no_column_of(&syntax.column, &table.name))?;
        if let Some(options) = &syntax.sequence {
            return self.alter_sequence_of(&table, column, options);
        }
        let action = if table.columns[column].more.identity.is_some() {
            AlterAction::SetIdentity {
                column,
                identity: syntax.identity,
            }
        } else {
            let message = format!(
                "column \"{}\" of relation \"{}\" is not an identity column",
                syntax.column, table.name
            );
            if !syntax.if_exists {
                return Err(not_ready(message));
            }
            AlterAction::Notice(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("{message}, skipping"),
            )
        };
        Ok(Statement::AlterTable(AlterTable {
            later: Vec::new(),
            materialized: false,
            name: table.name.clone(),
            table: Some(table),
            only: false,
            actions: vec![action],
        }))
    }

    /// Binds a change of the options of the sequence of an identity column.
    fn alter_sequence_of(
        &self,
        table: &TableDef,
        column: usize,
        options: &SequenceOptions,
    ) -> Result<Statement, SqlError> {
        let more = &table.columns[column].more;
        let sequence = match (more.identity, more.sequence) {
            (Some(_), Some(id)) => self.catalog.sequence_by_id(id)?,
            _ => None,
        };
        let Some(sequence) = sequence else {
            return Err(not_ready(format!(
                "column \"{}\" of relation \"{}\" is not an identity column",
                table.columns[column].name, table.name
            )));
        };
        Ok(Statement::AlterSequence(AlterSequence {
            schema: Some(sequence.schema.clone()),
            name: sequence.name.clone(),
            if_exists: false,
            rename: None,
            options: options.clone(),
            of_column: true,
        }))
    }

    /// Binds ADD GENERATED … AS IDENTITY.
    pub(super) fn add_identity(
        &mut self,
        table: &mut TableDef,
        column: usize,
        ident: &ast::Ident,
        generated_as: Option<&ast::GeneratedAs>,
    ) -> Result<AlterAction, SqlError> {
        let name = &table.name;
        let definition = &mut table.columns[column];
        let of = |what: &str| {
            format!(
                "column \"{}\" of relation \"{name}\" {what}",
                definition.name
            )
        };
        if definition.more.identity.is_some() {
            return Err(not_ready(of("is already an identity column")));
        }
        if definition.default.is_some() {
            return Err(not_ready(of("already has a default value")));
        }
        if !definition.not_null {
            let what = "must be declared NOT NULL before identity can be added";
            return Err(not_ready(of(what)));
        }
        if !definition.ty.kind.is_integer() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "identity column type must be smallint, integer, or bigint",
            ));
        }
        let identity = match generated_as {
            Some(ast::GeneratedAs::ByDefault) => Identity::ByDefault,
            _ => Identity::Always,
        };
        definition.more.identity = Some(identity);
        let kind = Some(definition.ty.kind);
        let at = self.position(ident.span);
        let options = SequenceOptions {
            kind,
            ..identity_options(self.text, at)?
        };
        Ok(AlterAction::AddIdentity(
            identity,
            NewSequence { column, options },
        ))
    }
}

/// Returns the error 55000 with this message.
fn not_ready(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
