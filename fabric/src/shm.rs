//! The fabric of machines on one host that map each other's memory: files in one directory of a
//! tmpfs.
//!
//! # Picture
//! ```text
//! DIR/m1/control                    the bells, and m1's members
//! DIR/m1/0001000000000000           a region: other machines map it for reading only
//! DIR/m1/0002000000000002.m2        a ring: m2 may write it, too
//! ```
//! Every operation works on mapped memory, without the target's threads. The files outlive a killed
//! process ([`crate::home`]). A segment's file gets its name when it is complete, so that a process
//! that finds it finds all of it.
//!
//! # Failure
//! A word of its control segment shows that a peer has ended. Only its lease shows that a peer was
//! killed: until then writes to its memory have no effect.

mod files;
mod peer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{Event, Fabric, FabricError};
use crate::home::MachineDirectory;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::segment::{Place, SegmentId, Writer};
use crate::sync::Ordering;
pub(crate) use files::{home_of, is_locked, is_whole, make, name_of, open};
use peer::{MappedSegment, Peer, PeerIncarnation};

/// The largest number of members.
const MAX_MEMBERS: usize = 1000;
/// The number of words of the control segment.
const CONTROL_WORDS: usize = MEMBERS + MAX_MEMBERS;
/// The words of the control segment that are the bells.
const BELL: usize = 0;
const LEASE_BELL: usize = 2;
/// The word of the control segment that is nonzero while the machine runs, and increases when its
/// members change. A killed machine leaves it nonzero.
const GENERATION: usize = 1;
/// The first of the words that hold the members' numbers plus one, followed by zeroes.
const MEMBERS: usize = 8;
/// The file name of the control segment.
pub(crate) const CONTROL: &str = "control";

/// The access of one machine to the memory that the processes of a host share.
#[derive(Debug)]
pub struct ShmFabric {
    me: MachineId,
    home: MachineDirectory,
    control: Arc<Memory>,
    bell: Bell,
    lease_bell: Bell,
    counters: FabricCounters,
    own: RwLock<HashMap<SegmentId, OwnSegment>>,
    peers: RwLock<HashMap<MachineId, Arc<Peer>>>,
    events: Mutex<Vec<Event>>,
}

#[derive(Debug)]
struct OwnSegment {
    memory: Arc<Memory>,
    path: PathBuf,
}

impl ShmFabric {
    /// Opens the fabric of machine `me` of the cluster whose memory is in `root`; its only member
    /// is `me`.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if another process runs as this machine; [`FabricError::Io`] if the
    /// directory cannot be made.
    pub fn open(root: &Path, me: MachineId) -> Result<Self, FabricError> {
        Self::at(MachineDirectory::open(root, me)?)
    }

    /// Opens the fabric of the machine whose directory is `home`.
    ///
    /// # Errors
    /// [`FabricError::Io`] if files cannot be made there.
    pub fn at(home: MachineDirectory) -> Result<Self, FabricError> {
        let me = home.me();
        let control = Arc::new(make(&home.path().join(CONTROL), CONTROL_WORDS, true)?);
        control.words()[MEMBERS].store(u64::from(me.0) + 1, Ordering::Release);
        control.words()[GENERATION].store(1, Ordering::Release);
        Ok(ShmFabric {
            me,
            bell: Bell::new(Arc::clone(&control), BELL),
            lease_bell: Bell::new(Arc::clone(&control), LEASE_BELL),
            control,
            counters: FabricCounters::default(),
            own: RwLock::default(),
            peers: RwLock::default(),
            events: Mutex::default(),
            home,
        })
    }

    fn peer(&self, machine: MachineId) -> Result<Arc<Peer>, FabricError> {
        let peer = self.peers.read().get(&machine).cloned();
        peer.ok_or(FabricError::NotMember(machine))
    }

