//! Random transactions of many kinds from many threads: sets whose nodes are patched and split,
//! guarded scans, objects that come and go in the same slots, savepoints. Every story must fit one
//! order: a commit at its write timestamp, everything else, aborted transactions too, at its snapshot.

mod adrift;
mod crash;
mod memory;
mod model;
mod prewrite;
mod set;
mod steps;
mod world;
