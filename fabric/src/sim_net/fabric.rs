//! The access of one machine to a simulated network.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::flight::{InFlightItem, Load, Operation};
use super::state::Bells;
use super::{SimNet, TapVerdict};
use crate::bell::Bell;
use crate::completion::{Completer, Completion};
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{Event, Fabric, FabricError};
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::registry::Registry;
use crate::segment::{Place, SegmentId, Writer};
use crate::waiting::PendingOperation;

/// The handle of one thread of a machine.
#[derive(Clone, Debug)]
pub struct SimFabric {
    machine: Arc<SimMachine>,
    thread: u16,
}

#[derive(Debug)]
struct SimMachine {
    me: MachineId,
    incarnation: u64,
    net: SimNet,
    registry: Arc<Registry>,
    bells: Bells,
    counters: FabricCounters,
}

impl SimFabric {
    pub(super) fn join(net: &SimNet, me: MachineId) -> Result<Self, FabricError> {
        let registry = Arc::new(Registry::new(me));
        let words = Arc::new(Memory::anonymous(2)?);
        let bells = Bells {
            poller: Bell::new(Arc::clone(&words), 0),
            leases: Bell::new(words, 1),
        };
        let incarnation = net.state.lock().join(me, &registry, &bells)?;
        let machine = SimMachine {
            me,
            incarnation,
            net: net.clone(),
            registry,
            bells,
            counters: FabricCounters::default(),
        };
        Ok(SimFabric {
            machine: Arc::new(machine),
            thread: 0,
        })
    }

    /// Returns a handle for another thread of the machine; operations of different threads have no
    /// order.
    pub fn thread(&self, thread: u16) -> Self {
        SimFabric {
            machine: Arc::clone(&self.machine),
            thread,
        }
    }

    /// Sends an operation.
    fn post<T>(
        &self,
        at: Place,
        mut operation: Operation,
        waiting: impl FnOnce(Completer<T>) -> PendingOperation,
    ) -> Completion<T> {
        let machine = &self.machine;
        let (me, to) = (machine.me, at.machine);
        let (completer, completion) = Completion::pending();
        let mut state = machine.net.state.lock();
        let members = state.living(me, machine.incarnation).map(|me| &me.members);
        let refused = match members {
            Some(members) if !members.contains(&to) => Some(FabricError::NotMember(to)),
            Some(_) => None,
            None => Some(FabricError::Lost),
        };
        if !state.link(me, to).up || refused.is_some() {
            return Completion::done(Err(refused.unwrap_or(FabricError::Lost)));
        }
        let tapped = match (&mut state.tap, &mut operation) {
            (Some(tapping), Operation::Write(words)) => (tapping.0)(me, at, words),
            _ => TapVerdict::Goes,
        };
        if matches!(tapped, TapVerdict::CrashesBefore | TapVerdict::Breaks) {
            drop(state);
            match tapped {
                TapVerdict::Breaks => machine.net.break_connection(me, to),
                _ => machine.net.crash(me),
            }
            return Completion::done(Err(FabricError::Lost));
        }
        let number = state.number();
        let link = state.link(me, to);
        link.waiting.insert(number, waiting(completer));
        let flight = InFlightItem {
            from: me,
            to,
            epoch: link.epoch,
            channel: (self.thread, at.segment.lane() == SegmentId::LEASE_LANE),
            load: Load::Operation {
                number,
                at,
                operation,
            },
        };
        state.send(flight);
        if state.breaks() {
            state.break_soon(me, to);
        }
        drop(state);
        if tapped == TapVerdict::CrashesAfter {
            machine.net.crash(me);
        }
        completion
    }

    /// Sends the ringing of a bell, after the operations posted on its lane.
    fn post_bell(&self, machine: MachineId, leases: bool) {
        let (me, mine) = (self.machine.me, &self.machine);
        let mut state = mine.net.state.lock();
        if state.living(me, mine.incarnation).is_none() {
            return;
        }
        let link = state.link(me, machine);
        if link.up {
            let flight = InFlightItem {
                from: me,
                to: machine,
                epoch: link.epoch,
                channel: (self.thread, leases),
                load: Load::Bell,
            };
            state.send(flight);
        }
    }

    /// Returns this machine's own memory at a place; `None` for a place on another machine.
    fn own(&self, at: Place, to_write: bool) -> Option<Result<Arc<Memory>, FabricError>> {
        let machine = &self.machine;
        let memory = || machine.registry.memory(at.segment, machine.me, to_write);
        (at.machine == machine.me).then(memory)
    }
}

impl Fabric for SimFabric {
    fn me(&self) -> MachineId {
        self.machine.me
    }

    fn bell(&self) -> &Bell {
        &self.machine.bells.poller
    }

    fn lease_bell(&self) -> &Bell {
        &self.machine.bells.leases
    }

    fn counters(&self) -> &FabricCounters {
        &self.machine.counters
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        self.machine.registry.provide(segment, words, writer)
    }

    fn withdraw(&self, segment: SegmentId) {
        self.machine.registry.withdraw(segment, |_| true);
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        let machine = &self.machine;
        let members: BTreeSet<_> = members.iter().map(|member| member.id).collect();
        if !members.contains(&machine.me) {
            return Err(FabricError::Refused("this machine must be a member"));
        }
        machine.net.change(|state, effects| {
            if state.living(machine.me, machine.incarnation).is_some() {
                state.set_members(machine.me, members, effects);
            }
        });
        Ok(())
    }

    fn maps_peers(&self) -> bool {
        false
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        let at = Place {
            machine,
            segment,
            word: 0,
        };
        self.own(at, false)?.ok()
    }

    fn losses(&self, peer: MachineId) -> Arc<AtomicU64> {
        let mut state = self.machine.net.state.lock();
        Arc::clone(&state.link(self.machine.me, peer).losses)
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.machine.counters.read(words);
        match self.own(at, false) {
            Some(Ok(memory)) => direct::read(&memory, at.word, words),
            Some(Err(error)) => Completion::done(Err(error)),
            None => self.post(at, Operation::Read(words), |completer| {
                PendingOperation::Read(completer, words)
            }),
        }
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.machine.counters.write(words.len());
        match self.own(at, true) {
            Some(Ok(memory)) => direct::write(&memory, at.word, words),
            Some(Err(error)) => Completion::done(Err(error)),
            None => self.post(at, Operation::Write(words.into()), PendingOperation::Write),
        }
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.machine.counters.swap();
        match self.own(at, true) {
            Some(Ok(memory)) => direct::cas(&memory, at.word, expected, new),
            Some(Err(error)) => Completion::done(Err(error)),
            None => self.post(
                at,
                Operation::Swap { expected, new },
                PendingOperation::Swap,
            ),
        }
    }

    fn ring_bell(&self, machine: MachineId) {
        match machine == self.machine.me {
            true => self.machine.bells.poller.ring(),
            false => self.post_bell(machine, false),
        }
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        match machine == self.machine.me {
            true => self.machine.bells.leases.ring(),
            false => self.post_bell(machine, true),
        }
    }

    fn take_events(&self) -> Vec<Event> {
        let mut state = self.machine.net.state.lock();
        let station = state.living(self.machine.me, self.machine.incarnation);
        station.map_or_else(Vec::new, |me| std::mem::take(&mut me.events))
    }
}

impl Drop for SimMachine {
    fn drop(&mut self) {
        self.net.change(|state, effects| {
            if state.living(self.me, self.incarnation).is_some() {
                state.crash(self.me, effects);
            }
        });
    }
}
