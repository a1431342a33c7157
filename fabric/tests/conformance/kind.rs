//! The kinds of fabrics, with the operations that the suite needs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_fabric::{
    Completion, Fabric, FabricError, LocalNetwork, MachineId, Member, Memory, Place, SegmentId,
    ShmFabric, SimKnobs, SimNet, TcpConfig, TcpFabric, Writer,
};

use crate::certificates::Authority;

/// The time limit after which a test counts as stuck.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The segment that most tests use.
pub const SEGMENT: SegmentId = SegmentId::new(SegmentId::REGION, 0, 7);

/// A kind of fabric, with its own network.
pub trait Kind: Sync {
    /// Returns a network without machines.
    fn new() -> Self;

    /// Adds a machine whose only member is itself. The number may be that of an ended machine.
    fn join(&self, id: u32) -> Arc<dyn Fabric>;

    /// Returns the address of a joined machine.
    fn member(&self, id: u32) -> Member;

    /// Lets some work in progress happen.
    fn advance(&self);

    /// Ends a machine.
    fn stop(&self, machine: Arc<dyn Fabric>) {
        assert_eq!(Arc::strong_count(&machine), 1, "the machine is in use");
    }
}

/// The kind of machines in one process.
pub struct LocalKind(Arc<LocalNetwork>);

impl Kind for LocalKind {
    fn new() -> Self {
        LocalKind(LocalNetwork::new())
    }

    fn join(&self, id: u32) -> Arc<dyn Fabric> {
        Arc::new(self.0.join(MachineId(id)).expect("a new machine"))
    }

    fn member(&self, id: u32) -> Member {
        Member {
            id: MachineId(id),
            address: String::new(),
        }
    }

    fn advance(&self) {
        std::thread::yield_now();
    }
}

/// The kind of machines on one host.
pub struct Shm(tempfile::TempDir);

impl Kind for Shm {
    fn new() -> Self {
        // Without a tmpfs a disk is used.
        let tmpfs = std::path::Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(tmpfs).or_else(|_| tempfile::tempdir());
        Shm(dir.expect("a directory"))
    }

    fn join(&self, id: u32) -> Arc<dyn Fabric> {
        Arc::new(ShmFabric::open(self.0.path(), MachineId(id)).expect("a new machine"))
    }

    fn member(&self, id: u32) -> Member {
        Member {
            id: MachineId(id),
            address: String::new(),
        }
    }

    fn advance(&self) {
        std::thread::yield_now();
    }
}

/// The kind of machines with sockets, all on this host.
pub struct Tcp {
    addresses: Mutex<HashMap<u32, SocketAddr>>,
    authority: Option<Authority>,
}

/// The same kind with TLS.
pub struct TcpInTls(Tcp);

impl Kind for Tcp {
    fn new() -> Self {
        Tcp {
            addresses: Mutex::default(),
            authority: None,
        }
    }

    fn join(&self, id: u32) -> Arc<dyn Fabric> {
        let mut addresses = self.addresses.lock().expect("no panic");
        // A restarted machine keeps its address. No connection starts from these addresses, so its
        // port is free.
        let free = || SocketAddr::from(([127, 0, 1, id as u8], 0));
        let address = addresses.get(&id).copied().unwrap_or_else(free);
        let config = TcpConfig {
            me: MachineId(id),
            cluster: 1,
            secret: b"of the suite".to_vec(),
            listen: address.to_string(),
            tls: self.authority.as_ref().map(Authority::tls),
            silence: None,
        };
        let fabric = TcpFabric::start(&config).expect("a free port");
        addresses.insert(id, fabric.address());
        Arc::new(fabric)
    }

    fn member(&self, id: u32) -> Member {
        Member {
            id: MachineId(id),
            address: self.addresses.lock().expect("no panic")[&id].to_string(),
        }
    }

    fn advance(&self) {
        std::thread::yield_now();
    }
}

impl Kind for TcpInTls {
    fn new() -> Self {
        TcpInTls(Tcp {
            authority: Some(Authority::new()),
            ..Tcp::new()
        })
    }

    fn join(&self, id: u32) -> Arc<dyn Fabric> {
        self.0.join(id)
    }

    fn member(&self, id: u32) -> Member {
        self.0.member(id)
    }

    fn advance(&self) {
        self.0.advance();
    }
}

/// The kind of machines in one thread, in virtual time.
pub struct Sim(SimNet);

impl Kind for Sim {
    fn new() -> Self {
        Sim(SimNet::new(1, SimKnobs::default()))
    }

    fn join(&self, id: u32) -> Arc<dyn Fabric> {
        Arc::new(self.0.join(MachineId(id)).expect("a new machine"))
    }

    fn member(&self, id: u32) -> Member {
        Member {
            id: MachineId(id),
            address: String::new(),
        }
    }

    fn advance(&self) {
        // Without further events the awaited condition never comes true.
        let _ = self.0.step();
    }
}

/// Returns machines `1..=n`, all of them members.
pub fn cluster(kind: &impl Kind, n: u32) -> Vec<Arc<dyn Fabric>> {
    let machines: Vec<_> = (1..=n).map(|id| kind.join(id)).collect();
    let members: Vec<_> = (1..=n).map(|id| kind.member(id)).collect();
    for machine in &machines {
        machine.set_members(&members).expect("is one of them");
    }
    for from in &machines {
        for to in &machines {
            until(kind, || reaches(kind, from, to.me()));
        }
    }
    machines
}

/// Sets the members of one machine, by number.
pub fn set_members(kind: &impl Kind, machine: &Arc<dyn Fabric>, ids: &[u32]) {
    let members: Vec<_> = ids.iter().map(|id| kind.member(*id)).collect();
    machine.set_members(&members).expect("is one of them");
}

/// Returns whether operations from a machine reach another one.
pub fn reaches(kind: &impl Kind, from: &Arc<dyn Fabric>, to: MachineId) -> bool {
    let nowhere = Place {
        machine: to,
        segment: SegmentId::new(SegmentId::BOARD, 0, u32::MAX),
        word: 0,
    };
    matches!(
        wait(kind, from.read(nowhere, 1)),
        Err(FabricError::Refused(_))
    )
}

/// Waits for an answer.
pub fn wait<T>(kind: &impl Kind, mut completion: Completion<T>) -> Result<T, FabricError> {
    let mut answer = None;
    until(kind, || {
        answer = completion.take();
        answer.is_some()
    });
    answer.expect("until it was there")
}

/// Waits until a condition is true.
pub fn until(kind: &impl Kind, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < TIME_LIMIT, "stuck");
        kind.advance();
    }
}

/// Provides [`SEGMENT`] on `owner`, with `writer` as its writer.
pub fn provide(owner: &Arc<dyn Fabric>, words: usize, writer: &Arc<dyn Fabric>) -> Arc<Memory> {
    owner
        .provide(SEGMENT, words, Writer::Peer(writer.me()))
        .expect("provided")
}

/// Returns the place of a word in [`SEGMENT`] of `machine`.
pub fn at(machine: &Arc<dyn Fabric>, word: usize) -> Place {
    Place {
        machine: machine.me(),
        segment: SEGMENT,
        word,
    }
}

/// Returns all words of a memory.
pub fn contents(memory: &Memory) -> Vec<u64> {
    let mut out = vec![0; memory.len()];
    assert!(memory.copy_out(0, &mut out));
    out
}
