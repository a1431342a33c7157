//! Random input for the whole program and for its parts.
//!
//! [`sql`] sends statements to a server. [`queries`] compares the answers of servers.
//! [`targets`] are functions of bytes, one for each kind of
//! external input: from clients, from other machines, and from disks.

#![forbid(unsafe_code)]

pub mod queries;
pub mod random;
pub mod sql;
pub mod targets;
