//! Timestamps that are in force: the CM's time has passed them.
//!
//! # Invariant
//! * CLOCK-2: a transaction reads nothing before its R is in force. A refresh checks nothing before
//!   its R′ is in force. A commit validates and installs nothing before its W is in force.
//!
//! A reader at R before that could miss a commit of another machine: one that takes a W below R
//! afterwards. Where the clock is exact, R is in force at once and W a tick later. Elsewhere that
//! takes about as long as the clock is uncertain. While it waits, a transaction may take a lower
//! timestamp as the uncertainty becomes smaller. A machine that has not exchanged the time for long
//! does so at once, instead of waiting for its whole uncertainty. While the clock is stopped
//! because of a new CM, nothing comes into force.

use fencepost_storage::Timestamp;

use crate::backoff::moment;
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

impl Machine {
    /// Returns a write timestamp of a machine in a cluster, in force. It is above every timestamp
    /// that has been read or written so far, and above `overwritten`, the newest version that the
    /// caller has locked.
    ///
    /// # Errors
    /// As [`Self::in_force`].
    pub(crate) fn write_timestamp(
        &self,
        overwritten: Timestamp,
    ) -> Work<'_, Result<Timestamp, AbortReason>> {
        Box::pin(async move {
            let after = |now: Timestamp| Timestamp::from_raw(now.max(overwritten).raw() + 1);
            self.in_force(after).await
        })
    }

    /// Waits until the timestamp that `pick` makes of U is in force, and returns it.
    ///
    /// # Errors
    /// [`AbortReason::Unreachable`] where the CM has not told the time yet.
    pub(crate) async fn in_force(
        &self,
        pick: impl Fn(Timestamp) -> Timestamp,
    ) -> Result<Timestamp, AbortReason> {
        let clock = self.clock();
        let (mut low, high) = clock.interval();
        let mut picked = pick(high);
        if !clock.is_exact()
            && let Some(network) = self.network()
        {
            network.time_goes_on(clock).await?;
            network.need_time(clock);
            if !clock.is_known() {
                return Err(AbortReason::Unreachable);
            }
        }
        let mut round = 0;
        while low < picked {
            match self.network().filter(|_| !clock.is_exact()) {
                None => moment(round).await,
                Some(network) => {
                    network.time_goes_on(clock).await?;
                    network
                        .let_time_pass(self, picked.raw().saturating_sub(low.raw()))
                        .await;
                }
            }
            round += 1;
            let interval = clock.interval();
            low = interval.0;
            picked = picked.min(pick(interval.1));
        }
        Ok(picked)
    }
}

impl Transaction {
    /// Waits until R is in force; R may be lowered.
    #[inline]
    pub(crate) async fn come_into_force(&mut self) -> Result<(), Stop> {
        match self.context().in_force {
            true => Ok(()),
            false => self.wait_for_force().await,
        }
    }

    #[cold]
    fn wait_for_force(&mut self) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            // The published read timestamp ([`crate::readers`]) is below both values of R.
            let r = self.context().r;
            if fault::injected(Fault::SkipWaitForForce) && self.machine().clock().is_known() {
                self.context_mut().in_force = true;
                return Ok(());
            }
            let r = self.machine().in_force(|now| now.min(r)).await;
            let context = self.context_mut();
            context.r = r.map_err(Stop::Retry)?;
            context.in_force = true;
            Ok(())
        })
    }
}
