//! DDL steps: tables are created, dropped and truncated, loaded in bulk, and their indexes are
//! built and dropped.
//!
//! Every DDL transaction queues for the lock of the catalog's heart and writes it. A change of a
//! table writes the table's definition in the catalog and all its guards, so that no transaction
//! with the old definition commits.

use fencepost_btree::{BTree, Bulk, Insert};
use fencepost_hashtable::{HashTable, Insert as HashInsert};
use fencepost_txn::fault::{self, Fault};
use fencepost_txn::{AbortReason, FatPtr, MachineId, ObjectLocation, Stop, Strength};

use super::step::{Halt, Step};
use crate::history::ReadVersion;
use crate::schema::{
    CATALOG, COUNTER_WORDS, COUNTERS, Definition, Row, Schema, SecondIndex, counter, hash_options,
    table, table_row, tree_options,
};

/// The number of different initial values of rows.
pub const VALUES: u64 = 8;

impl<'a> Step<'a> {
    /// Returns the catalog.
    pub fn schema(&self) -> Result<&'a Schema, Halt> {
        let schema = self.world.schema.as_ref();
        schema.ok_or(Halt::Broken("there is no catalog".into()))
    }
}

impl Step<'_> {
    /// Returns the error of a transaction that found two objects that contradict each other: a
    /// conflict if its snapshot has moved from `snapshot` between the two reads, otherwise a fault.
    pub fn unfit(&self, snapshot: fencepost_txn::Timestamp, what: String) -> Halt {
        match self.writes() && self.tx.read_timestamp() != snapshot {
            true => Halt::Stop(Stop::Retry(AbortReason::ReadConflict)),
            false => Halt::Broken(what),
        }
    }

    /// Reads the definition of a table in the catalog; returns it with the place of the catalog's
    /// row.
    pub async fn look_up(&mut self, name: u64) -> Result<Option<(Definition, FatPtr)>, Halt> {
        let names = self.schema()?.names;
        let found = names.get(self.tx, &name.to_be_bytes()).await?;
        let Some(place) = found.map(FatPtr::from_words) else {
            self.saw(table(name), ReadVersion::Absent)?;
            return Ok(None);
        };
        let (snapshot, mut words) = (self.tx.read_timestamp(), Vec::new());
        let there = self.tx.read(place.addr, &mut words).await?;
        let definition = Definition::from_words(&words);
        let definition = definition.filter(|found| there && found.name == name);
        let Some(definition) = definition else {
            let what = format!("{} leads to {place:?}, where {words:?} is", table(name));
            return Err(self.unfit(snapshot, what));
        };
        self.saw(table(name), ReadVersion::By(definition.writer))?;
        Ok(Some((definition, place)))
    }

    /// Queues for the right to change the catalog, and assigns the catalog's next version.
    async fn begin_change(&mut self) -> Result<u64, Halt> {
        let heart = self.schema()?.heart;
        self.tx.intend(heart, Strength::Update).await?;
        let words = self.words(CATALOG, heart).await?;
        self.saw(CATALOG, ReadVersion::By(words[1]))?;
        let version = words[0] + 1;
        self.tx.write(heart, &[version, self.id()]).await?;
        self.wrote(CATALOG, true, None)?;
        Ok(version)
    }

    /// Changes or creates a table.
    pub async fn ddl(&mut self, name: u64) -> Result<(), Halt> {
        let version = self.begin_change().await?;
        let Some((before, place)) = self.look_up(name).await? else {
            return self.create_table(name, version).await;
        };
        let mut definition = Definition {
            version,
            writer: self.id(),
            ..before
        };
        self.pause().await;
        let change = self.below(10);
        match change {
            0 => return self.drop_table(definition, place).await,
            1..3 => self.truncate(&mut definition).await?,
            3..6 => {
                self.truncate(&mut definition).await?;
                self.pause().await;
                self.load(&definition).await?;
            }
            6 => self.rebuild_first(&mut definition).await?,
            _ => match definition.second {
                SecondIndex::Absent => self.build_index(&mut definition).await?,
                _ => self.drop_index(&mut definition).await?,
            },
        }
        self.put(&definition, place).await?;
        let truncates = (1..6).contains(&change);
        if !(truncates && fault::injected(Fault::TruncateWithoutGuards)) {
            for guard in &definition.guards {
                self.tx.write(*guard, &definition.guard_words()).await?;
            }
        }
        Ok(())
    }

    /// Writes a definition into the catalog, over the previous one or in a new row.
    async fn put(&mut self, definition: &Definition, place: FatPtr) -> Result<(), Halt> {
        let (name, words) = (definition.name, definition.to_words());
        if self.below(2) == 0 {
            self.tx.write(place.addr, &words).await?;
        } else {
            let row = self.new_definition(&words).await?;
            self.tx.free(place.addr).await?;
            let (names, snapshot) = (self.schema()?.names, self.tx.read_timestamp());
            let (key, row) = (name.to_be_bytes(), row.to_words());
            if !names.replace(self.tx, &key, row).await? {
                return Err(self.unfit(snapshot, format!("{} has lost its name", table(name))));
            }
        }
        self.wrote(table(name), true, Some(true))
    }

    async fn new_definition(&mut self, words: &[u64]) -> Result<FatPtr, Halt> {
        let near = self.plan.place(self.random);
        let row = self.tx.alloc(words.len(), near).await?;
        self.tx.write_new(row, words)?;
        Ok(row)
    }

    async fn create_table(&mut self, name: u64, version: u64) -> Result<(), Halt> {
        let (mut counters, mut guards) = (Vec::new(), Vec::new());
        for at in 0..COUNTERS {
            let near = self.plan.place(self.random);
            let made = self.tx.alloc(COUNTER_WORDS, near).await?;
            self.tx.write_new(made, &[0, 0, self.id()])?;
            self.wrote(counter(name, at), true, Some(false))?;
            counters.push(made.addr);
        }
        let members = self.tx.machine().members().machines;
        for member in members {
            let near = ObjectLocation::Machine(MachineId(member.id));
            guards.push(self.tx.alloc(2, near).await?);
        }
        let options = tree_options(self.plan, self.random);
        let definition = Definition {
            name,
            version,
            writer: self.id(),
            first: BTree::create_with(self.tx, options).await?,
            second: match self.below(2) {
                0 => SecondIndex::Absent,
                _ => self.new_second().await?,
            },
            counters,
            guards: guards.iter().map(|guard| guard.addr).collect(),
        };
        for guard in guards {
            self.tx.write_new(guard, &definition.guard_words())?;
        }
        let row = self.new_definition(&definition.to_words()).await?;
        let (names, snapshot) = (self.schema()?.names, self.tx.read_timestamp());
        let key = name.to_be_bytes();
        if names.insert(self.tx, &key, row.to_words()).await? != Insert::Done {
            return Err(self.unfit(snapshot, format!("{} is there already", table(name))));
        }
        self.wrote(table(name), true, Some(false))?;
        match self.below(3) {
            0 => self.load(&definition).await.map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Creates a second index, of either kind.
    async fn new_second(&mut self) -> Result<SecondIndex, Halt> {
        if self.below(3) == 0 {
            let options = hash_options(self.plan, self.random);
            let made = HashTable::create_with(self.tx, &options).await?;
            return Ok(SecondIndex::Hash(made));
        }
        let options = tree_options(self.plan, self.random);
        let made = BTree::create_with(self.tx, options).await?;
        Ok(SecondIndex::Tree(made))
    }

    async fn drop_second(&mut self, second: SecondIndex) -> Result<(), Halt> {
        match second {
            SecondIndex::Absent => Ok(()),
            SecondIndex::Tree(tree) => Ok(tree.drop_tree(self.tx).await?),
            SecondIndex::Hash(table) => Ok(table.drop_table(self.tx).await?),
        }
    }

    /// Frees all rows of a table, whose indexes are dropped as well.
    async fn free_rows(&mut self, definition: &Definition) -> Result<(), Halt> {
        let (name, first) = (definition.name, definition.first);
        for (key, place) in self.entries(name, first).await? {
            let found = self.tx.free_seen(place.addr, |view| view.word(0)).await?;
            if found != key {
                return Err(format!("{} has the key {found}", table_row(name, key)).into());
            }
            self.wrote(table_row(name, key), false, Some(true))?;
        }
        Ok(())
    }

    async fn drop_table(&mut self, definition: Definition, place: FatPtr) -> Result<(), Halt> {
        self.free_rows(&definition).await?;
        definition.first.drop_tree(self.tx).await?;
        self.drop_second(definition.second).await?;
        let name = definition.name;
        for (at, addr) in definition.counters.iter().enumerate() {
            self.tx.free(*addr).await?;
            self.wrote(counter(name, at), false, Some(true))?;
        }
        for guard in &definition.guards {
            self.tx.free(*guard).await?;
        }
        self.tx.free(place.addr).await?;
        let (names, snapshot) = (self.schema()?.names, self.tx.read_timestamp());
        if !names.remove(self.tx, &name.to_be_bytes()).await? {
            return Err(self.unfit(snapshot, format!("{} has lost its name", table(name))));
        }
        self.wrote(table(name), false, Some(true))
    }

    /// Runs TRUNCATE: frees the rows, and replaces the indexes by new, empty ones.
    async fn truncate(&mut self, definition: &mut Definition) -> Result<(), Halt> {
        self.free_rows(definition).await?;
        definition.first.drop_tree(self.tx).await?;
        let options = tree_options(self.plan, self.random);
        definition.first = BTree::create_with(self.tx, options).await?;
        let second = definition.second;
        self.drop_second(second).await?;
        definition.second = match second {
            SecondIndex::Absent => SecondIndex::Absent,
            _ => self.new_second().await?,
        };
        for (at, addr) in definition.counters.iter().enumerate() {
            self.tx.write(*addr, &[0, 0, self.id()]).await?;
            self.wrote(counter(definition.name, at), true, Some(true))?;
        }
        Ok(())
    }

    /// Fills an empty table from sorted rows. Its indexes may be new ones of this transaction or
    /// older. Returns false and does nothing if the first index was changed after the snapshot.
    pub async fn load(&mut self, definition: &Definition) -> Result<bool, Halt> {
        let Some(mut bulk) = Bulk::into(self.tx, definition.first).await? else {
            return Ok(false);
        };
        let (name, every) = (definition.name, 1 + self.below(3));
        let (mut rows, mut sum) = (Vec::new(), 0u64);
        for key in (0..self.keys()?).filter(|key| key % every == 0) {
            let row = self.new_row_of(definition, key).await?;
            let place = row.place.to_words();
            if !bulk.push(self.tx, &key.to_be_bytes(), place).await? {
                return Err(format!("{} is not above the one before", table_row(name, key)).into());
            }
            self.wrote(table_row(name, key), true, Some(false))?;
            sum = sum.wrapping_add(row.sum());
            rows.push(row);
        }
        self.pause().await;
        bulk.finish(self.tx).await?;
        self.index_rows(definition, &rows).await?;
        self.count(definition, rows.len() as u64, sum).await?;
        Ok(true)
    }

    /// Adds rows to the second index of a table, all at once if it is an empty B-tree.
    async fn index_rows(&mut self, definition: &Definition, rows: &[Row]) -> Result<(), Halt> {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.second_key());
        if let SecondIndex::Tree(tree) = definition.second
            && let Some(mut bulk) = Bulk::into(self.tx, tree).await?
        {
            for row in rows {
                let (key, place) = (row.second_key(), row.place.to_words());
                if !bulk.push(self.tx, &key, place).await? {
                    return Err(format!("{row:?} is not above the one before").into());
                }
            }
            bulk.finish(self.tx).await?;
            return Ok(());
        }
        for row in rows {
            self.insert_second(definition, row).await?;
        }
        Ok(())
    }

    /// Adds a row to the second index of a table.
    pub async fn insert_second(&mut self, definition: &Definition, row: Row) -> Result<(), Halt> {
        let (snapshot, place) = (self.tx.read_timestamp(), row.place.to_words());
        let done = match definition.second {
            SecondIndex::Absent => true,
            SecondIndex::Tree(tree) => {
                tree.insert(self.tx, &row.second_key(), place).await? == Insert::Done
            }
            SecondIndex::Hash(table) => {
                let key = row.key.to_be_bytes();
                table.insert(self.tx, &key, &place).await? == HashInsert::Done
            }
        };
        match done {
            true => Ok(()),
            false => Err(self.unfit(snapshot, format!("{row:?} is in the second index already"))),
        }
    }

    /// Builds a second index from the rows of the table.
    async fn build_index(&mut self, definition: &mut Definition) -> Result<(), Halt> {
        let mut rows = Vec::new();
        let entries = self.entries(definition.name, definition.first).await?;
        self.pause().await;
        for (key, place) in entries {
            if fault::injected(Fault::MissLockedRows) {
                let machine = self.tx.machine();
                let is_locked = machine.glimpse(place.addr, |_| ()).is_none();
                if is_locked && !machine.is_far(place.addr) {
                    continue;
                }
            }
            rows.push(self.read_row_of(definition, key, place).await?);
        }
        definition.second = self.new_second().await?;
        self.index_rows(definition, &rows).await
    }

    async fn drop_index(&mut self, definition: &mut Definition) -> Result<(), Halt> {
        let second = std::mem::replace(&mut definition.second, SecondIndex::Absent);
        self.drop_second(second).await
    }

    /// Rebuilds the first index, as ADD PRIMARY KEY does, and drops the previous one.
    async fn rebuild_first(&mut self, definition: &mut Definition) -> Result<(), Halt> {
        let before = definition.first;
        let entries = self.entries(definition.name, before).await?;
        let options = tree_options(self.plan, self.random);
        definition.first = BTree::create_with(self.tx, options).await?;
        let Some(mut bulk) = Bulk::into(self.tx, definition.first).await? else {
            return Err(Halt::Broken("a new tree is not empty".into()));
        };
        for (key, place) in entries {
            let (bytes, place) = (key.to_be_bytes(), place.to_words());
            if !bulk.push(self.tx, &bytes, place).await? {
                return Err(format!("a scan met the key {key} twice").into());
            }
        }
        bulk.finish(self.tx).await?;
        self.pause().await;
        Ok(before.drop_tree(self.tx).await?)
    }
}
