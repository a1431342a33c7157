//! `orw` on a hash table with 8-byte keys and values of five words.

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Mode, Transaction};

use super::{BROKEN, MOST_READS, OrwOptions, Request, VALUE_WORDS, lost};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, Partitions, end, load, look_at_each};
use crate::tally::{ClientSums, Tally};
use crate::versioned::{value, version};

/// The number of keys in one transaction of the load.
const PIECE: u64 = 1000;

/// `orw` on the transaction API.
pub struct OrwNative {
    machines: Machines,
    table: Partitions<HashTable>,
    options: OrwOptions,
    updates: Tally<1>,
}

/// A client of one thread.
pub struct OrwNativeClient<'a> {
    coordinator: Coordinator,
    table: &'a Partitions<HashTable>,
    options: OrwOptions,
    updates: ClientSums<'a, 1>,
}

impl OrwNative {
    /// Creates the workload with an empty table.
    ///
    /// # Errors
    /// Failure to create the table.
    pub fn new(machines: Machines, options: OrwOptions) -> Result<OrwNative, BenchError> {
        Ok(OrwNative {
            table: machines.create_table(8, VALUE_WORDS, options.keys)?,
            machines,
            options,
            updates: Tally::new(),
        })
    }
}

impl Workload for OrwNative {
    type Client<'a> = OrwNativeClient<'a>;
    const SAMPLED: u64 = 8;

    fn name(&self) -> &'static str {
        "orw"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let last = self.options.keys;
        self.machines
            .load((last, "keys"), PIECE, say, async |tx, key| {
                let value: [u64; VALUE_WORDS] = value(key, 0);
                load(tx, self.table.of(key), &key.to_le_bytes(), &value).await
            })
    }

    fn client(&self, thread: usize) -> Result<OrwNativeClient<'_>, BenchError> {
        Ok(OrwNativeClient {
            coordinator: self.machines.of(thread).coordinator(),
            table: &self.table,
            options: self.options,
            updates: self.updates.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Some(broken));
        }
        let mut versions = 0;
        let look = async |key: u64| {
            let mut found = [0; VALUE_WORDS];
            // Every machine takes part in the check, mostly with remote keys.
            let (name, machine) = (key.to_le_bytes(), self.machines.of(key as usize));
            let table = self.table.of(key);
            if !table.get_lockfree(machine, &name, &mut found).await? {
                return Ok(Err(format!("key {key} is gone")));
            }
            Ok(version(key, &found).ok_or_else(|| format!("key {key} has a broken value")))
        };
        let broken = look_at_each(self.options.keys, look, |version| {
            versions += version as i64
        })?;
        if broken.is_some() {
            return Ok(broken);
        }
        let [updates] = self.updates.sums();
        Ok(lost(versions, updates))
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
    }
}

impl Client for OrwNativeClient<'_> {
    type Request = Request;

    #[inline]
    fn generate(&mut self, random: &mut Random) -> Request {
        self.options.draw(random)
    }

    #[inline]
    async fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let mode = if request.updated == 0 {
            Mode::ReadOnly
        } else {
            Mode::ReadWrite
        };
        let mut tx = self.coordinator.begin(mode);
        let done = run(self.table, &mut tx, request).await;
        let ended = end(tx, done).await?;
        if ended == Attempt::Committed {
            self.updates.add([request.updates()]);
        }
        Ok(ended)
    }
}

async fn run(
    table: &Partitions<HashTable>,
    tx: &mut Transaction,
    request: &Request,
) -> Result<Attempt, IndexError> {
    // All reads come first, as in FaSST, whose updates are part of the commit.
    let mut versions = [0; MOST_READS as usize];
    for ((key, _), known) in request.keys().zip(&mut versions) {
        let mut found = [0; VALUE_WORDS];
        let name = key.to_le_bytes();
        let there = table.of(key).get_into(tx, &name, &mut found).await?;
        let Some(version) = version(key, &found).filter(|_| there) else {
            return Ok(Attempt::Failed(BROKEN));
        };
        *known = version;
    }
    for ((key, update), version) in request.keys().zip(versions) {
        if update {
            let next: [u64; VALUE_WORDS] = value(key, version + 1);
            let name = key.to_le_bytes();
            table.of(key).replace(tx, &name, &next).await?;
        }
    }
    Ok(Attempt::Committed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{insist, machine_for_tests, run_future};

    #[test]
    fn lost_updates_and_broken_values_are_found() {
        let options = OrwOptions {
            keys: 60,
            reads: 4,
            writes: 2,
        };
        let orw = OrwNative::new(machine_for_tests(), options).expect("a table");
        orw.prepare(&|_| ()).expect("it loads");
        let mut client = orw.client(0).expect("a client");
        let mut random = Random::new(8);
        for _ in 0..200 {
            let request = client.generate(&mut random);
            let ended = run_future(client.execute(&request)).expect("it runs");
            assert_eq!(ended, Attempt::Committed);
        }
        drop(client);
        assert_eq!(orw.verify().expect("it looks"), None);
        let write = |words: [u64; VALUE_WORDS]| {
            let mut coordinator = orw.machines.of(0).coordinator();
            let written = insist(&mut coordinator, async |tx| {
                let table = orw.table.of(9);
                table.replace(tx, &9u64.to_le_bytes(), &words).await?;
                Ok(())
            });
            run_future(written).expect("it writes");
            orw.verify().expect("it looks").expect("it is broken")
        };
        assert!(write(value(9, 1000)).contains("versions"));
        assert!(write([1; VALUE_WORDS]).contains("key 9"));
    }
}
