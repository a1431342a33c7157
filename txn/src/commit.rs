//! Commit: the phases of SOSP'15 §4 in their order, on one machine as plain function calls. If
//! other machines take part, as primaries or as backups, [`crate::network`] runs the same phases.
//!
//! ```text
//!  prewrite ─► reserve ─► LOCK ─► W ─► VALIDATE ─► log ─► COMMIT-PRIMARY ─► TRUNCATE ─► durable
//!     │ await     │ await    │ stray: reroute, again        │
//!     └───────────┴──────────┴──────────┴── may still abort ┘   from here on it may not fail
//! ```
//! The outcome is reported once it is durable.
//!
//! # Invariants
//! * COMMIT-1: W is taken with all locks held. So W is above every overwritten version, and above
//!   the R of every transaction that has read one of them. Nothing is validated before W is in
//!   force (CLOCK-2).
//! * COMMIT-2: the record is in the log before the first lock is released. So a transaction that
//!   sees a version can wait for its durability by waiting for the log up to its position at that
//!   time.
//! * COMMIT-3: between LOCK and COMMIT-PRIMARY no thread waits for the log: its space was reserved
//!   before LOCK. Only locks, clocks and machines of others are awaited there, and a commit that
//!   waits for a lock lets other tasks run (MOMENT-1). The only foreign code that runs there is
//!   that of node kinds (`apply`, `revalidate`, `revalidate_removed`, `stamp`). If it panics, or
//!   the future is dropped, the locks are released.

use std::sync::Arc;

use fencepost_storage::Timestamp;
use fencepost_storage::log::Lsn;

use crate::backoff::{SPINS, moment};
use crate::context::Context;
use crate::counters::Event;
use crate::intent::Strength;
use crate::lock::LockFailure;
use crate::log_commit::Ready;
use crate::machine::Machine;
use crate::stop::{AbortReason, Outcome, Stop};
use crate::transaction::{Coordinator, Transaction};
use crate::work::Work;
use crate::write_set::{Write, WriteKind};

/// Most times that LOCK is begun again because patches had to be re-routed.
const REROUTES: u32 = 64;

/// Most times that LOCK is begun again because others were committing objects that this transaction
/// has read.
const BUSY_ROUNDS: u32 = 64;

/// The result of a commit that took effect: its timestamp, and the log position at which it is
/// durable.
pub(crate) struct CommitResult {
    pub w: Timestamp,
    pub durable_at: Option<Lsn>,
}

