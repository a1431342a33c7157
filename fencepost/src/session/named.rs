//! The named statements of a session, created by PREPARE or by a client's Parse.

use std::sync::Arc;

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::statements::{NamedInfo, NamedStatement};
use fencepost_sql::types::Type;

use super::Session;
use crate::prepared::PreparedStatement;

/// A named statement.
pub(super) struct NamedPrepared {
    prepared: Arc<PreparedStatement>,
    made: i64,
    /// The text of the PREPARE statement, if there was one.
    prepare: Option<String>,
}

impl std::fmt::Debug for NamedPrepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.prepared.planned.text)
    }
}

impl NamedStatement for NamedPrepared {
    fn info(&self) -> NamedInfo {
        let text = self.prepare.as_ref();
        let types = self.prepared.parameter_types().iter();
        NamedInfo {
            text: text.unwrap_or(&self.prepared.planned.text).clone(),
            types: types.map(Type::oid).collect(),
            made: self.made,
            from_sql: self.prepare.is_some(),
        }
    }
}

impl Session {
    /// Returns the statement `name`, created by PREPARE or by [`Session::keep_statement`].
    ///
    /// # Errors
    /// 26000 if there is none.
    #[inline]
    pub fn named(&self, name: &str) -> Result<&Arc<PreparedStatement>, SqlError> {
        let named = self.named.get(name).map(|named| &named.prepared);
        named.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// Checks that no statement `name` exists.
    ///
    /// # Errors
    /// 42P05 if one exists.
    pub fn check_name_free(&self, name: &str) -> Result<(), SqlError> {
        match self.named.contains_key(name) {
            false => Ok(()),
            true => Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )),
        }
    }

    /// Stores a statement under a free name, which [`Session::check_name_free`] checks. EXECUTE can
    /// use it, too. Replaces a statement of that name.
    pub fn keep_statement(&mut self, name: &str, prepared: Arc<PreparedStatement>) {
        self.keep_named(name, prepared, None);
    }

    fn keep_named(
        &mut self,
        name: &str,
        prepared: Arc<PreparedStatement>,
        prepare: Option<String>,
    ) {
        prepared.note_named();
        let named = Arc::new(NamedPrepared {
            prepared,
            made: self.eval.clock_now(),
            prepare,
        });
        let entry: Arc<dyn NamedStatement> = Arc::clone(&named) as _;
        self.eval.prepared.insert(name.into(), entry);
        self.named.insert(name.into(), named);
    }

    /// Removes a statement, if it exists.
    pub fn forget_statement(&mut self, name: &str) {
        self.named.remove(name);
        self.eval.prepared.remove(name);
    }

    /// Removes all named statements.
    pub(super) fn forget_statements(&mut self) {
        self.named.clear();
        self.eval.prepared.clear();
    }

    /// Executes PREPARE; `prepare` is its whole text.
    pub(super) fn prepare_named(
        &mut self,
        name: &str,
        param_types: &[Type],
        text: &str,
        prepare: &str,
    ) -> Result<&'static str, SqlError> {
        self.check_name_free(name)?;
        let oid = |ty: &Type| match *ty {
            Type::UNKNOWN => 0,
            ty => ty.oid(),
        };
        let oids: Vec<u32> = param_types.iter().map(oid).collect();
        let prepared = self.parse(text, &oids)?;
        self.keep_named(name, prepared, Some(prepare.to_owned()));
        Ok("PREPARE")
    }

    /// Executes DEALLOCATE; no name means ALL.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str, SqlError> {
        let Some(name) = name else {
            self.forget_statements();
            return Ok("DEALLOCATE ALL");
        };
        self.named(name)?;
        self.forget_statement(name);
        Ok("DEALLOCATE")
    }
}
