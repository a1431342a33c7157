//! NOTIFY and LISTEN of a session: its turn to commit, the notifications it sends, and those it
//! receives.

use std::pin::pin;
use std::task::{Context, Poll};

use fencepost_sql::advisory::{LockKey, LockMode, LockScope};
use fencepost_sql::sessions::Activity;
use fencepost_sql::stop::StatementStop;

use super::run::interruptible;
use super::{Block, Session};
use crate::channels::{Listener, ReceivedNotification};

impl Session {
    /// Waits for the turn to commit with notifications. No other session of any machine has it
    /// meanwhile.
    pub(super) async fn lock_notify_commit(&mut self) -> Result<(), StatementStop> {
        let Some(locks) = &self.eval.advisory else {
            return Ok(());
        };
        let (key, mode, scope) = (
            LockKey::NotifyCommit,
            LockMode::Exclusive,
            LockScope::Transaction,
        );
        let lock = async {
            locks
                .lock(key, mode, scope, true)
                .await
                .map_err(StatementStop::Error)
        };
        interruptible(&self.cancel, self.deadline, pin!(lock)).await?;
        Ok(())
    }

    /// Sends the notifications of the committed transaction, and applies its LISTEN and UNLISTEN
    /// commands.
    pub(super) async fn tell_notifications(&mut self) {
        let ended = self.eval.notifications.end(true);
        if !ended.begun.is_empty() || !ended.over.is_empty() {
            let database = self.served.catalog.database();
            let listener = || Listener::new(&self.db.channels, database, &self.cancel);
            let listener = self.listener.get_or_insert_with(listener);
            listener.change(ended.begun, &ended.over);
        }
        if !ended.said.is_empty() {
            let from = (self.served.catalog.database(), self.eval.backend_pid);
            let channels = &self.db.channels;
            channels.tell(&self.db.machine, from, &ended.said).await;
        }
    }

    /// Returns and removes the received notifications, in the order of the commits. Does not wait
    /// for one. A server sends them to its client between transactions. Take them in time: a
    /// session with 64 MiB of them is ended (57P01).
    pub fn take_notifications(&mut self) -> Vec<ReceivedNotification> {
        let listener = self.listener.as_ref();
        listener.map_or_else(Vec::new, |listener| listener.inbox().take())
    }

    /// Is ready when [`Session::take_notifications`] returns something. While the session listens
    /// on no channel, it is never ready and wakes no task.
    ///
    /// ```
    /// use std::future::poll_fn;
    ///
    /// # let db = fencepost::Database::in_memory()?;
    /// # pollster::block_on(async {
    /// let mut session = db.session();
    /// session.execute("LISTEN jobs", &[]).await?;
    /// # db.session().execute("NOTIFY jobs", &[]).await?;
    /// poll_fn(|cx| session.poll_notified(cx)).await;
    /// for told in session.take_notifications() {
    ///     println!("{}: {}", told.notification.channel, told.notification.payload);
    /// }
    /// # Ok::<(), fencepost::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_notified(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.listener {
            Some(listener) => listener.inbox().poll(cx),
            None => Poll::Pending,
        }
    }

    /// Records that the session waits for its client: `pg_stat_activity` shows it as idle.
    pub fn rest(&self) {
        let activity = match self.block {
            Block::Idle | Block::Implicit => Activity::Idle,
            Block::Explicit => Activity::IdleInTransaction,
            Block::Failed => Activity::IdleInFailed,
        };
        if let Some(registered) = &self.registered {
            registered.rest(activity, self.clock.ended());
        }
    }
}
