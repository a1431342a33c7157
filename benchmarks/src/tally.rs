//! Sums that clients keep for the check after a run.
//!
//! A client owns a [`Share`] and adds what its committed transactions did; the share is handed over
//! when the client ends, which is before the check. So counting costs no shared cache line.

use std::sync::atomic::{AtomicI64, Ordering};

/// `N` sums over all clients that have ended.
#[derive(Debug)]
pub(crate) struct Tally<const N: usize>([AtomicI64; N]);

impl<const N: usize> Tally<N> {
    /// All zero.
    pub fn new() -> Tally<N> {
        Tally([const { AtomicI64::new(0) }; N])
    }

    /// The part of one client.
    pub fn share(&self) -> Share<'_, N> {
        Share {
            of: self,
            own: [0; N],
        }
    }

    /// The sums.
    pub fn sums(&self) -> [i64; N] {
        std::array::from_fn(|k| self.0[k].load(Ordering::Relaxed))
    }
}

/// What one client adds.
#[derive(Debug)]
pub(crate) struct Share<'a, const N: usize> {
    of: &'a Tally<N>,
    own: [i64; N],
}

impl<const N: usize> Share<'_, N> {
    /// Adds to each sum.
    #[inline]
    pub fn add(&mut self, by: [i64; N]) {
        for (sum, by) in self.own.iter_mut().zip(by) {
            *sum += by;
        }
    }
}

impl<const N: usize> Drop for Share<'_, N> {
    fn drop(&mut self) {
        for (sum, own) in self.of.0.iter().zip(self.own) {
            // Threads of the run are joined before anybody reads the sums.
            sum.fetch_add(own, Ordering::Relaxed);
        }
    }
}
