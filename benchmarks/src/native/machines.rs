//! The machines that a native workload runs on: one, or several that are each other's peers, all of this process or
//! one of them.
//!
//! ```text
//!   client thread k ──► coordinator on machine k mod n ──► parts of the data on all n machines (spread)
//! ```
//! Where the others are processes of their own, each makes and loads its own part of the data, and they tell each
//! other where their tables are.
//!
//! Failure: after a run every machine must come to rest, and every backup be what its primary is. What is
//! not so is part of what the workload's check answers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fencepost::Database;
use fencepost_fabric::{FabricError, MachineId};
use fencepost_hashtable::{HashTable, IndexError};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{Coordinator, Machine, MachineOptions, OpenError, Transaction};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use pollster::block_on;
use tempfile::TempDir;

use super::fabrics::{FabricKind, fabrics};
use super::spread::{Roots, Spread, home};
use super::{counters, create_table, insist, settle};
use crate::error::BenchError;
use crate::harness::Counters;

/// Words of the log of each pair of machines.
const LOG_WORDS: usize = 1 << 20;
/// How long machines may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(1);

/// Several machines.
#[derive(Clone, Copy, Debug)]
pub struct Together {
    /// How many, at least one.
    pub machines: usize,
    /// How many of them have a copy of each region.
    pub replicas: usize,
    /// What is between them.
    pub fabric: FabricKind,
    /// Bytes of a region, where not the default.
    pub region_bytes: Option<usize>,
    /// Bytes that the data of all machines may take, backups not counted.
    pub memory_limit: Option<u64>,
}

/// Tells the processes of all other machines the roots of this one's tables; answers those of all machines, in order.
pub(crate) type Exchange = Box<dyn Fn(&[u64]) -> Result<Vec<Vec<u64>>, BenchError> + Send + Sync>;

/// The place of this process's machine among those of others.
struct Among {
    /// From 0.
    at: usize,
    count: usize,
    exchange: Exchange,
}

/// The machines of a run. They are closed when it goes.
pub struct Machines {
    /// Those of this process.
    machines: Vec<Arc<Machine>>,
    /// Where there are others.
    among: Option<Among>,
    /// Closes the only machine of this process.
    database: Option<Database>,
    /// The memory that machines share; removed after them.
    _shared: Option<TempDir>,
}

impl Machines {
    /// The one machine of a database.
    pub fn alone(database: Database) -> Machines {
        Machines {
            machines: vec![Arc::clone(database.machine())],
            among: None,
            database: Some(database),
            _shared: None,
        }
    }

    /// The machine that a database is, number `at` of `count`, counted from 0; the others are other processes'.
    pub(crate) fn one_of(
        database: Database,
        (at, count): (usize, usize),
        exchange: Exchange,
    ) -> Machines {
        let mut machines = Machines::alone(database);
        machines.among = Some(Among {
            at,
            count,
            exchange,
        });
        machines
    }

    /// Makes machines that are each other's peers.
    ///
    /// # Errors
    /// Machines that do not open.
    pub fn together(options: &Together) -> Result<Machines, BenchError> {
        let count = u32::try_from(options.machines)
            .map_err(|_| BenchError::Options("not so many machines".to_string()))?;
        let ids: Vec<MachineId> = (1..=count).map(MachineId).collect();
        let configuration = Configuration::of_process(count);
        let configuration =
            configuration.map_err(|error| BenchError::Options(error.to_string()))?;
        let (fabrics, shared) = fabrics(&ids, options.fabric)?;
        let mut machines = Machines {
            machines: Vec::with_capacity(fabrics.len()),
            among: None,
            database: None,
            _shared: shared,
        };
        for fabric in fabrics {
            let network = NetworkOptions {
                log_words: LOG_WORDS,
                ..NetworkOptions::of(
                    fabric,
                    configuration.clone(),
                    Replication::exactly(options.replicas.min(options.machines)),
                )
            };
            let mut machine = MachineOptions {
                network: Some(network),
                ..MachineOptions::default()
            };
            if let Some(bytes) = options.region_bytes {
                machine.region_bytes = bytes;
            }
            if let Some(bytes) = options.memory_limit {
                machine.memory_limit = bytes / u64::from(count);
            }
            machines.machines.push(Machine::open(machine)?);
        }
        let began = Instant::now();
        while !machines.machines.iter().all(|m| settle(m.is_complete())) {
            if began.elapsed() > PATIENCE {
                let lost = OpenError::Network(FabricError::Lost);
                return Err(lost.into());
            }
            thread::sleep(NAP);
        }
        Ok(machines)
    }

