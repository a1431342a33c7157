//! TATP: the mobile operator's database, seven short transactions over four tables.
//!
//! Shares, drawn ids and population are those of the specification. They also match FaSST's
//! `tatp_defs.h`, except for the parts that it omits: ids from 1, numbers of fifteen digits, every
//! column in SQL. A request that the data refuses (for example, the subscriber does not have the
//! facility) is attempted and not committed: three in four commit.
//!
//! Over SQL ([`TatpSql`]) the statements are the specification's, each a prepared statement; the
//! statements of one transaction are in a transaction block. Natively ([`TatpNative`]) the tables
//! are hash tables with FaSST's row sizes; single rows are read lock-free.
//!
//! After a run, subscribers, access rows and facilities must be those of the load. Every forwarding
//! must belong to a facility and have a valid time. The number of forwardings must be that of the
//! load plus committed inserts, less committed deletes.

mod mix;
mod native;
mod population;
mod sql;

pub use mix::{Mix, Request};
pub use native::TatpNative;
pub use population::{Population, Sizes};
pub use sql::TatpSql;

/// The default number of subscribers.
pub const SUBSCRIBERS: u32 = 100_000;

/// The failure reason: the row to read or change does not exist.
const NO_ROW: &str = "no_row";
/// The failure reason: the row to insert already exists.
const DUPLICATE: &str = "duplicate";
