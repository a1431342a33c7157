//! COPY FROM STDIN: the client supplies the data of a running statement.

use std::pin::pin;

use fencepost_planner::{CopyInput, Tag};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::run::interruptible;
use super::{Block, Session, cx};

/// A COPY FROM STDIN in progress, from [`Completion::CopyIn`](crate::Completion::CopyIn). The
/// session does nothing else until it ends. Its data is one stream, in pieces of any length:
///
/// ```
/// use fencepost::{MemorySink, Completion, Database, Error};
///
/// # let db = Database::in_memory()?;
/// # pollster::block_on(async {
/// let mut session = db.session();
/// session.execute("CREATE TABLE t (a int)", &[]).await?;
/// let prepared = session.parse("COPY t FROM STDIN", &[])?;
/// let mut portal = session.bind(&prepared, Vec::new())?;
/// let run = session.run(&mut portal, 0, &mut MemorySink::default()).await?;
/// if let Completion::CopyIn(mut copy) = run {
///     for piece in ["1\n2", "3\n"] {
///         copy.data(&mut session, piece.as_bytes()).await?;
///     }
///     assert_eq!(copy.finish(&mut session).await?.rows(), 2);
/// }
/// session.sync().await?; // commits
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it does not end the statement: call [`CopyIn::finish`] or [`CopyIn::fail`].
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

    /// Returns the number of columns in each row of the data.
    pub fn columns(&self) -> usize {
        self.input.width()
    }

    /// Returns whether the data is in binary format.
    pub fn is_binary(&self) -> bool {
        self.input.is_binary()
    }

    /// Takes the next piece of the data, and writes the rows that it completes. Pieces may end at
    /// any byte.
    ///
    /// # Errors
    /// 22P04 and others of class 22 for malformed data; otherwise as of
    /// [`Session::copy_in`]. The statement has failed then; drop this value.
    pub async fn data(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        self.feed(session, Some(data)).await.map(|_| ())
    }

    /// Ends the data, and writes the last rows. Returns the command tag, which counts the rows.
    /// They are committed by the next [`Session::sync`], or by the COMMIT of the block.
    ///
    /// # Errors
    /// As of [`CopyIn::data`].
    pub async fn finish(mut self, session: &mut Session) -> Result<Tag, SqlError> {
        let count = self.feed(session, None).await?;
        Ok(Tag::counted("COPY", count))
    }

    /// Fails the statement, because the client has given up: none of its rows is loaded.
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

    async fn feed_once(
        &mut self,
        session: &mut Session,
        data: Option<&[u8]>,
    ) -> Result<u64, StatementStop> {
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
