//! The lock manager ("home" in the code): it holds the lock table and serves the requests of
//! machines.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fencepost_fabric::{Completion, MachineId};
use fencepost_sql::advisory::{LockKey, LockMode, LockState};
use fencepost_txn::Machine;
use fencepost_txn::network::call::Answer;

use super::Advisory;
use super::table::{DueReplies, Owner, Reply, Table, Verdict};
use super::wire::{
    LockRequest, Request, RequestKind, decode_states, decode_verdict, encode_states, encode_verdict,
};
use crate::cancels::machine_of;
use crate::services;

/// Interval at which the lock manager checks whether the machines of lock owners are still members.
const LOOK: Duration = Duration::from_millis(100);

/// The state of the lock manager on this machine. The table is empty unless this machine has the
/// role.
#[derive(Default)]
pub(super) struct LockManager {
    role: Role,
    table: Table,
    /// The number of the configuration whose members may own locks.
    configuration: u64,
    /// True while a task checks for lost machines because requests wait.
    watched: bool,
    /// Requests that arrived while the members were asked for their locks.
    deferred: Vec<(LockRequest, Reply)>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    #[default]
    None,
    /// This machine is the lock manager, and is asking the members which locks their sessions hold.
    Asks,
    Home,
    /// The database is closing.
    Over,
}

/// The error of a request that got no verdict because its receiver is not the lock manager. The
/// caller asks again.
#[derive(Debug)]
pub(crate) struct NotLockManager;

/// The location of the lock manager, with its machine number.
enum ManagerLocation {
    Local(u32),
    Peer(u32, Arc<Machine>),
}

impl Advisory {
    /// Executes a request. Dropping `reply` without calling it tells the caller to ask again.
    fn decide(self: &Arc<Self>, ask: LockRequest, reply: Reply) {
        let Some(machine) = self.machine.upgrade() else {
            return;
        };
        let mut due = DueReplies::new();
        let mut home = self.home.lock();
        if home.may_serve(self, &machine) {
            home.part_with_lost(&machine, &mut due);
            home.apply(ask, reply, &mut due);
            home.watch(self);
        } else if home.role == Role::Asks {
            home.deferred.push((ask, reply));
        }
        drop(home);
        tell(due);
    }

    /// Sends a request to the lock manager. Returns its verdict and its machine number.
    pub(super) async fn ask(
        self: &Arc<Self>,
        ask: LockRequest,
    ) -> Result<(Verdict, u32), NotLockManager> {
        let (home, call) = match self.whom()? {
            ManagerLocation::Local(home) => {
                let (completer, verdict) = Completion::pending();
                let reply = Box::new(move |verdict| completer.complete(Ok(verdict)));
                self.decide(ask, reply);
                let verdict = verdict.await.map_err(|_| NotLockManager)?;
                return Ok((verdict, home));
            }
            ManagerLocation::Peer(home, machine) => {
                let request = Request::Ask(ask).encode();
                (
                    home,
                    machine.call(MachineId(home), services::ADVISORY, &request),
                )
            }
        };
        let verdict = call.await.ok().and_then(|answer| decode_verdict(&answer));
        Ok((verdict.ok_or(NotLockManager)?, home))
    }

    /// Sends a message to the lock manager on machine `home` and ignores the reply. If that machine
    /// is lost, the next lock manager asks this machine for its locks.
    pub(super) fn tell(self: &Arc<Self>, home: u32, ask: LockRequest) {
        let Some(machine) = self.machine.upgrade() else {
            return;
        };
        match machine.number() {
            me if me == 0 || me == home => self.decide(ask, Box::new(|_| {})),
            _ if home == 0 => {}
            _ => {
                let request = Request::Ask(ask).encode();
                let call = machine.call(MachineId(home), services::ADVISORY, &request);
                self.spawn(async move {
                    let _ = call.await;
                });
            }
        }
    }

    fn whom(&self) -> Result<ManagerLocation, NotLockManager> {
        let machine = self.machine.upgrade().ok_or(NotLockManager)?;
        let home = machine.manager();
        Ok(match machine.number() {
            0 => ManagerLocation::Local(0),
            me if me == home => ManagerLocation::Local(home),
            _ => ManagerLocation::Peer(home, machine),
        })
    }

