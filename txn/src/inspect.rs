//! Looking at a machine at rest: for `fencepost check`, and for what a running one reports.

use fencepost_storage::{Addr, FatPtr};

use crate::machine::Machine;

/// What the allocated bits and lock bits of all slots say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Every allocated object, in address order. Its size is that of its slot.
    pub objects: Vec<FatPtr>,
    /// Objects that are locked; none, while no transaction commits.
    pub locked: Vec<Addr>,
    /// Objects longer than a cache line whose line versions disagree with their header.
    pub torn: Vec<Addr>,
}

/// Something in an index that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The node, bucket or block.
    pub node: Addr,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.node, self.what)
    }
}

impl Machine {
    /// Walks every slot of every block. Meant for a machine at rest: under load an object may be
    /// counted in the state it had a moment ago.
    pub fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::default();
        for (id, class) in self.regions().blocks() {
            for slot in 0..class.slots() {
                let addr = id.slot(class, slot);
                let Some(object) = self.regions().object(addr) else {
                    continue;
                };
                let header = object.header();
                if header.is_locked() {
                    inventory.locked.push(addr);
                }
                if !header.is_allocated() {
                    continue;
                }
                if !object.lines_agree(header.unlocked()) {
                    inventory.torn.push(addr);
                }
                inventory.objects.push(FatPtr {
                    addr,
                    size: (object.len() * 8) as u32,
                    incarnation: u32::from(object.link().incarnation()),
                });
            }
        }
        inventory
    }
}
