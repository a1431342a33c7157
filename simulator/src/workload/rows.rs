//! Steps over the B-tree, whose values point to rows, which are separate objects, as in tables.
//!
//! The entry of a key is not guarded by a lookup, but its row is: a transaction that removes the
//! key or replaces the row frees the row.

use std::ops::Bound;

use fencepost_btree::{BTree, Direction, Insert, ScanBatch};
use fencepost_txn::{AbortReason, Addr, FatPtr, ObjectLocation, Stop};

use super::step::{Halt, Step};
use crate::history::{Object, ReadVersion};

/// Returns a key of the B-tree as an object of the history.
pub const fn row(key: u64) -> Object {
    Object("key", key)
}

/// The words of rows: several sizes, so that blocks change their size class as rows are allocated
/// and freed.
const ROW_WORDS: [usize; 5] = [3, 3, 3, 15, 60];

/// Returns the content of a row: its key, part of its own place, and its writer repeated.
fn row_of(key: u64, place: FatPtr, writer: u64) -> Vec<u64> {
    let mut words = vec![writer; place.size as usize / 8];
    words[..2].copy_from_slice(&[key, place.to_words()[1]]);
    words
}

impl Step<'_> {
    fn tree(&self) -> Result<BTree, Halt> {
        self.world.tree.ok_or(Halt::Stop(Stop::Damaged))
    }

    /// Looks up and changes a few single keys.
    pub async fn rows(&mut self) -> Result<(), Halt> {
        for _ in 0..1 + self.below(3) {
            let key = self.below(self.plan.keys);
            let what = if self.writes() { self.below(10) } else { 0 };
            match what {
                0..2 => drop(self.get_row(key).await?),
                2..6 => self.insert_row(key).await?,
                6 => self.update_row(key).await?,
                7 => self.replace_row(key).await?,
                _ => self.remove_row(key).await?,
            }
            self.pause().await;
        }
        Ok(())
    }

    /// Looks up a key, and reads its row.
    async fn get_row(&mut self, key: u64) -> Result<Option<FatPtr>, Halt> {
        let found = self.tree()?.get(self.tx, &key.to_be_bytes()).await?;
        let Some(place) = found.map(FatPtr::from_words) else {
            self.saw(row(key), ReadVersion::Absent)?;
            return Ok(None);
        };
        self.read_row(key, place).await?;
        Ok(Some(place))
    }

    async fn read_row(&mut self, key: u64, place: FatPtr) -> Result<(), Halt> {
        let snapshot = self.tx.read_timestamp();
        let mut words = Vec::new();
        let there = self.tx.read(place.addr, &mut words).await?;
        words.truncate(place.size as usize / 8);
        if there && words[..2] == [key, place.to_words()[1]] {
            let writer = words[2];
            if words != row_of(key, place, writer) {
                return Err(format!("{} is torn: {words:?}", row(key)).into());
            }
            return self.saw(row(key), ReadVersion::By(writer));
        }
        // The entry was not guarded yet when the snapshot moved.
        if self.writes() && self.tx.read_timestamp() != snapshot {
            return Err(Halt::Stop(Stop::Retry(AbortReason::ReadConflict)));
        }
        let found = there.then_some(words);
        Err(format!("{} leads to {place:?}, where {found:?} is", row(key)).into())
    }

    async fn new_row(&mut self, key: u64) -> Result<FatPtr, Halt> {
        let words = ROW_WORDS[self.one_of(ROW_WORDS.len())];
        let near = match self.below(3) {
            0 => ObjectLocation::Object(self.tree()?.root()),
            _ => self.plan.place(self.random),
        };
        let place = self.tx.alloc(words, near).await?;
        self.tx.write_new(place, &row_of(key, place, self.id()))?;
        Ok(place)
    }

    async fn insert_row(&mut self, key: u64) -> Result<(), Halt> {
        let place = self.new_row(key).await?;
        let tree = self.tree()?;
        let bytes = key.to_be_bytes();
        match tree.insert(self.tx, &bytes, place.to_words()).await? {
            Insert::Done => self.wrote(row(key), true, Some(false)),
            Insert::Exists(there) => {
                self.tx.free(place.addr).await?;
                self.read_row(key, FatPtr::from_words(there)).await
            }
        }
    }

    async fn update_row(&mut self, key: u64) -> Result<(), Halt> {
        if let Some(place) = self.get_row(key).await? {
            let words = row_of(key, place, self.id());
            self.tx.write(place.addr, &words).await?;
            self.wrote(row(key), true, Some(true))?;
        }
        Ok(())
    }

    /// Replaces a row by another one.
    async fn replace_row(&mut self, key: u64) -> Result<(), Halt> {
        if let Some(place) = self.get_row(key).await? {
            let new = self.new_row(key).await?.to_words();
            self.tx.free(place.addr).await?;
            let done = self.tree()?.replace(self.tx, &key.to_be_bytes(), new).await;
            self.changed(key, done?, true)?;
        }
        Ok(())
    }

    async fn remove_row(&mut self, key: u64) -> Result<(), Halt> {
        if let Some(place) = self.get_row(key).await? {
            self.tx.free(place.addr).await?;
            let done = self.tree()?.remove(self.tx, &key.to_be_bytes()).await;
            self.changed(key, done?, false)?;
        }
        Ok(())
    }

    /// Records the change of an entry whose row is freed. If the entry was missing, the snapshot
    /// had moved, and freeing the row fails at commit.
    fn changed(&self, key: u64, done: bool, stays: bool) -> Result<(), Halt> {
        match done {
            true => self.wrote(row(key), stays, Some(true)),
            false => Err(Halt::Stop(Stop::Retry(AbortReason::ReadConflict))),
        }
    }

    /// Scans a range of keys, forwards or backwards, or only the first few of them.
    pub async fn range(&mut self) -> Result<(), Halt> {
        let low = self.below(self.plan.keys);
        let high = low + 1 + self.below(self.plan.keys - low);
        self.scan(low, high).await
    }

    /// Scans the keys from `low` to below `high`.
    pub async fn scan(&mut self, low: u64, high: u64) -> Result<(), Halt> {
        let direction = [Direction::Forward, Direction::Backward][self.one_of(2)];
        let (from, to) = (low.to_be_bytes(), high.to_be_bytes());
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let mut cursor = self.tree()?.scan(bounds.0, bounds.1, direction);
        let (mut batch, most) = (ScanBatch::new(), 1 + self.one_of(12));
        let mut next = match direction {
            Direction::Forward => low,
            Direction::Backward => high,
        };
        while cursor.next_batch(self.tx, &mut batch, most).await? {
            for (key, place) in batch.iter() {
                let key = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
                let passed = match direction {
                    Direction::Forward => next..key,
                    Direction::Backward => key + 1..next,
                };
                if !(low..high).contains(&key) || passed.start > passed.end {
                    return Err(format!("a scan of {low}..{high} went from {next} to {key}").into());
                }
                for absent in passed {
                    self.saw(row(absent), ReadVersion::Absent)?;
                }
                self.read_row(key, FatPtr::from_words(place)).await?;
                next = match direction {
                    Direction::Forward => key + 1,
                    Direction::Backward => key,
                };
            }
            self.pause().await;
        }
        let passed = match direction {
            Direction::Forward => next..high,
            Direction::Backward => low..next,
        };
        for absent in passed {
            self.saw(row(absent), ReadVersion::Absent)?;
        }
        Ok(())
    }

    /// Returns the addresses of a tree's rows.
    pub async fn rows_of(&mut self, tree: BTree) -> Result<Vec<Addr>, Halt> {
        let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let (mut batch, mut rows) = (ScanBatch::new(), Vec::new());
        while cursor.next_batch(self.tx, &mut batch, 64).await? {
            let places = batch.values().iter();
            rows.extend(places.map(|place| FatPtr::from_words(*place).addr));
        }
        Ok(rows)
    }
}
