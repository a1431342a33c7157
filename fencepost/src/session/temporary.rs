//! Temporary objects: the session's own schema is created when first needed, and dropped at its
//! end.

use std::pin::pin;
use std::sync::Arc;

use fencepost_planner::{
    DdlCx, drop_temporary_schema, end_temporary, made_until_commit, make_temporary_schema,
};
use fencepost_sql::bound::{OnCommit, Statement};
use fencepost_sql::catalog::temporary::Temporary;
use fencepost_sql::catalog::{CatalogView, Snapshot};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::run::interruptible;
use super::utility::fresh_salt;
use super::{ATTEMPTS_MAX, Block, Session, cx};
use crate::sweeper;

/// A catalog change that the client did not request directly.
enum Task {
    /// Create the schema.
    Make(String),
    /// Drop the schema with all objects in it.
    Drop(Temporary),
    /// Execute ON COMMIT actions.
    End(Vec<(u32, OnCommit)>),
}

impl Session {
    /// Creates the session's schema for temporary objects in the open transaction, unless it
    /// exists.
    pub(super) async fn open_temporary(&mut self) -> Result<(), StatementStop> {
        let snapshot = self.seen_catalog().await?;
        if self.eval.temporary_in(&*snapshot).is_some() {
            return Ok(());
        }
        let schema = self.eval.temporary_schema();
        if let Some(id) = snapshot.schema(&schema) {
            // The schema of an earlier session with this number, which has not been dropped.
            let schema = schema.clone();
            self.change_temporary(Task::Drop(Temporary { schema, id }))
                .await?;
        }
        let own = self.change_temporary(Task::Make(schema)).await?;
        self.eval.set_temporary(own);
        sweeper::sweep_lost(&self.db, &self.served, &snapshot);
        Ok(())
    }

    /// Records the ON COMMIT action of a table that `statement` has created. `before` is the
    /// catalog before the statement.
    pub(super) fn note_on_commit(&mut self, statement: &Statement, before: &Snapshot) {
        let made = made_until_commit(statement, before, &self.eval.catalog());
        self.on_commit.extend(made);
    }

    /// Adopts the tables with ON COMMIT that routines have created in the open transaction.
    #[inline]
    pub(super) fn take_on_commit(&mut self) {
        let made = &mut self.scratch.routines.on_commit;
        if made.is_empty() {
            return;
        }
        if self.tx.is_some() {
            self.on_commit.append(made);
        } else {
            made.clear();
        }
    }

    /// Executes the ON COMMIT actions, if the transaction has written something.
    pub(super) async fn end_temporary(&mut self) -> Result<(), StatementStop> {
        if self.on_commit.is_empty() || !self.tx.as_ref().is_some_and(|tx| tx.has_writes()) {
            return Ok(());
        }
        let tables = self.on_commit.clone();
        self.change_temporary(Task::End(tables)).await?;
        Ok(())
    }

    /// Executes DISCARD TEMP, in a transaction of its own unless one is open.
    pub(super) async fn discard_temporary(&mut self) -> Result<(), StatementStop> {
        let Some(own) = self.eval.temporary() else {
            return Ok(());
        };
        if self.eval.temporary_in(&*self.eval.catalog()).is_none() {
            return Ok(());
        }
        if self.block != Block::Explicit && self.statements == 0 {
            let mut attempt = 0;
            loop {
                match self.sweep(own.clone()).await {
                    Err(halt) if halt.is_retryable() && attempt < ATTEMPTS_MAX => attempt += 1,
                    done => return done,
                }
            }
        }
        self.enter();
        self.begin_transaction(false, true);
        self.change_temporary(Task::Drop(own)).await?;
        self.catalog_changed();
        Ok(())
    }

    /// Drops the schema of an ended session, in a transaction of its own.
    pub(crate) async fn sweep(&mut self, of: Temporary) -> Result<(), StatementStop> {
        self.enter();
        self.begin_transaction(false, true);
        match self.change_temporary(Task::Drop(of)).await {
            Ok(_) => self.commit_transaction().await,
            Err(halt) => {
                self.abort_transaction();
                Err(halt)
            }
        }
    }

    /// Updates the state that depends on names in the catalog.
    pub(super) fn catalog_changed(&mut self) {
        if self.eval.temporary().is_some() {
            let catalog = self.eval.catalog();
            self.on_commit
                .retain(|(id, _)| matches!(catalog.table_by_id(*id), Ok(Some(_))));
            self.settings_changed();
        }
    }

    /// Returns the names of the session's temporary objects, which precede others in name
    /// resolution.
    pub(super) fn temporary_names(&self) -> String {
        if self.eval.temporary().is_none() {
            return String::new();
        }
        let catalog = self.eval.catalog();
        let own = self.eval.temporary_in(&*catalog);
        let mut names = own.map_or_else(Vec::new, |own| {
            let objects = catalog.objects_in(&own).into_iter();
            objects.map(|of| of.name).collect::<Vec<_>>()
        });
        names.sort();
        format!("{}\0{}", self.eval.backend_pid, names.join("\0"))
    }

    async fn seen_catalog(&mut self) -> Result<Arc<Snapshot>, StatementStop> {
        match &mut self.tx {
            Some(tx) => self.served.catalog.snapshot(tx).await,
            None => Err(SqlError::internal("no transaction").into()),
        }
    }

    async fn change_temporary(&mut self, task: Task) -> Result<Option<Temporary>, StatementStop> {
        let snapshot = self.seen_catalog().await?;
        let Some(tx) = &mut self.tx else {
            return Err(SqlError::internal("no transaction").into());
        };
        let mut notices = Vec::new();
        let mut ddl = DdlCx {
            catalog: &self.served.catalog,
            snapshot: &snapshot,
            notices: &mut notices,
            rows: None,
            salt: fresh_salt(),
        };
        let mut cx = cx(
            tx,
            &[],
            &self.eval,
            &self.cancel,
            &mut self.scratch,
            self.deadline,
            true,
        );
        let work = async {
            match task {
                Task::Make(schema) => {
                    let made = make_temporary_schema(&schema, &mut cx, &mut ddl).await?;
                    Ok(Some(made))
                }
                Task::Drop(of) => {
                    drop_temporary_schema(&of, &mut cx, &mut ddl).await?;
                    Ok(None)
                }
                Task::End(tables) => {
                    end_temporary(&tables, &mut cx, &mut ddl).await?;
                    Ok(None)
                }
            }
        };
        let made = interruptible(&self.cancel, self.deadline, pin!(work)).await?;
        let after = self.served.catalog.snapshot(tx).await?;
        if after.version() != snapshot.version() {
            self.eval.set_private(Some(after));
        }
        Ok(made)
    }
}
