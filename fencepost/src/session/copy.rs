//! COPY FROM STDIN: the client supplies the data of a running statement.

use std::pin::pin;

use fencepost_planner::{CopyInput, Tag};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::Halt;

use super::run::interruptible;
use super::{Block, Session, cx};

/// A COPY FROM STDIN in progress. The session does nothing else until it ends.
pub struct CopyIn {
    input: Box<CopyInput>,
    transaction: u64,
}

impl CopyIn {
    pub(super) fn new(input: CopyInput, transaction: u64) -> CopyIn {
        CopyIn {
            input: Box::new(input),
            transaction,
        }
    }

    /// Returns the number of columns in the data.
    pub fn columns(&self) -> usize {
        self.input.width()
    }

    /// Returns whether the data is in binary format.
    pub fn is_binary(&self) -> bool {
        self.input.is_binary()
    }

    /// Takes the next piece of the data. Pieces may end at any byte.
    pub async fn data(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        self.feed(session, Some(data)).await.map(|_| ())
    }

    /// Ends the data. Returns the command tag.
    pub async fn finish(mut self, session: &mut Session) -> Result<Tag, SqlError> {
        let count = self.feed(session, None).await?;
        Ok(Tag::counted("COPY", count))
    }

    /// Fails the statement, because the client has given up.
    pub fn fail(self, session: &mut Session) {
        session.fail();
    }

    async fn feed(&mut self, session: &mut Session, data: Option<&[u8]>) -> Result<u64, SqlError> {
        let mut data = data;
        loop {
            let result = self.feed_once(session, data).await;
            match session.wanted_range(&result) {
                Some(id) => {
                    if let Err(halt) = session.take_range(id).await {
                        return Err(session.fail_with(halt).await);
                    }
                    // The statement has taken the data already, and continues where it was.
                    data = data.map(|_| [].as_slice());
                }
                None => {
                    return match result {
                        Ok(count) => Ok(count),
                        Err(halt) => Err(session.fail_with(halt).await),
                    };
                }
            }
        }
    }

    async fn feed_once(&mut self, session: &mut Session, data: Option<&[u8]>) -> Result<u64, Halt> {
        let intents = session.block == Block::Explicit;
        match &mut session.tx {
            Some(tx) if self.transaction == session.transaction => {
                let mut cx = cx(
                    tx,
                    &[],
                    &session.eval,
                    &session.cancel,
                    &mut session.scratch,
                    session.deadline,
                    intents,
                );
                cx.deferred = Some(&mut session.deferred);
                let work = pin!(async {
                    match data {
                        Some(data) => self.input.data(&mut cx, data).await.map(|()| 0),
                        None => self.input.finish(&mut cx).await,
                    }
                });
                interruptible(&session.cancel, session.deadline, work).await
            }
            _ => Err(SqlError::internal("COPY outlived its transaction").into()),
        }
    }
}
