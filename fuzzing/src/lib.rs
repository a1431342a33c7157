//! Random input for the whole program and for its parts.
//!
//! [`sql`] sends statements to a server.

#![forbid(unsafe_code)]

pub mod random;
pub mod sql;
