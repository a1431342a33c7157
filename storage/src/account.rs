//! Memory accounting: one budget for region memory, old versions and large write sets.
//!
//! Memory is charged in steps of a few pages when it is first used, and released when it can be
//! used for something else. At the limit a charge is refused and nothing else happens: reads go on,
//! and charged memory stays usable. A charge is also refused where the memory is in a file system
//! that is nearly full. Other machines use that file system too, so a reserve is kept free for
//! their charges between two checks.
//!
//! *Concurrency.* Any thread may call any function, and none blocks. The counter orders no other
//! memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// The error of a charge that the budget refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory limit is reached")]
pub struct OutOfMemory;

/// A function that returns how many bytes are free in the file system of the memory; `None` where
/// that is unknown.
pub type FreeSpace = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Number of charged bytes after which the free space is checked again.
const LOOK_BYTES: u64 = 1 << 20;
/// Bytes to keep free: for copies of this machine's data at other machines, and for their own
/// charges.
const LEFT_BYTES: u64 = 32 << 20;

/// A budget in bytes.
pub struct Account {
    limit: u64,
    used: AtomicU64,
    free_space: Option<FreeSpace>,
}

impl Account {
    /// The limit of a budget without limit.
    pub const NO_LIMIT: u64 = u64::MAX / 2;

    /// Returns a budget of `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            free_space: None,
        }
    }

    /// Adds a check of the free space to the budget.
    #[must_use]
    pub fn within(mut self, free_space: FreeSpace) -> Self {
        self.free_space = Some(free_space);
        self
    }

    /// Takes `bytes` from the budget.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the budget does not have them; nothing is taken in that case. Near the
    /// limit two concurrent charges may both be refused although one of them would fit.
    pub fn charge(&self, bytes: u64) -> Result<(), OutOfMemory> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let sum = used.saturating_add(bytes);
        if sum > self.limit || used / LOOK_BYTES != sum / LOOK_BYTES && !self.has_space() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory);
        }
        Ok(())
    }

    #[cold]
    fn has_space(&self) -> bool {
        let left = self.free_space.as_ref().and_then(|free_space| free_space());
        left.is_none_or(|left| left >= LEFT_BYTES)
    }

    /// Takes `bytes` even beyond the limit: for data that recovery must load before the machine can
    /// start.
    pub fn charge_unchecked(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns `bytes` to the budget, which must have been taken from it.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the whole budget.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn refused_charge_takes_nothing() {
        let account = Account::new(100);
        assert_eq!(account.charge(60), Ok(()));
        assert_eq!(account.charge(41), Err(OutOfMemory));
        assert_eq!(account.used(), 60);
        account.release(20);
        assert_eq!(account.charge(60), Ok(()));
    }

    #[test]
    fn full_file_system_refuses_charge() {
        let left = Arc::new(AtomicU64::new(LEFT_BYTES));
        let free = Arc::clone(&left);
        let account = Account::new(1 << 40);
        let account = account.within(Box::new(move || Some(free.load(Ordering::Relaxed))));
        assert_eq!(account.charge(LOOK_BYTES + 1), Ok(()));
        left.store(LEFT_BYTES - 1, Ordering::Relaxed);
        assert_eq!(account.charge(LOOK_BYTES), Err(OutOfMemory));
        assert_eq!(account.used(), LOOK_BYTES + 1);
        // A small charge needs no check: it is covered by the reserve.
        assert_eq!(account.charge(8), Ok(()));
        left.store(LEFT_BYTES, Ordering::Relaxed);
        assert_eq!(account.charge(LOOK_BYTES), Ok(()));
    }
}
