//! The join messages of a cluster whose machines store the configuration themselves.
//!
//! ```text
//! joiner ── Leave 00c3….ask ──► the CM's messages ◄── looks, answers
//!        ── Take 00c3….answer ─►
//! ```
//!
//! A machine keeps the messages for it in its memory. A joiner asks the group for the CM, and sends
//! its message there.
//!
//! *Failure.* Messages are lost with their machine. If too many are stored, the oldest ones are
//! removed. A joiner without an answer tries again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::network::{ANY_NODE, Network};
use super::types::{RaftRequest, Reply};
use super::{RaftTransport, Shared};
use crate::configuration::Configuration;
use crate::join::JoinMessageStore;
use crate::store::StoreError;

/// The largest number of messages stored at a machine.
const MESSAGES_MAX: usize = 64;
/// The largest size of a message: a configuration and its envelope.
const LONGEST: usize = 1 << 20;

/// The messages stored at a machine.
#[derive(Default)]
pub(super) struct JoinMessages(Mutex<VecDeque<(String, Vec<u8>)>>);

impl JoinMessages {
    pub fn leave(&self, name: &str, message: Vec<u8>) {
        if message.len() > LONGEST || name.len() > MESSAGES_MAX {
            return;
        }
        let mut all = self.0.lock();
        all.retain(|(other, _)| other != name);
        if all.len() == MESSAGES_MAX {
            all.pop_front();
        }
        all.push_back((name.to_owned(), message));
    }

    pub fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        let mut all = self.0.lock();
        let (taken, left): (Vec<_>, Vec<_>) =
            all.drain(..).partition(|(name, _)| name.ends_with(end));
        *all = left.into();
        taken
    }
}

/// The messages of this machine.
pub(super) struct OwnMessages(pub Arc<Shared>);

impl JoinMessageStore for OwnMessages {
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        self.0.messages.take_all(end)
    }

    fn leave(&self, name: &str, letter: &[u8]) -> io::Result<()> {
        self.0.messages.leave(name, letter.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) {
        self.0.messages.take_all(name);
    }
}

/// A machine outside the group: it reads the configuration and sends join messages.
#[derive(Debug)]
pub struct RaftOutsider {
    network: Network,
    addresses: Vec<String>,
    /// The address to which the last message was sent.
    left: Mutex<Option<String>>,
}

impl RaftOutsider {
    /// Returns an outsider that knows some machines of a group by their addresses.
    pub fn new(transport: Arc<dyn RaftTransport>, addresses: Vec<String>) -> RaftOutsider {
        RaftOutsider {
            network: Network(transport),
            addresses,
            left: Mutex::default(),
        }
    }

    /// Returns the current configuration, if one has been stored, from the first machine that
    /// answers. Blocks the calling thread.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if no machine answers, or none can.
    pub fn read(&self) -> Result<Option<Configuration>, StoreError> {
        let mut why = "no machine of the group is known".to_owned();
        for address in &self.addresses {
            let ask = RaftRequest::Pass(Box::new(RaftRequest::Read));
            match self.network.ask_now(ANY_NODE, address, ask) {
                Ok(Reply::Current(sealed)) => return super::unsealed(sealed),
                Ok(_) => why = format!("{address} does not know who leads"),
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(StoreError::Unreachable(why))
    }
}

impl JoinMessageStore for RaftOutsider {
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        let Some(address) = self.left.lock().clone() else {
            return Vec::new();
        };
        let end = end.to_owned();
        match self
            .network
            .ask_now(ANY_NODE, &address, RaftRequest::Take { end })
        {
            Ok(Reply::Messages(messages)) => messages,
            // The caller asks again.
            _ => Vec::new(),
        }
    }

    fn leave(&self, name: &str, letter: &[u8]) -> io::Result<()> {
        // Without a CM no machine answers, and the joiner tries again.
        let Ok(Some(current)) = self.read() else {
            return Ok(());
        };
        let address = current.manager().address.to_string();
        *self.left.lock() = Some(address.clone());
        let (name, letter) = (name.to_owned(), letter.to_vec());
        let _ = self.network.ask_now(
            ANY_NODE,
            &address,
            RaftRequest::Leave {
                name,
                content: letter,
            },
        );
        Ok(())
    }

    fn remove(&self, name: &str) {
        self.take_all(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_messages_are_taken_once_and_oldest_are_dropped() {
        let messages = JoinMessages::default();
        messages.leave("1.ask", vec![1]);
        messages.leave("1.ask", vec![2]);
        messages.leave("1.answer", vec![3]);
        messages.leave("2.ask", vec![0; LONGEST + 1]);
        assert_eq!(messages.take_all(".ask"), [("1.ask".to_owned(), vec![2])]);
        assert_eq!(messages.take_all(".ask"), []);
        for n in 0..MESSAGES_MAX {
            messages.leave(&format!("{n}.ask"), vec![4]);
        }
        assert_eq!(messages.take_all("1.answer"), []);
        assert_eq!(messages.take_all(".ask").len(), MESSAGES_MAX);
    }
}