    /// Passes a segment to `work`. A mapped segment is used in place, without reference counts,
    /// which would be most of the cost of a small operation.
    fn with<T>(
        &self,
        machine: MachineId,
        segment: SegmentId,
        work: impl FnOnce(&MappedSegment) -> T,
    ) -> Result<T, FabricError> {
        if machine != self.me {
            let urgent = segment.lane() == SegmentId::LEASE_LANE;
            let peers = look_at(&self.peers, urgent);
            let peer = peers.get(&machine).ok_or(FabricError::NotMember(machine))?;
            let incarnation = look_at(&peer.incarnation, urgent);
            if let Some(incarnation) = incarnation
                .as_ref()
                .filter(|incarnation| incarnation.lasts())
                && incarnation.counts(self.me)
                && let Some(mapped) = look_at(&incarnation.mapped, urgent).get(&segment)
            {
                return Ok(work(mapped));
            }
        }
        self.find(machine, segment).map(|mapped| work(&mapped))
    }

    /// Maps a segment, if it is not mapped yet.
    fn find(&self, machine: MachineId, segment: SegmentId) -> Result<MappedSegment, FabricError> {
        const NO_SUCH: FabricError = FabricError::Refused("no such segment");
        if machine == self.me {
            let own = self.own.read();
            let own = own.get(&segment).ok_or(NO_SUCH)?;
            return Ok(MappedSegment {
                memory: Arc::clone(&own.memory),
                writable: true,
            });
        }
        let peer = self.peer(machine)?;
        let incarnation = peer.mapped_incarnation()?;
        if !incarnation.counts(self.me) {
            return Err(FabricError::Lost);
        }
        let mine = peer.home.join(name_of(segment, Writer::Peer(self.me)));
        let mapped = match open(&mine, true) {
            Some(memory) => (memory, true),
            None => {
                let of_others = self.open_of_others((machine, &peer), segment);
                (of_others.ok_or(NO_SUCH)?, false)
            }
        };
        let mapped = MappedSegment {
            memory: Arc::new(mapped.0),
            writable: mapped.1,
        };
        let mut all = incarnation.mapped.write();
        Ok(all.entry(segment).or_insert(mapped).clone())
    }

    /// Opens a segment of a peer that this machine may not write.
    fn open_of_others(
        &self,
        (machine, peer): (MachineId, &Peer),
        segment: SegmentId,
    ) -> Option<Memory> {
        let place = self.home.place_of(&peer.home, machine, segment);
        let owners = place.join(name_of(segment, Writer::Owner));
        let others = self.peers.read().keys().copied().collect::<Vec<_>>();
        let names = others
            .into_iter()
            .map(|other| peer.home.join(name_of(segment, Writer::Peer(other))));
        std::iter::once(owners)
            .chain(names)
            .find_map(|path| open(&path, false))
    }

    /// Rings one of the bells of a peer.
    #[inline]
    fn ring_at(&self, machine: MachineId, bell: impl Fn(&PeerIncarnation) -> &Bell) {
        if let Some(peer) = look_at(&self.peers, true).get(&machine) {
            if let Some(incarnation) = look_at(&peer.incarnation, true)
                .as_ref()
                .filter(|incarnation| incarnation.lasts())
            {
                return bell(incarnation).ring();
            }
            // A machine that does not run has no thread to wake.
            if let Ok(incarnation) = peer.mapped_incarnation() {
                bell(&incarnation).ring();
            }
        }
    }

    /// Passes a segment that this machine may write to `work`, and returns the answer of the
    /// operation.
    fn change<T>(&self, at: Place, work: impl FnOnce(&Memory) -> Completion<T>) -> Completion<T> {
        const NOT_THE_WRITER: FabricError = FabricError::Refused("not the writer of the segment");
        let done = self.with(at.machine, at.segment, |mapped| match mapped.writable {
            true => work(&mapped.memory),
            false => Completion::done(Err(NOT_THE_WRITER)),
        });
        done.unwrap_or_else(|error| Completion::done(Err(error)))
    }
}

/// Takes a read lock on data that seldom changes. An `urgent` reader, such as leases, does not
/// queue behind a writer that waits for other readers.
#[inline]
fn look_at<T>(lock: &RwLock<T>, urgent: bool) -> RwLockReadGuard<'_, T> {
    match urgent {
        true => lock.read_recursive(),
        false => lock.read(),
    }
}

