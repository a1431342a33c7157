//! `tpcc`: TPC-C, nine tables and five transactions, revision 5.11 of the specification.
//!
//! ```text
//!   schema, draw, population, mix     tables, rows and requests, common to both forms
//!   native/    hash tables for lookups by key; B-trees for customers by last name, orders
//!              by customer, new orders and order lines
//!   sql/       prepared statements, for the embedded library and any PostgreSQL server
//!   conditions the consistency conditions 3.3.2.1 to 3.3.2.12, over the books of either form
//! ```
//!
//! To specification: the schema, the population, the inputs, the transactions and their shares
//! (45/43/4/4/4). New orders that end with an unused item are rolled back and do not count as
//! committed. A delivery is one transaction over its ten districts.
//!
//! Not to specification, as in all research systems: terminals have no keying and think times, and
//! each thread has the terminals of its own warehouses. So the new orders per second of a report
//! are not tpmC. Reports show a number of customers or items that differs from the specification
//! ([`Scale`]), and other shares of remote lines and payments ([`RemoteShares`]).

mod conditions;
mod done;
mod draw;
mod mix;
mod native;
mod population;
mod schema;
mod sql;

pub use conditions::names as condition_names;
pub use mix::{RemoteShares, Request};
pub use native::TpccNative;
pub use sql::TpccSql;

/// The failure reason of a new order whose last item does not exist. It is rolled back, as the
/// specification requires for one order in a hundred.
const UNUSED_ITEM: &str = "unused_item";

/// The parameters of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpccOptions {
    /// The amount of data.
    pub scale: Scale,
    /// The shares of requests that concern another warehouse.
    pub remote: RemoteShares,
    /// The number of threads that share the warehouses.
    pub threads: usize,
    /// The seed of all rows.
    pub seed: u64,
}

/// The amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The number of warehouses, each with ten districts.
    pub warehouses: u32,
    /// The number of customers of a district, and of its initial orders.
    pub customers: u32,
    /// The number of items, and of stocks of each warehouse.
    pub items: u32,
}

impl Scale {
    /// Returns the scale of the specification.
    pub const fn specified(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            customers: 3000,
            items: 100_000,
        }
    }

    /// Returns a smaller scale than specified, for tests and trials.
    pub const fn small(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            customers: 30,
            items: 200,
        }
    }

    /// Returns whether the numbers of customers and items are those of the specification.
    pub fn is_specified(&self) -> bool {
        *self == Scale::specified(self.warehouses)
    }

    /// Returns the number of districts of all warehouses.
    fn districts(&self) -> u64 {
        u64::from(self.warehouses) * u64::from(population::DISTRICTS)
    }

    /// Returns the number of orders of a district that are loaded as delivered: 2,100 of 3,000.
    fn delivered(&self) -> u32 {
        self.customers / 10 * 7
    }

    /// Returns the group of `size` that contains a number, and the position in that group, all from
    /// 1.
    fn split(&self, number: u64, size: u32) -> (i64, i64) {
        let (before, size) = (number - 1, u64::from(size));
        ((before / size) as i64 + 1, (before % size) as i64 + 1)
    }
}

/// Packs a warehouse, a district (or 0), and a customer, order or item (or 0) into one number with
/// the same order.
const fn pack(warehouse: i64, district: i64, which: i64) -> u64 {
    (warehouse as u64) << 40 | (district as u64) << 32 | which as u64
}

/// Unpacks a number of [`pack`].
const fn unpack(key: u64) -> (i64, i64, i64) {
    let district = (key >> 32 & 0xff) as i64;
    ((key >> 40) as i64, district, (key & 0xffff_ffff) as i64)
}

/// The number of latest orders of a district whose stocks a stock-level transaction reads.
const LATEST_ORDERS: i64 = 20;
/// C_CREDIT of customers whose payments are recorded in C_DATA.
const BAD_CREDIT: &str = "BC";

/// Returns the quantity of a stock after `taken` were taken; the stock is refilled before it runs
/// short.
const fn restocked(quantity: i64, taken: i64) -> i64 {
    if quantity >= taken + 10 {
        quantity - taken
    } else {
        quantity - taken + 91
    }
}

/// Returns the text that is inserted before C_DATA when a customer with bad credit pays.
fn bad_credit_note(
    customer: i64,
    (c_w_id, c_d_id): mix::District,
    (w_id, d_id): mix::District,
    cents: i64,
) -> String {
    let (units, rest) = (cents / 100, cents % 100);
    format!("{customer} {c_d_id} {c_w_id} {d_id} {w_id} {units}.{rest:02} ")
}
