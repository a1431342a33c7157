//! Memory accounting: one budget for region memory, old versions and large write sets.
//!
//! Memory is charged when it is first put to use, in steps of a few pages, and given back when it
//! can be used for something else. At the limit a charge is refused and nothing else happens: reads
//! go on, and what was charged stays usable.

use std::sync::atomic::{AtomicU64, Ordering};

/// The budget refused a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory limit is reached")]
pub struct OutOfMemory;

/// A budget in bytes.
#[derive(Debug)]
pub struct Account {
    limit: u64,
    used: AtomicU64,
}

impl Account {
    /// A budget of `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
        }
    }

    /// Takes `bytes` from the budget.
    ///
    /// # Errors
    /// [`OutOfMemory`] when they are not there; nothing is taken then.
    pub fn charge(&self, bytes: u64) -> Result<(), OutOfMemory> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) > self.limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory);
        }
        Ok(())
    }

    /// Takes `bytes` whether they are there or not: for what recovery must load to be able to start.
    pub fn charge_unchecked(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The whole budget.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_charge_takes_nothing() {
        let account = Account::new(100);
        assert_eq!(account.charge(60), Ok(()));
        assert_eq!(account.charge(41), Err(OutOfMemory));
        assert_eq!(account.used(), 60);
        account.release(20);
        assert_eq!(account.charge(60), Ok(()));
    }
}
