//! The fabric of machines in one process, which access each other's memory directly.
//!
//! The machines share a [`LocalNetwork`], and each has its own [`LocalFabric`] on it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{Event, Fabric, FabricError};
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::registry::Registry;
use crate::segment::{Place, SegmentId, Writer};

/// The network that the machines of one process share.
#[derive(Debug, Default)]
pub struct LocalNetwork {
    machines: RwLock<HashMap<MachineId, Arc<LocalMachine>>>,
}

/// The parts of a machine that other machines access.
#[derive(Debug)]
struct LocalMachine {
    bell: Bell,
    lease_bell: Bell,
    registry: Registry,
    members: RwLock<HashSet<MachineId>>,
    /// The peers that are connected according to the events so far.
    connected: Mutex<HashSet<MachineId>>,
    events: Mutex<Vec<Event>>,
}

/// The access of one machine to a [`LocalNetwork`]. Every operation is done when it returns, by the
/// calling thread.
#[derive(Debug)]
pub struct LocalFabric {
    me: MachineId,
    network: Arc<LocalNetwork>,
    station: Arc<LocalMachine>,
    counters: FabricCounters,
}

impl LocalNetwork {
    /// Returns a network without machines.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a machine to the network; it is its own only member. Dropping the result removes the
    /// machine.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the machine exists already; [`FabricError::Io`] if there is no
    /// memory for its bells.
    pub fn join(self: &Arc<Self>, me: MachineId) -> Result<LocalFabric, FabricError> {
        let bells = Arc::new(Memory::anonymous(2)?);
        let station = Arc::new(LocalMachine {
            bell: Bell::new(Arc::clone(&bells), 0),
            lease_bell: Bell::new(bells, 1),
            registry: Registry::new(me),
            members: RwLock::new(HashSet::from([me])),
            connected: Mutex::default(),
            events: Mutex::default(),
        });
        let mut machines = self.machines.write();
        if machines.contains_key(&me) {
            return Err(FabricError::Refused("the machine is there already"));
        }
        machines.insert(me, Arc::clone(&station));
        drop(machines);
        Ok(LocalFabric {
            me,
            network: Arc::clone(self),
            station,
            counters: FabricCounters::default(),
        })
    }

    /// Reports new and lost peers to every machine. Two machines are connected if each has the
    /// other as a member.
    fn tell(&self) {
        // The write lock admits one thread at a time, so that the last one sees every change.
        let machines = self.machines.write();
        for (me, station) in machines.iter() {
            let members = station.members.read().clone();
            let counts_me = |peer: &MachineId| {
                let peer = machines.get(peer).filter(|_| peer != me);
                peer.is_some_and(|peer| peer.members.read().contains(me))
            };
            let now: HashSet<MachineId> = members.into_iter().filter(counts_me).collect();
            let mut connected = station.connected.lock();
            let mut events = station.events.lock();
            events.extend(connected.difference(&now).map(|peer| Event::Lost(*peer)));
            events.extend(
                now.difference(&connected)
                    .map(|peer| Event::Connected(*peer)),
            );
            *connected = now;
        }
    }
}

impl LocalFabric {
    /// Returns the machine if each of the two has the other as a member.
    fn station(&self, machine: MachineId) -> Result<Arc<LocalMachine>, FabricError> {
        if !self.station.members.read().contains(&machine) {
            return Err(FabricError::NotMember(machine));
        }
        let peer = self.network.machines.read().get(&machine).cloned();
        peer.filter(|peer| peer.members.read().contains(&self.me))
            .ok_or(FabricError::Lost)
    }

    fn segment(&self, at: Place, to_write: bool) -> Result<Arc<Memory>, FabricError> {
        let station = self.station(at.machine)?;
        station.registry.memory(at.segment, self.me, to_write)
    }
}

impl Fabric for LocalFabric {
    fn me(&self) -> MachineId {
        self.me
    }

    fn bell(&self) -> &Bell {
        &self.station.bell
    }

    fn lease_bell(&self) -> &Bell {
        &self.station.lease_bell
    }

    fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        self.station.registry.provide(segment, words, writer)
    }

    fn withdraw(&self, segment: SegmentId) {
        self.station.registry.withdraw(segment, |_| true);
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        let now: HashSet<MachineId> = members.iter().map(|member| member.id).collect();
        if !now.contains(&self.me) {
            return Err(FabricError::Refused("this machine must be a member"));
        }
        *self.station.members.write() = now;
        self.network.tell();
        Ok(())
    }

    fn maps_peers(&self) -> bool {
        true
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        let at = Place {
            machine,
            segment,
            word: 0,
        };
        self.segment(at, false).ok()
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.counters.read(words);
        match self.segment(at, false) {
            Ok(memory) => direct::read(&memory, at.word, words),
            Err(error) => Completion::done(Err(error)),
        }
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.counters.write(words.len());
        match self.segment(at, true) {
            Ok(memory) => direct::write(&memory, at.word, words),
            Err(error) => Completion::done(Err(error)),
        }
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.counters.swap();
        match self.segment(at, true) {
            Ok(memory) => direct::cas(&memory, at.word, expected, new),
            Err(error) => Completion::done(Err(error)),
        }
    }

    fn ring_bell(&self, machine: MachineId) {
        if let Ok(station) = self.station(machine) {
            station.bell.ring();
        }
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        if let Ok(station) = self.station(machine) {
            station.lease_bell.ring();
        }
    }

    fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.station.events.lock())
    }
}

impl Drop for LocalFabric {
    fn drop(&mut self) {
        self.network.machines.write().remove(&self.me);
        self.network.tell();
    }
}
