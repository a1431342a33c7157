//! Machines on any network: an agent on each plays the network card.
//!
//! # Picture
//! ```text
//! machine a                                                     machine b
//! threads post ─► connection ◄══ ordinary: requests, replies ══► connection ◄─ threads post
//!    agent applies ◄┘ connection ◄══ leases: the same ════════► connection └► agent applies to b's memory
//! ```
//! A pair of machines has two connections, which both post to; of the two the one with the greater number
//! makes them. Leases ([`SegmentId::LEASE_LANE`]) have one of their own, so that they never wait behind
//! anything else. FAB-3 holds within each of the two. A machine has two threads that carry all of them, its
//! cards, one for each lane; other threads only connect.
//!
//! | file | what it is |
//! |---|---|
//! | `auth` | the handshake: secret, cluster, version, who is who |
//! | `tls` | TLS around it and all that follows, where the cluster wants that |
//! | `frame` | requests and replies as bytes |
//! | `card` | the thread of a lane, which carries all its connections |
//! | `connection` | posting: gathers operations, answers completions |
//! | `carried` | a connection's place on its card: reads, writes |
//! | `aside` | questions and answers beside all of that, of whoever knows the secret |
//! | `agent` | applies what the peer asks for |
//! | `link` | keeps the two connections to a peer up |
//! | `listener` | lets callers in |
//! | `callers` | who is in a handshake |
//! | `threads` | what must have ended when the fabric is dropped |
//!
//! # Failure
//! With the loss of either connection both are closed, and everything in flight answers
//! [`FabricError::Lost`]; nothing is sent again by the fabric. A peer that hangs, or a network that
//! swallows, is no loss: it is whoever watches leases that removes it, which ends what waits for
//! it. An operation moves at most [`LONGEST`] words.

mod agent;
mod aside;
mod auth;
mod callers;
mod card;
mod carried;
mod connection;
mod frame;
mod link;
mod listener;
mod threads;
mod tls;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use self::aside::{Answerer, TcpAsker};
pub use self::auth::{HandshakeError, cluster_id};
pub use self::frame::{LONGEST, count_frames};
pub use self::tls::{CertificateFault, TcpTls, TlsError};

use self::auth::Identity;
use self::callers::Callers;
use self::card::Card;
use self::connection::Connection;
use self::frame::Target;
use self::link::{LANES, LEASES, Link, ORDINARY};
use self::threads::Threads;
use crate::bell::Bell;
use crate::completion::Completion;
use crate::counters::FabricCounters;
use crate::direct;
use crate::fabric::{Attendant, Event, Fabric, FabricError};
use crate::home::Home;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::priority::ask_for_priority;
use crate::registry::Registry;
use crate::segment::{Place, SegmentId, Writer};
use crate::waiting::Waiting;

/// How long a machine waits for another to connect, and for each step of the handshake.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a machine must know to be on a network.
#[derive(Clone)]
pub struct TcpConfig {
    /// This machine.
    pub me: MachineId,
    /// The cluster it belongs to; others are not talked to.
    pub cluster: u128,
    /// What the machines of the cluster know and nobody else; the same on each.
    pub secret: Vec<u8>,
    /// Where the agent listens, as `host:port`; port 0 is any that is free.
    pub listen: String,
    /// Certificates, where all machines of the cluster have some; without them nothing is encrypted.
    pub tls: Option<TcpTls>,
    /// How long a member may leave what was sent unacknowledged before the connection counts as broken: the network may
    /// swallow what goes to it, or what comes back. Without it that is as long as the system likes.
    pub silence: Option<Duration>,
}

/// One machine's end of a network.
#[derive(Debug)]
pub struct TcpFabric {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    address: SocketAddr,
    counters: FabricCounters,
    /// Held while the members change.
    changing: Mutex<()>,
}

/// What the threads of a fabric share.
#[derive(Debug)]
struct Shared {
    identity: Identity,
    tls: Option<TcpTls>,
    silence: Option<Duration>,
    registry: Arc<Registry>,
    bell: Bell,
    lease_bell: Bell,
    callers: Callers,
    /// Who has questions, and who answers them.
    askers: Callers,
    answerer: OnceLock<Arc<dyn Answerer>>,
    cards: [Arc<Card>; LANES],
    links: RwLock<HashMap<MachineId, Arc<Link>>>,
    /// Connections to each peer that were lost, whether or not it is a member.
    losses: Mutex<HashMap<MachineId, Arc<AtomicU64>>>,
    events: Mutex<Vec<Event>>,
    threads: Arc<Threads>,
}

impl Shared {
    fn tell(&self, event: Event) {
        self.events.lock().push(event);
    }

    /// See [`Fabric::losses`].
    fn losses(&self, peer: MachineId) -> Arc<AtomicU64> {
        Arc::clone(self.losses.lock().entry(peer).or_default())
    }

    /// What keeps the connections to a member.
    fn link(&self, peer: MachineId) -> Option<Arc<Link>> {
        self.links.read().get(&peer).cloned()
    }

    fn name(&self, what: &str) -> String {
        format!("{what} {}", self.identity.me)
    }
}

