//! Synchronisation with the CM's clock, for machines of other hosts.
//!
//! ```text
//! TIME     asked: the own clock                              to the CM
//! TIME_IS  asked | host of the CM | ahead, its clock         from it
//! ```
//! The time of the request comes back with the answer, so no state is kept for it. A machine on the
//! CM's host needs one answer, because it shares the clock. Others ask often at first, then every
//! few milliseconds while transactions wait for the time, and rarely otherwise.
//!
//! # Failure
//! A new CM has a new time: see [`crate::clock`] and [`super::driver`].
//!
//! Requests and answers that find no space, or no connection, are dropped; a machine without an
//! answer asks again. Until it has one, its bounds widen, and transactions wait longer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use super::message::WordReader;
use super::{Network, NetworkOptions, PeerSender};
use crate::backoff::yield_now;
use crate::clock::{Clock, ClockState, TICK_NS, TimeAnswer};
use crate::machine::Machine;
use crate::record::BadRecord;
use crate::stop::AbortReason;

/// Tags of the messages.
pub(super) const TIME: u8 = 16;
pub(super) const TIME_IS: u8 = 17;

/// Number of initial exchanges at short intervals.
const FIRST: u64 = 8;
/// Nanoseconds between two of them.
const EVERY_FIRST: u64 = 1_000_000;
/// Nanoseconds between later exchanges while transactions wait for the time.
const EVERY_IN_USE: u64 = 10_000_000;
/// Nanoseconds between exchanges while no transaction waits.
const EVERY_IDLE: u64 = 1_000_000_000;
/// Nanoseconds after which a machine without an answer asks again.
const ASK_AGAIN_NS: u64 = 20_000_000;

/// Nanoseconds of waiting above which the thread sleeps instead of polling the clock.
const LONG: u64 = 200_000;
/// The length of one sleep.
const BACKOFF: Duration = Duration::from_micros(50);

/// The state of the requests for the time.
pub(super) struct TimeRequests {
    /// Identifies the host: machines on the same host share a clock.
    host: u64,
    /// By the own clock: the time of the last request, and of the last request that was answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Whether a transaction has waited for the time since.
    in_use: AtomicBool,
}

impl TimeRequests {
    pub fn new(options: &NetworkOptions) -> TimeRequests {
        TimeRequests {
            host: options.host,
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            in_use: AtomicBool::new(false),
        }
    }

    pub fn host(&self) -> u64 {
        self.host
    }

    /// Forgets the open request to the previous CM.
    pub fn begin_anew(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        self.answered.fetch_max(asked, Ordering::Relaxed);
    }
}

impl Network {
    /// Requests the time, unless an answer is on its way.
    pub fn ask_time(&self, clock: &Clock) {
        let sender = self.sender(self.configured.cm());
        let Some(sender) = sender.filter(|sender| sender.was_up()) else {
            return;
        };
        let TimeRequests {
            asked, answered, ..
        } = &self.asking;
        let (now, last) = (clock.own_ns().max(1), asked.load(Ordering::Relaxed));
        let waits = last > answered.load(Ordering::Relaxed);
        if waits && now.saturating_sub(last) < ASK_AGAIN_NS {
            return;
        }
        let mine = asked.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            // A full queue is not read soon: repeat the request later.
            let _ = sender.send(TIME, &[now]);
        }
    }

    /// Requests the time if that is due.
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

    /// Notes that a transaction waits for the time, and requests it at once if it is not known
    /// well.
    pub fn need_time(&self, clock: &Clock) {
        if !self.asking.in_use.load(Ordering::Relaxed) {
            self.asking.in_use.store(true, Ordering::Relaxed);
        }
        if !clock.is_known() || clock.is_wide() {
            self.ask_time(clock);
        }
    }

    /// Waits until the time continues, if it is stopped.
    ///
    /// # Errors
    /// [`AbortReason::Unreachable`] if this machine stops, or is no member any more.
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

    /// Waits a part of `left` ticks, and lets other tasks run meanwhile.
    pub async fn let_time_pass(&self, machine: &Machine, left: u64) {
        // A driven machine has no other threads to wait for.
        if !self.poll(machine) && !self.driven {
            match left.saturating_mul(TICK_NS) > LONG {
                true => std::thread::sleep(BACKOFF),
                false => std::thread::yield_now(),
            }
        }
        yield_now().await;
    }

    /// Handles TIME: answers a peer, if this machine is the CM.
    pub(super) fn tell_time(
        &self,
        clock: &Clock,
        sender: &PeerSender,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let asked = WordReader(words).word()?;
        self.configured.within(|_| {
            if self.configured.cm() == self.me && sender.was_up() {
                let TimeAnswer { ns, ahead } = clock.tell();
                let _ = sender.send(TIME_IS, &[asked, self.asking.host, ahead, ns]);
            }
        });
        Ok(())
    }

    /// Handles TIME_IS: takes the answer of the CM.
    pub(super) fn take_time(
        &self,
        clock: &Clock,
        peer: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let (asked, host) = (reader.word()?, reader.word()?);
        let (ahead, ns) = (reader.word()?, reader.word()?);
        let now = ahead.checked_add(ns / TICK_NS);
        if now.is_none_or(|now| now >= Timestamp::MAX.raw()) {
            return Err(BadRecord("a time that no clock tells"));
        }
        // A CM's time is void once another configuration is applied.
        self.configured.within(|_| {
            if self.configured.cm() != peer || clock.is_exact() || clock.is_stopped() {
                return;
            }
            match host == self.asking.host {
                true => clock.share(ahead),
                false => clock.learn(asked, TimeAnswer { ns, ahead }),
            }
            self.asking.answered.fetch_max(asked, Ordering::Relaxed);
        });
        Ok(())
    }
}

impl Machine {
    /// Returns how well the machine knows the time of the configuration manager.
    pub fn clock_state(&self) -> ClockState {
        self.clock().state()
    }

    /// Returns the lower and upper bound of the configuration manager's time.
    pub fn interval(&self) -> (Timestamp, Timestamp) {
        self.clock().interval()
    }
}
