//! Inspection of a machine without running transactions: for `fencepost check`, and for reports of
//! a running one.

use std::sync::Arc;

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, FatPtr, ObjectRef};

use crate::machine::Machine;
use crate::start::BIRTH;

/// The state of all slots by their allocated bits and lock bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Every allocated object, in address order. Its size is that of its slot.
    pub objects: Vec<FatPtr>,
    /// Objects that are locked; empty while no transaction commits.
    pub locked: Vec<Addr>,
    /// Objects longer than a cache line whose line versions disagree with their header.
    pub torn: Vec<Addr>,
}

/// Reserved slots: slots without objects that are in no free list either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedSlots {
    /// Slots of peers that this machine has reserved.
    pub stock: Vec<Addr>,
    /// Slots of this machine that peers have reserved, in stock or in transactions.
    pub leased: Vec<Addr>,
}

/// An inconsistency in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The address of the node, bucket or block.
    pub node: Addr,
    /// A description of the inconsistency.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.node, self.what)
    }
}

impl Machine {
    /// Walks every slot of every block of this machine's own regions. Meant for a machine without
    /// running transactions: under load an object may be counted in an earlier state.
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

    /// Returns whether no transaction of any machine has left state here: no lock for a peer, no
    /// intent, no log record or log reservation, no outstanding answer.
    pub fn is_at_rest(&self) -> bool {
        let network = self.network();
        self.intents().is_empty() && network.is_none_or(|network| network.is_at_rest())
    }

    /// Returns the reasons why the machine is not at rest, as text.
    pub fn unrest(&self) -> Vec<&'static str> {
        let intents = (!self.intents().is_empty()).then_some("intents of its own");
        let network = self.network().map(|network| network.unrest());
        network.into_iter().flatten().chain(intents).collect()
    }

    /// Returns whether all machines are at rest at the same time. No new transactions may begin on
    /// them.
    pub fn are_at_rest(machines: &[Arc<Machine>]) -> bool {
        // A machine's last messages may arrive at a machine that was asked before it. So ask all
        // again.
        let all = || machines.iter().all(|machine| machine.is_at_rest());
        all() && all()
    }

    /// Returns the slots that are reserved for new objects: this machine's reservations at peers,
    /// and the peers' at this machine. Over all machines at rest, both sets are equal.
    pub fn reserved(&self) -> ReservedSlots {
        let network = self.network();
        let (stock, leased) = network.map_or_else(Default::default, |network| network.reserved());
        ReservedSlots { stock, leased }
    }

    /// Returns the differences between this machine's regions and their backups on `machines`.
    /// Meant for machines without running transactions.
    pub fn compare_backups(&self, machines: &[Arc<Machine>]) -> Vec<Problem> {
        let Some(network) = self.network() else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        for (id, class) in self.regions().blocks() {
            let replicas = network.replicas(id.region);
            let backups = replicas.map_or_else(Vec::new, |known| known.backups().collect());
            let keeps = |machine: &&Arc<Machine>| backups.iter().any(|id| id.0 == machine.number());
            let backups: Vec<_> = machines.iter().filter(keeps).collect();
            for addr in (0..class.slots()).map(|slot| id.slot(class, slot)) {
                let Some(object) = self.regions().object(addr) else {
                    continue;
                };
                let mut problem = |what: String| problems.push(Problem { node: addr, what });
                if object.header().is_locked() {
                    problem("is locked".into());
                }
                // An object that no transaction has written is the same on every machine.
                if object.header().timestamp() <= BIRTH {
                    continue;
                }
                for backup in &backups {
                    let copy = backup.regions().backup(addr);
                    // A machine that became a backup after the block had been given back knows
                    // nothing of its objects. That also holds if it has the block in its new use,
                    // and the primary was a backup at that time and remembers both uses.
                    let unheard = copy.is_none_or(|copy| copy.header() == Header(0));
                    let never_there = unheard && !object.header().is_allocated();
                    if !never_there && !copy.is_some_and(|copy| is_copy(object, copy)) {
                        let (remote, local) = (copy.map(|c| c.header()), object.header());
                        let number = backup.number();
                        problem(format!("is {remote:?} on m{number} and not {local:?}"));
                    }
                }
            }
        }
        problems
    }
}

/// Returns whether a backup's object is the same version of the same object.
fn is_copy(object: ObjectRef<'_>, copy: ObjectRef<'_>) -> bool {
    let version = |object: ObjectRef<'_>| {
        let header = object.header();
        (header.timestamp(), header.is_allocated())
    };
    let mut same = version(object) == version(copy);
    if object.header().is_allocated() {
        same &= object.link().incarnation() == copy.link().incarnation();
        same &= (0..object.len()).all(|i| object.word(i) == copy.word(i));
    }
    same
}
