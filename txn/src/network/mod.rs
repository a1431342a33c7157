//! One machine of a cluster: its state about its peers, and the work that it does for them.
//!
//! # Picture
//! ```text
//! coordinator's machine                         participant's machine
//! distributed_commit.rs  phases of a commit     peer_receiver.rs  log and messages of every peer
//! participants.rs  the records of each machine
//! locking.rs  LOCK, and handling of its replies
//! peer_sender.rs  log and messages to a peer ─► primary.rs  LOCK, COMMIT-PRIMARY, ABORT
//!             truncations                       backup.rs   COMMIT-BACKUP, TRUNCATE
//! headers.rs  headers of the read set ─────────► the same, VALIDATE
//! versions.rs  object versions at a primary, for a new backup that kept an older replica
//! remote_lock_wait.rs  intents on rows of other machines, at both ends
//! distributed_deadlock.rs  distributed deadlock detection
//! slot_reservations.rs  slots of peers for new objects ──► slot_leases.rs  slot leases of peers
//! slot_stocks.rs  the reserved slots       slot_messages.rs  RESERVE and its reply
//! call/       requests between machines
//! time.rs     the CM's time, for machines of other hosts
//! leasing/    leases: which peers are suspected, and whether this machine may still answer
//! region_allocation/  which machines hold which region   backing.rs  memory that peers can address
//! peers.rs    the peers to write to and to read
//! status_page.rs   status pages of machines        members.rs  the members, for callers outside
//! far.rs      peers' memory that is not mapped, and inner_node_cache.rs of it
//! driver/   the reconfiguration driver
//! configured.rs  the configuration, and commits within it   in_flight.rs  in-flight commits
//! evidence.rs  evidence of transactions, for recovery
//! prerequisites.rs  startup prerequisites
//! truncated.rs  truncated transactions, at both ends   traffic.rs  counters of posted messages
//! disk/       the disk of this machine, and the restart of all machines from their disks
//! restart/    restart of all machines from their retained memory
//! steps.rs    the steps of a write, for tests that stop machines there
//! ```
//! Peers' regions and old versions are read in place, one-sided, where the fabric maps them;
//! otherwise one-sided reads bring copies.
//!
//! No machine alone knows which timestamps are garbage. Each machine publishes on its status page
//! the timestamp below which none of its transactions will read any more. The smallest of all
//! status pages counts.

mod backing;
mod backup;
pub mod call;
mod configured;
pub mod disk;
mod distributed_commit;
mod distributed_deadlock;
mod driver;
mod evidence;
mod far;
mod headers;
mod in_flight;
mod inner_node_cache;
mod leasing;
#[cfg(test)]
mod lock_order;
mod locking;
mod members;
mod message;
mod options;
mod participants;
mod peer_receiver;
mod peer_sender;
mod peers;
mod poller;
mod prerequisites;
mod primary;
mod region_allocation;
mod remote_lock_wait;
mod rest;
pub mod restart;
mod retained_data;
mod slot_leases;
mod slot_messages;
mod slot_reservations;
mod slot_stocks;
mod status_page;
mod steps;
mod time;
mod traffic;
mod truncated;
mod versions;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

