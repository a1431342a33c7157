//! A machine that has its end of the network, and waits for the others.
//!
//! # Invariants
//! * JOINED-1: as the machine of one number a process has one end of the network, and one part of the store. As soon as the configuration
//!   that lets it in is in the store the others connect to it and count on its vote, which it may not know yet: it goes on with both.
//!
//! # Failure
//! Whom all others refuse ends after some seconds, and says why; so does, after a minute, whoever misses one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::{Heard, Offer};
use fencepost_cluster::{Configuration, ConfigurationId};
use fencepost_fabric::{FabricError, HandshakeError, MachineId};
use fencepost_txn::Machine;
use fencepost_txn::network::disk::{Beginning, Contents, MeetError, OnDisk, Stored, TakenBack};
use fencepost_txn::network::{NetworkOptions, Resumed, members};
use pollster::FutureExt;

use crate::disks::{Again, Knocking};
use crate::error::OpenError;
use crate::newcomer::{Awaits, Place};
use crate::restart::Memory;
use crate::saves::{Loaded, Saver};

/// How long a machine waits for the others to come up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a machine goes on that every other one refuses.
const REFUSED_PATIENCE: Duration = Duration::from_secs(3);
const NAP: Duration = Duration::from_millis(2);

/// What a machine waits for that others must bring about, and why they do not.
pub(crate) struct Joined {
    pub network: NetworkOptions,
    /// What it had before, where its memory has outlived it.
    pub resumed: Option<Arc<Resumed>>,
    pub loaded: Loaded,
    pub saver: Option<Saver>,
    /// Who refuses this machine, and why; `None` where there is somebody who does not.
    pub(super) refused: Refused,
    /// Who is not there, and what was the matter when that was last tried.
    pub(super) missing: Missing,
    /// Of a founder, given back where all others refuse it.
    pub(super) place: Option<Place>,
    /// Why where the configuration is kept does not count on this machine yet.
    pub(super) awaits: Option<Awaits>,
    /// Of machines that keep their data on disks.
    pub(super) again: Option<Again>,
    pub(super) taken_back: TakenBack,
}

pub(super) type Refused = Box<dyn Fn() -> Option<String>>;
pub(super) type Missing = Box<dyn Fn() -> String>;

/// What became of a machine that was to begin with what is on its disk.
pub(super) enum Beginner {
    /// With the others, or among them.
    Begun(Box<Joined>),
    /// Others run, who would let it in as another machine.
    Offered(Box<(Offer, Contents)>),
}

impl Joined {
    /// Begins with what is on the disks of all machines.
    fn begins(mut self, on_disk: Arc<OnDisk>) -> Result<Joined, OpenError> {
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

    /// The same with what a machine has whose memory outlives it.
    pub(super) fn with_memory(mut self, memory: Memory) -> Joined {
        (self.resumed, self.loaded, self.saver) = (memory.resumed, memory.loaded, memory.saver);
        self.network.before = memory.before;
        self
    }

    /// Begins with nothing, as others have let this machine in.
    pub(super) fn let_in(mut self, contents: Contents) -> Result<Joined, OpenError> {
        self.network.disk = Some(contents.joining(&self.network.configuration));
        Ok(self)
    }

    /// Begins with what agrees of what is on the disks of all machines, unless others that run let this one in before.
    pub(super) fn begin(
        self,
        contents: Contents,
        first: &Configuration,
    ) -> Result<Beginner, OpenError> {
        let (fabric, machines) = (&self.network.fabric, &self.network.configuration);
        let own = machines.machine(fabric.me());
        let own = own.expect("a machine is in the configuration in which it begins");
        let again = self.again.as_ref();
        let mut knocking = again.map(|again| Knocking::of(&again.outside, machines, own));
        let nothing = Ok(Stored::Last(ConfigurationId(0)));
        let stored = again.map_or(nothing, Again::stored)?;
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
                    Err(MeetError::Stale(_)) if knocking.is_some() => is_stale = true,
                    Err(why) => return Some(Err(met(why))),
                }
            }
            let heard = knocking.as_mut()?.look(written);
            heard.transpose().map(|heard| heard.map(Err))
        });
        drop(knocking);
        let heard = match ended {
            Ok(Ok(Ok(on_disk))) => {
                return self.begins(on_disk).map(Box::new).map(Beginner::Begun);
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
            Heard::Offered(offer) => Ok(Beginner::Offered(Box::new((offer, contents)))),
            Heard::Joined(me, configuration) if me == self.network.fabric.me() => {
                let joined = self.go_on_as(configuration, contents)?;
                Ok(Beginner::Begun(Box::new(joined)))
            }
            // It is let in as the machine that its disk says it is.
            Heard::Joined(..) => Err(OpenError::Evicted),
        }
    }

    /// Others have let this machine in as the one that it is already (JOINED-1).
    fn go_on_as(mut self, next: Configuration, contents: Contents) -> Result<Joined, OpenError> {
        let (fabric, members) = (&self.network.fabric, members(&next));
        fabric.set_members(&members).map_err(network)?;
        fabric.clear_away(&members).map_err(network)?;
        self.network.configuration = next;
        self.network.joins = true;
        self.let_in(contents)
    }

    /// Waits until `ready`, which other machines have to bring about.
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
            if began.elapsed() > PATIENCE {
                let missing = (self.missing)();
                return Err(OpenError::Incomplete(PATIENCE.as_secs(), missing));
            }
            std::thread::sleep(NAP);
        }
    }

    /// Waits for all machines.
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

    /// Whether the others have gone on without this machine, who may not tell it.
    fn is_out(&self, machine: &Machine) -> bool {
        let store = self.network.store.as_ref().filter(|_| self.network.joins);
        let current = store.and_then(|store| store.read().block_on().ok().flatten());
        let me = MachineId(machine.number());
        machine.is_evicted() || current.is_some_and(|current| !current.has(me))
    }
}

/// Why the machines did not come to begin.
pub(super) fn met(why: MeetError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Meet(why))
}

pub(super) fn network(error: FabricError) -> OpenError {
    OpenError::Machine(fencepost_txn::OpenError::Network(error))
}

/// Whether trying again leads to the same.
pub(crate) fn is_final(why: &HandshakeError) -> bool {
    !matches!(why, HandshakeError::Io(_) | HandshakeError::NotMember)
}

/// Who refuses, and why.
pub(super) fn list(refusals: &[(MachineId, HandshakeError)]) -> String {
    let one = |(machine, why): &(MachineId, HandshakeError)| format!("{machine}: {why}");
    let all: Vec<String> = refusals.iter().map(one).collect();
    all.join("; ")
}
