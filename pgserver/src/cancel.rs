//! Who may cancel what: the numbers and secrets of all sessions of a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::auth::entropy;
use crate::engine::CancelToken;

/// The sessions of a server by their number.
#[derive(Default)]
pub(crate) struct CancelMap {
    last: AtomicI32,
    sessions: Mutex<HashMap<i32, (i32, CancelToken), RandomState>>,
}

/// A session's entry; it is taken out when this is dropped.
pub(crate) struct CancelKey {
    map: Arc<CancelMap>,
    pub(crate) pid: i32,
    pub(crate) secret: i32,
}

impl CancelMap {
    /// A number no session has.
    pub(crate) fn next_pid(&self) -> i32 {
        (self.last.fetch_add(1, Ordering::Relaxed) & 0x3fff_ffff) + 1
    }

    /// Enters a session.
    pub(crate) fn enter(self: &Arc<Self>, pid: i32, token: CancelToken) -> CancelKey {
        let random = entropy();
        let secret = i32::from_be_bytes([random[0], random[1], random[2], random[3]]);
        self.sessions.lock().insert(pid, (secret, token));
        CancelKey {
            map: self.clone(),
            pid,
            secret,
        }
    }

    /// Cancels what session `pid` runs, if the secret is right.
    pub(crate) fn cancel(&self, pid: i32, secret: i32) {
        let token = match self.sessions.lock().get(&pid) {
            Some((wanted, token)) if *wanted == secret => token.clone(),
            _ => return,
        };
        token.cancel();
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.map.sessions.lock().remove(&self.pid);
    }
}