pub use fencepost_cluster::join::{ClusterSecret, JoinEndpoint};
pub use fencepost_cluster::lease::LeaseTerms;
pub use fencepost_cluster::reconfiguration::RestartState;
pub use fencepost_cluster::{ConfigStore, Configuration, LocalStore, Mapping, Replication};
use fencepost_fabric::{Completer, Completion, Fabric, FabricError, MachineId, Memory};
use fencepost_fabric::{Random, Writer, entropy_seed};
use fencepost_storage::old_versions::OldVersions;
use fencepost_storage::{Addr, Backing, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use backing::RegisteredBacking;
use backup::{Backup, BlockUses};
use call::Services;
use configured::CurrentConfiguration;
use disk::Disk;
pub use driver::{DataRecoveryCounts, Step, Timeline};
use driver::{Inbox, Input, ReconfigurationDriver};
pub(crate) use far::AccessOutcome;
pub(crate) use headers::{ExpectedHeader, Headers};
use in_flight::InFlightCommits;
pub use leasing::LeaseCounts;
use leasing::{LeaseService, Suspicions};
pub use members::{MemberState, Members};
pub(crate) use message::Slot;
pub use options::NetworkOptions;
pub(crate) use participants::RemoteParticipants;
use peer_receiver::PeerReceiver;
pub(crate) use peer_sender::PeerSender;
pub use peers::members;
use peers::{Peer, PeerArguments, Peers};
pub(crate) use poller::start_threads;
pub use prerequisites::MissingPrerequisite;
pub(crate) use region_allocation::LocalRegionMap;
use region_allocation::RegionAllocationClient;
use region_allocation::ReplicaSet;
pub(crate) use remote_lock_wait::ReturnSubject;
pub(crate) use retained_data::RetainedData;
pub(crate) use slot_messages::{ReservedSlot, SlotRequest};
use status_page::STATUS_PAGE;
pub use steps::steps;
use traffic::TrafficCounters;
pub use traffic::{PostKind, Traffic};
use truncated::{Numbers, TruncationLog};

use crate::record::TxnId;
use message::LockReply;

/// Pending LOCK replies by transaction and peer, with the words of LOCK-FOUND received so far.
type PendingLockReplies = HashMap<(TxnId, MachineId), (Completer<LockReply>, Vec<u64>), FixedState>;

/// Additional work of the thread that attends the machine: see [`crate::Machine::attend_to`].
pub type Work = Arc<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct Network {
    me: MachineId,
    fabric: Arc<dyn Fabric>,
    counting: Arc<TrafficCounters>,
    configured: CurrentConfiguration,
    driver: Option<ReconfigurationDriver>,
    inbox: Arc<Inbox>,
    replication: Replication,
    /// The region map, and the protocols by which this machine obtains regions and learns their
    /// replicas.
    region_map: Arc<LocalRegionMap>,
    region_allocation: RegionAllocationClient,
    peers: Peers,
    /// The status page of this machine.
    board: Arc<Memory>,
    replies: Mutex<PendingLockReplies>,
    receivers: Mutex<Vec<PeerReceiver>>,
    /// Writes of this machine's own transactions to regions of which it is a backup.
    home: Mutex<Backup>,
    changed: BlockUses,
    /// Pending intents at other machines, by ticket.
    remote_lock_waits: Mutex<HashMap<u64, remote_lock_wait::RemoteLockWait, FixedState>>,
    tickets: AtomicU64,
    /// Pending requests for headers of peers' objects, by ticket.
    askers: Mutex<HashMap<u64, headers::HeaderRequest, FixedState>>,
    slot_reservations: slot_stocks::SlotReservations,
    /// The services that peers may call.
    services: Services,
    /// Additional work of the thread that attends the machine.
    work: OnceLock<Work>,
    /// In-flight commits, which other machines may have seen.
    in_flight: InFlightCommits,
    /// Truncation numbers of this machine's own transactions, and the truncated ones that are still
    /// remembered.
    numbers: Arc<Numbers>,
    truncated: Mutex<TruncationLog>,
    log_words: usize,
    /// Whether peers' memory is not mapped.
    far: bool,
    blocks: far::Blocks,
    copies: inner_node_cache::Copies,
    gathering: Mutex<status_page::PageReads>,
    asking: time::TimeRequests,
    leasing: Option<Arc<LeaseService>>,
    suspicions: Arc<Suspicions>,
    /// The local disk; `None` if this machine does not keep its data on one.
    disk: Option<Disk>,
    /// The state that this machine retained from before it was evicted.
    before: Mutex<Option<Arc<RetainedData>>>,
    joins: bool,
    /// Whether some machine has not finished the recovery that the last configuration requires.
    recovers: AtomicBool,
    /// Whether this machine is to leave.
    leaves: AtomicBool,
    /// Whether this machine stops being a member once its running work has ended.
    parts: AtomicBool,
    driven: bool,
    poller: Mutex<Option<JoinHandle<()>>>,
    stopped: AtomicBool,
}

impl Network {
    /// Registers the memory that peers need of this machine, and creates its receiving ends of all
    /// rings.
    pub fn new(
        options: &NetworkOptions,
        region_map: Arc<LocalRegionMap>,
        resumed: Option<&RestartState>,
        (disk, before): (Option<Disk>, Option<RetainedData>),
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
        let (counting, numbers) = (TrafficCounters::new(), Arc::<Numbers>::default());
        let meeting = PeerArguments {
            fabric,
            counting: &counting,
            numbers: &numbers,
            log_words: options.log_words,
        };
        let met = others().map(|peer| meeting.meet(peer));
        let met: Vec<(Peer, PeerReceiver)> = met.collect::<Result<_, FabricError>>()?;
        let (peers, receivers): (Vec<_>, Vec<_>) = met.into_iter().unzip();
        let (suspicions, inbox) = (Arc::default(), Arc::<Inbox>::default());
        let driver = options.leases.zip(options.store.as_ref());
        let driver =
            driver.map(|(terms, store)| ReconfigurationDriver::new(options, terms, store, &inbox));
        Ok(Network {
            leasing: leases(options, &suspicions, &inbox)?.map(Arc::new),
            suspicions,
            inbox,
            driver,
            peers: Peers::of(peers),
            board: fabric.provide(STATUS_PAGE, status_page::WORDS, Writer::Owner)?,
            me,
            fabric: Arc::clone(fabric),
            counting,
            configured: CurrentConfiguration::new(configuration),
            replication: options.replication,
            region_map,
            region_allocation: RegionAllocationClient::new(options, resumed)?,
            replies: Mutex::default(),
            receivers: Mutex::new(receivers),
            home: Mutex::default(),
            changed: BlockUses::default(),
            remote_lock_waits: Mutex::default(),
            tickets: AtomicU64::new(1),
            askers: Mutex::default(),
            slot_reservations: slot_stocks::SlotReservations::default(),
            services: Services::default(),
            work: OnceLock::new(),
            in_flight: InFlightCommits::default(),
            numbers,
            truncated: Mutex::default(),
            log_words: options.log_words,
            far: !fabric.maps_peers(),
            blocks: far::Blocks::default(),
            copies: inner_node_cache::Copies::default(),
            gathering: Mutex::default(),
            asking: time::TimeRequests::new(options),
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

    /// Returns the source of this machine's memory, which registers regions that the region map
    /// knows.
    pub fn backing(options: &NetworkOptions, region_map: &Arc<LocalRegionMap>) -> Arc<dyn Backing> {
        Arc::new(RegisteredBacking {
            fabric: Arc::clone(&options.fabric),
            region_map: Arc::clone(region_map),
        })
    }

    #[inline]
    pub fn me(&self) -> MachineId {
        self.me
    }

    pub fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }

    /// Returns the primary of an object; `None` if the region map does not have its region.
    #[inline]
    pub fn primary(&self, addr: Addr) -> Option<MachineId> {
        self.region_map.primary(addr.region())
    }

    /// Returns the replicas of a region, if the region map has them.
    pub fn replicas(&self, region: RegionId) -> Option<ReplicaSet> {
        self.region_map.replicas(region)
    }

    /// Returns the time up to which old versions of a region's objects may be missing here. An
    /// older version may have been at the machine that was the primary before.
    pub fn floor(&self, region: RegionId) -> Timestamp {
        self.region_map.floor(region)
    }

    /// Calls `f` while the machine stays in its current configuration.
    pub fn in_configuration<T>(&self, f: impl FnOnce() -> T) -> T {
        self.configured.within(|_| f())
    }

    /// Returns whether a peer is a member of this machine's configuration.
    fn is_member(&self, peer: &Peer) -> bool {
        !peer.evicted.load(Ordering::Relaxed)
    }

    /// Returns the peers that are members.
    fn member_peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| self.is_member(peer))
    }

    fn peer(&self, id: MachineId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    fn sender(&self, id: MachineId) -> Option<&PeerSender> {
        self.peer(id).map(|peer| &peer.sender)
    }

    /// Returns the old versions of the objects in a peer's memory.
    pub fn old_versions_of(&self, peer: MachineId) -> Option<&OldVersions> {
        self.peer(peer).map(|peer| &peer.old_versions)
    }

    /// Begins to wait for the LOCK-REPLY of `peer`.
    fn expect_reply(&self, id: TxnId, peer: MachineId) -> Completion<LockReply> {
        let (completer, reply) = Completion::pending();
        let waiting = (completer, Vec::new());
        self.replies.lock().insert((id, peer), waiting);
        reply
    }

    /// Stops waiting for a LOCK-REPLY.
    fn forget_reply(&self, id: TxnId, peer: MachineId) {
        self.replies.lock().remove(&(id, peer));
    }

    /// Returns the peers' slots that this machine has in stock, and this machine's slots that are
    /// leased to peers.
    pub fn reserved(&self) -> (Vec<Addr>, Vec<Addr>) {
        let receivers = self.receivers.lock();
        let leased = receivers.iter().flat_map(PeerReceiver::leased_slots);
        // A slot lease is void once another machine is the primary of the region.
        let leased = leased.filter(|addr| self.primary(*addr) == Some(self.me));
        (self.slot_reservations.all(), leased.collect())
    }

    /// Gives back the reserved slots of peers and ends the poller's thread.
    pub fn stop(&self, now: Timestamp) {
        self.trim_stocks(now, true);
        self.configured.give_up();
        self.in_flight.end();
        self.region_allocation.give_up();
        self.stopped.store(true, Ordering::Release);
        self.fabric.bell().ring();
        let poller = self.poller.lock().take();
        // The poller itself may hold the last reference to the machine.
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

    fn leasing(&self) -> Option<&Arc<LeaseService>> {
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

    /// Returns the words of the longest record that a log takes.
    fn longest_record(&self) -> usize {
        fencepost_fabric::ring::longest_record(self.log_words)
    }

    /// Returns whether records of these sizes fit a log together, whatever free space its receiver
    /// has reported.
    fn takes(&self, sizes: &[usize]) -> bool {
        let promised = |words: &usize| if *words > 0 { 2 * (words + 1) } else { 0 };
        sizes.iter().map(promised).sum::<usize>() <= self.log_words / 2
    }

    /// Returns whether this machine is the only replica of `region`, so that no other machine takes
    /// part in its writes.
    pub fn is_alone_with(&self, region: RegionId) -> bool {
        self.region_map.is_alone_with(region, self.me)
    }
}

/// Creates the leases of a machine whose options ask for them. Lease events go to `suspicions` and,
/// as input, to the reconfiguration driver.
fn leases(
    options: &NetworkOptions,
    suspicions: &Arc<Suspicions>,
    inbox: &Arc<Inbox>,
) -> Result<Option<LeaseService>, FabricError> {
    let Some(terms) = options.leases else {
        return Ok(None);
    };
    let NetworkOptions {
        fabric,
        configuration,
        clock,
        ..
    } = options;
    let incarnation = match options.driven {
        // A driven run must be repeatable.
        true => Random::new(clock.now_ns()).next_u64(),
        false => entropy_seed(),
    };
    let noted = Arc::clone(suspicions);
    let (inbox, bell) = (Arc::clone(inbox), Arc::clone(fabric));
    let lease_clock = Arc::clone(clock);
    let sink = Box::new(move |event| {
        noted.note(event);
        inbox.push(Input::Lease(lease_clock.now_ns(), event));
        bell.ring_bell(bell.me());
    });
    LeaseService::new(
        fabric,
        configuration,
        terms,
        Arc::clone(clock),
        incarnation,
        sink,
    )
    .map(Some)
}
