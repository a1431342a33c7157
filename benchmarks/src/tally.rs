//! Sums that clients keep for the check after a run.
//!
//! A client owns a [`ClientSums`] and adds the effects of its committed transactions. The share is
//! added to the sums when the client ends, which is before the check. So counting needs no shared
//! cache line.

use std::sync::atomic::{AtomicI64, Ordering};

/// `N` sums over all clients that have ended.
#[derive(Debug)]
pub(crate) struct Tally<const N: usize>([AtomicI64; N]);

impl<const N: usize> Tally<N> {
    /// Creates sums that are zero.
    pub fn new() -> Tally<N> {
        Tally([const { AtomicI64::new(0) }; N])
    }

    /// Creates the share of one client.
    pub fn share(&self) -> ClientSums<'_, N> {
        ClientSums {
            of: self,
            own: [0; N],
        }
    }

    /// Returns the sums.
    pub fn sums(&self) -> [i64; N] {
        std::array::from_fn(|k| self.0[k].load(Ordering::Relaxed))
    }
}

/// The sums of one client.
#[derive(Debug)]
pub(crate) struct ClientSums<'a, const N: usize> {
    of: &'a Tally<N>,
    own: [i64; N],
}

impl<const N: usize> ClientSums<'_, N> {
    /// Adds to each sum.
    #[inline]
    pub fn add(&mut self, by: [i64; N]) {
        for (sum, by) in self.own.iter_mut().zip(by) {
            *sum += by;
        }
    }
}

impl<const N: usize> Drop for ClientSums<'_, N> {
    fn drop(&mut self) {
        for (sum, own) in self.of.0.iter().zip(self.own) {
            // All threads of the run are joined before the sums are read.
            sum.fetch_add(own, Ordering::Relaxed);
        }
    }
}
