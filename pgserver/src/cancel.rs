//! The numbers and secrets of a server's sessions, which authorize cancel requests.
//!
//! A cancel request goes through the database, which derives the machine of a session from its
//! number ([`fencepost::Database::cancel`]).
//!
//! A cancel raises the session's token. That wakes the session's task, so waiting work is polled
//! and sees the cancel.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::engine::CancelToken;
use crate::random::{self, NoRandom};

/// The sessions of a server, by their number.
#[derive(Default)]
pub(crate) struct CancelMap {
    sessions: Mutex<HashMap<i32, Arc<Target>, RandomState>>,
}

/// The target of a cancel request.
struct Target {
    secret: i32,
    token: CancelToken,
}

/// A session's entry in the map. Dropping it removes the entry.
pub(crate) struct CancelKey {
    map: Arc<CancelMap>,
    target: Arc<Target>,
    pub(crate) pid: i32,
    pub(crate) secret: i32,
}

impl CancelMap {
    /// Returns the first number from `next` that no session has.
    pub(crate) fn free(&self, mut next: impl FnMut() -> i32) -> i32 {
        loop {
            let pid = next();
            if !self.sessions.lock().contains_key(&pid) {
                return pid;
            }
        }
    }

    /// Adds a session with a new random secret.
    pub(crate) fn enter(
        self: &Arc<Self>,
        pid: i32,
        token: CancelToken,
    ) -> Result<CancelKey, NoRandom> {
        let secret = i32::from_be_bytes(random::bytes()?);
        let target = Arc::new(Target { secret, token });
        self.sessions.lock().insert(pid, target.clone());
        Ok(CancelKey {
            map: self.clone(),
            target,
            pid,
            secret,
        })
    }

    /// Cancels the statement of session `pid`, if the secret is right.
    pub(crate) fn cancel(&self, pid: i32, secret: i32) {
        let target = match self.sessions.lock().get(&pid) {
            Some(target) if target.secret == secret => target.clone(),
            _ => return,
        };
        target.token.cancel();
    }
}

impl CancelKey {
    /// Returns the token of the session.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.target.token
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.map.sessions.lock().remove(&self.pid);
    }
}
