//! A machine that has its network endpoint, and waits for the other machines.
//!
//! # Invariants
//! * JOINED-1: a process keeps one network endpoint and one store member for its machine number.
//!   The others connect to it, and count its vote, as soon as the store has the configuration that
//!   admits it. The process may not know that yet, so it continues with both.
//!
//! # Failure
//! A machine that all others refuse ends after some seconds and reports the reason. A machine that
//! waits for a missing machine does so after a minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::{DiskOffer, JoinOutcome};
use fencepost_cluster::{Configuration, ConfigurationId};
use fencepost_fabric::{FabricError, HandshakeError, MachineId};
use fencepost_txn::Machine;
use fencepost_txn::network::disk::{
    Beginning, Contents, DiskStart, ReadmitPolicy, StateExchangeError, StoreState,
};
use fencepost_txn::network::{NetworkOptions, RestartState, members};
use pollster::FutureExt;

use crate::disks::{DiskJoinAttempt, StoreRestart};
use crate::error::OpenError;
use crate::membership::{ReleaseMember, WaitReason};
use crate::restart::Memory;
use crate::saves::{LoadReport, Saver};

/// The longest wait for the other machines to start.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The time after which a machine that all others refuse ends.
const REFUSED_PATIENCE: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A machine that waits for steps of other machines, with the causes to report if they do not
/// happen.
pub(crate) struct JoinedMachine {
    pub network: NetworkOptions,
    /// The retained state of its previous process, if its memory has outlived that.
    pub resumed: Option<Arc<RestartState>>,
    pub loaded: LoadReport,
    pub saver: Option<Saver>,
    /// Returns the machines that refuse this one, with reasons; `None` if at least one does not
    /// refuse.
    pub(super) refused: RefusalProbe,
    /// Returns the missing machines, with the error of the last attempt to reach them.
    pub(super) missing: MissingProbe,
    /// For an initial member: releases its place in the store if all others refuse it.
    pub(super) place: Option<ReleaseMember>,
    /// Returns the reason why the configuration store does not count on this machine yet.
    pub(super) awaits: Option<WaitReason>,
    /// For machines that keep their data on disks.
    pub(super) again: Option<StoreRestart>,
    pub(super) taken_back: ReadmitPolicy,
}

pub(super) type RefusalProbe = Box<dyn Fn() -> Option<String>>;
pub(super) type MissingProbe = Box<dyn Fn() -> String>;

/// The outcome of a start from a disk.
pub(super) enum DiskStartOutcome {
    /// The machine started with the others, or joined them under its number.
    Begun(Box<JoinedMachine>),
    /// The others run already, and offer this machine another number.
    Offered(Box<(DiskOffer, Contents)>),
}

impl JoinedMachine {
    /// Starts from the contents of all machines' disks.
    fn begins(mut self, on_disk: Arc<DiskStart>) -> Result<JoinedMachine, OpenError> {
        let configuration = on_disk.configuration();
        let fabric = &self.network.fabric;
        fabric
            .set_members(&members(configuration))
            .map_err(network)?;
        if let (Some(again), Some(store)) = (&self.again, &self.network.store) {
            again.go_on_with(&**store, configuration)?;
        }
        self.network.configuration = configuration.clone();
        self.network.disk = Some(on_disk);
        Ok(self)
    }

    /// Starts with the retained memory of a previous process.
    pub(super) fn with_memory(mut self, memory: Memory) -> JoinedMachine {
        (self.resumed, self.loaded, self.saver) = (memory.resumed, memory.loaded, memory.saver);
        self.network.before = memory.before;
        self
    }

    /// Starts without data, because the others have admitted this machine.
    pub(super) fn let_in(mut self, contents: Contents) -> Result<JoinedMachine, OpenError> {
        self.network.disk = Some(contents.joining(&self.network.configuration));
        Ok(self)
    }

