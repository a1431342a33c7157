//! Who may cancel what: the numbers and secrets of all sessions of a server.
//!
//! A cancel reaches them by way of the database, which knows the machine of a session by its number
//! ([`fencepost::Database::cancel`]).
//!
//! Cancelling raises the session's token, which wakes its task, so that work that waits is polled and sees it.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::engine::CancelToken;
use crate::random::{self, NoRandom};

/// The sessions of a server by their number.
#[derive(Default)]
pub(crate) struct CancelMap {
    sessions: Mutex<HashMap<i32, Arc<Target>, RandomState>>,
}

/// What a cancel request reaches.
struct Target {
    secret: i32,
    token: CancelToken,
}

/// A session's entry; it is taken out when this is dropped.
pub(crate) struct CancelKey {
    map: Arc<CancelMap>,
    target: Arc<Target>,
    pub(crate) pid: i32,
    pub(crate) secret: i32,
}

impl CancelMap {
    /// The first of some numbers that no session has.
    pub(crate) fn free(&self, mut next: impl FnMut() -> i32) -> i32 {
        loop {
            let pid = next();
            if !self.sessions.lock().contains_key(&pid) {
                return pid;
            }
        }
    }

    /// Enters a session.
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

    /// Cancels what session `pid` runs, if the secret is right.
    pub(crate) fn cancel(&self, pid: i32, secret: i32) {
        let target = match self.sessions.lock().get(&pid) {
            Some(target) if target.secret == secret => target.clone(),
            _ => return,
        };
        target.token.cancel();
    }
}

impl CancelKey {
    /// The token of the session.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.target.token
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.map.sessions.lock().remove(&self.pid);
    }
}
