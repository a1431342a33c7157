//! The fabric of machines on any network: on each machine agents do the work of a network card.
//!
//! # Picture
//! ```text
//! machine a                                                     machine b
//! threads post ─► connection ◄══ ordinary: requests, replies ══► connection ◄─ threads post
//!    agent applies ◄┘ connection ◄══ leases: the same ══════► connection └► agent applies
//! ```
//! A pair of machines has two connections, and both machines post to both. The one with the greater
//! number opens them. Leases ([`SegmentId::LEASE_LANE`]) have their own connection, so that they
//! never wait for other operations. FAB-3 holds within each of the two. A machine has two I/O
//! threads, its cards, one for each lane; other threads only open connections.
//!
//! | file | content |
//! |---|---|
//! | `auth` | the handshake: secret, cluster, version, identities |
//! | `tls` | TLS around it and all further data, if the cluster uses TLS |
//! | `frame` | the encoding of requests and replies |
//! | `one_sided_agent` | the I/O thread of a lane, which serves all its connections |
//! | `connection` | posting: gathers operations, answers completions |
//! | `carried` | a connection as a port of its card: reads, writes |
//! | `control_channel` | the control channel: questions and answers outside the fabric |
//! | `agent` | the handler of a peer's requests |
//! | `peer_connections` | keeps the two connections to a peer up |
//! | `listener` | accepts inbound connections |
//! | `inbound` | the inbound connections in a handshake |
//! | `threads` | the threads that must end before the fabric is dropped |
//!
//! # Failure
//! When one connection is lost, both are closed, and every operation in flight answers
//! [`FabricError::Lost`]; the fabric never repeats an operation. A hanging peer, or a network that
//! drops packets, is not a loss: the holder of leases evicts the peer, which ends the operations
//! that wait for it. An operation moves at most [`LONGEST`] words.

mod agent;
mod auth;
mod carried;
mod connection;
mod control_channel;
mod frame;
mod inbound;
mod listener;
mod one_sided_agent;
mod peer_connections;
mod threads;
mod tls;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use self::auth::{HandshakeError, cluster_id};
pub use self::control_channel::{ControlClient, ControlService};
pub use self::frame::{LONGEST, count_frames};
pub use self::tls::{CertificateFault, TcpTls, TlsError};

use self::auth::Identity;
use self::connection::Connection;
use self::frame::Target;
use self::inbound::InboundConnections;
use self::one_sided_agent::OneSidedAgent;
use self::peer_connections::{LANES, LEASES, ORDINARY, PeerConnections};
use self::threads::Threads;
use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{ArrivalHandler, Event, Fabric, FabricError};
use crate::home::MachineDirectory;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::priority::ask_for_priority;
use crate::registry::Registry;
use crate::segment::{Place, SegmentId, Writer};
use crate::waiting::PendingOperation;

/// The time limit of a connection attempt, and of each step of the handshake.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The parameters of a machine on a network.
#[derive(Clone)]
pub struct TcpConfig {
    /// The id of this machine.
    pub me: MachineId,
    /// The cluster of this machine; machines of other clusters are refused.
    pub cluster: u128,
    /// The secret that only the machines of the cluster know; the same on each.
    pub secret: Vec<u8>,
    /// The address of the listener, as `host:port`; port 0 is any free port.
    pub listen: String,
    /// The certificates, if all machines of the cluster have some; without them the data is not
    /// encrypted.
    pub tls: Option<TcpTls>,
    /// The time for which sent data may stay unacknowledged before the connection counts as broken,
    /// because the network may drop packets in either direction. `None` leaves the limit to the
    /// system.
    pub silence: Option<Duration>,
}

/// The access of one machine to a network. Dropping it closes all connections, and blocks until its
/// threads have ended.
#[derive(Debug)]
pub struct TcpFabric {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    address: SocketAddr,
    counters: FabricCounters,
    /// Held while the members change.
    changing: Mutex<()>,
}

/// The state that the threads of a fabric share.
#[derive(Debug)]
struct Shared {
    identity: Identity,
    tls: Option<TcpTls>,
    silence: Option<Duration>,
    registry: Arc<Registry>,
    bell: Bell,
    lease_bell: Bell,
    callers: InboundConnections,
    /// The lines of the control channel, and the service that answers them.
    askers: InboundConnections,
    answerer: OnceLock<Arc<dyn ControlService>>,
    lane_agents: [Arc<OneSidedAgent>; LANES],
    links: RwLock<HashMap<MachineId, Arc<PeerConnections>>>,
    /// The counters of lost connections to each peer, whether or not it is a member.
    losses: Mutex<HashMap<MachineId, Arc<AtomicU64>>>,
    events: Mutex<Vec<Event>>,
    threads: Arc<Threads>,
}

impl Shared {
    fn tell(&self, event: Event) {
        self.events.lock().push(event);
    }

    /// Returns the counter of [`Fabric::losses`].
    fn losses(&self, peer: MachineId) -> Arc<AtomicU64> {
        Arc::clone(self.losses.lock().entry(peer).or_default())
    }

