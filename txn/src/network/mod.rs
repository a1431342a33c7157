//! A machine among others: what it has of its peers, and what it does for them.
//!
//! # Picture
//! ```text
//! coordinator's machine                         participant's machine
//! spread.rs   the phases of a commit            ends.rs     polls every peer's log and messages
//! participants.rs  who gets which record
//! locking.rs  LOCK, and what follows it
//! link.rs     log and messages to a peer ─────► primary.rs  LOCK, COMMIT-PRIMARY, ABORT
//!             truncations                       backup.rs   COMMIT-BACKUP, TRUNCATE
//! headers.rs  headers of what was read there ──► the same, VALIDATE
//! versions.rs  which versions a primary has, for a backup that had the region before
//! turns.rs    intents on rows of other machines, at both ends
//! circles.rs  circles of waits for them that go over several machines
//! reserve.rs  slots of peers for new objects ──► lent.rs    slots that peers have reserved
//! call/       what machines ask one another to do
//! time.rs     the CM's time, for machines of other hosts
//! leasing/    who is suspected to have failed, and whether this machine may still answer
//! allotment/ which machines have which region     backing.rs  memory that peers find
//! peers.rs   who there is to be written to and read
//! boards.rs  what machines say about themselves  members.rs  who they are, for whoever asks
//! far.rs     peers' memory that is not mapped, and copies.rs of it
//! leasing/  who is suspected     governor/  what is done when a machine fails
//! configured.rs  the configuration, and who commits in it   committing.rs  commits that others may have seen
//! evidence.rs  what there is of transactions, for their recovery     lack.rs  what a machine lacks to begin
//! truncated.rs  what is truncated, at both ends   traffic.rs  what is posted to peers, counted
//! disk/  what is on this machine's disk, and how all begin again with that
//! restart/  machines that have all ended begin again with the memory that they had
//! steps.rs  the steps that a write takes, for whoever has machines fail there
//! ```
//! Peers' regions and old versions are read in place, one-sided, where the fabric maps them; otherwise
//! one-sided reads bring copies.
//!
//! Which timestamps are garbage is known to nobody alone: each machine says on its board what none of
//! its transactions will read below any more, and the least of all boards counts.

mod allotment;
mod backing;
mod backup;
mod before;
mod boards;
pub mod call;
mod circles;
mod committing;
mod configured;
mod copies;
pub mod disk;
mod ends;
mod evidence;
mod far;
mod governor;
mod headers;
mod lack;
mod leasing;
mod lent;
mod link;
#[cfg(test)]
mod lock_order;
mod locking;
mod members;
mod message;
mod options;
mod participants;
mod peers;
mod poller;
mod primary;
mod reserve;
mod rest;
pub mod restart;
mod spread;
mod steps;
mod time;
mod traffic;
mod truncated;
mod turns;
mod versions;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

