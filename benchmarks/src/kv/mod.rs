//! `kv`: lookups of single keys, and optional updates (NSDI'14 §4.2).
//!
//! 16-byte keys and 32-byte values in one hash table that is loaded to 90 % of its slots. Lookups
//! are lock-free. An update is a transaction that reads a value and writes its next version. Keys
//! are drawn uniformly or by Zipf's law (0.99 is YCSB's θ).
//!
//! Every value contains its key and its version, with a checksum, so that a lookup detects a
//! partial update. After the run every key must be present with a valid value. The sum of the
//! versions must equal the number of committed updates.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Machine, Mode, Transaction};

use crate::draw::{Draw, scatter};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, Partitions, end, load, look_at_each};
use crate::versioned::{value, version};

/// The default number of keys.
pub const KEYS: u64 = 1_000_000;
const KEY_BYTES: usize = 16;
const VALUE_WORDS: usize = 4;
/// The number of keys in one transaction of the load.
const PIECE: u64 = 1000;

/// The parameters of the workload.
#[derive(Clone, Debug)]
pub struct KvOptions {
    /// The number of keys in the table.
    pub keys: u64,
    /// θ of Zipf's law; `None` for a uniform distribution.
    pub zipf: Option<f64>,
    /// The percentage of requests that are updates.
    pub update_percent: u32,
}

/// The workload.
pub struct Kv {
    machines: Machines,
    table: Partitions<HashTable>,
    options: KvOptions,
    draw: Draw,
    /// The number of committed updates, including the warm-up.
    updates: AtomicU64,
}

impl Kv {
    /// Creates the workload with an empty table.
    ///
    /// # Errors
    /// Failure to create the table.
    pub fn new(machines: Machines, options: KvOptions) -> Result<Kv, BenchError> {
        let table = machines.create_table(KEY_BYTES, VALUE_WORDS, options.keys)?;
        let draw = Draw::new(options.keys, options.zipf);
        Ok(Kv {
            machines,
            table,
            options,
            draw,
            updates: AtomicU64::new(0),
        })
    }
}

/// A request: the number of the key, from 1, and whether to update it.
#[derive(Clone, Copy, Debug)]
pub struct KvRequest {
    number: u64,
    update: bool,
}

/// A client of one thread.
pub struct KvClient<'a> {
    of: &'a Kv,
    machine: &'a Machine,
    coordinator: Coordinator,
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&scatter(number).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

impl Workload for Kv {
    type Client<'a> = KvClient<'a>;
    const SAMPLED: u64 = 16;

    fn name(&self) -> &'static str {
        "kv"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let last = self.options.keys;
        self.machines
            .load((last, "keys"), PIECE, say, async |tx, number| {
                let value: [u64; VALUE_WORDS] = value(number, 0);
                load(tx, self.table.of(number), &key(number), &value).await
            })
    }

    fn client(&self, thread: usize) -> Result<KvClient<'_>, BenchError> {
        let machine = self.machines.of(thread);
        Ok(KvClient {
            of: self,
            machine,
            coordinator: machine.coordinator(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Some(broken));
        }
        let mut versions = 0;
        let look = async |number: u64| {
            let mut found = [0; VALUE_WORDS];
            // Every machine takes part in the check, mostly with remote keys.
            let (table, machine) = (self.table.of(number), self.machines.of(number as usize));
            if !table
                .get_lockfree(machine, &key(number), &mut found)
                .await?
            {
                return Ok(Err(format!("key {number} is gone")));
            }
            Ok(version(number, &found).ok_or_else(|| format!("key {number} has a broken value")))
        };
        let broken = look_at_each(self.options.keys, look, |version| versions += version)?;
        if broken.is_some() {
            return Ok(broken);
        }
        let updates = self.updates.load(Ordering::Relaxed);
        let lost = versions != updates;
        Ok(lost.then(|| format!("{updates} updates committed, and the versions say {versions}")))
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
    }
}

impl Client for KvClient<'_> {
    type Request = KvRequest;

    #[inline]
    fn generate(&mut self, random: &mut Random) -> KvRequest {
        let percent = u64::from(self.of.options.update_percent);
        let update = percent > 0 && random.below(100) < percent;
        KvRequest {
            number: self.of.draw.next(random) + 1,
            update,
        }
    }

    #[inline]
    async fn execute(&mut self, request: &KvRequest) -> Result<Attempt, BenchError> {
        let number = request.number;
        let table = self.of.table.of(number);
        if request.update {
            let mut tx = self.coordinator.begin(Mode::ReadWrite);
            let done = update(table, &mut tx, number).await;
            let ended = end(tx, done).await?;
            if ended == Attempt::Committed {
                self.of.updates.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(ended);
        }
        let mut found = [0; VALUE_WORDS];
        match table
            .get_lockfree(self.machine, &key(number), &mut found)
            .await?
        {
            true if version(number, &found).is_some() => Ok(Attempt::Committed),
            true => Err(BenchError::Load(format!(
                "key {number} was read with a broken value"
            ))),
            false => Err(BenchError::Load(format!("key {number} is gone"))),
        }
    }
}

async fn update(
    table: &HashTable,
    tx: &mut Transaction,
    number: u64,
) -> Result<Attempt, IndexError> {
    let key = key(number);
    let mut found = [0; VALUE_WORDS];
    let there = table.get_into(tx, &key, &mut found).await?;
    let Some(version) = version(number, &found).filter(|_| there) else {
        return Ok(Attempt::Failed("broken_value"));
    };
    let next: [u64; VALUE_WORDS] = value(number, version + 1);
    table.replace(tx, &key, &next).await?;
    Ok(Attempt::Committed)
}
