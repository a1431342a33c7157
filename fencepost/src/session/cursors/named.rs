//! Portals with names as a protocol has them: Bind makes one, Execute runs it, Close ends it. They are cursors that are
//! only read forward, and cursors of DECLARE can be run and closed so, too.

use std::sync::Arc;

use fencepost_planner::{Kept, RowSink, Tag};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::Halt;

use super::cursor::Cursor;
use super::fetch::cannot_run;
use super::{Completion, Session};
use crate::prepared::{Portal, Prepared};

impl Session {
    /// Gives a portal that has not begun a name until its transaction ends; `binary` says which columns are sent in
    /// binary, none where it is empty.
    ///
    /// # Errors
    /// 42P03 where there is a cursor of that name.
    pub fn bind_named(
        &mut self,
        name: &str,
        portal: Portal,
        binary: Box<[bool]>,
    ) -> Result<(), SqlError> {
        self.check_cursor_free(name).inspect_err(|_| self.fail())?;
        let mut cursor = Cursor::bound(portal, Kept::new(&self.db.machine));
        cursor.binary = binary;
        cursor.created = self.eval.statement_start;
        // It goes with the transaction of the statements up to the next sync.
        self.enter();
        self.add_cursor(name, cursor);
        Ok(())
    }

    /// The statement of a named portal or cursor, and which of its columns are sent in binary.
    pub fn named_portal(&self, name: &str) -> Option<(&Arc<Prepared>, &[bool])> {
        let cursor = self.cursors.get(name)?;
        Some((&cursor.portal.prepared, &cursor.binary))
    }

    /// Ends a named portal or cursor; it need not exist.
    pub fn close_named(&mut self, name: &str) {
        if self.cursors.named.remove(name).is_some() {
            self.cursors_changed();
        }
    }

    /// As [`Session::run`], or [`Session::run_last`] if it is the `last` one, of a named portal.
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

    /// The next rows of a cursor.
    async fn run_rows(
        &mut self,
        name: &str,
        cursor: &mut Cursor,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, Halt> {
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
