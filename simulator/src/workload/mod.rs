//! Clients: random transactions of many kinds, each in one of several endings.
//!
//! A transaction takes a few random steps: registers, transfers between accounts, appends to lists,
//! the B-tree, the hash table, large objects, and in some runs tables of a catalog. So every
//! transaction takes part in the order of all objects. In runs of mixed levels most transactions
//! run statements over the ledger instead, at a level that is drawn.

mod accounts;
mod catalog;
mod cells;
mod client;
mod cut_off;
mod ledger;
mod rows;
mod step;
mod tables;
mod values;

pub use client::{Client, ClientRecords};
pub use step::{Halt, Step};
