//! TPC-C over SQL, for the embedded library and for any PostgreSQL server.
//!
//! Each transaction is a module with its prepared statements and its logic. Rows that will be
//! written are read FOR UPDATE, and rows that all transactions write come last, as in any driver
//! that avoids conflicts. Repeatable read makes the five transactions serializable (Fekete et al.,
//! TODS 2005), which the specification requires for four of them.

mod books;
mod delivery;
mod load;
mod new_order;
mod payment;
mod queries;

use fencepost_fabric::random::Random;

use super::TpccOptions;
use super::conditions;
use super::done::{ClientCounts, CommittedCounts};
use super::mix::{CustomerKey, District, KINDS, Mix, Order, Request};
use super::population::Population;
use crate::error::BenchError;
use crate::harness::{Attempt, Client, Workload};
use crate::sql::{Arg, Cell, Isolation, SqlFailure, SqlSession, SqlSource};
use books::SqlAmounts;
use delivery::Delivery;
use new_order::NewOrder;
use payment::Payment;
use queries::{OrderStatus, StockLevel};

/// TPC-C on an SQL database. The load drops and creates its tables.
pub struct TpccSql {
    source: SqlSource,
    isolation: Isolation,
    options: TpccOptions,
    population: Population,
    done: CommittedCounts,
}

/// The session of one client.
pub struct TpccClient<'a> {
    session: Box<dyn SqlSession>,
    statements: Statements,
    mix: Mix,
    done: ClientCounts<'a>,
}

struct Statements {
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

impl TpccSql {
    /// Creates the workload on sessions of `source`.
    pub fn new((source, isolation): (SqlSource, Isolation), options: TpccOptions) -> TpccSql {
        TpccSql {
            source,
            isolation,
            options,
            population: Population::new(options.scale, options.seed),
            done: CommittedCounts::new(options.scale),
        }
    }
}

/// Returns an argument for an `integer` column.
fn int(value: i64) -> Arg<'static> {
    Arg::Int4(value as i32)
}

/// Returns an argument for a `smallint` column.
fn small(value: i64) -> Arg<'static> {
    Arg::Int2(value as i16)
}

/// Returns the integer in column `at`.
fn number(row: &[Cell], at: usize) -> Result<i64, SqlFailure> {
    let found = row.get(at).and_then(Cell::int);
    found.ok_or_else(|| SqlFailure::new("42804", format!("column {at} is no integer")))
}

/// Returns the text in column `at`.
fn text(row: &[Cell], at: usize) -> Result<&str, SqlFailure> {
    let found = row.get(at).and_then(Cell::text);
    found.ok_or_else(|| SqlFailure::new("42804", format!("column {at} is no text")))
}

/// Returns the numeric in column `at`, in units of 10^-digits.
fn scaled(row: &[Cell], at: usize, digits: u32) -> Result<i64, SqlFailure> {
    let found = row.get(at).and_then(|cell| cell.scaled(digits));
    found.ok_or_else(|| SqlFailure::new("42804", format!("column {at} is no such numeric")))
}

impl Workload for TpccSql {
    type Client<'a> = TpccClient<'a>;
    const KINDS: &'static [&'static str] = KINDS;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        self.population.announce(say);
        load::load(self.source.session()?.as_mut(), &self.population, say)
    }

    fn client(&self, thread: usize) -> Result<TpccClient<'_>, BenchError> {
        let mut owned = self.source.session_at(self.isolation, thread)?;
        let session = owned.as_mut();
        Ok(TpccClient {
            statements: Statements {
                new_order: NewOrder::prepare(session)?,
                payment: Payment::prepare(session)?,
                order_status: OrderStatus::prepare(session)?,
                delivery: Delivery::prepare(session)?,
                stock_level: StockLevel::prepare(session)?,
            },
            session: owned,
            mix: Mix::new(&self.options, self.population.run, thread),
            done: self.done.own(),
        })
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let verify = |session: &mut dyn SqlSession| {
            conditions::broken(&mut SqlAmounts { session }, &self.done)
        };
        self.source.verify(verify)
    }
}

impl Client for TpccClient<'_> {
    type Request = Request;

    fn generate(&mut self, random: &mut Random) -> Request {
        self.mix.draw(random)
    }

    fn kind(request: &Request) -> usize {
        request.kind()
    }

    async fn execute(&mut self, Request(order): &Request) -> Result<Attempt, BenchError> {
        let statements = &self.statements;
        let mut delivered = Vec::new();
        let ended = self.session.attempt(|session| {
            match order {
                Order::New {
                    at,
                    customer,
                    lines,
                } => return statements.new_order.run(session, *at, *customer, lines),
                Order::Payment { at, of, who, cents } => {
                    statements.payment.run(session, *at, *of, who, *cents)?;
                }
                Order::Status { at, who } => statements.order_status.run(session, *at, who)?,
                Order::Delivery { warehouse, carrier } => {
                    delivered = statements.delivery.run(session, *warehouse, *carrier)?;
                }
                Order::StockLevel { at, threshold } => {
                    statements.stock_level.run(session, *at, *threshold)?;
                }
            }
            Ok(Attempt::Committed)
        });
        match &ended {
            Ok(Attempt::Committed) => self.done.record(order, &delivered, false),
            Err(BenchError::Sql(failure)) if failure.is_in_doubt() => {
                self.done.record(order, &delivered, true);
            }
            _ => {}
        }
        ended
    }
}

/// The lookup of customers by last name.
#[derive(Clone, Copy)]
struct CustomersByName(crate::sql::StatementHandle);

impl CustomersByName {
    fn prepare(session: &mut dyn SqlSession) -> Result<CustomersByName, SqlFailure> {
        let sql = "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                   ORDER BY c_first";
        Ok(CustomersByName(session.prepare(sql)?))
    }

    /// Returns the id of a customer; of customers with one last name, the middle one by first name.
    fn id(
        self,
        session: &mut dyn SqlSession,
        (warehouse, district): District,
        who: &CustomerKey,
    ) -> Result<i64, SqlFailure> {
        let last = match who {
            CustomerKey::Id(id) => return Ok(*id),
            CustomerKey::LastName(last) => last,
        };
        let args = [int(warehouse), small(district), Arg::Text(last)];
        let rows = session.query(self.0, &args)?;
        let middle = rows.len().div_ceil(2).saturating_sub(1);
        let row = rows.get(middle).map(Vec::as_slice);
        number(row.unwrap_or(&[]), 0)
    }
}
