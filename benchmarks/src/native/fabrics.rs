//! The fabrics between the machines of a native run, all in this process.

use std::path::Path;
use std::sync::Arc;

use fencepost_fabric::{
    Fabric, LocalNetwork, MachineId, Member, ShmFabric, TcpConfig, TcpFabric, entropy_seed,
};
use fencepost_txn::OpenError;
use tempfile::TempDir;

use crate::error::BenchError;

/// The preferred folder for shared memory.
const TMPFS: &str = "/dev/shm";

/// A kind of fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricKind {
    /// Direct access to each other's memory.
    Local,
    /// Files on a tmpfs that all machines map, as processes of one host would.
    Shm,
    /// TCP connections over loopback.
    Tcp,
}

impl FabricKind {
    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Local => "local",
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
        }
    }
}

/// The fabric of each machine, and the directory that they share.
type Fabrics = (Vec<Arc<dyn Fabric>>, Option<TempDir>);

/// Creates the fabrics of machines that are members of one configuration.
pub(super) fn fabrics(ids: &[MachineId], kind: FabricKind) -> Result<Fabrics, BenchError> {
    let network = |error| BenchError::from(OpenError::Network(error));
    let local = LocalNetwork::new();
    let shared = match kind {
        FabricKind::Shm => Some(shared_directory()?),
        FabricKind::Local | FabricKind::Tcp => None,
    };
    let secret: Vec<u8> = (0..4).flat_map(|_| entropy_seed().to_le_bytes()).collect();
    let mut fabrics: Vec<Arc<dyn Fabric>> = Vec::with_capacity(ids.len());
    let mut members = Vec::with_capacity(ids.len());
    for id in ids {
        let mut address = String::new();
        fabrics.push(match (kind, &shared) {
            (FabricKind::Tcp, _) => {
                let fabric = TcpFabric::start(&TcpConfig {
                    me: *id,
                    cluster: 0,
                    secret: secret.clone(),
                    listen: "127.0.0.1:0".to_string(),
                    tls: None,
                    silence: None,
                });
                let fabric = fabric.map_err(network)?;
                address = fabric.address().to_string();
                Arc::new(fabric)
            }
            (_, Some(directory)) => {
                Arc::new(ShmFabric::open(directory.path(), *id).map_err(network)?)
            }
            (_, None) => Arc::new(local.join(*id).map_err(network)?),
        });
        members.push(Member { id: *id, address });
    }
    for fabric in &fabrics {
        fabric.set_members(&members).map_err(network)?;
    }
    Ok((fabrics, shared))
}

/// Creates a temporary directory, on a tmpfs if there is one.
pub(crate) fn shared_directory() -> Result<TempDir, BenchError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("fencepost-bench-");
    let made = if Path::new(TMPFS).is_dir() {
        builder.tempdir_in(TMPFS)
    } else {
        builder.tempdir()
    };
    made.map_err(|error| BenchError::Io {
        what: "shared memory".to_string(),
        error,
    })
}