    /// Returns the link to a member.
    fn link(&self, peer: MachineId) -> Option<Arc<PeerConnections>> {
        self.links.read().get(&peer).cloned()
    }

    fn name(&self, what: &str) -> String {
        format!("{what} {}", self.identity.me)
    }
}

/// Disables delayed sends, limits each wait in the handshake to [`TIME_LIMIT`], and each wait for
/// acknowledgements to `silence`.
fn prepare(stream: &TcpStream, silence: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    if let Some(silence) = silence {
        let ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(stream, ms)?;
    }
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))
}

impl TcpFabric {
    /// Starts the fabric of a machine, whose only member is itself: the listener and the two I/O
    /// threads.
    ///
    /// # Errors
    /// [`FabricError::Io`] if it cannot listen, or if the system refuses memory, random numbers or
    /// a thread.
    pub fn start(config: &TcpConfig) -> Result<Self, FabricError> {
        Self::with(config, Registry::new(config.me))
    }

    /// Starts the fabric of a machine whose memory is in files that outlive its process.
    ///
    /// # Errors
    /// As [`Self::start`]; [`FabricError::Refused`] if the directory belongs to another machine.
    pub fn start_at(config: &TcpConfig, home: MachineDirectory) -> Result<Self, FabricError> {
        if home.me() != config.me {
            return Err(FabricError::Refused("the directory is another machine's"));
        }
        Self::with(config, Registry::at(home))
    }

    fn with(config: &TcpConfig, registry: Registry) -> Result<Self, FabricError> {
        let listener = Arc::new(TcpListener::bind(&config.listen)?);
        let address = listener.local_addr()?;
        let bells = Arc::new(Memory::anonymous(2)?);
        let (bell, lease_bell) = (Bell::new(Arc::clone(&bells), 0), Bell::new(bells, 1));
        let shared = Arc::new(Shared {
            identity: Identity::new(config.me, config.cluster, &config.secret)?,
            tls: config.tls.clone(),
            silence: config.silence,
            registry: Arc::new(registry),
            callers: InboundConnections::default(),
            askers: InboundConnections::default(),
            answerer: OnceLock::new(),
            lane_agents: [OneSidedAgent::new(&bell)?, OneSidedAgent::new(&lease_bell)?],
            bell,
            lease_bell,
            links: RwLock::default(),
            losses: Mutex::default(),
            events: Mutex::default(),
            threads: Arc::default(),
        });
        let (listens, lets_in) = (Arc::clone(&listener), Arc::clone(&shared));
        let incarnation = move || listener::accept(&lets_in, &listens);
        shared.threads.spawn(shared.name("listener"), incarnation)?;
        let fabric = TcpFabric {
            shared,
            listener,
            address,
            counters: FabricCounters::default(),
            changing: Mutex::default(),
        };
        // From here on, dropping the fabric ends the started threads.
        let [agent, lease_agent] = fabric.shared.lane_agents.clone();
        let (threads, name) = (&fabric.shared.threads, |what| fabric.shared.name(what));
        threads.spawn(name("card"), move || agent.run())?;
        threads.spawn(name("lease card"), move || {
            ask_for_priority();
            lease_agent.run();
        })?;
        Ok(fabric)
    }

    /// Sets the service that answers the control channel; before, all callers are refused. Only the
    /// first call has an effect.
    pub fn answer_with(&self, answerer: Arc<dyn ControlService>) {
        let _ = self.shared.answerer.set(answerer);
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why each unconnected peer could not be connected at the last attempt.
    pub fn refusals(&self) -> Vec<(MachineId, HandshakeError)> {
        let links = self.shared.links.read();
        let refusal =
            |(peer, link): (&MachineId, &Arc<PeerConnections>)| Some((*peer, link.refusal()?));
        links.iter().filter_map(refusal).collect()
    }

    /// Returns the connection to a peer, while it is up.
    fn connection(&self, peer: MachineId, lane: usize) -> Result<Arc<Connection>, FabricError> {
        let links = self.shared.links.read();
        let link = links.get(&peer).ok_or(FabricError::NotMember(peer))?;
        link.connection(lane).ok_or(FabricError::Lost)
    }

    /// Posts an operation to a peer, or applies it to this machine's own memory; with `ring` the
    /// bell follows.
    fn operate<T>(
        &self,
        at: Place,
        to_write: bool,
        ring: bool,
        local: impl FnOnce(&Memory) -> Completion<T>,
        put: impl FnOnce(&mut Vec<u8>, Target),
        waiting: impl FnOnce(crate::Completer<T>) -> PendingOperation,
    ) -> Completion<T> {
        let me = self.me();
        let lane = match at.segment.lane() {
            SegmentId::LEASE_LANE => LEASES,
            _ => ORDINARY,
        };
        if at.machine == me {
            let done = match self.shared.registry.memory(at.segment, me, to_write) {
                Ok(memory) => local(&memory),
                Err(error) => Completion::done(Err(error)),
            };
            if ring {
                self.shared.lane_agents[lane].call();
            }
            return done;
        }
        let connection = match self.connection(at.machine, lane) {
            Ok(connection) => connection,
            Err(error) => return Completion::done(Err(error)),
        };
        let target = Target {
            segment: at.segment,
            word: at.word,
        };
        let (completer, completion) = Completion::pending();
        connection.post(|out| put(out, target), waiting(completer), ring);
        completion
    }

    /// Rings the bell of a lane.
    fn ring(&self, machine: MachineId, lane: usize) {
        if machine == self.me() {
            return self.shared.lane_agents[lane].call();
        }
        if let Ok(connection) = self.connection(machine, lane) {
            connection.bell();
        }
    }

    fn put(&self, at: Place, words: &[u64], ring: bool) -> Completion<()> {
        self.counters.write(words.len());
        too_long(words.len()).unwrap_or_else(|| {
            self.operate(
                at,
                true,
                ring,
                |memory| direct::write(memory, at.word, words),
                |out, target| frame::put_write(out, target, words),
                PendingOperation::Write,
            )
        })
    }
}

/// Refuses operations that do not fit a frame.
fn too_long<T>(words: usize) -> Option<Completion<T>> {
    let refused = FabricError::Refused("longer than one operation may be");
    (words > LONGEST).then(|| Completion::done(Err(refused)))
}

impl Fabric for TcpFabric {
    fn me(&self) -> MachineId {
        self.shared.identity.me
    }

