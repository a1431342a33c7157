//! The memory of DataFusion's operators, charged to the machine.
//!
//! # Failure
//! At the pool's own limit or the memory limit the SELECT stops, before it has returned a row. It
//! starts again with the row executor, whose operators write to temporary files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{MemoryPool, MemoryReservation};
use fencepost_txn::Machine;

/// The memory of one SELECT.
pub struct Pool {
    machine: Arc<Machine>,
    bytes_max: usize,
    held: AtomicUsize,
    refused: AtomicBool,
}

impl Pool {
    /// Creates a pool of at most `bytes_max` bytes, without allocations.
    pub fn new(machine: &Arc<Machine>, bytes_max: usize) -> Pool {
        Pool {
            machine: Arc::clone(machine),
            bytes_max,
            held: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
        }
    }

    /// Returns whether a request for memory was refused.
    pub fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "fencepost"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.machine.account().charge_unchecked(additional as u64);
        self.held.fetch_add(additional, Relaxed);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.machine.account().release(shrink as u64);
        self.held.fetch_sub(shrink, Relaxed);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        let is_full = self.reserved().saturating_add(additional) > self.bytes_max;
        if is_full || self.machine.account().charge(additional as u64).is_err() {
            self.refused.store(true, Relaxed);
            return Err(DataFusionError::ResourcesExhausted("memory limit".into()));
        }
        self.held.fetch_add(additional, Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.load(Relaxed)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.reserved())
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
