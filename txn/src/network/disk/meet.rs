//! Machines that begin show each other what they have, by one-sided reads: over every fabric, and nobody leads.
//!
//! ```text
//! segment | seal of all states seen, 0 before | words | their digest | state ...
//! ```
//! Each shows its own state and reads all others; once it has them it shows their seal ([`seal`]). When all show the same
//! seal everybody has seen everything, and each knows that. A process that begins anew has another nonce: who has seen the
//! one before shows a seal that it will never show, and looks again. What is there of a process that was killed may be replaced
//! between two reads: a state whose digest is another is read again.
//!
//! # Failure
//! A machine that is not there, or goes on with what another process of a peer had, keeps the others waiting: who waits
//! asks who that is ([`Meeting::missing`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::{Address, Configuration, ConfigurationError, ConfigurationId, RegionId};
use fencepost_fabric::{
    Completion, Fabric, FabricError, MachineId, Memory, Place, SegmentId, Writer,
};

use super::agree::{Agreed, States, agree, newest, seal};
use super::state::State;
use crate::network::peers::members;
use crate::planted::{self, Planted};
use crate::words::{NOTHING, mix};

/// Where a machine shows its state.
const SHOWN: SegmentId = SegmentId::new(SegmentId::STATE, 0, 0);
/// Words before it.
const HEAD: usize = 3;
/// Words of one read.
const AT_ONCE: usize = 1 << 12;
/// More than any state has.
const MOST_WORDS: usize = 1 << 28;

