//! The events of a simulated network.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connection::LinkDirection;
use super::flight::{InFlightItem, Load, Operation, PartialRead};
use super::state::State;
use crate::fabric::{Event, FabricError};
use crate::machine::MachineId;
use crate::waiting::{Answer, PendingOperation};

/// A scheduled event.
#[derive(Debug)]
pub(super) enum SimEvent {
    /// An item arrives, or is parked if it cannot.
    Arrive(InFlightItem),
    /// A read reaches its first words; it reads the others when it arrives.
    Glimpse(MachineId, MachineId, Epoch, PartialRead),
    /// The items parked in one direction of a connection continue, one after the other.
    Release(MachineId, MachineId, LinkDirection),
    /// A connection is opened, if it is still wanted.
    Connect(MachineId, MachineId),
    /// A connection is found broken.
    Break(MachineId, MachineId, Epoch),
    /// A hanging connection is given up.
    GiveUp(MachineId, MachineId, Epoch),
    /// A machine is named, as by a timer.
    Wake(MachineId),
}

/// The number of a connection among those from one machine to another.
pub(super) type Epoch = u64;

/// The results of a change for waiting operations; they are completed without the lock.
#[derive(Default)]
pub(super) struct Effects {
    answers: Vec<(PendingOperation, Answer)>,
    lost: Vec<PendingOperation>,
    /// The machine that must look for new data.
    pub(super) look: Option<MachineId>,
}

impl Effects {
    pub(super) fn lose(&mut self, waiting: BTreeMap<u64, PendingOperation>) {
        self.lost.extend(waiting.into_values());
    }

    /// Completes all affected operations.
    pub(super) fn answer(self) {
        for (waiting, answer) in self.answers {
            let fits = waiting.answer(answer);
            debug_assert!(fits.is_ok(), "an operation answers what was asked");
        }
        drop(self.lost);
    }
}

impl State {
    /// Carries out an event at the present time.
    pub(super) fn happen(&mut self, happening: SimEvent, effects: &mut Effects) {
        self.note(self.now());
        match happening {
            SimEvent::Arrive(flight) => self.arrive(flight, effects),
            SimEvent::Glimpse(from, to, epoch, glimpse) => {
                self.glimpse(from, to, epoch, glimpse);
            }
            SimEvent::Release(from, to, way) => self.release_one(from, to, way, effects),
            SimEvent::Connect(from, to) => self.connect(from, to, effects),
            SimEvent::Break(from, to, epoch) => {
                if self.link(from, to).epoch == epoch {
                    self.break_now(from, to, effects);
                }
            }
            SimEvent::GiveUp(from, to, epoch) => {
                let hopeless = self.hopeless(from, to);
                let link = self.link(from, to);
                if link.epoch == epoch {
                    link.watched = false;
                    if hopeless {
                        self.break_now(from, to, effects);
                    }
                }
            }
            SimEvent::Wake(machine) => effects.look = Some(machine),
        }
    }

    fn arrive(&mut self, flight: InFlightItem, effects: &mut Effects) {
        let (from, to, way) = (flight.from, flight.to, flight.way());
        let blocked = self.way_blocked(from, to, way);
        let link = self.link(from, to);
        if !blocked && !link.parked.contains_key(&way) {
            return self.deliver(flight, effects);
        }
        // A machine that has given the connection up sends nothing again.
        if link.up {
            link.parked.entry(way).or_default().push_back(flight);
            self.watch(from, to);
        }
    }

    /// Reads the first words of a read that takes a while. If the direction is blocked now, the
    /// read takes place as a whole when it arrives.
    fn glimpse(&mut self, from: MachineId, to: MachineId, epoch: Epoch, glimpse: PartialRead) {
        let PartialRead { number, at, words } = glimpse;
        let counted = self.counts(to, from) && !self.way_blocked(from, to, LinkDirection::There);
        let link = self.link(from, to);
        let goes = link.epoch == epoch && !link.parked.contains_key(&LinkDirection::There);
        let incarnation = link.incarnation;
        let target = self.living(to, incarnation).filter(|_| goes && counted);
        let Some(target) = target else { return };
        let registry = Arc::clone(&target.registry);
        if let Answer::Words(first) = Operation::Read(words).apply(&registry, from, at) {
            let last = self.below(words as u64) as usize;
            let first = first[..=last].into();
            self.link(from, to).glimpses.insert(number, first);
        }
    }