/// Sends at once, waits no longer than [`PATIENCE`] for the other end in the handshake, and no longer than `silence`
/// for its acknowledgements.
fn prepare(stream: &TcpStream, silence: Option<Duration>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    if let Some(silence) = silence {
        let ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(stream, ms)?;
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

impl TcpFabric {
    /// Starts the agent of a machine, a member of nothing but itself.
    ///
    /// # Errors
    /// [`FabricError::Io`] where it cannot listen.
    pub fn start(config: &TcpConfig) -> Result<Self, FabricError> {
        Self::with(config, Registry::new(config.me))
    }

    /// The same of a machine whose memory is in files, which outlive its process.
    ///
    /// # Errors
    /// As [`Self::start`]; [`FabricError::Refused`] where the directory is another machine's.
    pub fn start_at(config: &TcpConfig, home: Home) -> Result<Self, FabricError> {
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
            callers: Callers::default(),
            askers: Callers::default(),
            answerer: OnceLock::new(),
            cards: [Card::new(&bell)?, Card::new(&lease_bell)?],
            bell,
            lease_bell,
            links: RwLock::default(),
            losses: Mutex::default(),
            events: Mutex::default(),
            threads: Arc::default(),
        });
        let (listens, lets_in) = (Arc::clone(&listener), Arc::clone(&shared));
        let life = move || listener::accept(&lets_in, &listens);
        shared.threads.spawn(shared.name("listener"), life)?;
        let fabric = TcpFabric {
            shared,
            listener,
            address,
            counters: FabricCounters::default(),
            changing: Mutex::default(),
        };
        // From here on dropping it ends the threads that there are.
        let [card, lease_card] = fabric.shared.cards.clone();
        let (threads, name) = (&fabric.shared.threads, |what| fabric.shared.name(what));
        threads.spawn(name("card"), move || card.run())?;
        threads.spawn(name("lease card"), move || {
            ask_for_priority();
            lease_card.run();
        })?;
        Ok(fabric)
    }

    /// Who answers questions from now on; before, nobody may ask. There is one in a fabric's life: of a second one
    /// nothing is heard.
    pub fn answer_with(&self, answerer: Arc<dyn Answerer>) {
        let _ = self.shared.answerer.set(answerer);
    }

    /// Where the agent listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why each peer that is not connected could not be, when that was last tried.
    pub fn refusals(&self) -> Vec<(MachineId, HandshakeError)> {
        let links = self.shared.links.read();
        let refusal = |(peer, link): (&MachineId, &Arc<Link>)| Some((*peer, link.refusal()?));
        links.iter().filter_map(refusal).collect()
    }

    /// The connection to a peer, while it is up.
    fn connection(&self, peer: MachineId, lane: usize) -> Result<Arc<Connection>, FabricError> {
        let links = self.shared.links.read();
        let link = links.get(&peer).ok_or(FabricError::NotMember(peer))?;
        link.connection(lane).ok_or(FabricError::Lost)
    }

    /// Posts an operation to a peer, or applies it to this machine's own memory; with `ring` and the bell.
    fn operate<T>(
        &self,
        at: Place,
        to_write: bool,
        ring: bool,
        here: impl FnOnce(&Memory) -> Completion<T>,
        put: impl FnOnce(&mut Vec<u8>, Target),
        waiting: impl FnOnce(crate::Completer<T>) -> Waiting,
    ) -> Completion<T> {
        let me = self.me();
        let lane = match at.segment.lane() {
            SegmentId::LEASE_LANE => LEASES,
            _ => ORDINARY,
        };
        if at.machine == me {
            let done = match self.shared.registry.memory(at.segment, me, to_write) {
                Ok(memory) => here(&memory),
                Err(error) => Completion::done(Err(error)),
            };
            if ring {
                self.shared.cards[lane].call();
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
            return self.shared.cards[lane].call();
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
                Waiting::Write,
            )
        })
    }
}

/// Refuses what no frame holds.
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
        self.shared.registry.home().is_some_and(Home::keeps)
    }

    fn room(&self) -> Option<u64> {
        self.shared.registry.home().and_then(Home::room)
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
        let gone: Vec<_> = {
            let mut links = shared.links.write();
            links.extract_if(|peer, _| !ids.contains(peer)).collect()
        };
        gone.iter().for_each(|(_, link)| link.stop(shared));
        for member in members.iter().filter(|member| member.id != me) {
            let known = shared.links.read().get(&member.id).cloned();
            if let Some(link) = known {
                link.set_address(&member.address);
                continue;
            }
            let link = Link::new(member.id, &member.address, shared.losses(member.id));
            // Known before it calls, so that it is called back.
            shared.links.write().insert(member.id, Arc::clone(&link));
            let (keeper, keeps) = (Arc::clone(shared), Arc::clone(&link));
            let life = move || keeps.keep(&keeper);
            let name = format!("link {me}-{}", member.id);
            if let Err(error) = shared.threads.spawn(name, life) {
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
                |completer| Waiting::Read(completer, words),
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
            Waiting::Swap,
        )
    }

    fn ring_bell(&self, machine: MachineId) {
        self.ring(machine, ORDINARY);
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        self.ring(machine, LEASES);
    }

    fn set_attendant(&self, attendant: Box<dyn Attendant>) -> bool {
        self.shared.cards[ORDINARY].set_attendant(attendant)
    }

    fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.shared.events.lock())
    }
}

impl Drop for TcpFabric {
    fn drop(&mut self) {
        self.shared.callers.close();
        self.shared.askers.close();
        // Ends the wait for the next caller.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let links: Vec<_> = self.shared.links.write().drain().collect();
        for (_, link) in links {
            link.stop(&self.shared);
        }
        self.shared.cards.iter().for_each(|card| card.stop());
        self.shared.threads.join();
    }
}

#[cfg(test)]
mod attendant_tests;
#[cfg(test)]
mod tests;
