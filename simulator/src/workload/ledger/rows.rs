//! The rows of the ledger: how a transaction finds, locks, rereads and writes them.

use std::ops::{Bound, Range};

use fencepost_btree::{BTree, Direction, Insert, ScanBatch};
use fencepost_txn::fault::{self, Fault};
use fencepost_txn::{
    AbortReason, FatPtr, Isolation, ObjectLocation, Stop, Strength, Timestamp, Transaction,
};

use super::ReadPoint;
use crate::workload::step::{Halt, Step};

/// The words of rows. A full row moves to the next size.
const ROW_WORDS: [usize; 4] = [8, 16, 40, 120];
/// The words of a row before its elements: the key, a part of its place, the number of elements.
const HEAD_WORDS: usize = 3;
/// The largest number of moves of one row that a statement follows.
const MOVES_MAX: u32 = 64;

/// A row as a statement knows it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The key of the row.
    pub key: u64,
    /// The place of the row.
    pub place: FatPtr,
    /// The elements of the row.
    pub elements: Vec<u64>,
}

/// The outcome of locking a row that was found.
pub enum RowLock {
    /// The row is as it was found.
    Same,
    /// The row has changed to this one.
    Changed(Row),
    /// The row no longer exists.
    Out,
}

/// The state of a locked row, compared with the snapshot in which it was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockedRowState {
    Same,
    Changed,
    Freed,
}

impl Row {
    /// Returns whether a place of `words` words is large enough for the row.
    fn fits(&self, words: usize) -> bool {
        HEAD_WORDS + self.elements.len() <= words
    }

    fn to_words(&self) -> Vec<u64> {
        let mut words = vec![
            self.key,
            self.place.to_words()[1],
            self.elements.len() as u64,
        ];
        words.extend(&self.elements);
        words.resize(words_of(self.place), 0);
        words
    }
}

fn words_of(place: FatPtr) -> usize {
    place.size as usize / 8
}

/// Reads the row under a key at a place; `None` if the place has another object, or none.
async fn read_row(tx: &mut Transaction, key: u64, place: FatPtr) -> Result<Option<Row>, Halt> {
    let mut words = Vec::new();
    let there = tx.read(place.addr, &mut words).await?;
    if !there || words.get(..2) != Some(&[key, place.to_words()[1]]) {
        return Ok(None);
    }
    let count = words[2] as usize;
    let Some(elements) = words.get(HEAD_WORDS..HEAD_WORDS + count) else {
        return Err(format!("ledger {key} has {count} elements in {words:?}").into());
    };
    Ok(Some(Row {
        key,
        place,
        elements: elements.to_vec(),
    }))
}

