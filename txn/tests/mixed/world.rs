//! A machine with a set and some cells, and random transactions on them.

use std::sync::Arc;

use fencepost_txn::{
    Addr, FatPtr, LockFree, Machine, Mode, ObjectLocation, Outcome, Stop, Transaction,
};
use pollster::block_on;

use crate::model::{Step, TransactionRecord};
use crate::set::Set;

/// Number of cells; a cell has the fat pointer of an object, or none.
pub const CELLS: usize = 12;
/// Words of the root before the cells: the set, then the last commit of each thread.
const SET: usize = 0;
const THREADS: usize = 1;
/// Most threads that the root has words for.
pub const MAX_THREADS: usize = 8;

/// The addresses of all objects. Every cell is an object of its own, so that cells do not conflict
/// with one another.
#[derive(Clone)]
pub struct World {
    pub machine: Arc<Machine>,
    pub set: Set,
    cells: Vec<Addr>,
    threads: Vec<Addr>,
}

/// The random number generator of a thread.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

impl World {
    pub fn new(machine: Arc<Machine>) -> World {
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let set = Set::create(&mut tx).expect("memory");
        let mut root = vec![set.first().raw()];
        for _ in 0..MAX_THREADS + CELLS {
            root.push(
                block_on(tx.alloc(2, ObjectLocation::Own))
                    .expect("memory")
                    .addr
                    .raw(),
            );
        }
        block_on(tx.write(machine.root(), &root)).expect("the root is free");
        assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
        World::open(machine)
    }

    pub fn open(machine: Arc<Machine>) -> World {
        let mut root = Vec::new();
        let mut tx = machine.coordinator().begin(Mode::ReadOnly);
        assert_eq!(block_on(tx.read(machine.root(), &mut root)), Ok(true));
        drop(tx);
        let at = |i: usize| Addr::from_raw(root[i]);
        World {
            set: Set::at(at(SET)),
            threads: (0..MAX_THREADS).map(|i| at(THREADS + i)).collect(),
            cells: (0..CELLS).map(|i| at(THREADS + MAX_THREADS + i)).collect(),
            machine,
        }
    }

    /// Returns the number of the last transaction of a thread that took effect, and its timestamp.
    pub fn thread(&self, thread: usize) -> (u64, fencepost_txn::Timestamp) {
        let mut tx = self.machine.coordinator().begin(Mode::ReadOnly);
        let found = block_on(tx.view(self.threads[thread], None, |view| view.word(0)));
        let (number, seen) = found.expect("readable").expect("always there");
        (number, seen.timestamp())
    }

    pub async fn read(&self, tx: &mut Transaction, cell: usize) -> Result<Option<u64>, Stop> {
        let ptr = self.pointer(tx, cell).await?;
        if ptr.is_null() {
            return Ok(None);
        }
        let mut words = Vec::new();
        // In one snapshot a pointer leads to its object.
        assert!(
            tx.read(ptr.addr, &mut words).await?,
            "{ptr:?} of cell {cell} leads to nothing"
        );
        whole(ptr, &words);
        Ok(Some(words[2]))
    }

    async fn pointer(&self, tx: &mut Transaction, cell: usize) -> Result<FatPtr, Stop> {
        let mut words = Vec::new();
        assert!(tx.read(self.cells[cell], &mut words).await?);
        let ptr = FatPtr::from_words([words[0], words[1]]);
        if !ptr.is_null() {
            let mut out = Vec::new();
            if block_on(tx.machine().read_lockfree(ptr, &mut out)).expect("reached")
                == LockFree::Found
                && !tx.owns(ptr.addr)
            {
                whole(ptr, &out);
            }
        }
        Ok(ptr)
    }

    async fn free(&self, tx: &mut Transaction, cell: usize) -> Result<bool, Stop> {
        let ptr = self.pointer(tx, cell).await?;
        if ptr.is_null() {
            return Ok(false);
        }
        tx.free(ptr.addr).await?;
        tx.write(self.cells[cell], &[0, 0]).await?;
        Ok(true)
    }

    /// Replaces the object behind a cell by a new one.
    async fn replace(
        &self,
        tx: &mut Transaction,
        cell: usize,
        number: u64,
        words: usize,
    ) -> Result<(), Stop> {
        self.free(tx, cell).await?;
        let near = ObjectLocation::Object(self.cells[cell]);
        let ptr = tx.alloc(words, near).await?;
        let mut payload = vec![number; words];
        payload[..2].copy_from_slice(&ptr.to_words());
        tx.write_new(ptr, &payload)?;
        tx.write(self.cells[cell], &ptr.to_words()).await
    }

