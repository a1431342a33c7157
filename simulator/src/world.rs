//! The objects on which a run's transactions work, and their creation.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_btree::{BTree, TreeOptions};
use fencepost_fabric::Random;
use fencepost_hashtable::{HashOptions, HashTable};
use fencepost_txn::{Addr, Machine, Mode, ObjectLocation, Outcome, Stop, Transaction};

use crate::plan::Plan;
use crate::schema::{Schema, tree_options};
use crate::sim::Sim;

/// The initial balance of an account.
pub const DEPOSIT: u64 = 100;
/// The words of a list: its length, and the numbers of transactions.
pub const LIST_WORDS: usize = 12;
/// The words of a large object.
pub const LARGE_WORDS: usize = 120;
/// The number of large objects of each machine.
pub const LARGE_EACH: usize = 6;

/// The number of sections of a page.
pub const SECTIONS: usize = 8;
/// The words of each section: a page is large enough that replicas receive only its changed ranges.
pub const SECTION_WORDS: usize = 12;
/// The words of an object that takes a whole block.
const BLOCK_WORDS: usize = 100_000;
/// The number of blocks of a region.
const BLOCKS: u64 = 15;

/// The addresses of all objects. Every object but the indexes' holds the number of the transaction
/// that wrote it.
#[derive(Debug, Default)]
pub struct World {
    /// Objects whose words are all the number of their writer.
    pub registers: Vec<Addr>,
    /// Objects with a balance and a writer.
    pub accounts: Vec<Addr>,
    /// Objects with a length and the numbers of the transactions that appended; the last one is the
    /// writer.
    pub lists: Vec<Addr>,
    /// Large registers; those of a machine are adjacent.
    pub large: Vec<Addr>,
    /// Objects of sections, each with its own writer.
    pub pages: Vec<Addr>,
    /// Objects to which transactions write their number if their client does not learn the outcome.
    pub markers: Vec<Addr>,
    /// A B-tree of keys and rows; a row is an object with its key and its writer.
    pub tree: Option<BTree>,
    /// A hash table of keys and values; a value is the writer and the key.
    pub table: Option<HashTable>,
    /// The catalog of tables, in runs with tables.
    pub schema: Option<Schema>,
    /// A B-tree of keys and rows of lists, in runs of mixed levels.
    pub ledger: Option<BTree>,
}

/// The kinds of objects that the machines make.
#[derive(Clone, Copy)]
enum Cells {
    Registers,
    Accounts,
    Lists,
    Large,
    Pages,
    Markers,
}

impl World {
    /// Returns the words of a register.
    pub fn register_words(at: usize) -> usize {
        [1, 6, 20, 33][at % 4]
    }

    fn cells(&mut self, cells: Cells) -> &mut Vec<Addr> {
        match cells {
            Cells::Registers => &mut self.registers,
            Cells::Accounts => &mut self.accounts,
            Cells::Lists => &mut self.lists,
            Cells::Large => &mut self.large,
            Cells::Pages => &mut self.pages,
            Cells::Markers => &mut self.markers,
        }
    }
}

/// Makes the objects: each machine makes those whose primary it is to be. The task reports errors.
pub async fn make(
    plan: Plan,
    sim: Sim,
    machines: Vec<Arc<Machine>>,
    markers: usize,
    world: Rc<RefCell<World>>,
) {
    for machine in &machines {
        while !machine.is_complete().await {
            sim.nap(10_000).await;
        }
    }
    let made = make_all((&plan, &sim), &machines, markers, &world).await;
    if let Err(stop) = made {
        sim.report(format!("the world could not be made: {stop}"));
    }
}

