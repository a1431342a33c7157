//! Random transactions of many kinds from many threads: sets whose nodes are patched and split,
//! guarded scans, objects that are created and freed in the same slots, savepoints. All results
//! must fit one order: a commit at its write timestamp, and every other transaction, including
//! aborted ones, at its snapshot.

mod crash;
mod memory;
mod model;
mod pending_patches;
mod prewrite;
mod set;
mod steps;
mod world;
