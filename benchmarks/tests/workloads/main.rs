//! Tests of the workloads: each runs through each interface, its check detects damage, and the cost
//! of commits is as computed. They are one program, because linking the engine takes long.

mod corrupted;
mod costs;
mod queries;
mod smoke;
