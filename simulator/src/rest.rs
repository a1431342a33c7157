//! The checks of the state after all clients are done.
//!
//! Each machine reads all objects in one more transaction, which joins the history: it must see the
//! last committed writes. Then the state of each machine is checked. There must be no locks, log
//! records, readers, unreachable objects, or slots leased without being in a stock. Backups must
//! equal their primaries.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_btree::BTree;
use fencepost_fabric::Random;
use fencepost_txn::{Addr, Isolation, Machine, Mode, Outcome, Problem, Stop, Timestamp};

use crate::attempt::Attempt;
use crate::executor::RunFailure;
use crate::levels::Execution;
use crate::plan::Plan;
use crate::schema::SecondIndex;
use crate::sim::Sim;
use crate::workload::{ClientRecords, Halt, Step};
use crate::world::World;

/// The parameters of a machine's last reader.
pub struct FinalReader {
    /// The machine, and its index from 0.
    pub machine: (usize, Arc<Machine>),
    /// The objects of the run.
    pub world: Rc<World>,
    /// The plan of the run.
    pub plan: Rc<Plan>,
    /// The simulated environment.
    pub sim: Sim,
    /// The record of transactions.
    pub log: Rc<RefCell<ClientRecords>>,
    /// The addresses of all reachable objects; filled by the reader.
    pub reached: Rc<RefCell<BTreeSet<Addr>>>,
}

impl FinalReader {
    /// Reads all objects.
    pub async fn run(self) {
        if let Err(halt) = self.read().await {
            let number = self.machine.1.number();
            self.sim.report(format!("at rest, m{number}: {halt:?}"));
        }
    }

    async fn read(&self) -> Result<(), Halt> {
        let (place, machine) = &self.machine;
        let id = self.log.borrow_mut().number();
        let began = self.sim.moment();
        let mut attempt = Attempt::new(id, began, None);
        let levels = self.plan.levels;
        attempt.execution = levels.map(|_| Execution::begin(id, Isolation::Serializable, began));
        let attempt = RefCell::new(attempt);
        let mut random = Random::new(id);
        let mut tx = machine.coordinator().begin(Mode::ReadOnly);
        let mut step = Step {
            tx: &mut tx,
            attempt: &attempt,
            world: &self.world,
            plan: &self.plan,
            sim: &self.sim,
            random: &mut random,
            machine: *place,
        };
        step.everything().await?;
        let mut reached = step.reach().await?;
        let ends = match place {
            0 => self.ends(&mut tx).await?,
            _ => Vec::new(),
        };
        let Outcome::Committed(at) = tx.commit().await? else {
            return Err(Halt::Broken("the last reader was aborted".into()));
        };
        reached.insert(machine.root());
        let mut log = self.log.borrow_mut();
        for (doubtful, end) in ends {
            log.note_resolved(doubtful, end);
        }
        let mut attempt = attempt.into_inner();
        attempt.committed(at);
        log.note(attempt, self.sim.moment());
        self.reached.borrow_mut().append(&mut reached);
        Ok(())
    }

    /// Reads the markers of transactions that were dropped during their commit, which tell their
    /// outcomes.
    async fn ends(
        &self,
        tx: &mut fencepost_txn::Transaction,
    ) -> Result<Vec<(Attempt, Option<Timestamp>)>, Stop> {
        let doubtful = std::mem::take(&mut self.log.borrow_mut().doubtful);
        let mut ends = Vec::new();
        for attempt in doubtful {
            let marker = attempt.marker.map(|marker| self.world.markers[marker]);
            let marker = marker.unwrap_or(Addr::NULL);
            let found = tx.view(marker, None, |view| view.word(0)).await?;
            let (number, seen) = found.ok_or(Stop::Damaged)?;
            let end = (number == attempt.id).then_some(seen.timestamp());
            ends.push((attempt, end));
        }
        Ok(ends)
    }
}

