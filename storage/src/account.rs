//! Memory accounting: one budget for region memory, old versions and large write sets.
//!
//! Memory is charged when it is first put to use, in steps of a few pages, and given back when it
//! can be used for something else. At the limit a charge is refused and nothing else happens: reads
//! go on, and what was charged stays usable. So it is where the memory is in a file system that has no
//! room left, which others take, too: what of it is set aside covers what they take between two looks.

use std::sync::atomic::{AtomicU64, Ordering};

/// The budget refused a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory limit is reached")]
pub struct OutOfMemory;

/// Says how many bytes are left where the memory is.
pub type Room = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// How often it is asked for: whenever so many bytes have been taken.
const LOOK_BYTES: u64 = 1 << 20;
/// What is to be left, for copies at other machines of what is charged here, and for what they charge.
const LEFT_BYTES: u64 = 32 << 20;

/// A budget in bytes.
pub struct Account {
    limit: u64,
    used: AtomicU64,
    room: Option<Room>,
}

impl Account {
    /// The limit of one that has none.
    pub const NO_LIMIT: u64 = u64::MAX / 2;

    /// A budget of `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            room: None,
        }
    }

    /// The same where there may be less.
    #[must_use]
    pub fn within(mut self, room: Room) -> Self {
        self.room = Some(room);
        self
    }

    /// Takes `bytes` from the budget.
    ///
    /// # Errors
    /// [`OutOfMemory`] when they are not there; nothing is taken then.
    pub fn charge(&self, bytes: u64) -> Result<(), OutOfMemory> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let sum = used.saturating_add(bytes);
        if sum > self.limit || used / LOOK_BYTES != sum / LOOK_BYTES && !self.has_room() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory);
        }
        Ok(())
    }

    #[cold]
    fn has_room(&self) -> bool {
        let left = self.room.as_ref().and_then(|room| room());
        left.is_none_or(|left| left >= LEFT_BYTES)
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
    use std::sync::Arc;

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

    #[test]
    fn a_full_file_system_refuses_as_the_limit_does() {
        let left = Arc::new(AtomicU64::new(LEFT_BYTES));
        let room = Arc::clone(&left);
        let account = Account::new(1 << 40);
        let account = account.within(Box::new(move || Some(room.load(Ordering::Relaxed))));
        assert_eq!(account.charge(LOOK_BYTES + 1), Ok(()));
        left.store(LEFT_BYTES - 1, Ordering::Relaxed);
        assert_eq!(account.charge(LOOK_BYTES), Err(OutOfMemory));
        assert_eq!(account.used(), LOOK_BYTES + 1);
        // What was set aside is for those.
        assert_eq!(account.charge(8), Ok(()));
        left.store(LEFT_BYTES, Ordering::Relaxed);
        assert_eq!(account.charge(LOOK_BYTES), Ok(()));
    }
}
