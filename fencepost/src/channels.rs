//! NOTIFY: delivers the notifications of committed transactions to listening sessions on all
//! machines, in commit order.
//!
//! ```text
//! commit with notifications: its turn ─► commit ─► listeners here ─► other machines ─► next turn
//! a session that listens:    inbox ◄─ each committed session; the listener's task is woken
//! ```
//! A turn is a lock of the advisory-lock table ([`LockKey::NotifyCommit`]). So turns are ordered
//! over all machines, and the turn of a lost machine ends. A transaction without notifications
//! takes no turn.
//!
//! # Invariants
//! * CHANNEL-1: all sessions receive notifications in the order of the commits.
//! * CHANNEL-2: a session receives the notifications of every commit that follows the commit of its
//!   LISTEN, once.
//!
//! # Failure
//! A lost machine's notifications that were not yet sent are lost. A session that does not read its
//! notifications is ended (57P01) when [`INBOX_BYTES_MAX`] of them wait.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use fencepost_fabric::MachineId;
use fencepost_planner::CancelFlag;
use fencepost_sql::notify::Notification;
use fencepost_txn::Machine;
use fencepost_txn::network::call::Answer;
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::services;

/// The size limit, in bytes, of the notifications that wait for one session.
const INBOX_BYTES_MAX: usize = 64 << 20;
/// The size, in bytes, after which notifications to a machine continue in another message.
const MESSAGE_BYTES: usize = 256 << 10;

/// A notification that a session has received, from [`crate::Session::take_notifications`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedNotification {
    /// The number of the session that ran NOTIFY: its `pg_backend_pid()`.
    pub session: i32,
    /// The channel and the payload.
    pub notification: Arc<Notification>,
}

/// The inboxes of listening sessions, by channel.
type Listeners = HashMap<String, Vec<Weak<Inbox>>>;

/// The listening sessions of a machine.
#[derive(Default)]
pub(crate) struct Channels {
    /// The listeners of each database, by channel.
    listeners: Mutex<HashMap<u32, Listeners>>,
}

/// The notifications that a session has received but not taken yet.
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    cancel: CancelFlag,
}

#[derive(Default)]
struct InboxState {
    notifications: VecDeque<ReceivedNotification>,
    bytes: usize,
    waker: Option<Waker>,
}

impl Inbox {
    /// Returns an empty inbox for the session with this cancel flag.
    pub fn new(cancel: &CancelFlag) -> Arc<Inbox> {
        Arc::new(Inbox {
            state: Mutex::default(),
            cancel: cancel.clone(),
        })
    }

    /// Returns and removes all notifications.
    pub fn take(&self) -> Vec<ReceivedNotification> {
        let mut state = self.state.lock();
        state.bytes = 0;
        state.notifications.drain(..).collect()
    }

    /// Is ready when the inbox has a notification.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.notifications.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn put(&self, notified: &ReceivedNotification) {
        let mut state = self.state.lock();
        let notification = &notified.notification;
        state.bytes += notification.channel.len() + notification.payload.len();
        if state.bytes > INBOX_BYTES_MAX {
            state.notifications.clear();
            self.cancel.shut_down();
        } else {
            state.notifications.push_back(notified.clone());
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Channels {
    /// Adds a session to the listeners of these channels.
    pub fn join(&self, database: u32, channels: &[String], inbox: &Arc<Inbox>) {
        let mut listeners = self.listeners.lock();
        let listeners = listeners.entry(database).or_default();
        for channel in channels {
            let of = listeners.entry(channel.clone()).or_default();
            of.retain(|other| other.strong_count() > 0);
            of.push(Arc::downgrade(inbox));
        }
    }

    /// Removes a session from the listeners of these channels.
    pub fn leave(&self, database: u32, channels: &[String], inbox: &Arc<Inbox>) {
        let mut databases = self.listeners.lock();
        let Some(listeners) = databases.get_mut(&database) else {
            return;
        };
        for channel in channels {
            if let Some(of) = listeners.get_mut(channel) {
                let is_own = |other: &Weak<Inbox>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(inbox));
                of.retain(|other| !is_own(other) && other.strong_count() > 0);
                if of.is_empty() {
                    listeners.remove(channel);
                }
            }
        }
        if listeners.is_empty() {
            databases.remove(&database);
        }
    }

    /// Delivers notifications to the sessions of this machine.
    fn tell_here(&self, (database, session): (u32, i32), said: &[Arc<Notification>]) {
        for notification in said {
            let inboxes: Vec<Arc<Inbox>> = {
                let listeners = self.listeners.lock();
                let of = listeners.get(&database);
                let of = of.and_then(|of| of.get(&notification.channel));
                of.into_iter().flatten().filter_map(Weak::upgrade).collect()
            };
            let notified = ReceivedNotification {
                session,
                notification: Arc::clone(notification),
            };
            inboxes.iter().for_each(|inbox| inbox.put(&notified));
        }
    }

    /// Delivers the notifications of `session` to all sessions of the database, on all machines.
    /// Returns when all machines have received them.
    pub async fn tell(
        &self,
        machine: &Machine,
        (database, session): (u32, i32),
        said: &[Arc<Notification>],
    ) {
        self.tell_here((database, session), said);
        if machine.number() == 0 {
            return;
        }
        let members = machine.members().machines.into_iter();
        let others = members.filter(|member| member.id != machine.number());
        let messages = encode((database, session), said);
        let mut calls = Vec::new();
        for member in others {
            for message in &messages {
                calls.push(machine.call(MachineId(member.id), services::NOTIFY, message));
            }
        }
        for call in calls {
            // A machine that cannot be reached is lost, and its sessions with it.
            let _ = call.await;
        }
    }

    /// Registers the handler for notifications from other machines.
    pub fn serve(self: &Arc<Self>, machine: &Machine) {
        let channels = Arc::clone(self);
        let handler = move |_, message: Vec<u8>, answer: Answer| {
            if let Some((from, said)) = decode(&message) {
                channels.tell_here(from, &said);
            }
            answer.send(&[]);
        };
        machine.serve(services::NOTIFY, Arc::new(handler));
    }
}

/// A listening session's registration. Dropping it removes the session from all its channels.
pub(crate) struct Listener {
    channels: Arc<Channels>,
    database: u32,
    inbox: Arc<Inbox>,
    joined: Vec<String>,
}

impl Listener {
    /// Returns a registration that listens to no channel yet.
    pub fn new(channels: &Arc<Channels>, database: u32, cancel: &CancelFlag) -> Listener {
        Listener {
            channels: Arc::clone(channels),
            database,
            inbox: Inbox::new(cancel),
            joined: Vec::new(),
        }
    }

