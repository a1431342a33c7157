//! A database of several machines: processes of one host that share memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_fabric::{Fabric, HostClock, MachineId, Member, ShmFabric};
use fencepost_txn::Machine;
use fencepost_txn::network::{NetworkOptions, Placement};
use pollster::FutureExt;

use crate::error::OpenError;

/// Words of the log of each pair of machines.
const LOG_WORDS: usize = 1 << 20;
/// How long a machine waits for the others to come up.
const PATIENCE: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(2);
/// The first and so far only configuration.
const CONFIGURATION: u64 = 1;

/// The machines of a database, and which of them this process is.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Directory of the shared memory, best on a tmpfs; the same for all machines and no others.
    pub directory: PathBuf,
    /// Number of this machine, from 1.
    pub machine: u32,
    /// Number of machines.
    pub machines: u32,
    /// Machines that have a copy of each region: its primary and its backups.
    pub replicas: u32,
}

impl Cluster {
    /// This machine's access to the others.
    pub(crate) fn network(&self) -> Result<NetworkOptions, OpenError> {
        let Cluster {
            machine,
            machines,
            replicas,
            ..
        } = *self;
        if machine == 0 || machine > machines {
            return Err(OpenError::NoSuchMachine { machine, machines });
        }
        if replicas == 0 || replicas > machines {
            return Err(OpenError::TooFewMachines { machines, replicas });
        }
        let ids: Vec<MachineId> = (1..=machines).map(MachineId).collect();
        let member = |id: &MachineId| Member {
            id: *id,
            address: String::new(),
        };
        let members: Vec<Member> = ids.iter().map(member).collect();
        let network = |error| OpenError::Machine(fencepost_txn::OpenError::Network(error));
        let fabric = ShmFabric::open(&self.directory, MachineId(machine)).map_err(network)?;
        fabric.set_members(&members).map_err(network)?;
        Ok(NetworkOptions {
            fabric: Arc::new(fabric),
            configuration: CONFIGURATION,
            placement: Placement::new(ids, replicas as usize),
            log_words: LOG_WORDS,
            clock: Arc::new(HostClock),
        })
    }
}

/// Waits until `ready`, which other machines have to bring about.
pub(crate) fn await_others<T>(mut ready: impl FnMut() -> Option<T>) -> Result<T, OpenError> {
    let began = Instant::now();
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if began.elapsed() > PATIENCE {
            return Err(OpenError::Incomplete(PATIENCE.as_secs()));
        }
        std::thread::sleep(NAP);
    }
}

/// Waits for all machines.
pub(crate) fn await_machines(machine: &Machine) -> Result<(), OpenError> {
    await_others(|| machine.is_complete().block_on().then_some(()))
}
