//! The fabrics that histories run over.

use std::sync::Arc;

use fencepost_fabric::{Fabric, LocalNetwork, MachineId, Member, ShmFabric};

/// A kind of fabric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Local,
    /// All machines are of this process all the same.
    Shm,
}

impl Kind {
    pub fn machines(self, count: u32) -> Vec<MachineId> {
        (1..=count).map(MachineId).collect()
    }

    /// The fabrics of machines that are each other's members, and a directory that they may need.
    pub fn fabrics(self, count: u32) -> (Vec<Arc<dyn Fabric>>, tempfile::TempDir) {
        let members: Vec<Member> = self
            .machines(count)
            .into_iter()
            .map(|id| Member {
                id,
                address: String::new(),
            })
            .collect();
        let network = LocalNetwork::new();
        let tmpfs = std::path::Path::new("/dev/shm");
        let shared = tempfile::tempdir_in(tmpfs).or_else(|_| tempfile::tempdir());
        let shared = shared.expect("a directory");
        let join = |member: &Member| -> Arc<dyn Fabric> {
            match self {
                Kind::Local => Arc::new(network.join(member.id).expect("a new machine")),
                Kind::Shm => {
                    Arc::new(ShmFabric::open(shared.path(), member.id).expect("a new machine"))
                }
            }
        };
        let fabrics: Vec<_> = members.iter().map(join).collect();
        for fabric in &fabrics {
            fabric.set_members(&members).expect("a member");
        }
        (fabrics, shared)
    }
}