impl Step<'_> {
    fn ledger(&self) -> Result<BTree, Halt> {
        self.world.ledger.ok_or(Halt::Stop(Stop::Damaged))
    }

    /// Finds the rows of a range of keys in the snapshot, and records all lists of the range.
    pub async fn find(&mut self, keys: Range<u64>) -> Result<Vec<Row>, Halt> {
        let (from, to) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let tree = self.ledger()?;
        let mut cursor = tree.scan(bounds.0, bounds.1, Direction::Forward);
        let (mut batch, most) = (ScanBatch::new(), 1 + self.one_of(6));
        let (mut rows, mut next) = (Vec::new(), keys.start);
        loop {
            let snapshot = self.tx.read_timestamp();
            let mut seen = self.tx.seen_at(None);
            let more = cursor.next_batch(&mut seen, &mut batch, most).await?;
            drop(seen);
            let moved = self.has_moved(snapshot);
            if moved {
                self.split_statement();
            }
            if !more {
                // Leaves without a key of the range may be of either snapshot.
                let absent = if moved { keys.end } else { next };
                for absent in absent..keys.end {
                    self.note(absent, &[], ReadPoint::Snapshot)?;
                }
                return Ok(rows);
            }
            for (key, place) in batch.iter() {
                let key = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
                if !(next..keys.end).contains(&key) {
                    return Err(format!("a scan of {keys:?} went from {next} to {key}").into());
                }
                let absent = if moved { key } else { next };
                for absent in absent..key {
                    self.note(absent, &[], ReadPoint::Snapshot)?;
                }
                next = key + 1;
                let row = self.read_found(key, FatPtr::from_words(place)).await?;
                self.note(key, &row.elements, ReadPoint::Snapshot)?;
                rows.push(row);
            }
            self.pause().await;
        }
    }

    /// Returns whether a READ COMMITTED statement has moved its snapshot because patches of its
    /// transaction had to be re-routed.
    fn has_moved(&self, snapshot: Timestamp) -> bool {
        let may_move = self.tx.isolation() == Isolation::ReadCommitted && self.tx.has_patches();
        may_move && self.tx.read_timestamp() != snapshot
    }

    /// Reads the row of an index entry in the snapshot.
    async fn read_found(&mut self, key: u64, place: FatPtr) -> Result<Row, Halt> {
        let snapshot = self.tx.read_timestamp();
        if let Some(row) = read_row(&mut self.tx.seen_at(None), key, place).await? {
            return Ok(row);
        }
        // The entry was not guarded yet when the snapshot moved.
        if self.tx.isolation() == Isolation::Serializable && self.tx.read_timestamp() != snapshot {
            return Err(Halt::Stop(Stop::Retry(AbortReason::ReadConflict)));
        }
        Err(format!("ledger {key} leads to {place:?}, where no row is").into())
    }

    /// Compares the newest version of a locked row with the snapshot that the row was found in.
    async fn standing(&mut self, place: FatPtr) -> Result<LockedRowState, Halt> {
        let repeatable = self.tx.isolation() == Isolation::RepeatableRead;
        let snapshot = match self.tx.isolation() {
            Isolation::Serializable => return Ok(LockedRowState::Same),
            Isolation::RepeatableRead => self.tx.read_timestamp(),
            Isolation::ReadCommitted => self.tx.statement_timestamp(),
        };
        let seen = self.tx.newest().view(place.addr, None, |_| ()).await?;
        Ok(match seen {
            None => LockedRowState::Freed,
            Some(((), seen)) if seen.is_own() || seen.timestamp() <= snapshot => {
                LockedRowState::Same
            }
            Some(_) if fault::injected(Fault::OverwriteNewer) && repeatable => LockedRowState::Same,
            Some(((), seen)) => {
                // A failure of the machine that holds the lock would lose the lock.
                self.tx.guard(seen);
                LockedRowState::Changed
            }
        })
    }

    /// Returns the newest commit time of a version that can decide about rows that are as they were
    /// found.
    pub fn decided_by(&self) -> Timestamp {
        match self.tx.isolation() {
            Isolation::ReadCommitted => self.tx.statement_timestamp(),
            Isolation::RepeatableRead | Isolation::Serializable => Timestamp::MAX,
        }
    }

    /// Locks a row that was found. At READ COMMITTED a row that has changed since is read again.
    pub async fn lock_anew(&mut self, found: &Row, strength: Strength) -> Result<RowLock, Halt> {
        self.tx.intend(found.place.addr, strength).await?;
        match self.standing(found.place).await? {
            LockedRowState::Same => Ok(RowLock::Same),
            _ if self.tx.isolation() == Isolation::RepeatableRead => {
                Err(Halt::Stop(Stop::Retry(AbortReason::WriteConflict)))
            }
            LockedRowState::Changed if fault::injected(Fault::WriteRowAsFound) => {
                Ok(RowLock::Changed(found.clone()))
            }
            standing => self.read_anew(found, standing, strength).await,
        }
    }

    async fn read_anew(
        &mut self,
        found: &Row,
        mut standing: LockedRowState,
        strength: Strength,
    ) -> Result<RowLock, Halt> {
        let (key, tree) = (found.key, self.ledger()?);
        let mut place = found.place;
        for _ in 0..MOVES_MAX {
            if standing != LockedRowState::Freed
                && let Some(row) = read_row(&mut self.tx.newest(), key, place).await?
            {
                return Ok(RowLock::Changed(row));
            }
            let entry = tree.get(&mut self.tx.newest(), &key.to_be_bytes()).await?;
            let Some(entry) = entry else {
                return Ok(RowLock::Out);
            };
            place = FatPtr::from_words(entry);
            self.tx.intend(place.addr, strength).await?;
            standing = self.standing(place).await?;
        }
        Err(Halt::Stop(Stop::Retry(AbortReason::WriteConflict)))
    }

    /// Makes the commit validate that no other transaction has written a locked row. A failure of
    /// the machine that holds the lock loses the lock.
    pub async fn guard_row(&mut self, row: &Row) -> Result<(), Halt> {
        if self.tx.isolation() == Isolation::Serializable {
            return Ok(());
        }
        let seen = self.tx.newest().view(row.place.addr, None, |_| ()).await?;
        if let Some(((), seen)) = seen {
            self.tx.guard(seen);
        }
        Ok(())
    }

    /// Appends to a locked row, which moves if it is full. A row of the largest size is left
    /// unchanged. A version that was committed at or before `latest` has decided about the row.
    pub async fn append(&mut self, mut row: Row, latest: Timestamp) -> Result<(), Halt> {
        let before = row.elements.clone();
        row.elements.push(self.next_element());
        let longest = ROW_WORDS[ROW_WORDS.len() - 1];
        if !row.fits(longest) {
            return Ok(());
        }
        self.note_locked(row.key, &before)?;
        self.tx.decide_by(row.place.addr, latest);
        if row.fits(words_of(row.place)) {
            self.tx.write(row.place.addr, &row.to_words()).await?;
        } else {
            self.move_row(&mut row).await?;
        }
        self.appended(&row);
        Ok(())
    }

    /// Records the last element of a row as appended.
    fn appended(&self, row: &Row) {
        if let Some(element) = row.elements.last() {
            let entry = (super::ledger(row.key), *element);
            self.execution(|execution| execution.appended.push(entry));
        }
    }

    /// Writes a row to a larger place.
    async fn move_row(&mut self, row: &mut Row) -> Result<(), Halt> {
        let old = row.place;
        let words = ROW_WORDS.into_iter().find(|words| row.fits(*words));
        let words = words.unwrap_or(ROW_WORDS[ROW_WORDS.len() - 1]);
        row.place = self.alloc_row(words).await?;
        self.tx.write_new(row.place, &row.to_words())?;
        self.tx.free(old.addr).await?;
        let (tree, key, value) = (self.ledger()?, row.key.to_be_bytes(), row.place.to_words());
        if tree.replace(self.tx, &key, value).await? {
            Ok(())
        } else {
            Err(Halt::Stop(Stop::Retry(AbortReason::ReadConflict)))
        }
    }

    async fn alloc_row(&mut self, words: usize) -> Result<FatPtr, Halt> {
        let near = match self.below(3) {
            0 => ObjectLocation::Object(self.ledger()?.root()),
            _ => self.plan.place(self.random),
        };
        Ok(self.tx.alloc(words, near).await?)
    }

    /// Inserts a row with one element. If the key exists, returns the present row.
    pub async fn insert(&mut self, key: u64) -> Result<Option<Row>, Halt> {
        let element = self.next_element();
        let place = self.alloc_row(ROW_WORDS[0]).await?;
        let row = Row {
            key,
            place,
            elements: vec![element],
        };
        self.tx.write_new(place, &row.to_words())?;
        let tree = self.ledger()?;
        let value = place.to_words();
        match tree.insert(self.tx, &key.to_be_bytes(), value).await? {
            Insert::Done => {
                self.appended(&row);
                Ok(None)
            }
            Insert::Exists(_) if self.tx.isolation() != Isolation::ReadCommitted => {
                Err(Halt::Stop(Stop::Retry(AbortReason::WriteConflict)))
            }
            Insert::Exists(there) => {
                self.tx.free(place.addr).await?;
                let there = FatPtr::from_words(there);
                self.tx.intend(there.addr, Strength::Update).await?;
                let row = read_row(&mut self.tx.newest(), key, there).await?;
                let row = row.ok_or(Stop::Retry(AbortReason::WriteConflict))?;
                self.tx.refresh().await?;
                Ok(Some(row))
            }
        }
    }
}
