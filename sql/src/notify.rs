//! NOTIFY and LISTEN: the notifications that a transaction sends when it commits, and the channels
//! that the session listens on.
//!
//! # Invariants
//! * NOTIFY-1: identical notifications of one transaction are sent once, at the place of the first.
//! * NOTIFY-2: a rolled-back transaction or savepoint sends no notification and changes no channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashSet;
use parking_lot::Mutex;

use crate::error::{SqlError, SqlState};

/// The maximum length of a channel name, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;
/// The maximum length of a payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 7999;
/// The maximum size of all notifications of a transaction, in bytes.
const TRANSACTION_BYTES_MAX: usize = 64 << 20;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// The payload; empty if NOTIFY gives none.
    pub payload: String,
}

/// A change of the channels that a session listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenChange {
    /// LISTEN
    To(String),
    /// UNLISTEN
    NoMore(String),
    /// UNLISTEN *
    ToNothing,
}

/// The pending notifications and the channels of a session.
#[derive(Debug, Default)]
pub struct Notifications {
    own: Mutex<SessionNotifications>,
    /// Whether there are notifications or channel changes for the end of the transaction.
    pending: AtomicBool,
}

#[derive(Debug, Default)]
struct SessionNotifications {
    said: Vec<Arc<Notification>>,
    known: HashSet<Arc<Notification>>,
    bytes: usize,
    changes: Vec<ListenChange>,
    /// The channels that this session listens on.
    channels: Vec<String>,
}

/// A position in a transaction, to which a savepoint can roll back.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotifyMark {
    said: usize,
    changes: usize,
}

impl Notifications {
    /// Queues a notification (NOTIFY).
    ///
    /// # Errors
    /// 22023 for an invalid channel name or a payload that is too long; 53200 if the transaction
    /// exceeds its maximum size of notifications.
    pub fn notify(&self, channel: &str, payload: &str) -> Result<(), SqlError> {
        let invalid = |message| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return invalid("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return invalid("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return invalid("payload string too long");
        }
        let mut own = self.own.lock();
        let notification = Arc::new(Notification {
            channel: channel.to_owned(),
            payload: payload.to_owned(),
        });
        if own.known.contains(&notification) {
            return Ok(());
        }
        let bytes = own.bytes + channel.len() + payload.len();
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
                .detail("The transaction has too many notifications."));
        }
        own.bytes = bytes;
        own.known.insert(Arc::clone(&notification));
        own.said.push(notification);
        self.pending.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Records a LISTEN or UNLISTEN, which takes effect at commit.
    pub fn listen(&self, change: ListenChange) {
        self.own.lock().changes.push(change);
        self.pending.store(true, Ordering::Relaxed);
    }

    /// Returns whether there are notifications or channel changes for the end of the transaction.
    #[inline]
    pub fn are_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns whether the transaction has notifications to send.
    pub fn are_said(&self) -> bool {
        self.are_pending() && !self.own.lock().said.is_empty()
    }

    /// Ends the transaction. If it has `committed`, returns its notifications and the channels that
    /// were added and removed.
    pub fn end(&self, committed: bool) -> TransactionNotifications {
        let mut ended = TransactionNotifications::default();
        if !self.pending.swap(false, Ordering::Relaxed) {
            return ended;
        }
        let own = &mut *self.own.lock();
        let said = std::mem::take(&mut own.said);
        let changes = std::mem::take(&mut own.changes);
        own.known.clear();
        own.bytes = 0;
        if !committed {
            return ended;
        }
        ended.said = said;
        let before = own.channels.clone();
        for change in changes {
            match change {
                ListenChange::To(channel) if own.channels.contains(&channel) => {}
                ListenChange::To(channel) => own.channels.push(channel),
                ListenChange::NoMore(channel) => own.channels.retain(|other| *other != channel),
                ListenChange::ToNothing => own.channels.clear(),
            }
        }
        let not_in = |of: &[String], others: &[String]| {
            let only = of.iter().filter(|channel| !others.contains(channel));
            only.cloned().collect()
        };
        ended.begun = not_in(&own.channels, &before);
        ended.over = not_in(&before, &own.channels);
        ended
    }

    /// Returns the current position in the transaction.
    pub fn mark(&self) -> NotifyMark {
        if !self.are_pending() {
            return NotifyMark::default();
        }
        let own = self.own.lock();
        NotifyMark {
            said: own.said.len(),
            changes: own.changes.len(),
        }
    }

    /// Discards everything after `mark`.
    pub fn back_to(&self, mark: NotifyMark) {
        if !self.are_pending() {
            return;
        }
        let own = &mut *self.own.lock();
        own.changes.truncate(mark.changes);
        for notification in own.said.drain(mark.said.min(own.said.len())..) {
            own.bytes -= notification.channel.len() + notification.payload.len();
            own.known.remove(&notification);
        }
    }

    /// Returns the channels that the session listens on.
    pub fn channels(&self) -> Vec<String> {
        self.own.lock().channels.clone()
    }
}