async fn make_all(
    (plan, sim): (&Plan, &Sim),
    machines: &[Arc<Machine>],
    markers: usize,
    world: &RefCell<World>,
) -> Result<(), Stop> {
    let large = LARGE_EACH * machines.len();
    let mut random = Random::new(plan.seed ^ 0x9_1A_CE);
    if plan.few_blocks {
        for machine in machines {
            use_blocks(machine, &mut random).await?;
        }
    }
    for (cells, count) in [
        (Cells::Registers, plan.registers),
        (Cells::Accounts, plan.accounts),
        (Cells::Lists, plan.lists),
        (Cells::Large, large),
        (Cells::Pages, plan.pages),
        (Cells::Markers, markers),
    ] {
        for (place, machine) in machines.iter().enumerate() {
            let mut tx = machine.coordinator().begin(Mode::ReadWrite);
            let mut made = Vec::new();
            for at in count * place / machines.len()..count * (place + 1) / machines.len() {
                let (words, first) = match cells {
                    Cells::Registers => (World::register_words(at), 0),
                    Cells::Accounts => (2, DEPOSIT),
                    Cells::Lists => (LIST_WORDS, 0),
                    Cells::Large => (LARGE_WORDS, 0),
                    Cells::Pages => (SECTIONS * SECTION_WORDS, 0),
                    Cells::Markers => (1, 0),
                };
                // All other objects together exceed the capacity of a log.
                let near = match cells {
                    Cells::Registers | Cells::Accounts | Cells::Lists => plan.place(&mut random),
                    Cells::Pages => plan.place(&mut random),
                    Cells::Large | Cells::Markers => ObjectLocation::Own,
                };
                let object = tx.alloc(words, near).await?;
                tx.write_new(object, &[first])?;
                made.push(object.addr);
            }
            commit((plan, sim), tx).await?;
            world.borrow_mut().cells(cells).extend(made);
        }
    }
    let at = |number: u64| &machines[number as usize % machines.len()];
    let mut tx = at(plan.seed).coordinator().begin(Mode::ReadWrite);
    let tree = BTree::create_with(
        &mut tx,
        TreeOptions {
            node_words: plan.node_words,
            near: plan.place(&mut random),
            together: plan.together,
        },
    )
    .await?;
    commit((plan, sim), tx).await?;
    let mut tx = at(plan.seed / 7).coordinator().begin(Mode::ReadWrite);
    let options = HashOptions {
        key_bytes: 8,
        value_words: 2,
        slots: 2,
        shard_buckets: 2,
        capacity: 0,
        guard_hits: true,
        near: plan.place(&mut random),
    };
    let table = HashTable::create_with(&mut tx, &options).await?;
    commit((plan, sim), tx).await?;
    let mut schema = None;
    if plan.tables.is_some() {
        let mut tx = at(plan.seed / 11).coordinator().begin(Mode::ReadWrite);
        schema = Some(Schema::create(&mut tx, plan, &mut random).await?);
        commit((plan, sim), tx).await?;
    }
    let mut ledger = None;
    if plan.levels.is_some() {
        let mut tx = at(plan.seed / 13).coordinator().begin(Mode::ReadWrite);
        let options = tree_options(plan, &mut random);
        ledger = Some(BTree::create_with(&mut tx, options).await?);
        commit((plan, sim), tx).await?;
    }
    let mut world = world.borrow_mut();
    (world.schema, world.ledger) = (schema, ledger);
    (world.tree, world.table) = (Some(tree), Some(table));
    Ok(())
}

/// Uses up most blocks of a machine's region that were never used. The blocks become free again for
/// objects of other sizes, once all machines have passed the transaction.
async fn use_blocks(machine: &Arc<Machine>, random: &mut Random) -> Result<(), Stop> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    for _ in 0..10 + random.below(BLOCKS - 10) {
        tx.alloc(BLOCK_WORDS, ObjectLocation::Own).await?;
    }
    tx.abort();
    Ok(())
}

/// Commits a transaction, and waits until slow messages have arrived. No other transaction runs, so
/// the commit succeeds.
async fn commit((plan, sim): (&Plan, &Sim), tx: Transaction) -> Result<(), Stop> {
    match tx.commit().await? {
        Outcome::Committed(_) => {
            let slow = plan.net.slow.iter().map(|(_, _, ns)| *ns);
            sim.nap(slow.max().unwrap_or(0)).await;
            Ok(())
        }
        Outcome::Aborted(reason) => Err(Stop::Retry(reason)),
    }
}
