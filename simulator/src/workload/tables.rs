//! Steps over the tables of the catalog: lookups, changes of rows, loads, and scans of a whole
//! table.
//!
//! A step takes the definition of its table from its machine's cache, and the guard into its read
//! set. A scan of a table compares the rows with the counters and with the second index, all in one
//! snapshot.

use std::ops::Bound;
use std::rc::Rc;

use fencepost_btree::{BTree, Direction, Insert, ScanBatch};
use fencepost_hashtable::HashBatch;
use fencepost_txn::fault::{self, Fault};
use fencepost_txn::{FatPtr, ObjectLocation};

use super::catalog::VALUES;
use super::step::{Halt, Step};
use crate::history::ReadVersion;
use crate::schema::{Definition, Row, SecondIndex, counter, table, table_row};

/// The words of rows: several sizes, so that blocks change their size class as rows are allocated
/// and freed.
const ROW_WORDS: [usize; 3] = [4, 4, 20];

impl Step<'_> {
    /// Returns the number of keys of a table's rows.
    pub fn keys(&self) -> Result<u64, Halt> {
        let tables = self.plan.tables;
        let keys = tables.map(|tables| tables.keys);
        keys.ok_or(Halt::Broken("there are no tables".into()))
    }

    /// Carries out a step over one table, or a change of its definition.
    pub async fn tables(&mut self) -> Result<(), Halt> {
        let Some(tables) = self.plan.tables else {
            return Ok(());
        };
        let name = self.below(tables.names);
        if self.writes() && self.below(100) < tables.ddl_percent {
            return self.ddl(name).await;
        }
        let Some(definition) = self.table_of(name).await? else {
            return Ok(());
        };
        self.pause().await;
        match (self.writes(), self.below(12)) {
            (false, 0..4) | (true, 0) => self.scan_table(&definition).await,
            (true, 1) => self.empty_table(&definition).await,
            (true, 2..4) if definition.first.is_bare(self.tx).await? => {
                self.load(&definition).await.map(|_| ())
            }
            _ => self.rows_of_table(&definition).await,
        }
    }

    /// Returns the definition of a table: from the cache if the guard has its version, otherwise
    /// from the catalog. A transaction that has changed the table reads its own definition: if its
    /// lock of the catalog was lost with a machine, another definition may have the same version.
    async fn table_of(&mut self, name: u64) -> Result<Option<Rc<Definition>>, Halt> {
        let (schema, machine) = (self.schema()?, self.tx.machine().number());
        let owns = self.attempt.borrow().owns(table(name));
        if let Some(cached) = schema.cached(machine, name).filter(|_| !owns)
            && (fault::injected(Fault::SkipTableGuard) || cached.hold(self.tx).await?)
        {
            self.saw(table(name), ReadVersion::By(cached.writer))?;
            return Ok(Some(cached));
        }
        let Some((definition, _)) = self.look_up(name).await? else {
            return Ok(None);
        };
        let snapshot = self.tx.read_timestamp();
        if !definition.hold(self.tx).await? {
            let what = format!("the guard of {} has another version", table(name));
            return Err(self.unfit(snapshot, what));
        }
        let definition = Rc::new(definition);
        if !self.attempt.borrow().owns(table(name)) {
            schema.cache(machine, &definition);
        }
        Ok(Some(definition))
    }

    /// Looks up and changes a few single rows.
    async fn rows_of_table(&mut self, definition: &Definition) -> Result<(), Halt> {
        for _ in 0..1 + self.below(3) {
            let key = self.below(self.keys()?);
            let change = if self.writes() { self.below(10) } else { 0 };
            match change {
                0..2 => drop(self.get_row_of(definition, key).await?),
                2..6 => self.insert_into(definition, key).await?,
                6..8 => self.update_in(definition, key).await?,
                _ => self.delete_from(definition, key).await?,
            }
            self.pause().await;
        }
        Ok(())
    }

    /// Looks up a key in the first index or in a hash table, and reads its row.
    async fn get_row_of(&mut self, definition: &Definition, key: u64) -> Result<Option<Row>, Halt> {
        let bytes = key.to_be_bytes();
        let found = match definition.second {
            SecondIndex::Hash(table) if self.below(2) == 0 => table.get(self.tx, &bytes).await?,
            _ => definition.first.get(self.tx, &bytes).await?,
        };
        let Some(place) = found.map(FatPtr::from_words) else {
            self.saw(table_row(definition.name, key), ReadVersion::Absent)?;
            return Ok(None);
        };
        self.read_row_of(definition, key, place).await.map(Some)
    }

    /// Reads the row of a key at its place.
    pub async fn read_row_of(
        &mut self,
        definition: &Definition,
        key: u64,
        place: FatPtr,
    ) -> Result<Row, Halt> {
        let object = table_row(definition.name, key);
        let (snapshot, mut words) = (self.tx.read_timestamp(), Vec::new());
        let there = self.tx.read(place.addr, &mut words).await?;
        words.truncate(place.size as usize / 8);
        if there && words.len() > 3 && words[..2] == [key, place.to_words()[1]] {
            let (value, writer) = (words[2], words[3]);
            let row = Row { key, value, place };
            if words != row.to_words(writer) {
                return Err(format!("{object} is torn: {words:?}").into());
            }
            self.saw(object, ReadVersion::By(writer))?;
            return Ok(row);
        }
        let found = there.then_some(words);
        let what = format!("{object} leads to {place:?}, where {found:?} is");
        Err(self.unfit(snapshot, what))
    }

    /// Allocates and writes a row.
    pub async fn new_row_of(&mut self, definition: &Definition, key: u64) -> Result<Row, Halt> {
        let words = ROW_WORDS[self.one_of(ROW_WORDS.len())];
        let near = match self.below(3) {
            0 => ObjectLocation::Object(definition.first.root()),
            _ => self.plan.place(self.random),
        };
        let place = self.tx.alloc(words, near).await?;
        let value = self.below(VALUES);
        let row = Row { key, value, place };
        self.tx.write_new(place, &row.to_words(self.id()))?;
        Ok(row)
    }

    async fn insert_into(&mut self, definition: &Definition, key: u64) -> Result<(), Halt> {
        let row = self.new_row_of(definition, key).await?;
        let (bytes, place) = (key.to_be_bytes(), row.place.to_words());
        match definition.first.insert(self.tx, &bytes, place).await? {
            Insert::Done => {
                self.wrote(table_row(definition.name, key), true, Some(false))?;
                self.insert_second(definition, row).await?;
                self.count(definition, 1, row.sum()).await
            }
            Insert::Exists(there) => {
                self.tx.free(row.place.addr).await?;
                let there = FatPtr::from_words(there);
                self.read_row_of(definition, key, there).await.map(|_| ())
            }
        }
    }

    /// Changes the value of a row.
    async fn update_in(&mut self, definition: &Definition, key: u64) -> Result<(), Halt> {
        let Some(row) = self.get_row_of(definition, key).await? else {
            return Ok(());
        };
        let new = Row {
            value: self.below(VALUES),
            ..row
        };
        let words = new.to_words(self.id());
        self.tx.write(row.place.addr, &words).await?;
        self.wrote(table_row(definition.name, key), true, Some(true))?;
        if matches!(definition.second, SecondIndex::Tree(_)) && new.value != row.value {
            self.remove_second(definition, row).await?;
            self.insert_second(definition, new).await?;
        }
        let sum = new.sum().wrapping_sub(row.sum());
        self.count(definition, 0, sum).await
    }

    async fn delete_from(&mut self, definition: &Definition, key: u64) -> Result<(), Halt> {
        match self.get_row_of(definition, key).await? {
            Some(row) => self.delete_row(definition, row).await,
            None => Ok(()),
        }
    }

    async fn delete_row(&mut self, definition: &Definition, row: Row) -> Result<(), Halt> {
        let snapshot = self.tx.read_timestamp();
        self.tx.free(row.place.addr).await?;
        let key = row.key.to_be_bytes();
        if !definition.first.remove(self.tx, &key).await? {
            return Err(self.unfit(snapshot, format!("{row:?} has lost its entry")));
        }
        self.wrote(table_row(definition.name, row.key), false, Some(true))?;
        self.remove_second(definition, row).await?;
        self.count(definition, u64::MAX, row.sum().wrapping_neg())
            .await
    }

    /// Removes a row from the second index of a table.
    async fn remove_second(&mut self, definition: &Definition, row: Row) -> Result<(), Halt> {
        let snapshot = self.tx.read_timestamp();
        let done = match definition.second {
            SecondIndex::Absent => true,
            SecondIndex::Tree(tree) => tree.remove(self.tx, &row.second_key()).await?,
            SecondIndex::Hash(table) => table.remove(self.tx, &row.key.to_be_bytes()).await?,
        };
        match done {
            true => Ok(()),
            false => Err(self.unfit(snapshot, format!("{row:?} is not in the second index"))),
        }
    }

    /// Adds to one of the counters of a table.
    pub async fn count(
        &mut self,
        definition: &Definition,
        rows: u64,
        sum: u64,
    ) -> Result<(), Halt> {
        let at = self.one_of(definition.counters.len());
        let (object, addr) = (counter(definition.name, at), definition.counters[at]);
        let words = self.words(object, addr).await?;
        self.saw(object, ReadVersion::By(words[2]))?;
        let (rows, sum) = (words[0].wrapping_add(rows), words[1].wrapping_add(sum));
        self.tx.write(addr, &[rows, sum, self.id()]).await?;
        self.wrote(object, true, Some(true))
    }

    /// Runs DELETE without a condition: deletes every row, one after the other.
    async fn empty_table(&mut self, definition: &Definition) -> Result<(), Halt> {
        for (key, place) in self.entries(definition.name, definition.first).await? {
            let row = self.read_row_of(definition, key, place).await?;
            self.delete_row(definition, row).await?;
        }
        Ok(())
    }

    /// Returns all entries of a table's first index. Records keys without an entry as absent.
    pub async fn entries(&mut self, name: u64, first: BTree) -> Result<Vec<(u64, FatPtr)>, Halt> {
        let keys = self.keys()?;
        let mut cursor = first.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let (mut batch, most) = (ScanBatch::new(), 1 + self.one_of(40));
        let (mut found, mut next) = (Vec::new(), 0);
        while cursor.next_batch(self.tx, &mut batch, most).await? {
            for (key, place) in batch.iter() {
                let key = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
                if !(next..keys).contains(&key) {
                    return Err(format!("a scan of {} met {key} at {next}", table(name)).into());
                }
                for absent in next..key {
                    self.saw(table_row(name, absent), ReadVersion::Absent)?;
                }
                found.push((key, FatPtr::from_words(place)));
                next = key + 1;
            }
            self.pause().await;
        }
        for absent in next..keys {
            self.saw(table_row(name, absent), ReadVersion::Absent)?;
        }
        Ok(found)
    }

    /// Reads a whole table: its rows, its counters and its second index must agree.
    pub async fn scan_table(&mut self, definition: &Definition) -> Result<(), Halt> {
        let (mut rows, mut sum) = (Vec::new(), 0u64);
        for (key, place) in self.entries(definition.name, definition.first).await? {
            let row = self.read_row_of(definition, key, place).await?;
            sum = sum.wrapping_add(row.sum());
            rows.push(row);
        }
        let mut counted = [0u64; 2];
        for (at, addr) in definition.counters.iter().enumerate() {
            let object = counter(definition.name, at);
            let words = self.words(object, *addr).await?;
            self.saw(object, ReadVersion::By(words[2]))?;
            counted = [0, 1].map(|i| counted[i].wrapping_add(words[i]));
        }
        let has = [rows.len() as u64, sum];
        if has != counted {
            let name = table(definition.name);
            return Err(format!("{name} has {has:?} and its counters say {counted:?}").into());
        }
        self.compare_second(definition, &rows).await
    }

    /// Compares the second index of a table with the rows of the first.
    async fn compare_second(&mut self, definition: &Definition, rows: &[Row]) -> Result<(), Halt> {
        let mut found = Vec::new();
        let expected: Vec<_> = match definition.second {
            SecondIndex::Absent => return Ok(()),
            SecondIndex::Tree(tree) => {
                let direction = [Direction::Forward, Direction::Backward][self.one_of(2)];
                let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, direction);
                let (mut batch, most) = (ScanBatch::new(), 1 + self.one_of(40));
                while cursor.next_batch(self.tx, &mut batch, most).await? {
                    found.extend(batch.iter().map(|(key, place)| (key.to_vec(), place)));
                    self.pause().await;
                }
                let key = |row: &Row| (row.second_key().to_vec(), row.place.to_words());
                rows.iter().map(key).collect()
            }
            SecondIndex::Hash(table) => {
                let (mut cursor, mut batch) = (table.scan(), HashBatch::new());
                let enough = 1 + self.one_of(40);
                while cursor.next_batch(self.tx, &mut batch, enough).await? {
                    let entry =
                        |(key, place): (&[u8], &[u64])| (key.to_vec(), [place[0], place[1]]);
                    found.extend(batch.iter().map(entry));
                    self.pause().await;
                }
                let key = |row: &Row| (row.key.to_be_bytes().to_vec(), row.place.to_words());
                rows.iter().map(key).collect()
            }
        };
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        if found == expected {
            return Ok(());
        }
        let (name, second) = (table(definition.name), definition.second);
        Err(
            format!("the indexes of {name} differ: {second:?} has {found:?}, not {expected:?}")
                .into(),
        )
    }
}
