//! The catalog of a run: tables that transactions create, change and drop, kept as
//! `sql/src/catalog` keeps its own.
//!
//! ```text
//! heart        [version, writer]            written by every DDL transaction
//! names        name -> row [name, version,  one row a table
//!              writer, roots, counters, guards]
//! guard        [GUARD | name, version]      one a machine and table, written by DDL on the table
//! first index  key -> row [key, place, value, writer, ...]
//! second index value and key -> row (a B-tree), or key -> row (a hash table), or there is none
//! counter      [rows, sum, writer]          several a table: together they tell of all rows
//! ```
//! A transaction that uses a table takes the table's definition from the cache of its machine, if
//! the table's guard there has the version of that definition. Otherwise it reads the catalog.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_btree::{BTree, TreeOptions};
use fencepost_fabric::Random;
use fencepost_hashtable::{HashOptions, HashTable};
use fencepost_txn::{Addr, FatPtr, Stop, Transaction};

use crate::history::Object;
use crate::plan::Plan;

/// Counters of each table.
pub const COUNTERS: usize = 3;
/// Words of a counter: rows, the sum of their keys and values, the writer.
pub const COUNTER_WORDS: usize = 3;
/// Marks guards.
const GUARD: u64 = 0x4647_5244_0000_0000;
/// Words of a definition before its counters.
const HEAD_WORDS: usize = 7;

/// The catalog's version, as the history knows it.
pub const CATALOG: Object = Object("catalog", 0);

/// Returns the definition of a table as an object of the history.
pub const fn table(name: u64) -> Object {
    Object("table", name)
}

/// Returns a row of a table as an object of the history.
pub const fn table_row(name: u64, key: u64) -> Object {
    Object("row", name << 32 | key)
}

/// Returns a counter of a table as an object of the history.
pub const fn counter(name: u64, at: usize) -> Object {
    Object("counter", name * COUNTERS as u64 + at as u64)
}

/// A kind of second index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondIndex {
    /// The table has no second index.
    Absent,
    /// By value and key.
    Tree(BTree),
    /// By key.
    Hash(HashTable),
}

impl SecondIndex {
    fn to_words(self) -> [u64; 2] {
        match self {
            SecondIndex::Absent => [0, 0],
            SecondIndex::Tree(tree) => [1, tree.root().raw()],
            SecondIndex::Hash(table) => [2, table.root().raw()],
        }
    }

    fn from_words([kind, root]: [u64; 2]) -> Option<SecondIndex> {
        let root = Addr::from_raw(root);
        match kind {
            0 => Some(SecondIndex::Absent),
            1 => Some(SecondIndex::Tree(BTree::open(root))),
            2 => Some(SecondIndex::Hash(HashTable::open(root))),
            _ => None,
        }
    }
}

/// The definition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The table's name.
    pub name: u64,
    /// The version of the catalog that the definition came with.
    pub version: u64,
    /// The transaction that wrote the definition.
    pub writer: u64,
    /// The first index.
    pub first: BTree,
    /// The second index.
    pub second: SecondIndex,
    /// The counters.
    pub counters: Vec<Addr>,
    /// The guards, one on each machine that was a member when the table was created.
    pub guards: Vec<Addr>,
}

impl Definition {
    /// Returns the words of the catalog's row.
    pub fn to_words(&self) -> Vec<u64> {
        let [kind, root] = self.second.to_words();
        let guards = self.guards.len() as u64;
        let first = self.first.root().raw();
        let mut words = vec![
            self.name,
            self.version,
            self.writer,
            first,
            kind,
            root,
            guards,
        ];
        words.extend(self.counters.iter().map(|addr| addr.raw()));
        words.extend(self.guards.iter().map(|addr| addr.raw()));
        words
    }

    /// Decodes the words of a row of the catalog; `None` if they are not those of a definition.
    pub fn from_words(words: &[u64]) -> Option<Definition> {
        let head = words.get(..HEAD_WORDS)?;
        let (name, version, writer) = (head[0], head[1], head[2]);
        let second = SecondIndex::from_words([head[4], head[5]])?;
        let addresses = |words: &[u64]| words.iter().map(|raw| Addr::from_raw(*raw)).collect();
        let (counters, rest) = words[HEAD_WORDS..].split_at_checked(COUNTERS)?;
        Some(Definition {
            name,
            version,
            writer,
            first: BTree::open(Addr::from_raw(head[3])),
            second,
            counters: addresses(counters),
            guards: addresses(rest.get(..head[6] as usize)?),
        })
    }