impl Step<'_> {
    /// Reads all objects that clients have written.
    async fn everything(&mut self) -> Result<(), Halt> {
        self.all_cells().await?;
        self.audit().await?;
        self.scan(0, self.plan.keys).await?;
        self.all_values().await?;
        if self.plan.levels.is_some() {
            self.select_all().await?;
        }
        for name in 0..self.plan.tables.map_or(0, |tables| tables.names) {
            if let Some((definition, _)) = self.look_up(name).await? {
                self.scan_table(&definition).await?;
            }
        }
        Ok(())
    }

    /// Returns the nodes of a B-tree, after it has checked the tree.
    async fn nodes_of(&mut self, what: &str, tree: BTree) -> Result<Vec<Addr>, Halt> {
        let mut report = tree.check(self.tx).await?;
        if !self.plan.faults.is_empty() || self.plan.next_crash.is_some() {
            // A machine may make nodes in a region that it took over. The next failure may separate
            // such nodes from their root.
            report.problems.retain(|problem| problem.what != PARTED);
        }
        sound(what, &report.problems)?;
        Ok(report.addresses)
    }

    /// Adds all objects of the tables in the catalog. Every guard must have the version of its
    /// table.
    async fn reach_tables(&mut self, reached: &mut BTreeSet<Addr>) -> Result<(), Halt> {
        for name in 0..self.plan.tables.map_or(0, |tables| tables.names) {
            let Some((definition, _)) = self.look_up(name).await? else {
                continue;
            };
            for guard in &definition.guards {
                if !definition.hold_at(self.tx, *guard).await? {
                    let what = format!("the guard {guard} is not as {definition:?} says");
                    return Err(Halt::Broken(what));
                }
            }
            reached.extend(&definition.guards);
            reached.extend(&definition.counters);
            let nodes = self.nodes_of("a first index", definition.first);
            reached.extend(nodes.await?);
            reached.extend(self.rows_of(definition.first).await?);
            match definition.second {
                SecondIndex::Absent => {}
                SecondIndex::Tree(tree) => {
                    reached.extend(self.nodes_of("a second index", tree).await?);
                }
                SecondIndex::Hash(table) => {
                    let report = table.check(self.tx).await?;
                    sound("a second index", &report.problems)?;
                    reached.extend(report.addresses);
                }
            }
        }
        Ok(())
    }

    /// Returns all reachable objects, and checks the indexes.
    async fn reach(&mut self) -> Result<BTreeSet<Addr>, Halt> {
        let World {
            registers,
            accounts,
            lists,
            large,
            pages,
            markers,
            tree,
            table,
            schema,
            ledger,
        } = self.world;
        let (Some(tree), Some(table)) = (tree, table) else {
            return Err(Halt::Broken("there are no indexes".into()));
        };
        let cells = [registers, accounts, lists, large, pages, markers];
        let mut reached: BTreeSet<_> = cells.into_iter().flatten().copied().collect();
        reached.extend(self.nodes_of("the B-tree", *tree).await?);
        let report = table.check(self.tx).await?;
        sound("the hash table", &report.problems)?;
        reached.extend(report.addresses);
        reached.extend(self.rows_of(*tree).await?);
        if let Some(ledger) = ledger {
            reached.extend(self.nodes_of("the ledger", *ledger).await?);
            reached.extend(self.rows_of(*ledger).await?);
        }
        if let Some(schema) = schema {
            reached.insert(schema.heart);
            let names = schema.names;
            reached.extend(self.nodes_of("the catalog's names", names).await?);
            reached.extend(self.rows_of(names).await?);
            self.reach_tables(&mut reached).await?;
        }
        Ok(reached)
    }
}

/// The problem of a tree whose nodes are not co-located as requested.
const PARTED: &str = "the tree is not kept together as its root says";

fn sound(what: &str, problems: &[Problem]) -> Result<(), Halt> {
    match problems {
        [] => Ok(()),
        problems => Err(Halt::Broken(format!("{what}: {problems:?}"))),
    }
}

/// Checks the final state of all machines.
///
/// # Errors
/// A description of the first object or record that must not exist.
pub fn look(machines: &[Arc<Machine>], reached: &BTreeSet<Addr>) -> Result<(), RunFailure> {
    let mut there = BTreeSet::new();
    let (mut stock, mut lent) = (Vec::new(), Vec::new());
    let broken = |what: String| Err(RunFailure::Broken(format!("at rest, {what}")));
    for machine in machines {
        let number = machine.number();
        let inventory = machine.inventory();
        if !inventory.locked.is_empty() || !inventory.torn.is_empty() {
            let (locked, torn) = (inventory.locked, inventory.torn);
            return broken(format!("m{number} has locked {locked:?}, torn {torn:?}"));
        }
        let problems = machine.compare_backups(machines);
        if !problems.is_empty() {
            return broken(format!("backups of m{number}: {problems:?}"));
        }
        there.extend(inventory.objects.into_iter().map(|object| object.addr));
        let reserved = machine.reserved();
        stock.extend(reserved.stock);
        lent.extend(reserved.leased);
    }
    stock.sort_unstable();
    lent.sort_unstable();
    if stock != lent {
        let only = |these: &[Addr], others: &[Addr]| -> Vec<Addr> {
            let missing = |addr: &&Addr| others.binary_search(addr).is_err();
            these.iter().filter(missing).copied().collect()
        };
        let (kept, missed) = (only(&stock, &lent), only(&lent, &stock));
        return broken(format!(
            "of what is reserved {kept:?} is in stock alone, and {missed:?} lent alone"
        ));
    }
    if let Some(used) = lent.iter().find(|slot| there.contains(slot)) {
        return broken(format!("{used} is an object and is lent"));
    }
    let left: Vec<_> = there.difference(reached).collect();
    if !left.is_empty() {
        return broken(format!("nothing leads to {left:?}"));
    }
    let missing: Vec<_> = reached.difference(&there).collect();
    if !missing.is_empty() {
        return broken(format!("{missing:?} are not there"));
    }
    Ok(())
}
