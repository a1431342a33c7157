//! Cancel requests: a client sends the number and the secret of a session to any machine.
//!
//! ```text
//! session's number | machine (11) | count (20) |       a machine that is alone counts in all bits
//!
//! Database::cancel ─► this machine's session? ─► every hook: the owner checks the secret
//!                  └► another's ─► call ─► every hook there
//! ```
//! A server of a protocol registers a hook. A process may have several servers, and each knows its
//! own sessions only. The requester gets no information: neither whether the session exists, nor
//! whether the secret was right.
//!
//! # Failure
//! If the machine of the session cannot be reached, nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_fabric::MachineId;
use fencepost_txn::Machine;
use fencepost_txn::network::call::Answer;
use parking_lot::Mutex;

use crate::database::Database;
use crate::services;

/// The number of bits in a session's number below those of its machine.
const COUNT_BITS: u32 = 20;
/// The number of machines that session numbers can distinguish.
const MACHINES_MAX: u32 = 1 << (31 - COUNT_BITS);
/// The number of bits in a session's number if a machine is alone.
const ALONE_BITS: u32 = 30;

type CancelForwarder = dyn Fn(i32, i32) + Send + Sync;

/// The hooks of a database, and the counter of its session numbers.
#[derive(Default)]
pub(crate) struct Cancels {
    hooks: Mutex<Vec<Arc<CancelForwarder>>>,
    sessions: AtomicU32,
}

/// A registered hook, from [`Database::on_cancel`]. Dropping it unregisters the hook.
pub struct CancelHook {
    cancels: Arc<Cancels>,
    hook: Arc<CancelForwarder>,
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        let mut hooks = self.cancels.hooks.lock();
        hooks.retain(|hook| !Arc::ptr_eq(hook, &self.hook));
    }
}

impl Cancels {
    /// Registers the handler for cancel requests that other machines forward.
    pub fn serve(self: &Arc<Self>, machine: &Machine) {
        let cancels = Arc::clone(self);
        let handler = move |_, request: Vec<u8>, answer: Answer| {
            if let Some((pid, secret)) = decode(&request) {
                cancels.cancel(pid, secret);
            }
            answer.send(&[]);
        };
        machine.serve(services::CANCEL, Arc::new(handler));
    }

    /// Returns a number for a new session of machine `machine`, which is 0 for a single machine.
    /// The numbers wrap around.
    pub fn next_number(&self, machine: u32) -> i32 {
        let count = self.sessions.fetch_add(1, Ordering::Relaxed);
        let number = match machine % MACHINES_MAX {
            0 => (count & ((1 << ALONE_BITS) - 1)) + 1,
            machine => machine << COUNT_BITS | count & ((1 << COUNT_BITS) - 1),
        };
        number as i32
    }

    fn cancel(&self, pid: i32, secret: i32) {
        let hooks = self.hooks.lock().clone();
        hooks.iter().for_each(|hook| hook(pid, secret));
    }
}

/// Returns the machine of a session.
pub(crate) fn machine_of(pid: i32) -> u32 {
    pid as u32 >> COUNT_BITS
}

fn encode(pid: i32, secret: i32) -> Vec<u8> {
    [pid.to_le_bytes(), secret.to_le_bytes()].concat()
}

fn decode(request: &[u8]) -> Option<(i32, i32)> {
    let (pid, secret) = request.split_first_chunk()?;
    Some((
        i32::from_le_bytes(*pid),
        i32::from_le_bytes(secret.try_into().ok()?),
    ))
}

impl Database {
    /// Returns a session number that is unique in the database, over all machines.
    pub fn next_session_number(&self) -> i32 {
        self.shared().next_pid()
    }

    /// Registers `hook`, which gets the number and the secret of each cancel request for a session
    /// of this machine. Any machine may have received the request. The hook must not block. It
    /// stays until the returned value is dropped.
    pub fn on_cancel(&self, hook: impl Fn(i32, i32) + Send + Sync + 'static) -> CancelHook {
        let cancels = Arc::clone(&self.shared().cancels);
        let hook: Arc<CancelForwarder> = Arc::new(hook);
        cancels.hooks.lock().push(Arc::clone(&hook));
        CancelHook { cancels, hook }
    }

    /// Cancels the statement of session `pid`, if a hook of its machine finds the secret right
    /// ([`Database::on_cancel`]). The session may be on another machine. The request is sent by
    /// this call; the future completes when that machine has received it, and may be dropped. No
    /// error is reported. Inside one process, use [`crate::Session::cancel_token`] instead.
    pub fn cancel(&self, pid: i32, secret: i32) -> impl Future<Output = ()> + Send + use<> {
        let machine = self.machine();
        let elsewhere = machine_of(pid) != machine.number() % MACHINES_MAX;
        let call = match machine.number() != 0 && elsewhere {
            true => {
                let peer = MachineId(machine_of(pid));
                Some(machine.call(peer, services::CANCEL, &encode(pid, secret)))
            }
            false => {
                self.shared().cancels.cancel(pid, secret);
                None
            }
        };
        async move {
            if let Some(call) = call {
                // The requester gets no information, and no error either.
                let _ = call.await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_number_names_its_machine_and_is_not_zero() {
        let cancels = Cancels::default();
        for count in [0, 1, (1 << 20) - 1, 1 << 20, u32::MAX] {
            cancels.sessions.store(count, Ordering::Relaxed);
            assert!(cancels.next_number(0) > 0);
            for machine in [1, 7, MACHINES_MAX - 1] {
                cancels.sessions.store(count, Ordering::Relaxed);
                let number = cancels.next_number(machine);
                assert!(number > 0);
                assert_eq!(machine_of(number), machine);
            }
        }
    }

    #[test]
    fn requests_come_back_and_others_are_none() {
        assert_eq!(decode(&encode(-3, i32::MIN)), Some((-3, i32::MIN)));
        for bytes in [0, 3, 7, 9] {
            assert_eq!(decode(&vec![1; bytes]), None);
        }
    }
}