pub use fencepost_cluster::join::{ClusterSecret, Door};
pub use fencepost_cluster::lease::LeaseTerms;
pub use fencepost_cluster::reconfiguration::Resumed;
pub use fencepost_cluster::{ConfigStore, Configuration, LocalStore, Mapping, Replication};
use fencepost_fabric::{Completer, Completion, Fabric, FabricError, MachineId, Memory};
use fencepost_fabric::{Random, Writer, entropy_seed};
use fencepost_storage::old_versions::OldVersions;
use fencepost_storage::{Addr, Backing, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use allotment::Allotment;
use allotment::Known;
pub(crate) use allotment::Whereabouts;
use backing::Registered;
use backup::{Backup, Changed};
pub(crate) use before::Before;
use boards::BOARD;
use call::Services;
use committing::Committing;
use configured::Configured;
use disk::Disk;
use ends::End;
pub(crate) use far::Reach;
use governor::{Governor, Inbox, Input};
pub use governor::{RefillCounts, Step, Timeline};
pub(crate) use headers::{Expected, Headers};
pub use lack::Lack;
pub use leasing::LeaseCounts;
use leasing::{Leasing, Suspicions};
pub(crate) use link::Link;
pub use members::{MemberState, Members};
pub(crate) use message::Slot;
pub use options::NetworkOptions;
pub(crate) use participants::Spread;
pub use peers::members;
use peers::{Meeting, Peer, Peers};
pub(crate) use poller::start_threads;
pub(crate) use reserve::{Reserved, Wanted};
pub use steps::steps;
use traffic::Counting;
pub use traffic::{Posted, Traffic};
use truncated::{Numbers, Truncated};
pub(crate) use turns::Back;

use crate::record::TxnId;
use message::LockReply;

/// Who waits for an answer to LOCK, and what was found so far.
type Waiting = HashMap<(TxnId, MachineId), (Completer<LockReply>, Vec<u64>), FixedState>;

/// What whoever attends does besides: see [`crate::Machine::attend_to`].
pub type Work = Arc<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct Network {
    me: MachineId,
    fabric: Arc<dyn Fabric>,
    counting: Arc<Counting>,
    configured: Configured,
    governor: Option<Governor>,
    inbox: Arc<Inbox>,
    replication: Replication,
    /// Where regions are, and how this machine gets to have and to know them.
    whereabouts: Arc<Whereabouts>,
    allotment: Allotment,
    peers: Peers,
    /// What this machine says about itself.
    board: Arc<Memory>,
    replies: Mutex<Waiting>,
    ends: Mutex<Vec<End>>,
    /// Writes of its own transactions to regions of which it has backups.
    home: Mutex<Backup>,
    changed: Changed,
    /// Waits for intents at other machines, by their tickets.
    turns: Mutex<HashMap<u64, turns::Waits, FixedState>>,
    tickets: AtomicU64,
    /// Waits for headers of peers' objects, by their tickets.
    askers: Mutex<HashMap<u64, headers::Asker, FixedState>>,
    reserves: reserve::Reserves,
    /// What peers may ask for.
    services: Services,
    /// What whoever attends does besides.
    work: OnceLock<Work>,
    /// Commits that others may have seen.
    committing: Committing,
    /// Numbers of its own transactions that are truncated, and those of them that are remembered.
    numbers: Arc<Numbers>,
    truncated: Mutex<Truncated>,
    log_words: usize,
    /// Whether peers' memory is not mapped.
    far: bool,
    blocks: far::Blocks,
    copies: copies::Copies,
    gathering: Mutex<boards::Gatherings>,
    asking: time::Asking,
    leasing: Option<Arc<Leasing>>,
    suspicions: Arc<Suspicions>,
    /// Where the machine keeps its data on a disk.
    disk: Option<Disk>,
    /// What it had before it was out.
    before: Mutex<Option<Arc<Before>>>,
    joins: bool,
    /// Whether not all machines have recovered what was before the last configuration.
    recovers: AtomicBool,
    /// Whether this machine is to leave.
    leaves: AtomicBool,
    /// Whether it is to be no member once it has ended what it does.
    parts: AtomicBool,
    driven: bool,
    poller: Mutex<Option<JoinHandle<()>>>,
    stopped: AtomicBool,
}

impl Network {
    /// Registers what peers need of this machine, and makes its ends of all rings.
    pub fn new(
        options: &NetworkOptions,
        whereabouts: Arc<Whereabouts>,
        resumed: Option<&Resumed>,
        (disk, before): (Option<Disk>, Option<Before>),
    ) -> Result<Network, FabricError> {
        let NetworkOptions {
            fabric,
            configuration,
            ..
        } = options;
        let me = fabric.me();
        if !configuration.has(me) {
            return Err(FabricError::NotMember(me));
        }
        let others = || {
            let machines = configuration.machines().iter();
            machines.map(|machine| machine.id).filter(|id| *id != me)
        };
        let (counting, numbers) = (Counting::new(), Arc::<Numbers>::default());
        let meeting = Meeting {
            fabric,
            counting: &counting,
            numbers: &numbers,
            log_words: options.log_words,
        };
        let met = others().map(|peer| meeting.meet(peer));
        let met: Vec<(Peer, End)> = met.collect::<Result<_, FabricError>>()?;
        let (peers, ends): (Vec<_>, Vec<_>) = met.into_iter().unzip();
        let (suspicions, inbox) = (Arc::default(), Arc::<Inbox>::default());
        let governor = options.leases.zip(options.store.as_ref());
        let governor = governor.map(|(terms, store)| Governor::new(options, terms, store, &inbox));
        Ok(Network {
            leasing: leases(options, &suspicions, &inbox)?.map(Arc::new),
            suspicions,
            inbox,
            governor,
            peers: Peers::of(peers),
            board: fabric.provide(BOARD, boards::WORDS, Writer::Owner)?,
            me,
            fabric: Arc::clone(fabric),
            counting,
            configured: Configured::new(configuration),
            replication: options.replication,
            whereabouts,
            allotment: Allotment::new(options, resumed)?,
            replies: Mutex::default(),
            ends: Mutex::new(ends),
            home: Mutex::default(),
            changed: Changed::default(),
            turns: Mutex::default(),
            tickets: AtomicU64::new(1),
            askers: Mutex::default(),
            reserves: reserve::Reserves::default(),
            services: Services::default(),
            work: OnceLock::new(),
            committing: Committing::default(),
            numbers,
            truncated: Mutex::default(),
            log_words: options.log_words,
            far: !fabric.maps_peers(),
            blocks: far::Blocks::default(),
            copies: copies::Copies::default(),
            gathering: Mutex::default(),
            asking: time::Asking::new(options),
            disk,
            before: Mutex::new(before.map(Arc::new)),
            joins: options.joins,
            recovers: AtomicBool::new(false),
            leaves: AtomicBool::new(configuration.is_leaving(me)),
            parts: AtomicBool::new(false),
            driven: options.driven,
            poller: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Where this machine's memory comes from, as far as it knows where regions are.
    pub fn backing(options: &NetworkOptions, whereabouts: &Arc<Whereabouts>) -> Arc<dyn Backing> {
        Arc::new(Registered {
            fabric: Arc::clone(&options.fabric),
            whereabouts: Arc::clone(whereabouts),
        })
    }

    #[inline]
    pub fn me(&self) -> MachineId {
        self.me
    }

    pub fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }

    /// The machine that answers for an object; `None` where that is not known here.
    #[inline]
    pub fn primary(&self, addr: Addr) -> Option<MachineId> {
        self.whereabouts.primary(addr.region())
    }

    /// The machines that have a region, if they are known here.
    pub fn replicas(&self, region: RegionId) -> Option<Known> {
        self.whereabouts.replicas(region)
    }

    /// A time up to which old versions of a region's objects are not known to be there: an older version of one
    /// that has none may have been at another machine, which had the region before.
    pub fn floor(&self, region: RegionId) -> Timestamp {
        self.whereabouts.floor(region)
    }

    /// Does something while the machine stays in its configuration.
    pub fn in_configuration<T>(&self, f: impl FnOnce() -> T) -> T {
        self.configured.within(|_| f())
    }

    /// Whether a peer is in the configuration that this machine is in.
    fn is_member(&self, peer: &Peer) -> bool {
        !peer.gone.load(Ordering::Relaxed)
    }

    /// The peers that are members.
    fn fellows(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| self.is_member(peer))
    }

    fn peer(&self, id: MachineId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    fn link(&self, id: MachineId) -> Option<&Link> {
        self.peer(id).map(|peer| &peer.link)
    }

    /// Old versions of the objects in a peer's memory.
    pub fn old_versions_of(&self, peer: MachineId) -> Option<&OldVersions> {
        self.peer(peer).map(|peer| &peer.old_versions)
    }

    /// Begins to wait for the answer of `peer` to a LOCK.
    fn expect_reply(&self, id: TxnId, peer: MachineId) -> Completion<LockReply> {
        let (completer, reply) = Completion::pending();
        let waiting = (completer, Vec::new());
        self.replies.lock().insert((id, peer), waiting);
        reply
    }

    /// Nobody waits for it any more.
    fn forget_reply(&self, id: TxnId, peer: MachineId) {
        self.replies.lock().remove(&(id, peer));
    }

    /// Slots of peers in stock, and slots of this machine that peers have.
    pub fn reserved(&self) -> (Vec<Addr>, Vec<Addr>) {
        let ends = self.ends.lock();
        let lent = ends.iter().flat_map(End::lent);
        // What was lent of a region that another machine has by now is nobody's.
        let lent = lent.filter(|addr| self.primary(*addr) == Some(self.me));
        (self.reserves.all(), lent.collect())
    }

    /// Gives back what it has of peers and ends the poller's thread.
    pub fn stop(&self, now: Timestamp) {
        self.trim_stocks(now, true);
        self.configured.give_up();
        self.committing.end();
        self.allotment.give_up();
        self.stopped.store(true, Ordering::Release);
        self.fabric.bell().ring();
        let poller = self.poller.lock().take();
        // The poller itself may be the last to have the machine.
        let poller = poller.filter(|poller| poller.thread().id() != std::thread::current().id());
        if let Some(poller) = poller {
            // A poller that has panicked has ended, too.
            let _ = poller.join();
        }
        self.hang_up();
        if let Some(leasing) = self.leasing() {
            leasing.stop();
        }
    }

    fn leasing(&self) -> Option<&Arc<Leasing>> {
        self.leasing.as_ref()
    }

    fn lease_counts(&self) -> Option<LeaseCounts> {
        let counts = self.leasing()?.counts();
        Some(LeaseCounts {
            suspected: self.suspicions.suspected(),
            ..counts
        })
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Words of the longest record that a log takes.
    fn longest_record(&self) -> usize {
        fencepost_fabric::ring::longest_record(self.log_words)
    }

    /// Whether records of these sizes fit a log together, however its receiver has told of its room.
    fn takes(&self, sizes: &[usize]) -> bool {
        let promised = |words: &usize| if *words > 0 { 2 * (words + 1) } else { 0 };
        sizes.iter().map(promised).sum::<usize>() <= self.log_words / 2
    }

    /// Whether every write to `region` is this machine's own business.
    pub fn is_alone_with(&self, region: RegionId) -> bool {
        self.whereabouts.is_alone_with(region, self.me)
    }
}

/// The leases of a machine that is to have some. What they tell is noted, and put before whoever governs.
fn leases(
    options: &NetworkOptions,
    suspicions: &Arc<Suspicions>,
    inbox: &Arc<Inbox>,
) -> Result<Option<Leasing>, FabricError> {
    let Some(terms) = options.leases else {
        return Ok(None);
    };
    let NetworkOptions {
        fabric,
        configuration,
        clock,
        ..
    } = options;
    let life = match options.driven {
        // Of a run that can be repeated.
        true => Random::new(clock.now_ns()).next_u64(),
        false => entropy_seed(),
    };
    let noted = Arc::clone(suspicions);
    let (inbox, bell) = (Arc::clone(inbox), Arc::clone(fabric));
    let told = Arc::clone(clock);
    let sink = Box::new(move |event| {
        noted.note(event);
        inbox.push(Input::Lease(told.now_ns(), event));
        bell.ring_bell(bell.me());
    });
    Leasing::new(fabric, configuration, terms, Arc::clone(clock), life, sink).map(Some)
}
