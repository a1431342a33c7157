//! The machines of a native workload: one, or several peers. This process runs all of them, or one
//! of them.
//!
//! ```text
//!   client thread k ──► coordinator on machine k mod n ──► parts of the data on all n (spread)
//! ```
//!
//! If the other machines are separate processes, each creates and loads its own part of the data,
//! and they exchange the addresses of their tables.
//!
//! Failure: after a run all transactions must have ended on every machine, and every backup must
//! equal its primary. Otherwise the workload's check reports it.

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
use super::partitions::{Partitions, Roots, home};
use super::{counters, create_table, insist, run_future};
use crate::error::BenchError;
use crate::harness::Counters;

/// The size of the log between each pair of machines, in words.
const LOG_WORDS: usize = 1 << 20;
/// The longest time until all transactions have ended.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The options of several machines.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// The number of machines, at least one.
    pub machines: usize,
    /// The number of machines with a copy of each region.
    pub replicas: usize,
    /// The fabric between them.
    pub fabric: FabricKind,
    /// The size of a region in bytes; `None` is the default.
    pub region_bytes: Option<usize>,
    /// The memory limit of the data of all machines in bytes, without backups.
    pub memory_limit: Option<u64>,
}

/// Sends the roots of this machine's tables to the processes of all other machines. Returns the
/// roots of all machines, in order.
pub(crate) type Exchange = Box<dyn Fn(&[u64]) -> Result<Vec<Vec<u64>>, BenchError> + Send + Sync>;

/// The position of this process's machine among those of other processes.
struct ProcessPosition {
    /// The index of the machine, from 0.
    at: usize,
    count: usize,
    exchange: Exchange,
}

/// The machines of a run. They are closed when it is dropped.
pub struct Machines {
    /// The machines of this process.
    machines: Vec<Arc<Machine>>,
    /// The other machines, if they are separate processes.
    among: Option<ProcessPosition>,
    /// The database whose machine is the only one of this process; it closes the machine.
    database: Option<Database>,
    /// The shared memory of the machines, which is removed after them.
    _shared: Option<TempDir>,
}

impl Machines {
    /// Creates a run with the one machine of a database.
    pub fn alone(database: Database) -> Machines {
        Machines {
            machines: vec![Arc::clone(database.machine())],
            among: None,
            database: Some(database),
            _shared: None,
        }
    }

    /// Creates a run with the machine of a database, number `at` of `count`, counted from 0. The
    /// other machines are separate processes.
    pub(crate) fn one_of(
        database: Database,
        (at, count): (usize, usize),
        exchange: Exchange,
    ) -> Machines {
        let mut machines = Machines::alone(database);
        machines.among = Some(ProcessPosition {
            at,
            count,
            exchange,
        });
        machines
    }

