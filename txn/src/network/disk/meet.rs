//! The exchange of states at a restart: machines read each other's states by one-sided reads, over
//! every fabric and without a leader.
//!
//! ```text
//! segment | seal of all states seen, 0 before | words | their digest | state ...
//! ```
//! Each machine publishes its own state and reads all others; then it publishes their seal
//! ([`seal`]). When all machines publish the same seal, each has read all states, and knows that. A
//! new process has another nonce. A machine that has read its predecessor's state publishes a seal
//! that the new process never publishes, and reads again. The memory of a killed process may be
//! replaced between two reads: a state with another digest is read again.
//!
//! # Failure
//! A machine that is absent, or continues with the state of a peer's earlier process, keeps the
//! others waiting. [`StateExchange::missing`] names such machines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::{Address, Configuration, ConfigurationError, ConfigurationId, RegionId};
use fencepost_fabric::{
    Completion, Fabric, FabricError, MachineId, Memory, Place, SegmentId, Writer,
};

use super::agree::{AgreedState, States, agree, newest, seal};
use super::state::State;
use crate::fault::{self, Fault};
use crate::network::peers::members;
use crate::words::{NOTHING, mix};

/// The segment in which a machine publishes its state.
const SHOWN: SegmentId = SegmentId::new(SegmentId::STATE, 0, 0);
/// Words before the state.
const HEAD: usize = 3;
/// Words of one read.
const AT_ONCE: usize = 1 << 12;
/// More words than any state has.
const MOST_WORDS: usize = 1 << 28;