    async fn overwrite(
        &self,
        tx: &mut Transaction,
        cell: usize,
        number: u64,
    ) -> Result<bool, Stop> {
        let ptr = self.pointer(tx, cell).await?;
        if ptr.is_null() {
            return Ok(false);
        }
        tx.update(ptr.addr, |image| {
            image[2..ptr.size as usize / 8].fill(number)
        })
        .await?;
        Ok(true)
    }

    /// Runs one random transaction and returns its record. Returns it as `Err` where the machine
    /// has crashed.
    pub fn attempt(
        &self,
        coordinator: &mut fencepost_txn::Coordinator,
        (thread, number): (usize, u64),
        random: &mut Random,
    ) -> Result<TransactionRecord, TransactionRecord> {
        let read_only = random.below(4) == 0;
        let mut tx = coordinator.begin(if read_only {
            Mode::ReadOnly
        } else {
            Mode::ReadWrite
        });
        let mut record = TransactionRecord {
            number,
            steps: Vec::new(),
            r: tx.read_timestamp(),
            w: None,
        };
        let unique = number * MAX_THREADS as u64 + thread as u64 + 1;
        let ended = block_on(self.act(&mut tx, unique, random, &mut record, read_only));
        match ended {
            Ok(()) => {}
            Err(Stop::Retry(_)) => return Ok(record),
            Err(Stop::Failed) => return Err(record),
            Err(stop) => panic!("{stop} after {record:?}"),
        }
        if random.below(10) == 0 {
            return Ok(record);
        }
        if !read_only {
            match block_on(tx.write(self.threads[thread], &[number])) {
                Ok(()) => {}
                Err(Stop::Retry(_)) => return Ok(record),
                Err(stop) => panic!("{stop} after {record:?}"),
            }
            record.r = tx.read_timestamp();
        }
        match block_on(tx.commit()) {
            Ok(Outcome::Committed(w)) => record.w = (!read_only).then_some(w),
            Ok(Outcome::Aborted(_)) => {}
            Err(_) => return Err(record),
        }
        Ok(record)
    }

    async fn act(
        &self,
        tx: &mut Transaction,
        unique: u64,
        random: &mut Random,
        story: &mut TransactionRecord,
        read_only: bool,
    ) -> Result<(), Stop> {
        let mut savepoints = Vec::new();
        let steps = &mut story.steps;
        for _ in 0..1 + random.below(7) {
            let key = random.below(60) * 3;
            let cell = random.below(CELLS as u64) as usize;
            let what = if read_only {
                random.below(2)
            } else {
                random.below(11)
            };
            match what {
                0 => steps.push(Step::Read(cell, self.read(tx, cell).await?)),
                1 => {
                    let high = key + 1 + random.below(60);
                    steps.push(Step::Scan(key, high, self.set.scan(tx, key, high).await?));
                }
                2..=4 => steps.push(Step::Insert(key, self.set.insert(tx, key).await?)),
                5 => steps.push(Step::Remove(key, self.set.remove(tx, key).await?)),
                6 => {
                    let words = 3 + random.below(60) as usize;
                    self.replace(tx, cell, unique, words).await?;
                    steps.push(Step::Write(cell, unique));
                }
                7 => {
                    if self.overwrite(tx, cell, unique).await? {
                        steps.push(Step::Write(cell, unique));
                    }
                }
                8 => {
                    if self.free(tx, cell).await? {
                        steps.push(Step::Free(cell));
                    }
                }
                9 => {
                    savepoints.push(tx.savepoint());
                    steps.push(Step::Savepoint);
                }
                _ => {
                    if let Some(savepoint) = savepoints.pop() {
                        tx.rollback_to(&savepoint);
                        tx.release(savepoint);
                        steps.push(Step::Rollback);
                    }
                }
            }
            // A call that fails may have moved the snapshot without returning a result.
            story.r = tx.read_timestamp();
        }
        Ok(())
    }
}

/// Checks that an object contains its own pointer and is not torn.
fn whole(ptr: FatPtr, words: &[u64]) {
    assert_eq!(words[..2], ptr.to_words(), "another object's words");
    let used = ptr.size as usize / 8;
    assert!(
        words[2..used].iter().all(|word| *word == words[2]),
        "torn: {words:?}"
    );
}