impl Transaction {
    /// Commits. Returns once the outcome is as durable as the machine's tier and
    /// [`Self::set_synchronous`] require. A transaction that wrote nothing waits until everything
    /// that it read is durable. An outcome without effect is returned at once; the caller must
    /// await [`Coordinator::wait_until_durable`] before it reports that outcome.
    ///
    /// Dropping the future aborts the transaction, unless it has taken effect by then.
    ///
    /// Runs on the coordinator's task; waits for log space, locks, answers of other machines, and
    /// durability.
    ///
    /// # Errors
    /// [`Stop`] where the commit had no effect and running it again does not help:
    /// [`Stop::DiskFull`], [`Stop::OutOfMemory`], [`Stop::TooLarge`], [`Stop::NotMember`]. Two
    /// errors differ: [`Stop::Failed`], if the log failed and it is unknown whether the commit
    /// survives a restart; and [`Stop::InDoubt`]. A conflict is no error, but [`Outcome::Aborted`].
    pub async fn commit(mut self) -> Result<Outcome, Stop> {
        if self.context().adrift > 0 {
            self.give_up(AbortReason::Interrupted);
            return Ok(Outcome::Aborted(AbortReason::Interrupted));
        }
        if self.context().writes.is_empty() {
            return self.commit_read().await;
        }
        let mut rounds = 0;
        let mut busy = 0;
        let done = loop {
            let tried = match self.prepare().await {
                Ok(()) => match self.context().network_if_distributed() {
                    None => self.context_mut().commit_write().await,
                    Some(network) => self.commit_distributed(&network).await,
                },
                Err(failure) => Err(failure),
            };
            match tried {
                Ok(done) => break done,
                Err(LockFailure::Abort(AbortReason::ReadLocked | AbortReason::ReadNewer))
                    if busy < BUSY_ROUNDS =>
                {
                    busy += 1;
                    moment(SPINS + busy).await;
                }
                Err(LockFailure::Abort(reason)) => {
                    self.give_up(reason);
                    return Ok(Outcome::Aborted(reason));
                }
                Err(LockFailure::Stop(stop)) => {
                    self.give_up(AbortReason::Requested);
                    return Err(stop);
                }
                Err(LockFailure::Stray((addr, kind))) if rounds < REROUTES => {
                    rounds += 1;
                    // Re-routing may commit transactions of its own, which need log space too.
                    self.context_mut().release_log_space();
                    if let Err(stop) = kind.reroute(&mut self, addr).await {
                        match self.doubt(stop).await {
                            Stop::Retry(reason) => {
                                self.give_up(reason);
                                return Ok(Outcome::Aborted(reason));
                            }
                            stop => return Err(stop),
                        }
                    }
                }
                Err(LockFailure::Stray(_)) => {
                    self.give_up(AbortReason::NodeConflict);
                    return Ok(Outcome::Aborted(AbortReason::NodeConflict));
                }
            }
        };
        let network = self
            .machine()
            .network()
            .filter(|network| !network.may_answer());
        if let Some(network) = network.map(Arc::clone) {
            let admitted = network.admitted().await;
            admitted.map_err(|_| Stop::InDoubt)?;
        }
        let waits = done.durable_at.filter(|_| self.context().synchronous);
        let wait = waits.map(|lsn| (Arc::clone(self.machine()), lsn));
        self.finish();
        if let Some(wait) = wait {
            durable(wait).await?;
        }
        Ok(Outcome::Committed(done.w))
    }

    /// Awaits everything that a commit may have to wait for before it locks anything.
    async fn prepare(&mut self) -> Result<(), LockFailure> {
        // The check is repeated under the locks; done here, it saves waiting transactions a
        // conflict.
        self.context().give_way()?;
        let prepared = match self.context_mut().prepare_log() {
            Ready::Yes => Ok(()),
            Ready::AfterPrewrite => self.prewrite_and_reserve().await,
            Ready::AfterReservation(bytes, appends) => self.reserve(bytes, appends).await,
        };
        prepared.map_err(LockFailure::Stop)
    }

    async fn commit_read(&mut self) -> Result<Outcome, Stop> {
        let context = self.context();
        context
            .machine
            .counters()
            .count(context.lane, Event::CommitRead);
        let wait = context.seen_not_durable();
        let r = context.r;
        let network = context.machine.network();
        let network = network
            .filter(|network| !network.may_answer())
            .map(Arc::clone);
        self.finish();
        if let Some(wait) = wait {
            durable(wait).await?;
        }
        if let Some(network) = network {
            network.admitted().await?;
        }
        Ok(Outcome::Committed(r))
    }

    /// Aborts as [`Self::abort`] does, but returns once everything that the transaction saw is
    /// durable, so that its end may be reported. The transaction is aborted even if the future is
    /// dropped.
    ///
    /// # Errors
    /// [`Stop::Failed`]: the log failed, so versions that were seen may not survive a restart. The
    /// transaction is aborted all the same.
    pub async fn rollback(mut self) -> Result<(), Stop> {
        let wait = self.context().seen_not_durable();
        self.give_up(AbortReason::Requested);
        match wait {
            Some(wait) => durable(wait).await,
            None => Ok(()),
        }
    }
}

impl Coordinator {
    /// Returns once everything that the last transaction saw is durable. Then its end may be
    /// reported although it was not a commit: it was aborted or dropped, or its commit had no
    /// effect.
    ///
    /// # Errors
    /// As [`Transaction::rollback`].
    pub async fn wait_until_durable(&self) -> Result<(), Stop> {
        match self.last(Context::seen_not_durable).flatten() {
            Some(wait) => durable(wait).await,
            None => Ok(()),
        }
    }
}