/// The notifications and channel changes that take effect at the end of a transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TransactionNotifications {
    /// The notifications to send, in order.
    pub said: Vec<Arc<Notification>>,
    /// The channels that the session starts to listen on.
    pub begun: Vec<String>,
    /// The channels that the session stops listening on.
    pub over: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ended: &TransactionNotifications) -> Vec<(&str, &str)> {
        let all = ended.said.iter();
        all.map(|n| (&*n.channel, &*n.payload)).collect()
    }

    #[test]
    fn duplicate_is_sent_once_and_rolled_back_never() {
        let session = Notifications::default();
        for (channel, payload) in [("a", "1"), ("b", ""), ("a", "1"), ("a", "2")] {
            session.notify(channel, payload).expect("short enough");
        }
        let mark = session.mark();
        session.notify("c", "").expect("short enough");
        session.notify("b", "").expect("short enough");
        session.listen(ListenChange::To("c".into()));
        session.back_to(mark);
        session.notify("c", "").expect("again");
        let ended = session.end(true);
        assert_eq!(said(&ended), [("a", "1"), ("b", ""), ("a", "2"), ("c", "")]);
        assert!(ended.begun.is_empty() && !session.are_pending());
        session.notify("a", "1").expect("another transaction");
        assert_eq!(session.end(false), TransactionNotifications::default());
        assert_eq!(session.end(true), TransactionNotifications::default());
    }

    #[test]
    fn listening_begins_and_ends_with_the_commit() {
        let session = Notifications::default();
        session.listen(ListenChange::To("a".into()));
        session.listen(ListenChange::To("b".into()));
        session.listen(ListenChange::To("a".into()));
        assert!(session.channels().is_empty());
        assert_eq!(session.end(true).begun, ["a", "b"]);
        session.listen(ListenChange::NoMore("a".into()));
        session.listen(ListenChange::NoMore("x".into()));
        session.end(false);
        assert_eq!(session.channels(), ["a", "b"]);
        session.listen(ListenChange::ToNothing);
        session.listen(ListenChange::To("b".into()));
        let ended = session.end(true);
        assert_eq!(
            (ended.begun.len(), &*ended.over),
            (0, &["a".to_owned()][..])
        );
    }

    #[test]
    fn too_long_channel_or_payload_is_refused() {
        let session = Notifications::default();
        let (channel, payload) = ("c".repeat(63), "p".repeat(7999));
        assert!(session.notify(&channel, &payload).is_ok());
        for (channel, payload) in [("", ""), (&*"c".repeat(64), ""), ("c", &*"p".repeat(8000))] {
            let refused = session.notify(channel, payload).expect_err("refused");
            assert_eq!(refused.sqlstate(), SqlState::INVALID_PARAMETER_VALUE);
        }
    }
}
