//! The CM's time, for machines of other hosts.
//!
//! ```text
//! TIME     asked: the own clock                              to the CM
//! TIME_IS  asked | host of the CM | ahead, its clock         from it
//! ```
//! What was asked comes back with the answer, so that nothing is to be remembered. A machine of the CM's host
//! needs one answer, for then it has the clock in common. Others ask often at first, then every few
//! milliseconds while transactions wait for the time, and seldom when nobody does.
//!
//! # Failure
//! Another CM has another time: see [`crate::clock`] and [`super::governor`].
//!
//! Questions and answers that find no room, or no connection, are dropped: who is not answered asks again. Until
//! it is, its bounds widen, and transactions wait longer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use super::message::Reader;
use super::{Link, Network, NetworkOptions};
use crate::clock::{Clock, ClockState, TICK_NS, Told};
use crate::machine::Machine;
use crate::moment::let_others_run;
use crate::record::BadRecord;
use crate::stop::AbortReason;

/// Tags of the messages.
pub(super) const TIME: u8 = 16;
pub(super) const TIME_IS: u8 = 17;

/// Exchanges that follow fast upon one another.
const FIRST: u64 = 8;
/// Nanoseconds from one of them to the next.
const EVERY_FIRST: u64 = 1_000_000;
/// The same later, while the time is waited for.
const EVERY_IN_USE: u64 = 10_000_000;
/// The same while it is not.
const EVERY_IDLE: u64 = 1_000_000_000;
/// Nanoseconds after which who has not been answered asks again.
const PATIENCE: u64 = 20_000_000;

/// Nanoseconds that are slept away rather than looked at the clock all the time.
const LONG: u64 = 200_000;
/// How long that sleep is.
const NAP: Duration = Duration::from_micros(50);

/// What a machine knows of whom it asks, and when it did.
pub(super) struct Asking {
    /// Who has this machine's clock in common.
    host: u64,
    /// By the own clock: when it was asked last, and which question was answered last.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Whether the time was waited for since.
    in_use: AtomicBool,
}

impl Asking {
    pub fn new(options: &NetworkOptions) -> Asking {
        Asking {
            host: options.host,
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            in_use: AtomicBool::new(false),
        }
    }

    pub fn host(&self) -> u64 {
        self.host
    }

    /// There is another CM, and nothing to be expected of the one before.
    pub fn begin_anew(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        self.answered.fetch_max(asked, Ordering::Relaxed);
    }
}

impl Network {
    /// Asks for the time, unless an answer is on its way.
    pub fn ask_time(&self, clock: &Clock) {
        let link = self.link(self.configured.cm());
        let Some(link) = link.filter(|link| link.was_up()) else {
            return;
        };
        let Asking {
            asked, answered, ..
        } = &self.asking;
        let (now, last) = (clock.own_ns().max(1), asked.load(Ordering::Relaxed));
        let waits = last > answered.load(Ordering::Relaxed);
        if waits && now.saturating_sub(last) < PATIENCE {
            return;
        }
        let mine = asked.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            // Without room there is nobody who reads it soon.
            let _ = link.send(TIME, &[now]);
        }
    }

    /// Asks for the time if that is due.
    pub(super) fn keep_time(&self, clock: &Clock) {
        self.say_clock(clock.state());
        if clock.is_exact() {
            return;
        }
        let since = clock
            .own_ns()
            .saturating_sub(self.asking.answered.load(Ordering::Relaxed));
        let exchanges = clock.recent_exchanges();
        let every = match self.asking.in_use.load(Ordering::Relaxed) {
            _ if exchanges == 0 => 0,
            _ if exchanges < FIRST => EVERY_FIRST,
            true => EVERY_IN_USE,
            false => EVERY_IDLE,
        };
        if since >= every {
            self.asking.in_use.store(false, Ordering::Relaxed);
            self.ask_time(clock);
        }
    }

    /// Somebody waits for the time: asks at once if it is not known well.
    pub fn need_time(&self, clock: &Clock) {
        if !self.asking.in_use.load(Ordering::Relaxed) {
            self.asking.in_use.store(true, Ordering::Relaxed);
        }
        if !clock.is_known() || clock.is_wide() {
            self.ask_time(clock);
        }
    }

    /// Waits until the time goes on, where it is stopped.
    ///
    /// # Errors
    /// [`AbortReason::Unreachable`] where this machine stops, or is no member any more.
    pub async fn time_goes_on(&self, clock: &Clock) -> Result<(), AbortReason> {
        while clock.is_stopped() {
            let change = self.configured.change();
            if self.is_evicted() || self.is_stopped() {
                return Err(AbortReason::Unreachable);
            }
            if clock.is_stopped() {
                let change = change.await;
                change.map_err(|_| AbortReason::Unreachable)?;
            }
        }
        Ok(())
    }

    /// Waits some of `left` ticks, and lets others go on meanwhile.
    pub async fn let_time_pass(&self, machine: &Machine, left: u64) {
        // A machine that is driven has no other threads to wait for.
        if !self.poll(machine) && !self.driven {
            match left.saturating_mul(TICK_NS) > LONG {
                true => std::thread::sleep(NAP),
                false => std::thread::yield_now(),
            }
        }
        let_others_run().await;
    }

    /// TIME: answers a peer, if this machine is the CM.
    pub(super) fn tell_time(
        &self,
        clock: &Clock,
        link: &Link,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let asked = Reader(words).word()?;
        self.configured.within(|_| {
            if self.configured.cm() == self.me && link.was_up() {
                let Told { ns, ahead } = clock.tell();
                let _ = link.send(TIME_IS, &[asked, self.asking.host, ahead, ns]);
            }
        });
        Ok(())
    }

    /// TIME_IS: what the CM has answered.
    pub(super) fn take_time(
        &self,
        clock: &Clock,
        peer: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let (asked, host) = (reader.word()?, reader.word()?);
        let (ahead, ns) = (reader.word()?, reader.word()?);
        let now = ahead.checked_add(ns / TICK_NS);
        if now.is_none_or(|now| now >= Timestamp::MAX.raw()) {
            return Err(BadRecord("a time that no clock tells"));
        }
        // A CM's time is nobody's any more once another configuration is applied.
        self.configured.within(|_| {
            if self.configured.cm() != peer || clock.is_exact() || clock.is_stopped() {
                return;
            }
            match host == self.asking.host {
                true => clock.share(ahead),
                false => clock.learn(asked, Told { ns, ahead }),
            }
            self.asking.answered.fetch_max(asked, Ordering::Relaxed);
        });
        Ok(())
    }
}

impl Machine {
    /// How well the machine knows the time of the configuration manager.
    pub fn clock_state(&self) -> ClockState {
        self.clock().state()
    }

    /// The bounds between which the time of the configuration manager is.
    pub fn interval(&self) -> (Timestamp, Timestamp) {
        self.clock().interval()
    }
}
