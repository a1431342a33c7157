//! The peers of a machine: the initial members, and all machines that have joined since.
//!
//! ```text
//! first ─► peer | next ─► peer | next ─► …     appended to by one thread, read without a lock
//! ```
//! Machine numbers are never reused, so a removed peer keeps its entry, and the entry never stands
//! for another machine. A peer is added before any action in its configuration, so its writes go
//! into existing rings.
//!
//! # Failure
//! A machine without memory for the rings of a peer does not apply a configuration with that peer,
//! and is taken for failed.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fencepost_cluster::Configuration;
use fencepost_fabric::{Fabric, FabricError, MachineId, Member, Memory};
use fencepost_storage::old_versions::OldVersions;

use super::Network;
use super::backing::PeerBacking;
use super::call::CallChannel;
use super::peer_receiver::PeerReceiver;
use super::peer_sender::PeerSender;
use super::status_page;
use super::traffic::TrafficCounters;
use super::truncated::Numbers;

pub(super) struct Peer {
    pub id: MachineId,
    pub sender: PeerSender,
    pub channel: Arc<CallChannel>,
    pub old_versions: OldVersions,
    /// Its status page, or a copy of it where its memory is not mapped.
    pub board: OnceLock<Arc<Memory>>,
    /// Whether it is no member any more.
    pub evicted: AtomicBool,
}

/// The arguments for adding a peer.
pub(super) struct PeerArguments<'a> {
    pub fabric: &'a Arc<dyn Fabric>,
    pub counting: &'a Arc<TrafficCounters>,
    pub numbers: &'a Arc<Numbers>,
    pub log_words: usize,
}

impl PeerArguments<'_> {
    /// Creates the rings for writing to `id` and for receiving from it.
    ///
    /// # Errors
    /// If there is no memory; nothing remains allocated then.
    pub fn meet(&self, id: MachineId) -> Result<(Peer, PeerReceiver), FabricError> {
        let PeerArguments {
            fabric,
            counting,
            numbers,
            log_words,
        } = *self;
        let receiver = PeerReceiver::new(fabric, id, log_words)?;
        let backing = PeerBacking {
            fabric: Arc::clone(fabric),
            peer: id,
        };
        let board = OnceLock::new();
        if !fabric.maps_peers() {
            // The copy of the status page.
            let _ = board.set(Arc::new(Memory::anonymous(status_page::WORDS)?));
        }
        let sender = PeerSender::new(fabric, counting, id, log_words, numbers)?;
        let peer = Peer {
            id,
            channel: Arc::new(CallChannel::new(fabric, counting, id, sender.ready())?),
            sender,
            old_versions: OldVersions::with(0, Arc::new(backing)),
            board,
            evicted: AtomicBool::new(false),
        };
        Ok((peer, receiver))
    }
}

/// All peers.
#[derive(Default)]
pub(super) struct Peers {
    first: NextPeer,
}

type NextPeer = OnceLock<Box<PeerNode>>;

struct PeerNode {
    peer: Peer,
    next: NextPeer,
}

impl Peers {
    /// Returns a list of the initial peers.
    pub fn of(all: impl IntoIterator<Item = Peer>) -> Peers {
        let peers = Peers::default();
        all.into_iter().for_each(|peer| peers.add(peer));
        peers
    }

    /// Appends a peer. Only one thread may add at a time.
    pub fn add(&self, peer: Peer) {
        let mut end = &self.first;
        while let Some(place) = end.get() {
            end = &place.next;
        }
        let place = PeerNode {
            peer,
            next: NextPeer::new(),
        };
        let added = end.set(Box::new(place));
        debug_assert!(added.is_ok(), "one at a time adds");
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter(&self.first)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Iterative, because a recursive drop could overflow the stack.
        let mut next = self.first.take();
        while let Some(mut place) = next {
            next = place.next.take();
        }
    }
}

impl<'a> IntoIterator for &'a Peers {
    type Item = &'a Peer;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over the peers in the order in which they were added.
#[derive(Clone)]
pub(super) struct Iter<'a>(&'a NextPeer);

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Peer;

    #[inline]
    fn next(&mut self) -> Option<&'a Peer> {
        let place = self.0.get()?;
        self.0 = &place.next;
        Some(&place.peer)
    }
}

impl Network {
    /// Adds the machines of a configuration that are unknown here. The fabric then accepts them
    /// together with the current members.
    ///
    /// # Errors
    /// If there is no memory for one of them.
    pub(super) fn meet(&self, configuration: &Configuration) -> Result<(), FabricError> {
        let machines = configuration.machines().iter();
        let unknown = machines.filter(|machine| machine.id != self.me);
        let unknown = unknown.filter(|machine| self.peer(machine.id).is_none());
        let unknown: Vec<_> = unknown.collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let meeting = PeerArguments {
            fabric: &self.fabric,
            counting: &self.counting,
            numbers: &self.numbers,
            log_words: self.log_words,
        };
        let mut members = members(&self.configured.current());
        for machine in unknown {
            let (peer, receiver) = meeting.meet(machine.id)?;
            self.expect_calls(machine.id);
            // The peer is added before its receiver, so that a thread that finds the receiver finds
            // the peer.
            self.peers.add(peer);
            self.receivers.lock().push(receiver);
            members.push(member(machine));
        }
        self.fabric.set_members(&members)
    }
}

/// Returns the members of a configuration in the fabric's form.
pub fn members(configuration: &Configuration) -> Vec<Member> {
    configuration.machines().iter().map(member).collect()
}

fn member(machine: &fencepost_cluster::Machine) -> Member {
    Member {
        id: machine.id,
        address: machine.address.as_str().into(),
    }
}
