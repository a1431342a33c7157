//! Timestamps that are in force: the CM's time has passed them.
//!
//! # Invariant
//! * CLOCK-2: a transaction reads nothing before its R is in force, a refresh looks at nothing before its R′
//!   is, and a commit validates nothing and puts nothing in place before its W is.
//!
//! Who read at R before that could miss a commit of another machine: one that takes a W below R afterwards.
//! Where the clock is exact R is in force at once and W a tick later. Elsewhere it takes about as long as the
//! clock is uncertain; who waits may take a lower timestamp as that gets less. A machine whose clock has not
//! been asked for long asks at once, rather than wait for as long as it does not know the time. While the clock is
//! stopped, because there is going to be another CM, nothing comes into force.

use fencepost_storage::Timestamp;

use crate::machine::Machine;
use crate::moment::moment;
use crate::planted::{self, Planted};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

impl Machine {
    /// A write timestamp of a machine among others, in force: above all that anybody has read or written so far,
    /// and above what is `overwritten`, whose locks the caller has.
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

    /// What `pick` makes of U, once it is in force.
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
    /// Returns once R is in force; it may be lower then than it was.
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
            // What it has said that it reads at ([`crate::readers`]) is below either.
            let r = self.context().r;
            if planted::is(Planted::SkipWaitForForce) && self.machine().clock().is_known() {
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
