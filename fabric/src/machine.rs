//! The identity of machines on the network.

/// The number of a machine, unique in its cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u32);

impl std::fmt::Display for MachineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// A machine and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of the machine.
    pub id: MachineId,
    /// The address of its agent; unused by fabrics within one host.
    pub address: String,
}
