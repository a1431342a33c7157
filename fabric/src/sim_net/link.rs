//! The connection over which one machine posts to another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::flight::Flight;
use crate::waiting::Waiting;

/// What keeps its order: operations of one thread, leases apart.
pub(super) type Channel = (u16, bool);

/// Which way on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Operations, to the target.
    There,
    /// Answers, to who posted.
    Back,
}

/// A connection, while it is up and while it is not.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) up: bool,
    /// Connections that were and are not any more.
    pub(super) losses: Arc<AtomicU64>,
    /// A connection has been asked for.
    pub(super) connecting: bool,
    /// Which connection it is; what lands belongs to the newest, or is forgotten.
    pub(super) epoch: u64,
    /// The target's life that it was made in.
    pub(super) life: u64,
    /// Operations without answer, in the order in which they were posted.
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// What cannot go on now; no queue is empty.
    pub(super) parked: BTreeMap<Way, VecDeque<Flight>>,
    /// Something was parked; it is looked at again when patience has ended.
    pub(super) watched: bool,
    /// The first words of reads that have not come to the others.
    pub(super) glimpses: BTreeMap<u64, Box<[u64]>>,
    /// When the last on each channel arrives.
    last: BTreeMap<(Way, Channel), u64>,
}

impl Link {
    /// When something that would arrive at `soonest` arrives behind what is before it.
    pub(super) fn arrival(&mut self, way: Way, channel: Channel, soonest: u64) -> u64 {
        let last = self.last.entry((way, channel)).or_default();
        *last = soonest.max(*last);
        *last
    }

    /// Ends it; who waits is lost.
    pub(super) fn down(&mut self) -> BTreeMap<u64, Waiting> {
        if std::mem::take(&mut self.up) {
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
        self.parked.clear();
        std::mem::take(&mut self.waiting)
    }

    /// What is in flight never arrives.
    pub(super) fn forget(&mut self) {
        self.epoch += 1;
    }

    /// Another connection begins, and what is still in flight of those before is forgotten.
    pub(super) fn begin(&mut self, life: u64) {
        self.up = true;
        self.epoch += 1;
        self.life = life;
        self.watched = false;
        self.glimpses.clear();
        self.parked.clear();
    }
}