    fn release_one(
        &mut self,
        from: MachineId,
        to: MachineId,
        way: LinkDirection,
        effects: &mut Effects,
    ) {
        let blocked = self.way_blocked(from, to, way);
        let parked = &mut self.link(from, to).parked;
        let Some(queue) = parked.get_mut(&way) else {
            return;
        };
        if blocked {
            return self.watch(from, to);
        }
        let first = queue.pop_front();
        if queue.is_empty() {
            parked.remove(&way);
        } else {
            self.at(self.now(), SimEvent::Release(from, to, way));
        }
        if let Some(first) = first {
            self.deliver(first, effects);
        }
    }

    /// Schedules the end of a connection with a parked item.
    fn watch(&mut self, from: MachineId, to: MachineId) {
        let link = self.link(from, to);
        if !std::mem::replace(&mut link.watched, true) {
            let epoch = link.epoch;
            let end = self.now().saturating_add(self.knobs.patience_ns);
            self.at(end, SimEvent::GiveUp(from, to, epoch));
        }
    }

    fn deliver(&mut self, flight: InFlightItem, effects: &mut Effects) {
        match flight.way() {
            LinkDirection::There => self.land(flight, effects),
            LinkDirection::Back => self.finish(flight, effects),
        }
    }

    /// Carries out an operation or rings a bell at the target.
    fn land(&mut self, flight: InFlightItem, effects: &mut Effects) {
        let InFlightItem {
            from, to, epoch, ..
        } = flight;
        let counted = self.counts(to, from);
        let link = self.link(from, to);
        let (newest, incarnation) = (link.epoch == epoch, link.incarnation);
        let target = self.living(to, incarnation).filter(|_| newest && counted);
        let Some(target) = target else {
            if newest {
                self.break_soon(from, to);
            }
            return;
        };
        match flight.load {
            Load::Bell => {
                let (_, leases) = flight.channel;
                match leases {
                    true => target.bells.leases.ring(),
                    false => target.bells.poller.ring(),
                }
                effects.look = Some(to);
                self.note(u64::from(to.0));
            }
            Load::Operation {
                number,
                at,
                operation,
            } => {
                let registry = Arc::clone(&target.registry);
                let digest = operation.digest();
                let mut answer = operation.apply(&registry, from, at);
                if let Some(first) = self.link(from, to).glimpses.remove(&number) {
                    answer = begun_with(&first, answer);
                }
                let pair = (u64::from(from.0) << 32) | u64::from(to.0);
                for part in [pair, at.segment.raw(), at.word as u64, digest] {
                    self.note(part);
                }
                let back = Load::Answer { number, answer };
                self.send(InFlightItem {
                    load: back,
                    ..flight
                });
            }
            Load::Answer { .. } => (),
        }
    }

    /// Completes an operation at the posting machine.
    fn finish(&mut self, flight: InFlightItem, effects: &mut Effects) {
        let link = self.link(flight.from, flight.to);
        let Load::Answer { number, answer } = flight.load else {
            return;
        };
        // No operation waits on a connection that was given up.
        if let Some(waiting) = link.waiting.remove(&number) {
            effects.answers.push((waiting, answer));
            effects.look = Some(flight.from);
            self.note(number);
        }
    }

    fn connect(&mut self, from: MachineId, to: MachineId, effects: &mut Effects) {
        let wanted = self.counts(from, to) && self.counts(to, from) && !self.hangs(from, to);
        let incarnation = self
            .stations
            .get(&to)
            .map_or(0, |station| station.incarnation);
        let link = self.link(from, to);
        link.connecting = false;
        if wanted && !link.up {
            link.begin(incarnation);
            self.tell(from, Event::Connected(to), effects);
        }
    }
}

/// Returns the answer of a read that had these first words before it read the others.
fn begun_with(first: &[u64], answer: Answer) -> Answer {
    match answer {
        Answer::Words(words) if words.first() != first.first() => {
            Answer::Failed(FabricError::Unsteady)
        }
        Answer::Words(mut words) => {
            words[..first.len()].copy_from_slice(first);
            Answer::Words(words)
        }
        answer => answer,
    }
}