/// Why machines cannot begin with what they have on their disks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeetError {
    /// These have nothing, and others have data.
    #[error("{} found no data, and others have some; all of them must have theirs", list(.0))]
    Empty(Vec<MachineId>),
    /// These have data of another cluster.
    #[error("{} found data of another cluster than the others", list(.0))]
    Strangers(Vec<MachineId>),
    /// The data are of these machines.
    #[error("the data are of {}, and are there again with these machines alone", list(.0))]
    OtherMachines(Vec<MachineId>),
    /// The others have gone on without this machine.
    #[error(
        "the others have gone on without this machine in configuration {}: its data are stale, and are not used",
        .0.0
    )]
    Stale(ConfigurationId),
    /// Of these regions no machine has all data.
    #[error("no machine has all data of {}", regions(.0))]
    Lost(Vec<RegionId>),
    /// There is no such next configuration.
    #[error("the machines are no configuration: {0}")]
    Configuration(#[from] ConfigurationError),
    /// A machine shows what no machine shows.
    #[error("what {0} says of its data makes no sense: {1}")]
    Nonsense(MachineId, &'static str),
    /// It cannot be shown.
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

/// Whether machines that others have gone on without begin again with those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// They do not, and nobody waits for them.
    Nobody,
    /// They do, with nothing of what they had. All founders wait for each other.
    All,
}

/// One machine that begins with others.
pub struct Meeting {
    fabric: Arc<dyn Fabric>,
    founders: Configuration,
    /// Those who may be there, as far as that is known, and as of which configuration.
    machines: Configuration,
    /// Where this machine is.
    own: Option<Address>,
    known: ConfigurationId,
    taken_back: TakenBack,
    /// What this machine shows.
    shown: Arc<Memory>,
    states: States,
    /// The digests of those that were read.
    digests: FewMap<MachineId, u64>,
    /// Seals that others show.
    seals: FewMap<MachineId, u64>,
    looking: FewMap<MachineId, Looking>,
}

/// How far a machine has been looked at.
enum Looking {
    Head(Completion<Box<[u64]>>),
    /// What was read of a state of so many words, and their digest.
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

impl Meeting {
    pub fn begin(
        fabric: &Arc<dyn Fabric>,
        (founders, machines): (&Configuration, &Configuration),
        taken_back: TakenBack,
        own: State,
    ) -> Result<Meeting, MeetError> {
        let known = own.configuration().map(Configuration::id);
        let words = own.encode();
        let shown = fabric.provide(SHOWN, HEAD + words.len(), Writer::Owner)?;
        shown.copy_in(HEAD, &words);
        shown.words()[2].store(digest(&words), Ordering::Release);
        // Who sees how many they are sees all of them.
        shown.words()[1].store(words.len() as u64, Ordering::Release);
        Ok(Meeting {
            states: FewMap::from([(fabric.me(), own)]),
            fabric: Arc::clone(fabric),
            founders: founders.clone(),
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

    /// Goes another way: nobody is to take this machine for one that begins.
    pub fn give_up(self) {
        self.fabric.withdraw(SHOWN);
    }

    /// Looks at the others; what all begin with, once that is known. For whoever comes again and again.
    pub fn look(&mut self) -> Result<Option<Agreed>, MeetError> {
        for machine in self.others() {
            self.look_at(machine)?;
        }
        if self.taken_back == TakenBack::Nobody
            && let Some(newest) = newest(&self.states, self.fabric.me())
            && !self.is_in(newest)?
        {
            return Err(MeetError::Stale(newest.id()));
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
            true => agree(&self.those_needed(), &self.founders, self.taken_back).map(Some),
            false => Ok(None),
        }
    }

    /// Whether a configuration has this machine. Its number may be another one's, where it was offered that and never let in.
    fn is_in(&self, configuration: &Configuration) -> Result<bool, MeetError> {
        let me = self.fabric.me();
        let machines = configuration.at_places_of(&self.founders)?;
        Ok(configuration.has(me) && address_of(&machines, me) == self.own)
    }

    /// Somebody knows a later configuration: others may be at the places of those that were there before.
    fn learn(&mut self) -> Result<(), MeetError> {
        let newest = newest(&self.states, self.fabric.me());
        let Some(newest) = newest.filter(|newest| newest.id() > self.known) else {
            return Ok(());
        };
        self.known = newest.id();
        let machines = newest.at_places_of(&self.founders)?;
        if machines.has(self.fabric.me()) {
            self.fabric.set_members(&members(&machines))?;
            self.machines = machines;
        }
        Ok(())
    }

    /// Who has not been heard of, or does not begin with the others.
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

    /// The others without whom nothing begins: those of the newest configuration that has been heard of. Who is in an
    /// older one alone cannot have begun without one of them, for it began with all of its machines' disks knowing of it.
    fn needed(&self) -> impl Iterator<Item = MachineId> + use<> {
        let newest = newest(&self.states, self.fabric.me()).cloned();
        let newest = newest.filter(|_| self.taken_back == TakenBack::Nobody);
        let heard = self.states.keys().copied();
        let heard: Option<FewSet<MachineId>> =
            planted::is(Planted::BeginAlone).then(|| heard.collect());
        let members =
            move |machine: &MachineId| newest.as_ref().is_none_or(|all| all.has(*machine));
        let others = self.others().filter(members);
        others.filter(move |machine| heard.as_ref().is_none_or(|heard| heard.contains(machine)))
    }

    /// What they and this machine have.
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

    /// Goes on looking at a machine until there is nothing to be had at once.
    fn look_at(&mut self, machine: MachineId) -> Result<(), MeetError> {
        loop {
            let Some(looking) = self.looking.remove(&machine) else {
                let head = self.read(machine, 0, HEAD);
                self.looking.insert(machine, Looking::Head(head));
                // A medium that answers at once would be asked for ever.
                match self.take_head(machine)? {
                    true => continue,
                    false => return Ok(()),
                }
            };
            match looking {
                Looking::Head(head) => {
                    self.looking.insert(machine, Looking::Head(head));
                    if !self.take_head(machine)? {
                        return Ok(());
                    }
                }
                Looking::State(mut words, all, mut next) => match next.take() {
                    None => {
                        self.looking
                            .insert(machine, Looking::State(words, all, next));
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
                                .insert(machine, Looking::State(words, all, next));
                            continue;
                        }
                        if digest(&words) != expected {
                            self.fabric.forget(SHOWN);
                            return Ok(());
                        }
                        let state = State::decode(&words);
                        let state = state.map_err(|why| MeetError::Nonsense(machine, why.0))?;
                        self.states.insert(machine, state);
                        self.digests.insert(machine, expected);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Takes what was read of a machine's head; whether its state is being read now.
    fn take_head(&mut self, machine: MachineId) -> Result<bool, MeetError> {
        let Some(Looking::Head(head)) = self.looking.get_mut(&machine) else {
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
            return Err(MeetError::Nonsense(machine, "it is too long"));
        }
        // It may be another process by now than the one whose state is known.
        let known = self.digests.get(&machine) == Some(&digest);
        if known && shown == 0 {
            // A process that was killed shows that for ever, and there may be another one in its place.
            self.fabric.forget(SHOWN);
            return Ok(false);
        }
        if known && shown == self.seal() {
            return Ok(false);
        }
        if known {
            // It has seen something else: maybe of another process than this machine has.
            self.fabric.forget(SHOWN);
        }
        let first = self.read(machine, HEAD, AT_ONCE.min(all));
        self.looking
            .insert(machine, Looking::State(Vec::new(), (all, digest), first));
        Ok(true)
    }

    fn seal(&self) -> u64 {
        seal(&self.those_needed())
    }
}
