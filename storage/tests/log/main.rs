//! The durable log against a disk that cuts, flips, forgets, fills up and fails.

mod appending;
mod damage;
mod incarnations;
mod reservations;
mod support;
