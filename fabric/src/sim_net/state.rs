//! The machines of a simulated network, their connections, and the scheduled events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::connection::{Connection, LinkDirection};
use super::flight::InFlightItem;
use super::happening::{Effects, SimEvent};
use super::{Nic, SimKnobs, WriteTap};
use crate::bell::Bell;
use crate::fabric::{Event, FabricError};
use crate::machine::MachineId;
use crate::random::Random;
use crate::registry::Registry;

/// The bells of a machine.
#[derive(Clone, Debug)]
pub(super) struct Bells {
    pub(super) poller: Bell,
    pub(super) leases: Bell,
}

/// A running machine.
#[derive(Debug)]
pub(super) struct RunningMachine {
    pub(super) incarnation: u64,
    pub(super) members: BTreeSet<MachineId>,
    pub(super) registry: Arc<Registry>,
    pub(super) bells: Bells,
    pub(super) events: Vec<Event>,
    paused: Option<Nic>,
    /// Whether the machine had to look while it was paused.
    missed: bool,
}

/// The state of a simulated network.
#[derive(Debug)]
pub(super) struct State {
    now: u64,
    /// The source of unique numbers.
    numbers: u64,
    random: Random,
    pub(super) knobs: SimKnobs,
    /// The scheduled events by time; events of the same time are in the order of scheduling.
    to_happen: BTreeMap<(u64, u64), SimEvent>,
    pub(super) stations: BTreeMap<MachineId, RunningMachine>,
    pub(super) links: BTreeMap<(MachineId, MachineId), Connection>,
    cuts: BTreeSet<(MachineId, MachineId)>,
    pub(super) tap: Option<InstalledTap>,
    trace: u64,
}

/// A tap with an implementation of `Debug`.
pub(super) struct InstalledTap(pub(super) WriteTap);

impl std::fmt::Debug for InstalledTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tapping")
    }
}