    /// Starts to listen to the channels `begun`, and stops to listen to the channels `over`.
    pub fn change(&mut self, begun: Vec<String>, over: &[String]) {
        self.channels.leave(self.database, over, &self.inbox);
        self.joined.retain(|channel| !over.contains(channel));
        self.channels.join(self.database, &begun, &self.inbox);
        self.joined.extend(begun);
    }

    /// Returns the inbox of this session.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.channels
            .leave(self.database, &self.joined, &self.inbox);
    }
}

/// Encodes notifications as `database (4) | session (4) | length (4) | channel | length (4) |
/// payload | …`. Long lists are split into several messages.
fn encode((database, session): (u32, i32), said: &[Arc<Notification>]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for notification in said {
        if messages
            .last()
            .is_none_or(|last| last.len() > MESSAGE_BYTES)
        {
            messages.push([database.to_le_bytes(), session.to_le_bytes()].concat());
        }
        if let Some(message) = messages.last_mut() {
            for text in [&notification.channel, &notification.payload] {
                message.extend_from_slice(&(text.len() as u32).to_le_bytes());
                message.extend_from_slice(text.as_bytes());
            }
        }
    }
    messages
}

/// The database and session that ran NOTIFY, and their notifications.
type SentNotifications = ((u32, i32), Vec<Arc<Notification>>);

fn decode(message: &[u8]) -> Option<SentNotifications> {
    let (database, rest) = message.split_first_chunk()?;
    let (session, mut rest) = rest.split_first_chunk()?;
    let from = (u32::from_le_bytes(*database), i32::from_le_bytes(*session));
    let mut text = || {
        let (length, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        String::from_utf8(text.to_vec())
            .ok()
            .map(|text| (text, rest.is_empty()))
    };
    let mut said = Vec::new();
    loop {
        let (channel, _) = text()?;
        let (payload, last) = text()?;
        said.push(Arc::new(Notification { channel, payload }));
        if last {
            return Some((from, said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(channel: &str, payload: String) -> Arc<Notification> {
        let channel = channel.to_owned();
        Arc::new(Notification { channel, payload })
    }

    #[test]
    fn messages_come_back_and_others_are_none() {
        let said: Vec<_> = (0..100)
            .map(|n| notification("ä", "ö".repeat(n * 39)))
            .collect();
        let messages = encode((5, -7), &said);
        assert!(messages.len() > 1);
        let heard = messages.iter().map(|message| {
            let (from, said) = decode(message).expect("it is whole");
            assert_eq!(from, (5, -7));
            said
        });
        assert_eq!(heard.flatten().collect::<Vec<_>>(), said);
        for cut in 0..16 {
            assert_eq!(decode(&messages[0][..cut]), None);
        }
    }

    #[test]
    fn listener_gets_its_channels_and_full_inbox_ends_session() {
        let channels = Channels::default();
        let cancel = CancelFlag::default();
        let inbox = Inbox::new(&cancel);
        channels.join(5, &["a".into(), "b".into()], &inbox);
        channels.join(6, &["c".into()], &inbox);
        let said = ["a", "b", "c"].map(|channel| notification(channel, "x".into()));
        channels.tell_here((5, 1), &said);
        assert_eq!(inbox.take().len(), 2);
        channels.leave(5, &["a".into()], &inbox);
        channels.tell_here((5, 1), &said);
        assert_eq!(inbox.take()[0].notification.channel, "b");
        let long = [notification("b", "x".repeat(INBOX_BYTES_MAX / 2))];
        channels.tell_here((5, 1), &long);
        assert!(cancel.check().is_ok());
        channels.tell_here((5, 1), &long);
        assert!(cancel.check().is_err());
        drop(inbox);
        channels.tell_here((5, 1), &said);
        channels.join(5, &["b".into()], &Inbox::new(&cancel));
        assert_eq!(channels.listeners.lock()[&5]["b"].len(), 1);
    }
}
