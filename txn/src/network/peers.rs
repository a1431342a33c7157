//! The peers of a machine: those that it began with, and whoever has joined since.
//!
//! ```text
//! first ─► peer | next ─► peer | next ─► …          appended to by one at a time, looked at without a lock
//! ```
//! Numbers of machines are never given again, so who is gone keeps its place, and nobody ever finds another machine
//! there. A peer is met before anything of its configuration is done: what it writes it writes into rings that are there.
//!
//! # Failure
//! A machine without memory for the rings of a peer applies no configuration that has it, and is taken for failed.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fencepost_cluster::Configuration;
use fencepost_fabric::{Fabric, FabricError, MachineId, Member, Memory};
use fencepost_storage::old_versions::OldVersions;

use super::Network;
use super::backing::OfPeer;
use super::boards;
use super::call::Line;
use super::ends::End;
use super::link::Link;
use super::traffic::Counting;
use super::truncated::Numbers;

pub(super) struct Peer {
    pub id: MachineId,
    pub link: Link,
    pub line: Arc<Line>,
    pub old_versions: OldVersions,
    /// Its board, or a copy of it where it is not mapped.
    pub board: OnceLock<Arc<Memory>>,
    /// It is no member any more.
    pub gone: AtomicBool,
}

/// What every peer is met with.
pub(super) struct Meeting<'a> {
    pub fabric: &'a Arc<dyn Fabric>,
    pub counting: &'a Arc<Counting>,
    pub numbers: &'a Arc<Numbers>,
    pub log_words: usize,
}

impl Meeting<'_> {
    /// Makes what this machine needs to write to `id`, and what that writes to it.
    ///
    /// # Errors
    /// Where there is no memory for it; then nothing is left of it.
    pub fn meet(&self, id: MachineId) -> Result<(Peer, End), FabricError> {
        let Meeting {
            fabric,
            counting,
            numbers,
            log_words,
        } = *self;
        let end = End::new(fabric, id, log_words)?;
        let backing = OfPeer {
            fabric: Arc::clone(fabric),
            peer: id,
        };
        let board = OnceLock::new();
        if !fabric.maps_peers() {
            // A copy of it.
            let _ = board.set(Arc::new(Memory::anonymous(boards::WORDS)?));
        }
        let link = Link::new(fabric, counting, id, log_words, numbers)?;
        let peer = Peer {
            id,
            line: Arc::new(Line::new(fabric, counting, id, link.ready())?),
            link,
            old_versions: OldVersions::with(0, Arc::new(backing)),
            board,
            gone: AtomicBool::new(false),
        };
        Ok((peer, end))
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Peers {
    first: Next,
}

type Next = OnceLock<Box<Place>>;

struct Place {
    peer: Peer,
    next: Next,
}

impl Peers {
    /// Those of the beginning.
    pub fn of(all: impl IntoIterator<Item = Peer>) -> Peers {
        let peers = Peers::default();
        all.into_iter().for_each(|peer| peers.add(peer));
        peers
    }

    /// Another one, behind all others. One at a time adds.
    pub fn add(&self, peer: Peer) {
        let mut end = &self.first;
        while let Some(place) = end.get() {
            end = &place.next;
        }
        let place = Place {
            peer,
            next: Next::new(),
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
        // One after the other, however many there were.
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

/// In the order in which they were met.
#[derive(Clone)]
pub(super) struct Iter<'a>(&'a Next);

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
    /// Meets the machines of a configuration that are not known here, and has the fabric count them with those of the
    /// one that is in force.
    ///
    /// # Errors
    /// Where there is no memory for one of them.
    pub(super) fn meet(&self, configuration: &Configuration) -> Result<(), FabricError> {
        let machines = configuration.machines().iter();
        let unknown = machines.filter(|machine| machine.id != self.me);
        let unknown = unknown.filter(|machine| self.peer(machine.id).is_none());
        let unknown: Vec<_> = unknown.collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let meeting = Meeting {
            fabric: &self.fabric,
            counting: &self.counting,
            numbers: &self.numbers,
            log_words: self.log_words,
        };
        let mut members = members(&self.configured.current());
        for machine in unknown {
            let (peer, end) = meeting.meet(machine.id)?;
            self.expect_calls(machine.id);
            // Who finds the end finds the peer.
            self.peers.add(peer);
            self.ends.lock().push(end);
            members.push(member(machine));
        }
        self.fabric.set_members(&members)
    }
}

/// The members of a configuration, as a fabric wants them.
pub fn members(configuration: &Configuration) -> Vec<Member> {
    configuration.machines().iter().map(member).collect()
}

fn member(machine: &fencepost_cluster::Machine) -> Member {
    Member {
        id: machine.id,
        address: machine.address.as_str().into(),
    }
}
