//! Named portals of the wire protocol: Bind creates one, Execute runs it, Close ends it. They are
//! forward-only cursors. The protocol can also run and close cursors of DECLARE.

use std::sync::Arc;

use fencepost_planner::{MaterializedRows, RowSink, Tag};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::cursor::Cursor;
use super::fetch::cannot_run;
use super::{Completion, Session};
use crate::prepared::{Portal, PreparedStatement};

impl Session {
    /// Gives a portal that has not started a name until its transaction ends. `binary` says for
    /// each column whether it is sent in binary; if it is empty, none is.
    ///
    /// # Errors
    /// 42P03 if a cursor of that name exists.
    pub fn bind_named(
        &mut self,
        name: &str,
        portal: Portal,
        binary: Box<[bool]>,
    ) -> Result<(), SqlError> {
        self.check_cursor_free(name).inspect_err(|_| self.fail())?;
        let mut cursor = Cursor::bound(portal, MaterializedRows::new(&self.db.machine));
        cursor.binary = binary;
        cursor.created = self.eval.statement_start;
        // The portal belongs to the transaction of the statements up to the next Sync.
        self.enter();
        self.add_cursor(name, cursor);
        Ok(())
    }

    /// Returns the statement of a named portal or cursor, and which columns are sent in binary.
    pub fn named_portal(&self, name: &str) -> Option<(&Arc<PreparedStatement>, &[bool])> {
        let cursor = self.cursors.get(name)?;
        Some((&cursor.portal.prepared, &cursor.binary))
    }

    /// Closes a named portal or cursor, if it exists.
    pub fn close_named(&mut self, name: &str) {
        if self.cursors.named.remove(name).is_some() {
            self.cursors_changed();
        }
    }

    /// Does the same as [`Session::run`] for a named portal, or as [`Session::run_last`] if it is
    /// the `last` statement.
    ///
    /// # Errors
    /// 34000 if there is no portal or cursor `name`; otherwise as of [`Session::run`].
    pub async fn run_named(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn RowSink,
        last: bool,
    ) -> Result<Completion, SqlError> {
        let Some((name, mut cursor)) = self.cursors.named.remove_entry(name) else {
            self.fail();
            return Err(super::no_cursor(name));
        };
        let transaction = self.transaction;
        let ran = match cursor.is_read_as_one(max_rows) {
            true => {
                let ran = self.run_portal(&mut cursor.portal, max_rows, sink, last);
                let ran = ran.await;
                cursor.over |= matches!(ran, Ok(Completion::Complete(_)));
                ran
            }
            false => {
                let ran = self.run_rows(&name, &mut cursor, max_rows, sink).await;
                self.ended(ran).await
            }
        };
        cursor.failed |= ran.is_err();
        if cursor.held || self.transaction == transaction {
            self.cursors.named.insert(name, cursor);
        } else {
            self.cursors_changed();
        }
        ran
    }

    /// Returns the next rows of a cursor.
    async fn run_rows(
        &mut self,
        name: &str,
        cursor: &mut Cursor,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, StatementStop> {
        self.check_not_failed()?;
        if cursor.failed {
            return Err(cannot_run(name).into());
        }
        self.start_statement();
        let wanted = (max_rows > 0).then_some(max_rows as u64);
        let given = self.forward(cursor, wanted, sink).await?;
        Ok(match cursor.position.at_end {
            true => Completion::Complete(Tag::counted("SELECT", given)),
            false => Completion::Suspended,
        })
    }
}
