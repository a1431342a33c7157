//! TATP: the mobile operator's database, seven short transactions over four tables.
//!
//! Shares, drawn ids and population are those of the specification (and of FaSST's `tatp_defs.h`,
//! but for what that leaves out: ids from 1, numbers of fifteen digits, every column in SQL).
//! A request that the data refuse (a facility that the subscriber does not have, say) is attempted
//! and not committed: three in four commit.
//!
//! Over SQL ([`TatpSql`]) the statements are the specification's, each a prepared statement, those of
//! one transaction in a block. Natively ([`TatpNative`]) the tables are hash tables with FaSST's
//! row sizes; single rows are read lock-free.
//!
//! After a run: subscribers, access rows and facilities are those that were loaded; every forwarding
//! belongs to a facility and has a time that can be; and there are as many forwardings as were
//! loaded, plus committed inserts, less committed deletes.

mod mix;
mod native;
mod population;
mod sql;

pub use mix::{Mix, Request};
pub use native::TatpNative;
pub use population::{Population, Sizes};
pub use sql::TatpSql;

/// Subscribers unless told otherwise.
pub const SUBSCRIBERS: u32 = 100_000;

/// The row to be read or changed is not there.
const NO_ROW: &str = "no_row";
/// The row to be inserted is there.
const DUPLICATE: &str = "duplicate";
