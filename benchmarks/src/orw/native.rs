//! `orw` on a hash table with 8-byte keys and values of five words.

use std::sync::Arc;

use fencepost_fabric::random::Random;
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::{Coordinator, Machine, Mode, Transaction};

use super::{BROKEN, MOST_READS, OrwOptions, Request, VALUE_WORDS, lost};
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{self, create_table, end, load, load_in_pieces, settle};
use crate::tally::{Share, Tally};
use crate::versioned::{value, version};

/// Keys of one transaction of the load.
const PIECE: u64 = 1000;

/// `orw` on the transaction API.
pub struct OrwNative {
    machine: Arc<Machine>,
    table: HashTable,
    options: OrwOptions,
    updates: Tally<1>,
}

/// One thread.
pub struct OrwNativeClient<'a> {
    coordinator: Coordinator,
    table: HashTable,
    options: OrwOptions,
    updates: Share<'a, 1>,
}

impl OrwNative {
    /// With an empty table.
    ///
    /// # Errors
    /// A table that cannot be made.
    pub fn new(machine: &Arc<Machine>, options: OrwOptions) -> Result<OrwNative, BenchError> {
        Ok(OrwNative {
            machine: Arc::clone(machine),
            table: create_table(machine, 8, VALUE_WORDS, options.keys)?,
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
        let (machine, last) = (&self.machine, self.options.keys);
        load_in_pieces(machine, (last, "keys"), PIECE, say, async |tx, keys| {
            for key in keys {
                let value: [u64; VALUE_WORDS] = value(key, 0);
                load(tx, &self.table, &key.to_le_bytes(), &value).await?;
            }
            Ok(())
        })
    }

    fn client(&self, _thread: usize) -> Result<OrwNativeClient<'_>, BenchError> {
        Ok(OrwNativeClient {
            coordinator: self.machine.coordinator(),
            table: self.table,
            options: self.options,
            updates: self.updates.share(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let mut versions = 0;
        for key in 1..=self.options.keys {
            let mut found = [0; VALUE_WORDS];
            let name = key.to_le_bytes();
            if !self.table.get_lockfree(&self.machine, &name, &mut found) {
                return Ok(Some(format!("key {key} is gone")));
            }
            match version(key, &found) {
                Some(version) => versions += version as i64,
                None => return Ok(Some(format!("key {key} has a broken value"))),
            }
        }
        let [updates] = self.updates.sums();
        Ok(lost(versions, updates))
    }

    fn counters(&self) -> Counters {
        native::counters(&self.machine)
    }
}

impl Client for OrwNativeClient<'_> {
    type Request = Request;

    #[inline]
    fn generate(&mut self, random: &mut Random) -> Request {
        self.options.draw(random)
    }

    #[inline]
    fn execute(&mut self, request: &Request) -> Result<Attempt, BenchError> {
        let mode = if request.updated == 0 {
            Mode::ReadOnly
        } else {
            Mode::ReadWrite
        };
        let mut tx = self.coordinator.begin(mode);
        let done = settle(run(&self.table, &mut tx, request));
        let ended = end(tx, done)?;
        if ended == Attempt::Committed {
            self.updates.add([request.updates()]);
        }
        Ok(ended)
    }
}

async fn run(
    table: &HashTable,
    tx: &mut Transaction,
    request: &Request,
) -> Result<Attempt, IndexError> {
    // All reads come first, as with FaSST, whose updates are part of the commit.
    let mut versions = [0; MOST_READS as usize];
    for ((key, _), known) in request.keys().zip(&mut versions) {
        let mut found = [0; VALUE_WORDS];
        let there = table.get_into(tx, &key.to_le_bytes(), &mut found).await?;
        let Some(version) = version(key, &found).filter(|_| there) else {
            return Ok(Attempt::Failed(BROKEN));
        };
        *known = version;
    }
    for ((key, update), version) in request.keys().zip(versions) {
        if update {
            let next: [u64; VALUE_WORDS] = value(key, version + 1);
            table.replace(tx, &key.to_le_bytes(), &next).await?;
        }
    }
    Ok(Attempt::Committed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{insist, machine_for_tests};

    #[test]
    fn lost_updates_and_broken_values_are_found() {
        let machine = machine_for_tests();
        let options = OrwOptions {
            keys: 60,
            reads: 4,
            writes: 2,
        };
        let orw = OrwNative::new(&machine, options).expect("a table");
        orw.prepare(&|_| ()).expect("it loads");
        let mut client = orw.client(0).expect("a client");
        let mut random = Random::new(8);
        for _ in 0..200 {
            let request = client.generate(&mut random);
            let ended = client.execute(&request).expect("it runs");
            assert_eq!(ended, Attempt::Committed);
        }
        drop(client);
        assert_eq!(orw.verify().expect("it looks"), None);
        let write = |words: [u64; VALUE_WORDS]| {
            insist(&mut machine.coordinator(), async |tx| {
                orw.table.replace(tx, &9u64.to_le_bytes(), &words).await?;
                Ok(())
            })
            .expect("it writes");
            orw.verify().expect("it looks").expect("it is broken")
        };
        assert!(write(value(9, 1000)).contains("versions"));
        assert!(write([1; VALUE_WORDS]).contains("key 9"));
    }
}