    /// Starts with the state that all disks agree on, unless running machines admit this one before
    /// that.
    pub(super) fn begin(
        self,
        contents: Contents,
        first: &Configuration,
    ) -> Result<DiskStartOutcome, OpenError> {
        let (fabric, machines) = (&self.network.fabric, &self.network.configuration);
        let own = machines.machine(fabric.me());
        let own = own.expect("a machine is in the configuration in which it begins");
        let again = self.again.as_ref();
        let mut attempt = again.map(|again| DiskJoinAttempt::of(&again.outside, machines, own));
        let nothing = Ok(StoreState::Last(ConfigurationId(0)));
        let stored = again.map_or(nothing, StoreRestart::stored)?;
        let written = contents.machine();
        let (both, back) = ((first, machines), self.taken_back);
        let beginning = Beginning::open(contents, fabric, both, back, stored);
        let mut beginning = beginning.map_err(OpenError::Machine)?;
        let mut is_stale = false;
        let ended = self.await_others(|| {
            if !is_stale {
                match beginning.look() {
                    Ok(None) => {}
                    Ok(Some(on_disk)) => return Some(Ok(Ok(on_disk))),
                    Err(StateExchangeError::Stale(_)) if attempt.is_some() => is_stale = true,
                    Err(why) => return Some(Err(met(why))),
                }
            }
            let heard = attempt.as_mut()?.look(written);
            heard.transpose().map(|heard| heard.map(Err))
        });
        drop(attempt);
        let heard = match ended {
            Ok(Ok(Ok(on_disk))) => {
                return self
                    .begins(on_disk)
                    .map(Box::new)
                    .map(DiskStartOutcome::Begun);
            }
            Ok(Ok(Err(heard))) => heard,
            Ok(Err(why)) => return Err(why),
            Err(OpenError::Incomplete(seconds, why)) if why.is_empty() => {
                let missing = beginning.missing();
                let names: Vec<String> = missing.iter().map(MachineId::to_string).collect();
                let mut why = format!("{} did not begin with the others", names.join(", "));
                let stored = again
                    .map(|again| again.outside.stored())
                    .transpose()?
                    .flatten();
                if stored.is_some_and(|stored| !stored.has(fabric.me())) {
                    why.push_str("; they have gone on without this machine");
                }
                return Err(OpenError::Incomplete(seconds, why));
            }
            Err(why) => return Err(why),
        };
        let contents = beginning.into_contents();
        let contents = contents.ok_or(OpenError::Machine(fencepost_txn::OpenError::Begun))?;
        match heard {
            JoinOutcome::Offered(offer) => {
                Ok(DiskStartOutcome::Offered(Box::new((offer, contents))))
            }
            JoinOutcome::Joined(me, configuration) if me == self.network.fabric.me() => {
                let joined = self.go_on_as(configuration, contents)?;
                Ok(DiskStartOutcome::Begun(Box::new(joined)))
            }
            // The others may admit this machine only under the number that its disk records.
            JoinOutcome::Joined(..) => Err(OpenError::Evicted),
        }
    }

    /// Continues under the current number, under which the others have admitted this machine
    /// (JOINED-1).
    fn go_on_as(
        mut self,
        next: Configuration,
        contents: Contents,
    ) -> Result<JoinedMachine, OpenError> {
        let (fabric, members) = (&self.network.fabric, members(&next));
        fabric.set_members(&members).map_err(network)?;
        fabric.clear_away(&members).map_err(network)?;
        self.network.configuration = next;
        self.network.joins = true;
        self.let_in(contents)
    }

    /// Waits until `ready` returns a value, which depends on other machines.
    pub fn await_others<T>(&self, mut ready: impl FnMut() -> Option<T>) -> Result<T, OpenError> {
        let began = Instant::now();
        let mut refused_since = None;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            match (self.refused)() {
                None => refused_since = None,
                Some(why) => {
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > REFUSED_PATIENCE {
                        if let Some(give_back) = &self.place {
                            give_back();
                        }
                        return Err(OpenError::Refused(why));
                    }
                }
            }
            if began.elapsed() > TIME_LIMIT {
                let missing = (self.missing)();
                return Err(OpenError::Incomplete(TIME_LIMIT.as_secs(), missing));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until all machines are ready.
    pub fn await_machines(&self, machine: &Machine) -> Result<(), OpenError> {
        let mut is_complete = false;
        let mut lacks = None;
        let complete = self.await_others(|| {
            if self.is_out(machine) {
                return Some(Err(OpenError::Evicted));
            }
            if !is_complete {
                lacks = machine.lacks().block_on().map(|lack| lack.to_string());
                is_complete = lacks.is_none();
            }
            if is_complete {
                lacks = self.awaits.as_ref().and_then(|awaits| awaits());
            }
            lacks.is_none().then_some(Ok(()))
        });
        match (complete, lacks) {
            (Err(OpenError::Incomplete(seconds, why)), Some(lacks)) if why.is_empty() => {
                Err(OpenError::Incomplete(seconds, lacks))
            }
            (complete, _) => complete?,
        }
    }

    /// Returns whether the others have evicted this machine. They may be unable to notify it, so
    /// the store is checked, too.
    fn is_out(&self, machine: &Machine) -> bool {
        let store = self.network.store.as_ref().filter(|_| self.network.joins);
        let current = store.and_then(|store| store.read().block_on().ok().flatten());
        let me = MachineId(machine.number());
        machine.is_evicted() || current.is_some_and(|current| !current.has(me))
    }
}

/// Converts the error of a failed restart agreement.
pub(super) fn met(why: StateExchangeError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Meet(why))
}

pub(super) fn network(error: FabricError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Network(error))
}

/// Returns whether another attempt would fail in the same way.
pub(crate) fn is_final(why: &HandshakeError) -> bool {
    !matches!(why, HandshakeError::Io(_) | HandshakeError::NotMember)
}

/// Lists the machines that refuse, with reasons.
pub(super) fn list(refusals: &[(MachineId, HandshakeError)]) -> String {
    let one = |(machine, why): &(MachineId, HandshakeError)| format!("{machine}: {why}");
    let all: Vec<String> = refusals.iter().map(one).collect();
    all.join("; ")
}