    /// Opens several machines as peers in this process.
    ///
    /// # Errors
    /// Failure to open a machine.
    pub fn together(options: &ClusterOptions) -> Result<Machines, BenchError> {
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
        while !machines
            .machines
            .iter()
            .all(|m| run_future(m.is_complete()))
        {
            if began.elapsed() > TIME_LIMIT {
                let lost = OpenError::Network(FabricError::Lost);
                return Err(lost.into());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(machines)
    }

    /// Returns the number of all machines, including those of other processes.
    fn count(&self) -> usize {
        let among = self.among.as_ref();
        among.map_or(self.machines.len(), |among| among.count)
    }

    /// Returns the index, among all machines, of the first machine of this process.
    fn first(&self) -> usize {
        self.among.as_ref().map_or(0, |among| among.at)
    }

    /// Returns the machine of this process for client thread `thread`.
    #[inline]
    pub fn of(&self, thread: usize) -> &Arc<Machine> {
        &self.machines[thread % self.machines.len()]
    }

    /// Creates a coordinator on each machine of this process.
    pub(crate) fn coordinators(&self) -> Vec<Coordinator> {
        let machines = self.machines.iter();
        machines.map(|machine| machine.coordinator()).collect()
    }

    /// Creates a table on each machine, with capacity for `keys` keys in total.
    pub(crate) fn create_table(
        &self,
        key_bytes: usize,
        value_words: usize,
        keys: u64,
    ) -> Result<Partitions<HashTable>, BenchError> {
        let keys = self.share(keys);
        self.tables(|machine| create_table(machine, key_bytes, value_words, keys))
    }

    /// Creates the parts of all machines, and exchanges their roots with other processes.
    pub(crate) fn tables<T: Roots>(
        &self,
        make: impl FnMut(&Arc<Machine>) -> Result<T, BenchError>,
    ) -> Result<Partitions<T>, BenchError> {
        let own = self.spread(make)?;
        let Some(among) = &self.among else {
            return Ok(own);
        };
        let roots: Vec<u64> = own.parts().iter().flat_map(Roots::roots).collect();
        let all = (among.exchange)(&roots)?;
        let parts: Option<Vec<T>> = all.iter().map(|roots| T::of_roots(roots)).collect();
        let parts = parts.filter(|parts| parts.len() == among.count);
        let why = || BenchError::Load("other machines have other tables".to_string());
        parts.map(Partitions::new).ok_or_else(why)
    }

    /// Creates the parts of the machines of this process.
    pub(crate) fn spread<T>(
        &self,
        make: impl FnMut(&Arc<Machine>) -> Result<T, BenchError>,
    ) -> Result<Partitions<T>, BenchError> {
        let parts = self.machines.iter().map(make);
        Ok(Partitions::new(parts.collect::<Result<_, _>>()?))
    }

    /// Returns a machine's share of `keys` keys.
    pub(crate) fn share(&self, keys: u64) -> u64 {
        keys.div_ceil(self.count() as u64)
    }

    /// Loads `1..=last` of `what`, about `piece` in a transaction. Each machine of this process
    /// loads the numbers of its part.
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

    /// Loads `1..=last` of `what` in pieces, each in a transaction, with as many threads as cores.
    /// Every machine gets each piece and its own index; the workload decides which rows belong to
    /// the machine.
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
            // Every loader is joined, even after one has failed.
            let ends: Vec<_> = loaders.into_iter().map(|loader| loader.join()).collect();
            ends.into_iter()
                .try_for_each(|end| end.unwrap_or(Err(BenchError::Panicked)))
        })
    }

    /// Waits until no work is in progress between the machines. Returns the violated condition, if
    /// there is one.
    pub(crate) fn wait_until_idle(&self) -> Option<String> {
        let began = Instant::now();
        while !Machine::are_at_rest(&self.machines) {
            if began.elapsed() > TIME_LIMIT {
                return Some("locks or records of transactions that are over are left".to_string());
            }
            thread::sleep(POLL_INTERVAL);
        }
        let compare = |machine: &Arc<Machine>| machine.compare_backups(&self.machines);
        let problem = self.machines.iter().flat_map(compare).next();
        problem.map(|problem| format!("a backup: {problem}"))
    }

    /// Returns the counters of all machines together.
    pub(crate) fn counters(&self) -> Counters {
        counters(&self.machines)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if self.database.is_none() {
            for machine in &self.machines {
                // In the memory tier, closing cannot fail.
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
    fn rows_loaded_by_each_machine_are_found_by_all() {
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
            assert_eq!(machines.wait_until_idle(), None);
            for key in 1..=300u64 {
                for thread in 0..3 {
                    let (mut found, machine) = ([0], machines.of(thread));
                    let own = machine.regions().is_own(table.of(key).root());
                    assert_eq!(own, home(key, 3) == thread);
                    let name = key.to_le_bytes();
                    assert!(
                        run_future(table.of(key).get_lockfree(machine, &name, &mut found))
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
    fn remaining_lock_is_found() {
        let machines = machines_for_tests(FabricKind::Local);
        let table = machines.create_table(8, 1, 10).expect("tables");
        assert_eq!(machines.wait_until_idle(), None);
        let root = table.of(1).root();
        let owner = machines.of(home(1, 3));
        let object = owner.regions().object(root).expect("the root");
        object.try_lock(object.header()).expect("it is free");
        let broken = machines.wait_until_idle().expect("it is locked");
        assert!(broken.contains("locked"), "{broken}");
    }
}
