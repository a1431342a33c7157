//! The bells that wake a machine's parked threads, also from another process. One bell is for the
//! poller, one for leases.
//!
//! ```text
//! poller   look at everything ─ nothing ─► let armed = arm() ─ look again ─ nothing ─► wait(armed)
//! peer     write ─► ring(): nothing to do unless armed
//! ```
//! # Invariant
//! BELL-1: the look after `arm` sees every write before `ring`, or `ring` ends the wait. The poller
//! arms the bell and then looks. The peer writes and then checks whether the bell is armed. So one
//! of the two sees the other.
//!
//! One thread polls: it alone calls [`Bell::arm`], [`Bell::disarm`] and [`Bell::wait`]. Any number
//! of threads and processes ring. A wait may end spuriously.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use crate::memory::Memory;

/// Set while the poller is about to wait, or waits.
const ARMED: u32 = 1;

/// A bell in a word of shared memory.
#[derive(Clone, Debug)]
pub struct Bell {
    memory: Arc<Memory>,
    word: usize,
}

/// The value of the bell at [`Bell::arm`], which stays equal until a thread rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BellValue(u32);

impl Bell {
    /// Returns the bell in `word` of `memory`, which must have no other use. The other functions of
    /// the bell panic if `memory` has no such word.
    pub fn new(memory: Arc<Memory>, word: usize) -> Self {
        Bell { memory, word }
    }

    fn state(&self) -> &AtomicU32 {
        self.memory.half_word(self.word)
    }

    /// Arms the bell: from here on [`Self::ring`] ends the next wait. A full barrier
    /// (`Ordering::SeqCst`): loads after it see every write before a ring that found the bell
    /// unarmed (BELL-1).
    pub fn arm(&self) -> BellValue {
        let armed = self.state().fetch_or(ARMED, Ordering::SeqCst) | ARMED;
        fence(Ordering::SeqCst);
        BellValue(armed)
    }

    /// Undoes [`Self::arm`], because the poller has found work.
    pub fn disarm(&self) {
        self.state().fetch_and(!ARMED, Ordering::Relaxed);
    }

    /// Blocks the thread until the bell has been rung since `armed`, but at most for `timeout`, and
    /// disarms the bell. May also end earlier.
    pub fn wait(&self, armed: BellValue, timeout: Duration) {
        let timeout = futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // The poller looks again after every wait, also after an error.
        let _ = futex::wait(self.state(), futex::Flags::empty(), armed.0, Some(&timeout));
        self.disarm();
    }

    /// Wakes the poller if the bell is armed. Never blocks; a system call is made only to wake. A
    /// full barrier (`Ordering::SeqCst`), so that the caller's earlier writes are covered (BELL-1).
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.state().load(Ordering::Relaxed) & ARMED != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // The changed value stops a poller that is about to wait.
        self.state().fetch_add(1 << 1, Ordering::SeqCst);
        self.disarm();
        let _ = futex::wake(self.state(), futex::Flags::empty(), 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn waiting_poller_is_woken() {
        let memory = Arc::new(Memory::anonymous(8).expect("memory"));
        let (bell, done) = (Bell::new(memory, 3), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let armed = bell.arm();
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    bell.wait(armed, Duration::from_secs(600));
                }
            });
            done.store(true, Ordering::Release);
            bell.ring();
        });
    }

    #[test]
    fn ringing_between_arming_and_waiting_is_not_lost() {
        let memory = Arc::new(Memory::anonymous(1).expect("memory"));
        let bell = Bell::new(memory, 0);
        let armed = bell.arm();
        bell.ring();
        bell.wait(armed, Duration::from_secs(600));
    }
}