    /// Returns all held and requested locks, as the lock manager knows them.
    pub(crate) async fn states(self: &Arc<Self>) -> Result<Vec<LockState>, NotLockManager> {
        let call = match self.whom()? {
            ManagerLocation::Local(_) => return self.states_here().ok_or(NotLockManager),
            ManagerLocation::Peer(home, machine) => {
                let request = Request::All.encode();
                machine.call(MachineId(home), services::ADVISORY, &request)
            }
        };
        let states = call.await.ok().and_then(|answer| decode_states(&answer));
        states.ok_or(NotLockManager)
    }

    /// Returns all locks, if this machine is the lock manager and has collected the locks of all
    /// members.
    fn states_here(self: &Arc<Self>) -> Option<Vec<LockState>> {
        let machine = self.machine.upgrade()?;
        let mut home = self.home.lock();
        let serves = home.may_serve(self, &machine);
        serves.then(|| home.table.states())
    }

    /// Waits until the lock manager has applied every earlier message of this machine. Messages are
    /// FIFO, so its reply implies that.
    pub(super) async fn wait_until_applied(
        self: &Arc<Self>,
        owner: Owner,
    ) -> Result<(), NotLockManager> {
        let nothing = LockRequest {
            what: RequestKind::Settle,
            owner,
            key: LockKey::NotifyCommit,
            mode: LockMode::Exclusive,
        };
        self.ask(nothing).await.map(drop)
    }

    /// Returns the locks of this machine's sessions for the new lock manager `home`. From now on
    /// this machine accepts grants of `home` only.
    fn holdings(&self, home: u32) -> Vec<LockState> {
        let mut local = self.local.lock();
        local.known_to = home;
        let sessions = local.sessions.values().filter_map(Weak::upgrade);
        sessions.flat_map(|session| session.holdings()).collect()
    }
}

impl LockManager {
    /// Returns whether this machine is the lock manager and knows the locks of all members. If it
    /// has just become the lock manager, this starts asking the members.
    fn may_serve(&mut self, advisory: &Arc<Advisory>, machine: &Machine) -> bool {
        let me = machine.number();
        if me == 0 || self.role == Role::Over {
            return me == 0;
        }
        if machine.manager() != me {
            // Dropping the state drops the replies: requests that wait here go to the next lock
            // manager.
            *self = LockManager::default();
            return false;
        }
        if self.role == Role::None {
            self.role = Role::Asks;
            self.table.clear();
            advisory.spawn(gather(Arc::downgrade(advisory)));
        }
        self.role == Role::Home
    }

    fn apply(&mut self, ask: LockRequest, reply: Reply, due: &mut DueReplies) {
        let LockRequest {
            what,
            owner,
            key,
            mode,
        } = ask;
        match what {
            RequestKind::Try => self.table.ask((owner, key, mode), false, reply, due),
            RequestKind::Wait => self.table.ask((owner, key, mode), true, reply, due),
            RequestKind::Release => {
                self.table.release(owner, key, mode, due);
                due.push((reply, Verdict::Granted));
            }
            RequestKind::Abandon => {
                self.table.leave(owner, due);
                self.table.release(owner, key, mode, due);
                due.push((reply, Verdict::Granted));
            }
            RequestKind::End => {
                self.table.part_with(|other| other == owner, due);
                due.push((reply, Verdict::Granted));
            }
            RequestKind::Put => {
                self.table.put(owner, key, mode);
                due.push((reply, Verdict::Granted));
            }
            RequestKind::Settle => due.push((reply, Verdict::Granted)),
        }
    }

    /// Starts the task that checks for lost machines, if requests wait and the task does not run.
    fn watch(&mut self, advisory: &Arc<Advisory>) {
        if advisory.ship.is_some() && self.table.has_waits() && !self.watched {
            self.watched = true;
            advisory.spawn(look_after(Arc::downgrade(advisory)));
        }
    }

    /// Removes the locks and requests of owners whose machines are no longer members.
    fn part_with_lost(&mut self, machine: &Machine, due: &mut DueReplies) {
        let configuration = machine.configuration();
        if configuration == self.configuration || machine.number() == 0 {
            return;
        }
        self.configuration = configuration;
        let members = machine.members().machines;
        let is_member = |owner| members.iter().any(|m| is_of(owner, m.id));
        self.table.part_with(|owner| !is_member(owner), due);
    }
}

fn is_of(owner: Owner, machine: u32) -> bool {
    machine_of(owner) == machine
}