impl State {
    pub(super) fn new(seed: u64, knobs: SimKnobs) -> Self {
        State {
            now: 0,
            numbers: 0,
            random: Random::new(seed),
            knobs,
            to_happen: BTreeMap::new(),
            stations: BTreeMap::new(),
            links: BTreeMap::new(),
            cuts: BTreeSet::new(),
            tap: None,
            trace: 0,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    /// Adds an event to the trace.
    pub(super) fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns a random time from now, within a range.
    pub(super) fn soon(&mut self, (least, most): (u64, u64)) -> u64 {
        let more = self.random.below(most.saturating_sub(least) + 1);
        self.now.saturating_add(least).saturating_add(more)
    }

    /// Returns a random number below `number`.
    pub(super) fn below(&mut self, number: u64) -> u64 {
        self.random.below(number)
    }

    /// Returns whether a connection breaks now, by chance.
    pub(super) fn breaks(&mut self) -> bool {
        let one_in = self.knobs.break_one_in;
        self.random.one_in(one_in)
    }

    /// Returns the connection from one machine to another.
    pub(super) fn link(&mut self, from: MachineId, to: MachineId) -> &mut Connection {
        self.links.entry((from, to)).or_default()
    }

    /// Sends an item, behind earlier ones on its channel.
    pub(super) fn send(&mut self, flight: InFlightItem) {
        let mut soonest = self.soon(self.knobs.delay_ns);
        let (_, of_leases) = flight.channel;
        if !of_leases && self.random.one_in(self.knobs.late_one_in) {
            soonest += self.random.below(self.knobs.late_ns + 1);
        }
        if !of_leases && flight.way() == LinkDirection::There {
            let mut slow = self.knobs.slow.iter();
            let found = slow.find(|(from, to, _)| (*from, *to) == (flight.from, flight.to));
            soonest += found.map_or(0, |(_, _, ns)| *ns);
        }
        let (from, to, way, channel) = (flight.from, flight.to, flight.way(), flight.channel);
        let mut time = self.link(from, to).arrival(way, channel, soonest);
        if let Some(glimpse) = flight.glimpse()
            && self.random.one_in(self.knobs.torn_one_in)
        {
            self.at(time, SimEvent::Glimpse(from, to, flight.epoch, glimpse));
            let later = time + self.random.below(self.knobs.torn_ns + 1);
            time = self.link(from, to).arrival(way, channel, later);
        }
        self.at(time, SimEvent::Arrive(flight));
    }

    /// Schedules an event, not before now.
    pub(super) fn at(&mut self, time: u64, happening: SimEvent) {
        let number = self.number();
        self.to_happen
            .insert((time.max(self.now), number), happening);
    }

    /// Takes the next event, and advances the clock to it.
    pub(super) fn next(&mut self) -> Option<SimEvent> {
        let ((time, _), happening) = self.to_happen.pop_first()?;
        self.now = time;
        Some(happening)
    }

    /// Returns the machine if it may look now; a paused machine is named after its pause.
    pub(super) fn look(&mut self, machine: MachineId) -> Option<MachineId> {
        let station = self.stations.get_mut(&machine)?;
        station.missed |= station.paused.is_some();
        station.paused.is_none().then_some(machine)
    }

    /// Starts a machine; returns the number of its incarnation.
    pub(super) fn join(
        &mut self,
        me: MachineId,
        registry: &Arc<Registry>,
        bells: &Bells,
    ) -> Result<u64, FabricError> {
        if self.stations.contains_key(&me) {
            return Err(FabricError::Refused("the machine is there already"));
        }
        let incarnation = self.number();
        let station = RunningMachine {
            incarnation,
            members: BTreeSet::from([me]),
            registry: Arc::clone(registry),
            bells: bells.clone(),
            events: Vec::new(),
            paused: None,
            missed: false,
        };
        self.stations.insert(me, station);
        Ok(incarnation)
    }

    /// Returns the machine if it is still the given incarnation.
    pub(super) fn living(
        &mut self,
        machine: MachineId,
        incarnation: u64,
    ) -> Option<&mut RunningMachine> {
        let station = self.stations.get_mut(&machine);
        station.filter(|station| station.incarnation == incarnation)
    }

    pub(super) fn crash(&mut self, machine: MachineId, effects: &mut Effects) {
        if self.stations.remove(&machine).is_some() {
            self.note(u64::from(machine.0));
            for ((from, _), link) in &mut self.links {
                if *from == machine {
                    effects.lose(link.down());
                    if self.random.one_in(self.knobs.lose_one_in) {
                        link.forget();
                    }
                }
            }
            self.review(machine, effects);
        }
    }

    pub(super) fn set_members(
        &mut self,
        machine: MachineId,
        members: BTreeSet<MachineId>,
        effects: &mut Effects,
    ) {
        if let Some(station) = self.stations.get_mut(&machine) {
            station.members = members;
            self.review(machine, effects);
        }
    }

    pub(super) fn pause(&mut self, machine: MachineId, nic: Nic) {
        if let Some(station) = self.stations.get_mut(&machine) {
            station.paused = Some(nic);
        }
    }

    pub(super) fn resume(&mut self, machine: MachineId, effects: &mut Effects) {
        let Some(station) = self.stations.get_mut(&machine) else {
            return;
        };
        station.paused = None;
        if std::mem::take(&mut station.missed) {
            self.at(self.now, SimEvent::Wake(machine));
        }
        self.release(|from, to| from == machine || to == machine);
        self.review(machine, effects);
    }

    pub(super) fn cut(&mut self, from: MachineId, to: MachineId) {
        self.cuts.insert((from, to));
    }

    pub(super) fn heal(&mut self, from: MachineId, to: MachineId, effects: &mut Effects) {
        self.cuts.remove(&(from, to));
        self.release(|a, b| (a, b) == (from, to) || (a, b) == (to, from));
        self.review(from, effects);
    }

    /// Schedules the items parked on some connections to continue soon.
    fn release(&mut self, which: impl Fn(MachineId, MachineId) -> bool) {
        let links = self
            .links
            .iter()
            .filter(|((from, to), _)| which(*from, *to));
        let ways = links.flat_map(|(pair, link)| link.parked.keys().map(|way| (*pair, *way)));
        for ((from, to), way) in ways.collect::<Vec<_>>() {
            let soon = self.soon(self.knobs.delay_ns);
            self.at(soon, SimEvent::Release(from, to, way));
        }
    }

    /// Returns whether the network card of a machine is paused.
    fn stands(&self, machine: MachineId) -> bool {
        let station = self.stations.get(&machine);
        station.is_some_and(|station| station.paused == Some(Nic::Stands))
    }

    /// Returns whether one direction of a connection is blocked now.
    pub(super) fn way_blocked(&self, from: MachineId, to: MachineId, way: LinkDirection) -> bool {
        let cut = match way {
            LinkDirection::There => self.cuts.contains(&(from, to)),
            LinkDirection::Back => self.cuts.contains(&(to, from)),
        };
        cut || self.stands(from) || self.stands(to)
    }

    /// Returns whether either direction of a connection is blocked.
    pub(super) fn hangs(&self, from: MachineId, to: MachineId) -> bool {
        self.way_blocked(from, to, LinkDirection::There)
            || self.way_blocked(from, to, LinkDirection::Back)
    }

    /// Returns whether the posting machine gives the connection up after its wait. It does not
    /// while its own card is paused, because the card does not count time either.
    pub(super) fn hopeless(&self, from: MachineId, to: MachineId) -> bool {
        self.hangs(from, to) && !self.stands(from)
    }

    /// Returns whether a machine runs and has another one as a member.
    pub(super) fn counts(&self, machine: MachineId, other: MachineId) -> bool {
        let station = self.stations.get(&machine);
        station.is_some_and(|station| station.members.contains(&other))
    }

    /// Opens or ends connections of a machine after a change.
    fn review(&mut self, machine: MachineId, effects: &mut Effects) {
        let others: BTreeSet<MachineId> = self.stations.keys().copied().collect();
        let known = self.links.keys().flat_map(|(from, to)| [*from, *to]);
        let others: BTreeSet<_> = known.chain(others).filter(|id| *id != machine).collect();
        for other in others {
            self.review_link(machine, other, effects);
            self.review_link(other, machine, effects);
        }
    }

    pub(super) fn review_link(&mut self, from: MachineId, to: MachineId, effects: &mut Effects) {
        let (mine, theirs) = (self.counts(from, to), self.counts(to, from));
        let hangs = self.hangs(from, to);
        let link = self.link(from, to);
        match (link.up, mine, theirs) {
            (true, false, _) => {
                effects.lose(link.down());
                self.tell(from, Event::Lost(to), effects);
            }
            // The posting machine notices later.
            (true, true, false) => self.break_soon(from, to),
            (false, true, true) if !link.connecting && !hangs => {
                link.connecting = true;
                let soon = self.soon(self.knobs.connect_ns);
                self.at(soon, SimEvent::Connect(from, to));
            }
            _ => (),
        }
    }

    /// Schedules that the connection is found broken.
    pub(super) fn break_soon(&mut self, from: MachineId, to: MachineId) {
        let epoch = self.link(from, to).epoch;
        let soon = if self.hangs(from, to) {
            self.now.saturating_add(self.knobs.patience_ns)
        } else {
            let unnoticed = match self.stations.contains_key(&to) {
                true => 0,
                false => self.knobs.unnoticed_ns,
            };
            let soon = self.soon(self.knobs.delay_ns);
            soon.max(self.now.saturating_add(unnoticed))
        };
        self.at(soon, SimEvent::Break(from, to, epoch));
    }

    /// Breaks the connection; another one follows.
    pub(super) fn break_now(&mut self, from: MachineId, to: MachineId, effects: &mut Effects) {
        let link = self.link(from, to);
        if link.up {
            effects.lose(link.down());
            self.tell(from, Event::Lost(to), effects);
            self.review_link(from, to, effects);
        }
    }

    pub(super) fn tell(&mut self, machine: MachineId, event: Event, effects: &mut Effects) {
        if let Some(station) = self.stations.get_mut(&machine) {
            station.events.push(event);
            effects.look = Some(machine);
            let (Event::Connected(peer) | Event::Lost(peer)) = event;
            self.note((u64::from(machine.0) << 32) | u64::from(peer.0));
        }
    }
}
