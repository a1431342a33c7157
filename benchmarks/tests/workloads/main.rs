//! The workloads: that each runs whichever way, that its check finds what is wrong, and what commits cost. One program, as each
//! that holds the engine takes long to be linked.

mod corrupted;
mod costs;
mod smoke;
