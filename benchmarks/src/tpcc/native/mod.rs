//! TPC-C on the transaction API.

mod books;
mod customers;
mod load;
mod orders;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fencepost_fabric::random::Random;
use fencepost_txn::{Coordinator, Machine, Mode};

use super::Scale;
use super::conditions;
use super::done::{Done, Own};
use super::mix::{KINDS, Mix, Order, Request};
use super::population::Population;
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{self, end, settle};
use books::NativeBooks;
use tables::Tables;

/// TPC-C on hash tables and B-trees.
pub struct TpccNative {
    machine: Arc<Machine>,
    tables: Tables,
    population: Population,
    threads: usize,
    done: Done,
    /// Clients so far, to number the rows of the history.
    clients: AtomicU64,
}

/// One thread.
pub struct TpccNativeClient<'a> {
    coordinator: Coordinator,
    tables: Tables,
    mix: Mix,
    done: Own<'a>,
    /// Number of the next row of the history.
    history: u64,
}

impl TpccNative {
    /// With empty tables, for so many threads.
    ///
    /// # Errors
    /// Tables that cannot be made.
    pub fn new(
        machine: &Arc<Machine>,
        scale: Scale,
        threads: usize,
        seed: u64,
    ) -> Result<TpccNative, BenchError> {
        Ok(TpccNative {
            machine: Arc::clone(machine),
            tables: Tables::create(&mut machine.coordinator(), scale)?,
            population: Population::new(scale, seed),
            threads,
            done: Done::new(scale),
            clients: AtomicU64::new(0),
        })
    }
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

impl Workload for TpccNative {
    type Client<'a> = TpccNativeClient<'a>;
    const KINDS: &'static [&'static str] = KINDS;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        self.population.announce(say);
        load::load(&self.machine, &self.tables, &self.population, say)
    }

    fn client(&self, thread: usize) -> Result<TpccNativeClient<'_>, BenchError> {
        let (scale, run) = (self.population.scale, self.population.run);
        // Beyond the numbers of loaded rows, and of other clients.
        let client = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(TpccNativeClient {
            coordinator: self.machine.coordinator(),
            tables: self.tables,
            mix: Mix::new(scale, run, thread, self.threads),
            done: self.done.own(),
            history: client << 40,
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let mut books = NativeBooks {
            coordinator: self.machine.coordinator(),
            tables: self.tables,
        };
        conditions::broken(&mut books, &self.done)
    }

    fn counters(&self) -> Counters {
        native::counters(std::slice::from_ref(&self.machine))
    }
}

impl Client for TpccNativeClient<'_> {
    type Request = Request;

    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    fn kind(request: &Request) -> usize {
        request.kind()
    }

    fn execute(&mut self, Request(order): &Request) -> Result<Attempt, BenchError> {
        let mode = match order {
            Order::Status { .. } | Order::StockLevel { .. } => Mode::ReadOnly,
            _ => Mode::ReadWrite,
        };
        let mut tx = self.coordinator.begin(mode);
        let (tables, tx_ref) = (&self.tables, &mut tx);
        let mut delivered = Vec::new();
        let body = settle(async {
            match order {
                Order::New {
                    at,
                    customer,
                    lines,
                } => return tables.new_order(tx_ref, *at, *customer, lines).await,
                Order::Payment { at, of, who, cents } => {
                    let payment = (*at, *of, who, *cents);
                    tables.payment(tx_ref, payment, self.history).await?;
                }
                Order::Status { at, who } => tables.order_status(tx_ref, *at, who).await?,
                Order::Delivery { warehouse, carrier } => {
                    delivered = tables.delivery(tx_ref, *warehouse, *carrier).await?;
                }
                Order::StockLevel { at, threshold } => {
                    tables.stock_level(tx_ref, *at, *threshold).await?;
                }
            }
            Ok(Attempt::Committed)
        });
        let ended = end(tx, body)?;
        if ended == Attempt::Committed {
            self.done.record(order, &delivered);
            self.history += 1;
        }
        Ok(ended)
    }
}