    /// How many machines there are in all, those of other processes, too.
    fn count(&self) -> usize {
        let among = self.among.as_ref();
        among.map_or(self.machines.len(), |among| among.count)
    }

    /// Which of all the first machine of this process is.
    fn first(&self) -> usize {
        self.among.as_ref().map_or(0, |among| among.at)
    }

    /// The machine of this process whose turn it is; that of client thread `turn`.
    #[inline]
    pub fn of(&self, turn: usize) -> &Arc<Machine> {
        &self.machines[turn % self.machines.len()]
    }

    /// A coordinator on each machine of this process.
    pub(crate) fn coordinators(&self) -> Vec<Coordinator> {
        let machines = self.machines.iter();
        machines.map(|machine| machine.coordinator()).collect()
    }

    /// A table on each machine, with room for all `keys` together.
    pub(crate) fn create_table(
        &self,
        key_bytes: usize,
        value_words: usize,
        keys: u64,
    ) -> Result<Spread<HashTable>, BenchError> {
        let keys = self.share(keys);
        self.tables(|machine| create_table(machine, key_bytes, value_words, keys))
    }

    /// The tables that each machine makes as its part, those of other processes, too.
    pub(crate) fn tables<T: Roots>(
        &self,
        make: impl FnMut(&Arc<Machine>) -> Result<T, BenchError>,
    ) -> Result<Spread<T>, BenchError> {
        let own = self.spread(make)?;
        let Some(among) = &self.among else {
            return Ok(own);
        };
        let roots: Vec<u64> = own.parts().iter().flat_map(Roots::roots).collect();
        let all = (among.exchange)(&roots)?;
        let parts: Option<Vec<T>> = all.iter().map(|roots| T::of_roots(roots)).collect();
        let parts = parts.filter(|parts| parts.len() == among.count);
        let why = || BenchError::Load("other machines have other tables".to_string());
        parts.map(Spread::new).ok_or_else(why)
    }

    /// What each machine of this process makes as its part.
    pub(crate) fn spread<T>(
        &self,
        make: impl FnMut(&Arc<Machine>) -> Result<T, BenchError>,
    ) -> Result<Spread<T>, BenchError> {
        let parts = self.machines.iter().map(make);
        Ok(Spread::new(parts.collect::<Result<_, _>>()?))
    }

    /// A machine's share of so many keys.
    pub(crate) fn share(&self, keys: u64) -> u64 {
        keys.div_ceil(self.count() as u64)
    }

    /// Loads `1..=last` of `what`, each machine of this process those whose part it has, about `piece` in a transaction.
    pub(crate) fn load(
        &self,
        what: (u64, &str),
        piece: u64,
        say: &dyn Fn(&str),
        body: impl AsyncFn(&mut Transaction, u64) -> Result<(), IndexError> + Sync,
    ) -> Result<(), BenchError> {
        let machines = self.count();
        let piece = piece * machines as u64;
        self.load_each(what, piece, say, async |tx, at, numbers| {
            for number in numbers.filter(|number| home(*number, machines) == at) {
                body(tx, number).await?;
            }
            Ok(())
        })
    }

