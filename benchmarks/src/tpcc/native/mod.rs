//! TPC-C on the transaction API.

mod books;
mod customers;
mod load;
mod orders;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fencepost_fabric::random::Random;
use fencepost_txn::{Coordinator, Mode};

use super::TpccOptions;
use super::conditions;
use super::done::{ClientCounts, CommittedCounts};
use super::mix::{KINDS, Mix, Order, Request};
use super::population::Population;
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Counters, Workload};
use crate::native::{Machines, end};
use books::NativeAmounts;
use load::Load;
use tables::Tables;

/// TPC-C on hash tables and B-trees.
pub struct TpccNative {
    machines: Machines,
    tables: Tables,
    options: TpccOptions,
    population: Population,
    done: CommittedCounts,
    /// The number of clients so far, to number the history rows.
    clients: AtomicU64,
}

/// A client, which runs each request on the home machine of its warehouse.
pub struct TpccNativeClient<'a> {
    coordinators: Vec<Coordinator>,
    tables: &'a Tables,
    mix: Mix,
    done: ClientCounts<'a>,
    /// The number of the next history row.
    history: u64,
}

impl TpccNative {
    /// Creates the workload with empty tables.
    ///
    /// # Errors
    /// Failure to create the tables.
    pub fn new(machines: Machines, options: TpccOptions) -> Result<TpccNative, BenchError> {
        Ok(TpccNative {
            tables: Tables::create(&machines, options.scale)?,
            machines,
            options,
            population: Population::new(options.scale, options.seed),
            done: CommittedCounts::new(options.scale),
            clients: AtomicU64::new(0),
        })
    }
}

/// Returns the microseconds since 1970.
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
        let load = Load {
            machines: &self.machines,
            tables: &self.tables,
            population: &self.population,
            say,
        };
        load.all()
    }

    fn client(&self, thread: usize) -> Result<TpccNativeClient<'_>, BenchError> {
        // The numbers must differ from those of loaded rows and of other clients.
        let client = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(TpccNativeClient {
            coordinators: self.machines.coordinators(),
            tables: &self.tables,
            mix: Mix::new(&self.options, self.population.run, thread),
            done: self.done.own(),
            history: client << 40,
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        if let Some(broken) = self.machines.wait_until_idle() {
            return Ok(Some(broken));
        }
        let mut books = NativeAmounts {
            coordinators: self.machines.coordinators(),
            tables: &self.tables,
        };
        match books.misplaced()? {
            Some(misplaced) => Ok(Some(misplaced)),
            None => conditions::broken(&mut books, &self.done),
        }
    }

    fn counters(&self) -> Counters {
        self.machines.counters()
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

    async fn execute(&mut self, Request(order): &Request) -> Result<Attempt, BenchError> {
        let mode = match order {
            Order::Status { .. } | Order::StockLevel { .. } => Mode::ReadOnly,
            _ => Mode::ReadWrite,
        };
        let (tables, home) = (self.tables, order.home());
        let mut tx = self.coordinators[tables.home(home)].begin(mode);
        let (part, tx_ref) = (tables.of(home), &mut tx);
        let mut delivered = Vec::new();
        let body = async {
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
                Order::Status { at, who } => part.order_status(tx_ref, *at, who).await?,
                Order::Delivery { warehouse, carrier } => {
                    delivered = part.delivery(tx_ref, *warehouse, *carrier).await?;
                }
                Order::StockLevel { at, threshold } => {
                    part.stock_level(tx_ref, *at, *threshold).await?;
                }
            }
            Ok(Attempt::Committed)
        };
        let body = body.await;
        let ended = end(tx, body).await?;
        if ended == Attempt::Committed {
            self.done.record(order, &delivered, false);
            self.history += 1;
        }
        Ok(ended)
    }
}