    /// Returns the words of a guard at this version.
    pub fn guard_words(&self) -> [u64; 2] {
        [GUARD | self.name, self.version]
    }

    /// Puts the guard of the transaction's machine into the read set; false where it has another
    /// version, or is freed.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub async fn hold(&self, tx: &mut Transaction) -> Result<bool, Stop> {
        let machine = tx.machine();
        let own = |guard: &&Addr| {
            let primary = machine.primary_of(**guard);
            primary.is_some_and(|primary| primary.0 == machine.number())
        };
        let own = self.guards.iter().find(own);
        let guard = *own.or(self.guards.first()).ok_or(Stop::Damaged)?;
        self.hold_at(tx, guard).await
    }

    /// Does the same as [`Self::hold`] with the given guard.
    pub async fn hold_at(&self, tx: &mut Transaction, guard: Addr) -> Result<bool, Stop> {
        let words = |view: &fencepost_txn::View<'_>| [view.word(0), view.word(1)];
        let (words, seen) = match tx.view(guard, None, words).await {
            Ok(Some(found)) => found,
            // The table was dropped: its guard's memory may serve another object, or none.
            Ok(None) | Err(Stop::Damaged) => return Ok(false),
            Err(stop) => return Err(stop),
        };
        let same = words == self.guard_words();
        if same {
            tx.guard(seen);
        }
        Ok(same)
    }
}

/// The catalog, and the definitions that machines have cached.
#[derive(Debug)]
pub struct Schema {
    /// The object that every DDL transaction writes.
    pub heart: Addr,
    /// Names of tables, which lead to their definitions.
    pub names: BTree,
    cache: RefCell<BTreeMap<(u32, u64), Rc<Definition>>>,
}

impl Schema {
    /// Creates an empty catalog.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub async fn create(
        tx: &mut Transaction,
        plan: &Plan,
        random: &mut Random,
    ) -> Result<Schema, Stop> {
        let heart = tx.alloc(2, plan.place(random)).await?;
        tx.write_new(heart, &[1, 0])?;
        Ok(Schema {
            heart: heart.addr,
            names: BTree::create_with(tx, tree_options(plan, random)).await?,
            cache: RefCell::default(),
        })
    }

    /// Returns the definition of table `name` that a machine has cached.
    pub fn cached(&self, machine: u32, name: u64) -> Option<Rc<Definition>> {
        self.cache.borrow().get(&(machine, name)).cloned()
    }

    /// Caches a committed definition on a machine, unless a newer one is cached there.
    pub fn cache(&self, machine: u32, definition: &Rc<Definition>) {
        let mut cache = self.cache.borrow_mut();
        let newest = cache.entry((machine, definition.name));
        let newest = newest.or_insert_with(|| Rc::clone(definition));
        if newest.version < definition.version {
            *newest = Rc::clone(definition);
        }
    }
}

/// Returns the options of the B-trees of a run's tables.
pub fn tree_options(plan: &Plan, random: &mut Random) -> TreeOptions {
    TreeOptions {
        node_words: plan.node_words,
        near: plan.place(random),
        together: plan.together,
    }
}

/// Returns the options of the hash tables of a run's tables.
pub fn hash_options(plan: &Plan, random: &mut Random) -> HashOptions {
    HashOptions {
        key_bytes: 8,
        value_words: 2,
        slots: 2,
        shard_buckets: 2,
        capacity: 0,
        guard_hits: false,
        near: plan.place(random),
    }
}

/// A row of a table, as an index entry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key of the row.
    pub key: u64,
    /// The value of the row, by which the second index is sorted.
    pub value: u64,
    /// The place of the row.
    pub place: FatPtr,
}

impl Row {
    /// Returns the words of the row as `writer` writes it; all words determine the row.
    pub fn to_words(self, writer: u64) -> Vec<u64> {
        let mut words = vec![writer; self.place.size as usize / 8];
        words[..3].copy_from_slice(&[self.key, self.place.to_words()[1], self.value]);
        words
    }

    /// Returns the key of the second index if that is a B-tree.
    pub fn second_key(self) -> [u8; 8] {
        (self.value << 32 | self.key).to_be_bytes()
    }

    /// Returns the row's contribution to a counter's sum.
    pub fn sum(self) -> u64 {
        self.key.wrapping_mul(1_000_003).wrapping_add(self.value)
    }
}
