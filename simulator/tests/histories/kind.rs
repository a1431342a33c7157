//! The fabrics that histories run over.

use std::sync::Arc;

use fencepost_fabric::{Fabric, LocalNetwork, MachineId, Member};
use fencepost_fabric::{ShmFabric, TcpConfig, TcpFabric};

/// A kind of fabric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Local,
    /// Shared memory, although all machines are in this process.
    Shm,
    /// Sockets within this process; peers' memory is read over connections.
    Tcp,
}

impl Kind {
    pub fn machines(self, count: u32) -> Vec<MachineId> {
        (1..=count).map(MachineId).collect()
    }

    /// Returns the fabrics of machines of one cluster, and a directory that they may need.
    pub fn fabrics(self, count: u32) -> (Vec<Arc<dyn Fabric>>, tempfile::TempDir) {
        let network = LocalNetwork::new();
        let tmpfs = std::path::Path::new("/dev/shm");
        let shared = tempfile::tempdir_in(tmpfs).or_else(|_| tempfile::tempdir());
        let shared = shared.expect("a directory");
        let join = |id: MachineId| -> (Arc<dyn Fabric>, Member) {
            let mut address = String::new();
            let fabric: Arc<dyn Fabric> = match self {
                Kind::Local => Arc::new(network.join(id).expect("a new machine")),
                Kind::Shm => Arc::new(ShmFabric::open(shared.path(), id).expect("a new machine")),
                Kind::Tcp => {
                    let fabric = TcpFabric::start(&TcpConfig {
                        me: id,
                        cluster: 1,
                        secret: b"of the histories".to_vec(),
                        listen: "127.0.0.1:0".into(),
                        tls: None,
                        silence: None,
                    });
                    let fabric = fabric.expect("a free port");
                    address = fabric.address().to_string();
                    Arc::new(fabric)
                }
            };
            (fabric, Member { id, address })
        };
        let joined = self.machines(count).into_iter().map(join);
        let (fabrics, members): (Vec<_>, Vec<_>) = joined.unzip();
        for fabric in &fabrics {
            fabric.set_members(&members).expect("a member");
        }
        (fabrics, shared)
    }
}