    /// Loads `1..=last` of `what` in pieces, each a transaction, from as many threads as there are cores.
    /// Every machine gets each piece, and which machine it is: the workload says what of it is whose.
    pub(crate) fn load_each(
        &self,
        (last, what): (u64, &str),
        piece: u64,
        say: &dyn Fn(&str),
        body: impl AsyncFn(&mut Transaction, usize, RangeInclusive<u64>) -> Result<(), IndexError>
        + Sync,
    ) -> Result<(), BenchError> {
        let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
        let share = last.div_ceil(threads);
        say(&format!("loading {last} {what} with {threads} threads"));
        thread::scope(|scope| {
            let loaders: Vec<_> = (0..threads)
                .map(|thread| {
                    let (body, first) = (&body, thread * share + 1);
                    let end = last.min((thread + 1) * share);
                    scope.spawn(move || {
                        let machines = self.machines.iter().enumerate();
                        let loads = machines.map(async |(at, machine)| {
                            let at = self.first() + at;
                            let mut coordinator = machine.coordinator();
                            for from in (first..=end).step_by(piece as usize) {
                                let piece = || from..=end.min(from + piece - 1);
                                let load = async |tx: &mut Transaction| body(tx, at, piece()).await;
                                insist(&mut coordinator, load).await?;
                            }
                            Ok::<(), BenchError>(())
                        });
                        let loads: FuturesUnordered<_> = loads.collect();
                        block_on(loads.try_collect::<()>())
                    })
                })
                .collect();
            // Every loader is waited for, whichever fails first.
            let ends: Vec<_> = loaders.into_iter().map(|loader| loader.join()).collect();
            ends.into_iter()
                .try_for_each(|end| end.unwrap_or(Err(BenchError::Panicked)))
        })
    }

    /// Waits until nothing is under way between the machines; what is not as it must be then.
    pub(crate) fn settle(&self) -> Option<String> {
        let began = Instant::now();
        while !Machine::are_at_rest(&self.machines) {
            if began.elapsed() > PATIENCE {
                return Some("locks or records of transactions that are over are left".to_string());
            }
            thread::sleep(NAP);
        }
        let compare = |machine: &Arc<Machine>| machine.compare_backups(&self.machines);
        let problem = self.machines.iter().flat_map(compare).next();
        problem.map(|problem| format!("a backup: {problem}"))
    }

    /// Counters of all machines together.
    pub(crate) fn counters(&self) -> Counters {
        counters(&self.machines)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if self.database.is_none() {
            for machine in &self.machines {
                // In the memory tier there is nothing that could fail.
                let _ = machine.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{load, machines_for_tests};

    #[test]
    fn what_each_machine_has_loaded_all_of_them_find() {
        for fabric in [FabricKind::Local, FabricKind::Shm, FabricKind::Tcp] {
            let machines = machines_for_tests(fabric);
            let shared = machines._shared.as_ref().map(|dir| dir.path().to_owned());
            let table = machines.create_table(8, 1, 300).expect("tables");
            let body = async |tx: &mut Transaction, key: u64| {
                load(tx, table.of(key), &key.to_le_bytes(), &[key]).await
            };
            machines
                .load((300, "keys"), 50, &|_| (), body)
                .expect("it loads");
            assert_eq!(machines.settle(), None);
            for key in 1..=300u64 {
                for turn in 0..3 {
                    let (mut found, machine) = ([0], machines.of(turn));
                    let own = machine.regions().is_own(table.of(key).root());
                    assert_eq!(own, home(key, 3) == turn);
                    let name = key.to_le_bytes();
                    assert!(
                        settle(table.of(key).get_lockfree(machine, &name, &mut found))
                            .expect("reached")
                    );
                    assert_eq!(found, [key]);
                }
            }
            drop(machines);
            assert!(shared.is_none_or(|path| !path.exists()), "memory is left");
        }
    }

    #[test]
    fn a_lock_that_is_left_is_found() {
        let machines = machines_for_tests(FabricKind::Local);
        let table = machines.create_table(8, 1, 10).expect("tables");
        assert_eq!(machines.settle(), None);
        let root = table.of(1).root();
        let owner = machines.of(home(1, 3));
        let object = owner.regions().object(root).expect("the root");
        object.try_lock(object.header()).expect("it is free");
        let broken = machines.settle().expect("it is locked");
        assert!(broken.contains("locked"), "{broken}");
    }
}