/// Checks repeatedly whether machines are lost, while requests wait.
async fn look_after(advisory: Weak<Advisory>) {
    loop {
        let Some(alarm) = advisory.upgrade().map(|of| Arc::clone(&of.alarm)) else {
            return;
        };
        alarm.sleep(Instant::now() + LOOK).await;
        let Some(advisory) = advisory.upgrade() else {
            return;
        };
        let Some(machine) = advisory.machine.upgrade() else {
            return;
        };
        let mut due = DueReplies::new();
        let mut home = advisory.home.lock();
        let serves = home.may_serve(&advisory, &machine);
        if serves {
            home.part_with_lost(&machine, &mut due);
        }
        let ends = !serves || !home.table.has_waits();
        home.watched = !ends;
        drop(home);
        tell(due);
        if ends {
            return;
        }
    }
}

/// Asks all members for the locks of their sessions, and then starts to serve requests.
async fn gather(advisory: Weak<Advisory>) {
    let mut known: Vec<u32> = Vec::new();
    loop {
        let Some(advisory) = advisory.upgrade() else {
            return;
        };
        let machine = advisory.machine.upgrade();
        let Some(machine) = machine.filter(|_| advisory.home.lock().role == Role::Asks) else {
            return;
        };
        let members = machine.members().machines;
        let next = members.iter().find(|m| !known.contains(&m.id));
        let Some(next) = next.map(|member| member.id) else {
            advisory.open_home(&machine);
            return;
        };
        let states = match next == machine.number() {
            true => Some(advisory.holdings(next)),
            false => {
                let request = Request::Holdings.encode();
                let call = machine.call(MachineId(next), services::ADVISORY, &request);
                call.await.ok().and_then(|answer| decode_states(&answer))
            }
        };
        match states {
            Some(states) => {
                known.push(next);
                let mut home = advisory.home.lock();
                for state in states {
                    home.table.put(state.session, state.key, state.mode);
                }
            }
            None => {
                // The member will reply later, or will be evicted.
                drop(machine);
                if advisory.pause().await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Advisory {
    /// Starts to serve requests: all members have reported their locks. Executes the deferred
    /// requests.
    fn open_home(self: &Arc<Self>, machine: &Machine) {
        let mut due = DueReplies::new();
        let mut home = self.home.lock();
        if home.role == Role::Asks {
            home.role = Role::Home;
            // The table may contain locks that a machine reported before it was lost: check all
            // owners again.
            home.configuration = 0;
            home.part_with_lost(machine, &mut due);
            for (ask, reply) in std::mem::take(&mut home.deferred) {
                home.apply(ask, reply, &mut due);
            }
            home.watch(self);
        }
        drop(home);
        tell(due);
    }

    /// Ends the role of lock manager when the database closes. Requests that wait here go to the
    /// next lock manager.
    pub(crate) fn close(&self) {
        let over = LockManager {
            role: Role::Over,
            ..LockManager::default()
        };
        let before = std::mem::replace(&mut *self.home.lock(), over);
        drop(before);
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(ship) = &self.ship {
            ship.spawn(task);
        }
    }

    /// Registers the handler for requests of other machines.
    pub(crate) fn serve(self: &Arc<Self>, machine: &Machine) {
        let advisory = Arc::clone(self);
        let handler = move |peer: MachineId, request: Vec<u8>, answer: Answer| {
            let request = Request::decode(&request);
            match request {
                None => {}
                Some(Request::Holdings) => answer.send(&encode_states(&advisory.holdings(peer.0))),
                Some(Request::All) => {
                    // A dropped reply tells the peer to ask again.
                    if let Some(states) = advisory.states_here() {
                        answer.send(&encode_states(&states));
                    }
                }
                Some(Request::Mark(owner, lock)) => {
                    let marking = Arc::clone(&advisory);
                    advisory.spawn(async move {
                        if marking.mark_for(owner, lock).await.is_ok() {
                            answer.send(&[]);
                        }
                    });
                }
                Some(Request::Unmark(owner, lock)) => {
                    advisory.marks.remove(owner, lock);
                    answer.send(&[]);
                }
                Some(Request::Ask(ask)) => {
                    let reply = Box::new(move |verdict| answer.send(&encode_verdict(verdict)));
                    advisory.decide(ask, reply);
                }
            }
        };
        machine.serve(services::ADVISORY, Arc::new(handler));
    }
}

fn tell(due: DueReplies) {
    due.into_iter().for_each(|(reply, verdict)| reply(verdict));
}
