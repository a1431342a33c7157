//! The connection over which one machine posts to another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::flight::InFlightItem;
use crate::waiting::PendingOperation;

/// The unit of ordering: the operations of one thread, separately for leases.
pub(super) type Channel = (u16, bool);

/// A direction on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkDirection {
    /// The direction of operations, to the target.
    There,
    /// The direction of answers, to the posting machine.
    Back,
}

/// A connection, also while it is down.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) up: bool,
    /// The number of connections that have ended.
    pub(super) losses: Arc<AtomicU64>,
    /// Whether a connection is being opened.
    pub(super) connecting: bool,
    /// The number of the connection; items of earlier connections are ignored when they arrive.
    pub(super) epoch: u64,
    /// The incarnation of the target to which the connection was opened.
    pub(super) incarnation: u64,
    /// Operations without answers, in the order in which they were posted.
    pub(super) waiting: BTreeMap<u64, PendingOperation>,
    /// Items that cannot continue now; no queue is empty.
    pub(super) parked: BTreeMap<LinkDirection, VecDeque<InFlightItem>>,
    /// Whether an item was parked, so that the end of the connection is scheduled.
    pub(super) watched: bool,
    /// The first words of reads that have not read the others.
    pub(super) glimpses: BTreeMap<u64, Box<[u64]>>,
    /// The arrival time of the last item on each channel.
    last: BTreeMap<(LinkDirection, Channel), u64>,
}

impl Connection {
    /// Returns the arrival time of an item that could arrive at `soonest`, behind earlier items.
    pub(super) fn arrival(&mut self, way: LinkDirection, channel: Channel, soonest: u64) -> u64 {
        let last = self.last.entry((way, channel)).or_default();
        *last = soonest.max(*last);
        *last
    }

    /// Ends the connection; returns the waiting operations, which are lost.
    pub(super) fn down(&mut self) -> BTreeMap<u64, PendingOperation> {
        if std::mem::take(&mut self.up) {
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
        self.parked.clear();
        std::mem::take(&mut self.waiting)
    }

    /// Invalidates the items in flight.
    pub(super) fn forget(&mut self) {
        self.epoch += 1;
    }

    /// Begins another connection, and invalidates items of earlier ones.
    pub(super) fn begin(&mut self, incarnation: u64) {
        self.up = true;
        self.epoch += 1;
        self.incarnation = incarnation;
        self.watched = false;
        self.glimpses.clear();
        self.parked.clear();
    }
}
