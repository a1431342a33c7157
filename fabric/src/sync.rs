//! The atomics that region memory is made of: the standard ones, or loom's when the schedules of a
//! reader and a writer are enumerated (`RUSTFLAGS="--cfg loom"`).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};
