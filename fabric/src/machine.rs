//! Who is on the network.

/// Number of a machine, unique in its cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u32);

impl std::fmt::Display for MachineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// A machine and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The machine.
    pub id: MachineId,
    /// Where its agent listens; means nothing to fabrics that do not leave the host.
    pub address: String,
}
