//! `tpcc`: TPC-C, nine tables and five transactions, revision 5.11 of the specification.
//!
//! ```text
//!   schema, draw, population, mix     what the tables, rows and requests are, once for both forms
//!   native/    hash tables for what is looked up by key; B-trees for customers by last name, orders
//!              by customer, new orders and order lines
//!   sql/       prepared statements, for the embedded library and any PostgreSQL server
//!   conditions the consistency conditions 3.3.2.1 to 3.3.2.12, over the books of either form
//! ```
//! To specification: the schema, the population, the inputs, the transactions and their shares
//! (45/43/4/4/4). New orders that end with an unused item are rolled back and do not count as
//! committed. A delivery is one transaction over its ten districts. Not to specification, as in all
//! research systems: terminals neither key in nor think, and each thread has the terminals of its own
//! warehouses, so the new orders a second that a report has are no tpmC. With fewer customers or items than the
//! specification has ([`Scale`]), or another share of remote lines and payments ([`Remote`]), reports say so.

mod conditions;
mod done;
mod draw;
mod mix;
mod native;
mod population;
mod schema;
mod sql;

pub use conditions::names as condition_names;
pub use mix::{Remote, Request};
pub use native::TpccNative;
pub use sql::TpccSql;

/// A new order whose last item nobody has; rolled back, as the specification wants of one in a
/// hundred.
const UNUSED_ITEM: &str = "unused_item";

/// What is loaded and asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpccOptions {
    /// How much is loaded.
    pub scale: Scale,
    /// How much of what is asked for is of another warehouse.
    pub remote: Remote,
    /// Threads that share the warehouses.
    pub threads: usize,
    /// All rows follow from it.
    pub seed: u64,
}

/// How much is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses of ten districts.
    pub warehouses: u32,
    /// Customers of a district, and orders that it begins with.
    pub customers: u32,
    /// Items, and so many stocks of each warehouse.
    pub items: u32,
}

impl Scale {
    /// That of the specification.
    pub const fn specified(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            customers: 3000,
            items: 100_000,
        }
    }

    /// For tests and trials, smaller than specified.
    pub const fn small(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            customers: 30,
            items: 200,
        }
    }

    /// Whether customers and items are those of the specification.
    pub fn is_specified(&self) -> bool {
        *self == Scale::specified(self.warehouses)
    }

    /// Districts of all warehouses.
    fn districts(&self) -> u64 {
        u64::from(self.warehouses) * u64::from(population::DISTRICTS)
    }

    /// Orders of a district that are loaded as delivered: 2,100 of 3,000.
    fn delivered(&self) -> u32 {
        self.customers / 10 * 7
    }

    /// Which group of `size` a number from 1 is in, and which of that group it is.
    fn split(&self, number: u64, size: u32) -> (i64, i64) {
        let (before, size) = (number - 1, u64::from(size));
        ((before / size) as i64 + 1, (before % size) as i64 + 1)
    }
}

/// One number for a warehouse, a district of it (or 0), and a customer, order or item (or 0); ordered
/// as they are.
const fn pack(warehouse: i64, district: i64, which: i64) -> u64 {
    (warehouse as u64) << 40 | (district as u64) << 32 | which as u64
}

/// What [`pack`] packed.
const fn unpack(key: u64) -> (i64, i64, i64) {
    let district = (key >> 32 & 0xff) as i64;
    ((key >> 40) as i64, district, (key & 0xffff_ffff) as i64)
}

/// Orders of a district whose stocks a stock-level transaction looks at.
const LATEST_ORDERS: i64 = 20;
/// C_CREDIT of customers of whose payments notes are kept.
const BAD_CREDIT: &str = "BC";

/// What is left of a stock after so many were taken; it is filled up before it runs short.
const fn restocked(quantity: i64, taken: i64) -> i64 {
    if quantity >= taken + 10 {
        quantity - taken
    } else {
        quantity - taken + 91
    }
}

/// What is put before C_DATA when a customer with bad credit pays.
fn bad_credit_note(
    customer: i64,
    (c_w_id, c_d_id): mix::District,
    (w_id, d_id): mix::District,
    cents: i64,
) -> String {
    let (units, rest) = (cents / 100, cents % 100);
    format!("{customer} {c_d_id} {c_w_id} {d_id} {w_id} {units}.{rest:02} ")
}