impl Fabric for ShmFabric {
    fn me(&self) -> MachineId {
        self.me
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn lease_bell(&self) -> &Bell {
        &self.lease_bell
    }

    fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    fn keeps(&self) -> bool {
        self.home.keeps()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.home.free_space()
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        let mut own = self.own.write();
        if own.contains_key(&segment) {
            return Err(FabricError::Refused("the segment is there already"));
        }
        let (memory, path) = self.home.make(segment, words, writer)?;
        let memory = Arc::new(memory);
        let provided = OwnSegment {
            memory: Arc::clone(&memory),
            path,
        };
        own.insert(segment, provided);
        Ok(memory)
    }

    fn withdraw(&self, segment: SegmentId) {
        if let Some(own) = self.own.write().remove(&segment) {
            let is_member = |peer| self.peers.read().contains_key(&peer);
            self.home.unmake(segment, &own.path, is_member);
        }
    }

    fn forget(&self, segment: SegmentId) {
        for peer in self.peers.read().values() {
            if let Some(incarnation) = peer.incarnation.read().as_ref() {
                incarnation.mapped.write().remove(&segment);
            }
        }
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        if !members.iter().any(|member| member.id == self.me) {
            return Err(FabricError::Refused("this machine must be a member"));
        }
        if members.len() >= MAX_MEMBERS {
            return Err(FabricError::Refused("too many members"));
        }
        let words = self.control.words();
        for (i, word) in words[MEMBERS..].iter().enumerate() {
            let number = members
                .get(i)
                .map_or(0, |member| u64::from(member.id.0) + 1);
            word.store(number, Ordering::Release);
        }
        words[GENERATION].fetch_add(1, Ordering::AcqRel);
        let others = members.iter().map(|member| member.id);
        let others: Vec<_> = others.filter(|id| *id != self.me).collect();
        let mut peers = self.peers.write();
        let mut events = self.events.lock();
        peers.retain(|id, peer| {
            let stays = others.contains(id);
            if !stays && peer.connected.load(Ordering::Relaxed) {
                events.push(Event::Lost(*id));
            }
            stays
        });
        for id in others {
            peers
                .entry(id)
                .or_insert_with(|| Arc::new(Peer::at(home_of(self.home.root(), id))));
        }
        Ok(())
    }

    fn clear_away(&self, members: &[Member]) -> Result<(), FabricError> {
        self.home.clear_away(members)
    }

    fn maps_peers(&self) -> bool {
        true
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        self.with(machine, segment, |mapped| Arc::clone(&mapped.memory))
            .ok()
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.counters.read(words);
        self.with(at.machine, at.segment, |mapped| {
            direct::read(&mapped.memory, at.word, words)
        })
        .unwrap_or_else(|error| Completion::done(Err(error)))
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.counters.write(words.len());
        self.change(at, |memory| direct::write(memory, at.word, words))
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.counters.swap();
        self.change(at, |memory| direct::cas(memory, at.word, expected, new))
    }

    fn ring_bell(&self, machine: MachineId) {
        match machine == self.me {
            true => self.bell.ring(),
            false => self.ring_at(machine, |incarnation| &incarnation.bell),
        }
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        match machine == self.me {
            true => self.lease_bell.ring(),
            false => self.ring_at(machine, |incarnation| &incarnation.lease_bell),
        }
    }

    fn take_events(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock());
        for (id, peer) in self.peers.read().iter() {
            let now = peer
                .mapped_incarnation()
                .is_ok_and(|incarnation| incarnation.counts(self.me));
            if peer.connected.swap(now, Ordering::Relaxed) != now {
                events.push(if now {
                    Event::Connected(*id)
                } else {
                    Event::Lost(*id)
                });
            }
        }
        events
    }
}

impl Drop for ShmFabric {
    fn drop(&mut self) {
        self.control.words()[GENERATION].store(0, Ordering::Release);
    }
}