/// Waits until the log is durable up to a position.
fn durable((machine, lsn): (Arc<Machine>, Lsn)) -> Work<'static, Result<(), Stop>> {
    Box::pin(async move {
        if let Some(log) = machine.log() {
            log.wait_flushed(lsn).await.map_err(|_| Stop::Failed)?;
        }
        Ok(())
    })
}

impl Context {
    /// Returns the log position to wait for before the end of a transaction without writes or
    /// without effect is reported. Returns `None` where everything that it saw is durable, or where
    /// it is not synchronous.
    fn seen_not_durable(&self) -> Option<(Arc<Machine>, Lsn)> {
        let log = self.machine.log()?;
        let wait = self.synchronous && self.newest.raw() > log.durable_watermark();
        wait.then(|| (Arc::clone(&self.machine), log.position()))
    }

    /// Runs the phases from LOCK to TRUNCATE on this machine.
    async fn commit_write(&mut self) -> Result<CommitResult, LockFailure> {
        self.lock().await?;
        self.slot.begin_commit(self.machine.clock());
        if let Err(failure) = self.give_way() {
            self.unlock();
            return Err(failure);
        }
        // With a counter, `count` alone is above every overwritten version: the counter gave them
        // out.
        let w = match self.machine.clock().count() {
            Some(w) => w,
            None => match self
                .machine
                .write_timestamp(self.newest_overwritten())
                .await
            {
                Ok(w) => w,
                Err(reason) => {
                    self.unlock();
                    return Err(LockFailure::Abort(reason));
                }
            },
        };
        match self.certify(w).await {
            Err(failure) => {
                self.unlock();
                self.log_abort();
                Err(failure)
            }
            Ok(durable_at) => {
                if !self.put_in_place_alone(w) {
                    self.unlock();
                    self.log_abort();
                    return Err(LockFailure::Abort(AbortReason::Unreachable));
                }
                self.slot.end_commit();
                self.truncate(w);
                self.machine.counters().count(self.lane, Event::CommitWrite);
                Ok(CommitResult { w, durable_at })
            }
        }
    }

    /// Fails if the transaction yields and another transaction has an intent on an object of this
    /// machine that it overwrites. For objects of other machines their primaries check this in
    /// LOCK.
    pub(crate) fn give_way(&self) -> Result<(), LockFailure> {
        let (intents, me) = (self.machine.intents(), u64::from(self.number));
        let mut exact = self.writes.writes.iter().filter(|write| write.is_exact());
        let held = |write: &Write| {
            let strength = match write.what {
                WriteKind::Freed => Strength::Update,
                _ => Strength::NoKeyUpdate,
            };
            intents.is_others(write.addr, me, strength)
        };
        if self.yields && exact.any(held) {
            return Err(LockFailure::Abort(AbortReason::IntentHeld));
        }
        Ok(())
    }

    /// Returns the timestamp of the newest version that the commit replaces.
    pub(crate) fn newest_overwritten(&self) -> Timestamp {
        let locked = self.writes.writes.iter().filter(|write| write.takes_lock());
        let newest = locked.map(|write| write.base.timestamp()).max();
        newest.unwrap_or(Timestamp::ZERO)
    }

    /// Runs COMMIT-PRIMARY where no other machine takes part. Returns `false`, and does nothing,
    /// where another machine has become a replica of a written region.
    fn put_in_place_alone(&mut self, w: Timestamp) -> bool {
        let put = |context: &mut Context| {
            // From here on the locks are released by installing the new versions.
            context.locked = 0;
            context.commit_primary(w);
            true
        };
        match self.machine.network().map(Arc::clone) {
            None => put(self),
            Some(network) => {
                network.in_configuration(|| self.network_if_distributed().is_none() && put(self))
            }
        }
    }

    /// Runs VALIDATE and appends the log record: the last steps that may fail.
    async fn certify(&mut self, w: Timestamp) -> Result<Option<Lsn>, LockFailure> {
        self.validate(w).await?;
        self.stamp(w);
        self.log_commit(w).map_err(LockFailure::Stop)
    }
}