/// The reason why machines cannot restart from their disks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateExchangeError {
    /// These machines have no data, and others have some.
    #[error("{} found no data, and others have some; all of them must have theirs", list(.0))]
    Empty(Vec<MachineId>),
    /// These machines have data of another cluster.
    #[error("{} found data of another cluster than the others", list(.0))]
    OtherCluster(Vec<MachineId>),
    /// The data belong to these machines.
    #[error("the data are of {}, and are there again with these machines alone", list(.0))]
    OtherMachines(Vec<MachineId>),
    /// The others have continued without this machine.
    #[error(
        "the others have gone on without this machine in configuration {}: its data are stale, \
         and are not used",
        .0.0
    )]
    Stale(ConfigurationId),
    /// No machine has all data of these regions.
    #[error("no machine has all data of {}", regions(.0))]
    Lost(Vec<RegionId>),
    /// The machines do not form a valid next configuration.
    #[error("the machines are no configuration: {0}")]
    Configuration(#[from] ConfigurationError),
    /// A machine publishes a state that cannot be decoded.
    #[error("the state that {0} publishes is malformed: {1}")]
    Nonsense(MachineId, &'static str),
    /// The state cannot be published.
    #[error("the network: {0}")]
    Network(#[from] FabricError),
}

fn list(machines: &[MachineId]) -> String {
    let names: Vec<String> = machines.iter().map(MachineId::to_string).collect();
    names.join(", ")
}

fn regions(regions: &[RegionId]) -> String {
    let names: Vec<String> = regions.iter().map(RegionId::to_string).collect();
    names.join(", ")
}

/// The treatment of evicted machines in a restart of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadmitPolicy {
    /// Evicted machines do not take part, and no machine waits for them.
    Never,
    /// Evicted machines take part, without their data. All initial members wait for each other.
    All,
}

/// The exchange of states as one machine performs it.
pub struct StateExchange {
    fabric: Arc<dyn Fabric>,
    initial_members: Configuration,
    /// The machines that may be there, as far as known. `known` below names the configuration that
    /// this comes from.
    machines: Configuration,
    /// The address of this machine.
    own: Option<Address>,
    known: ConfigurationId,
    taken_back: ReadmitPolicy,
    /// The memory in which this machine publishes its state.
    shown: Arc<Memory>,
    states: States,
    /// The digests of the states that were read.
    digests: FewMap<MachineId, u64>,
    /// The seals that other machines publish.
    seals: FewMap<MachineId, u64>,
    looking: FewMap<MachineId, StateRead>,
}

/// The progress of reading one machine's state.
enum StateRead {
    Head(Completion<Box<[u64]>>),
    /// The words read so far; the number of all words and their digest; the next read.
    State(Vec<u64>, (usize, u64), Completion<Box<[u64]>>),
}

fn address_of(machines: &Configuration, id: MachineId) -> Option<Address> {
    machines.machine(id).map(|machine| machine.address.clone())
}

fn digest(words: &[u64]) -> u64 {
    words
        .iter()
        .fold(NOTHING, |digest, word| mix(digest, *word))
}

impl StateExchange {
    pub fn begin(
        fabric: &Arc<dyn Fabric>,
        (initial_members, machines): (&Configuration, &Configuration),
        taken_back: ReadmitPolicy,
        own: State,
    ) -> Result<StateExchange, StateExchangeError> {
        let known = own.configuration().map(Configuration::id);
        let words = own.encode();
        let shown = fabric.provide(SHOWN, HEAD + words.len(), Writer::Owner)?;
        shown.copy_in(HEAD, &words);
        shown.words()[2].store(digest(&words), Ordering::Release);
        // A reader that sees the length also sees the whole state.
        shown.words()[1].store(words.len() as u64, Ordering::Release);
        Ok(StateExchange {
            states: FewMap::from([(fabric.me(), own)]),
            fabric: Arc::clone(fabric),
            initial_members: initial_members.clone(),
            machines: machines.clone(),
            own: address_of(machines, fabric.me()),
            known: known.unwrap_or(ConfigurationId(0)),
            taken_back,
            shown,
            digests: FewMap::new(),
            seals: FewMap::new(),
            looking: FewMap::new(),
        })
    }

    /// Withdraws the state: this machine does not take part in the restart.
    pub fn give_up(self) {
        self.fabric.withdraw(SHOWN);
    }

    /// Reads the states of the others. Returns the common starting state once it is known. The
    /// caller repeats this until then.
    pub fn look(&mut self) -> Result<Option<AgreedState>, StateExchangeError> {
        for machine in self.others() {
            self.look_at(machine)?;
        }
        if self.taken_back == ReadmitPolicy::Never
            && let Some(newest) = newest(&self.states, self.fabric.me())
            && !self.is_in(newest)?
        {
            return Err(StateExchangeError::Stale(newest.id()));
        }
        self.learn()?;
        if self
            .needed()
            .any(|machine| !self.states.contains_key(&machine))
        {
            return Ok(None);
        }
        let seal = self.seal();
        self.shown.words()[0].store(seal, Ordering::Release);
        match self
            .needed()
            .all(|machine| self.seals.get(&machine) == Some(&seal))
        {
            true => agree(&self.those_needed(), &self.initial_members, self.taken_back).map(Some),
            false => Ok(None),
        }
    }

    /// Returns whether a configuration has this machine. Its number may belong to another machine,
    /// if it was offered that number and never admitted.
    fn is_in(&self, configuration: &Configuration) -> Result<bool, StateExchangeError> {
        let me = self.fabric.me();
        let machines = configuration.at_places_of(&self.initial_members)?;
        Ok(configuration.has(me) && address_of(&machines, me) == self.own)
    }

    /// Learns of a later configuration, whose members may have the addresses of earlier ones.
    fn learn(&mut self) -> Result<(), StateExchangeError> {
        let newest = newest(&self.states, self.fabric.me());
        let Some(newest) = newest.filter(|newest| newest.id() > self.known) else {
            return Ok(());
        };
        self.known = newest.id();
        let machines = newest.at_places_of(&self.initial_members)?;
        if machines.has(self.fabric.me()) {
            self.fabric.set_members(&members(&machines))?;
            self.machines = machines;
        }
        Ok(())
    }

    /// Returns the machines whose state is unknown, or that do not take part with the others.
    pub fn missing(&self) -> Vec<MachineId> {
        let unheard = |machine: &MachineId| !self.states.contains_key(machine);
        let missing: Vec<MachineId> = self.needed().filter(unheard).collect();
        if !missing.is_empty() {
            return missing;
        }
        let seal = self.seal();
        let other = |machine: &MachineId| self.seals.get(machine) != Some(&seal);
        self.needed().filter(other).collect()
    }

    /// Returns the other machines that a restart requires: those of the newest known configuration.
    /// A machine of an older configuration alone cannot have started without one of them, because
    /// all disks of a configuration know it before it begins.
    fn needed(&self) -> impl Iterator<Item = MachineId> + use<> {
        let newest = newest(&self.states, self.fabric.me()).cloned();
        let newest = newest.filter(|_| self.taken_back == ReadmitPolicy::Never);
        let heard = self.states.keys().copied();
        let heard: Option<FewSet<MachineId>> =
            fault::injected(Fault::BeginAlone).then(|| heard.collect());
        let members =
            move |machine: &MachineId| newest.as_ref().is_none_or(|all| all.has(*machine));
        let others = self.others().filter(members);
        others.filter(move |machine| heard.as_ref().is_none_or(|heard| heard.contains(machine)))
    }

    /// Returns the states of the required machines and of this one.
    fn those_needed(&self) -> States {
        let mut states = self.states.clone();
        let needed: FewSet<MachineId> = self.needed().collect();
        states.retain(|machine, _| *machine == self.fabric.me() || needed.contains(machine));
        states
    }

    fn others(&self) -> impl Iterator<Item = MachineId> + use<> {
        let me = self.fabric.me();
        let all: Vec<MachineId> = self.machines.machines().iter().map(|one| one.id).collect();
        all.into_iter().filter(move |machine| *machine != me)
    }

    fn read(&self, machine: MachineId, word: usize, words: usize) -> Completion<Box<[u64]>> {
        let at = Place {
            machine,
            segment: SHOWN,
            word,
        };
        self.fabric.read(at, words)
    }

    /// Continues to read a machine's state until a read does not complete at once.
    fn look_at(&mut self, machine: MachineId) -> Result<(), StateExchangeError> {
        loop {
            let Some(looking) = self.looking.remove(&machine) else {
                let head = self.read(machine, 0, HEAD);
                self.looking.insert(machine, StateRead::Head(head));
                // A fabric that completes reads at once would make this loop endless.
                match self.take_head(machine)? {
                    true => continue,
                    false => return Ok(()),
                }
            };
            match looking {
                StateRead::Head(head) => {
                    self.looking.insert(machine, StateRead::Head(head));
                    if !self.take_head(machine)? {
                        return Ok(());
                    }
                }
                StateRead::State(mut words, all, mut next) => match next.take() {
                    None => {
                        self.looking
                            .insert(machine, StateRead::State(words, all, next));
                        return Ok(());
                    }
                    Some(Err(_)) => {
                        self.fabric.forget(SHOWN);
                        return Ok(());
                    }
                    Some(Ok(more)) => {
                        words.extend_from_slice(&more);
                        let (len, expected) = all;
                        if words.len() < len {
                            let some = AT_ONCE.min(len - words.len());
                            let next = self.read(machine, HEAD + words.len(), some);
                            self.looking
                                .insert(machine, StateRead::State(words, all, next));
                            continue;
                        }
                        if digest(&words) != expected {
                            self.fabric.forget(SHOWN);
                            return Ok(());
                        }
                        let state = State::decode(&words);
                        let state =
                            state.map_err(|why| StateExchangeError::Nonsense(machine, why.0))?;
                        self.states.insert(machine, state);
                        self.digests.insert(machine, expected);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Takes the head of a machine's segment. Returns whether its state is being read now.
    fn take_head(&mut self, machine: MachineId) -> Result<bool, StateExchangeError> {
        let Some(StateRead::Head(head)) = self.looking.get_mut(&machine) else {
            return Ok(false);
        };
        let Some(answer) = head.take() else {
            return Ok(false);
        };
        self.looking.remove(&machine);
        let head: Option<[u64; HEAD]> = answer.ok().and_then(|head| (*head).try_into().ok());
        let Some([shown, words, digest]) = head.filter(|[_, words, _]| *words > 0) else {
            self.fabric.forget(SHOWN);
            return Ok(false);
        };
        self.seals.insert(machine, shown);
        let all = usize::try_from(words).unwrap_or(usize::MAX);
        if all > MOST_WORDS {
            return Err(StateExchangeError::Nonsense(machine, "it is too long"));
        }
        // The process may be another one than the one whose state is known.
        let known = self.digests.get(&machine) == Some(&digest);
        if known && shown == 0 {
            // A killed process shows 0 forever, and another process may have taken its place.
            self.fabric.forget(SHOWN);
            return Ok(false);
        }
        if known && shown == self.seal() {
            return Ok(false);
        }
        if known {
            // The machine has seen other states: perhaps of another process.
            self.fabric.forget(SHOWN);
        }
        let first = self.read(machine, HEAD, AT_ONCE.min(all));
        self.looking
            .insert(machine, StateRead::State(Vec::new(), (all, digest), first));
        Ok(true)
    }

    fn seal(&self) -> u64 {
        seal(&self.those_needed())
    }
}