    fn bell(&self) -> &Bell {
        &self.shared.bell
    }

    fn lease_bell(&self) -> &Bell {
        &self.shared.lease_bell
    }

    fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    fn keeps(&self) -> bool {
        self.shared
            .registry
            .home()
            .is_some_and(MachineDirectory::keeps)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.shared
            .registry
            .home()
            .and_then(MachineDirectory::free_space)
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        self.shared.registry.provide(segment, words, writer)
    }

    fn withdraw(&self, segment: SegmentId) {
        let is_member = |peer| self.shared.links.read().contains_key(&peer);
        self.shared.registry.withdraw(segment, is_member);
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        let me = self.me();
        let ids: HashSet<MachineId> = members.iter().map(|member| member.id).collect();
        if !ids.contains(&me) {
            return Err(FabricError::Refused("this machine must be a member"));
        }
        let _changing = self.changing.lock();
        let shared = &self.shared;
        let closed: Vec<_> = {
            let mut links = shared.links.write();
            links.extract_if(|peer, _| !ids.contains(peer)).collect()
        };
        closed.iter().for_each(|(_, link)| link.stop(shared));
        for member in members.iter().filter(|member| member.id != me) {
            let known = shared.links.read().get(&member.id).cloned();
            if let Some(link) = known {
                link.set_address(&member.address);
                continue;
            }
            let link = PeerConnections::new(member.id, &member.address, shared.losses(member.id));
            // The link is registered before it connects, so that the peer's connections are
            // accepted.
            shared.links.write().insert(member.id, Arc::clone(&link));
            let (keeper, keeps) = (Arc::clone(shared), Arc::clone(&link));
            let run = move || keeps.keep(&keeper);
            let name = format!("link {me}-{}", member.id);
            if let Err(error) = shared.threads.spawn(name, run) {
                shared.links.write().remove(&member.id);
                link.stop(shared);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn maps_peers(&self) -> bool {
        false
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        let own = machine == self.me();
        let memory = own.then(|| self.shared.registry.memory(segment, machine, false));
        memory?.ok()
    }

    fn losses(&self, peer: MachineId) -> Arc<AtomicU64> {
        self.shared.losses(peer)
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.counters.read(words);
        too_long(words).unwrap_or_else(|| {
            self.operate(
                at,
                false,
                false,
                |memory| direct::read(memory, at.word, words),
                |out, target| frame::put_read(out, target, words),
                |completer| PendingOperation::Read(completer, words),
            )
        })
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.put(at, words, false)
    }

    fn write_and_ring(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.put(at, words, true)
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.counters.swap();
        self.operate(
            at,
            true,
            false,
            |memory| direct::cas(memory, at.word, expected, new),
            |out, target| frame::put_swap(out, target, expected, new),
            PendingOperation::Swap,
        )
    }

    fn ring_bell(&self, machine: MachineId) {
        self.ring(machine, ORDINARY);
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        self.ring(machine, LEASES);
    }

    fn set_attendant(&self, attendant: Box<dyn ArrivalHandler>) -> bool {
        self.shared.lane_agents[ORDINARY].set_attendant(attendant)
    }

    fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.shared.events.lock())
    }
}

impl Drop for TcpFabric {
    fn drop(&mut self) {
        self.shared.callers.close();
        self.shared.askers.close();
        // The shutdown ends the wait for the next connection.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let links: Vec<_> = self.shared.links.write().drain().collect();
        for (_, link) in links {
            link.stop(&self.shared);
        }
        self.shared
            .lane_agents
            .iter()
            .for_each(|agent| agent.stop());
        self.shared.threads.join();
    }
}

#[cfg(test)]
mod attendant_tests;
#[cfg(test)]
mod tests;
