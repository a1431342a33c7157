//! The poller: the threads that poll the receivers of all peers ([`super::ends`]), and the periodic
//! tasks.
//!
//! ```text
//! poller's thread ─┐               ┌─► receivers of all peers
//! fabric's thread ─┼─► attend_once ┼─► reconfiguration driver ([`super::driver`])
//!                  │               └─► additional work of the machine ([`Machine::attend_to`])
//! a waiting task ──┴─► poll: the receivers alone
//!                      tick: truncations, status pages, stocks, join endpoint, time
//! ```
//! A task that waits for a reply may poll; one thread polls at a time. A fabric that receives
//! everything on a thread of its own polls on that thread ([`ArrivalHandler`]). The poller's thread
//! sleeps at the bell when there is nothing to do. It wakes periodically to truncate and to publish
//! the oldest read timestamp.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencepost_fabric::ArrivalHandler;

use super::{Network, Peer, Work};
use crate::machine::Machine;

/// Sleep of the poller with nothing to do.
const IDLE: Duration = Duration::from_millis(20);
/// Sleep while some transaction is to be truncated.
const BUSY: Duration = Duration::from_millis(1);
/// Polls of all rings that find nothing before the poller sleeps.
const LOOKS: u32 = 64;
/// Polls that find something before the poller yields to other threads. Threads that wait for a
/// reply yield at each poll. On a processor shared with a thread that never yields they would run
/// once in its time slice.
const LOOKS_AT_ONCE: u32 = 256;
/// Polls between two ticks.
const TICK_POLLS: u32 = 1024;
/// Polls between two ticks on a fabric's thread, where no thread ticks before it sleeps.
const TICK_ATTENDED: u32 = 64;
/// Polls of an attendant before it lets others use its thread.
const ATTENDED_AT_ONCE: u32 = 8;

/// The result of a poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollResult {
    Nothing,
    /// Peers have written records or messages.
    Work,
    /// The reconfiguration driver is active and is called again even without new input; perhaps
    /// there is other work, too.
    Governing,
}

impl Network {
    /// Processes the records and messages of peers. Returns whether there were any; `false` if
    /// another thread is polling.
    pub fn poll(&self, machine: &Machine) -> bool {
        self.try_poll(machine).unwrap_or(false)
    }

    /// Does the same; `None` if another thread is polling.
    fn try_poll(&self, machine: &Machine) -> Option<bool> {
        let mut receivers = self.receivers.try_lock()?;
        let mut any = false;
        for receiver in receivers.iter_mut() {
            any |= receiver.poll(machine, self);
        }
        drop(receivers);
        if let Some(disk) = &self.disk {
            any |= disk.look();
        }
        Some(any)
    }

    /// Polls and does the additional work. Returns whether there was any.
    fn attend_once(&self, machine: &Machine) -> PollResult {
        let polled = self.try_poll(machine);
        if polled.is_none() {
            // Another thread is polling and may have missed this message: ring the bell so that the
            // poller looks again.
            self.fabric.bell().ring();
        }
        let governed = self.govern(machine);
        let worked = self.work.get().is_some_and(|work| work());
        match polled.unwrap_or(false) || worked {
            _ if governed => PollResult::Governing,
            true => PollResult::Work,
            false => PollResult::Nothing,
        }
    }

    /// Does the periodic tasks.
    fn tick(&self, machine: &Machine) {
        self.finish(machine.regions());
        // A renewed lease causes no event.
        self.configured.tell_waiting();
        for peer in self.member_peers().filter(|peer| peer.sender.is_awaited()) {
            let _ = peer.sender.probe();
        }
        self.serve_join_requests();
        self.look_after_lines();
        self.forget_lost_questions();
        self.look_after_regions(machine);
        self.forget_durable();
        self.look_at_late();
        self.look_for_space();
        self.give_up_without_disk();
        self.peers.iter().for_each(|peer| {
            peer.sender.flush_truncated();
            peer.sender.pay();
        });
        self.find_low_bound();
        if self.disk.is_some() {
            self.peers.iter().for_each(|peer| peer.sender.tell_low());
        }
        let now = machine.clock().low();
        self.trim_stocks(now, false);
        self.detect_distributed_deadlocks(machine, now);
        self.keep_time(machine.clock());
        let mine = machine.readers().oldest(machine.clock());
        self.gather_status_pages(machine.clock(), mine);
        self.oldest(mine);
    }
}

impl Machine {
    /// Registers `work`, to be called after each poll by the thread that attends: the poller's
    /// thread or one of the fabric. `work` returns whether there was something to do, and must not
    /// block. Does nothing on a machine that is alone.
    pub fn attend_to(&self, work: Work) {
        if let Some(network) = self.network() {
            // Only one caller registers work, once.
            let _ = network.work.set(work);
        }
    }

    /// Wakes the thread that attends.
    pub fn call_attendant(&self) {
        if let Some(network) = self.network() {
            network.fabric.ring_bell(network.me());
        }
    }

    /// Polls, and does the periodic tasks. Returns whether anything had arrived. For callers that
    /// run machines without threads ([`super::NetworkOptions::driven`]); [`Self::due_ns`] tells
    /// when to call again.
    pub fn drive(&self) -> bool {
        self.network().is_some_and(|network| {
            if let Some(leasing) = network.leasing() {
                leasing.poll();
            }
            let found = network.attend_once(self);
            network.tick(self);
            found != PollResult::Nothing
        })
    }
}

/// The attendant that polls the rings on a thread of the fabric.
struct RingPoller {
    machine: Weak<Machine>,
    times: AtomicU32,
}

impl ArrivalHandler for RingPoller {
    fn attend(&self) -> bool {
        let Some(machine) = self.machine.upgrade() else {
            return false;
        };
        let Some(network) = machine.network().filter(|network| !network.is_stopped()) else {
            return false;
        };
        let times = self.times.fetch_add(1, Ordering::Relaxed);
        if times.is_multiple_of(TICK_ATTENDED) {
            network.tick(&machine);
        }
        (0..ATTENDED_AT_ONCE).all(|_| network.attend_once(&machine) != PollResult::Nothing)
    }
}

/// Starts the threads of the poller and of the leases, unless the machine is driven. They end with
/// the machine.
pub(crate) fn start_threads(machine: &Arc<Machine>) -> std::io::Result<()> {
    let Some(network) = machine.network().filter(|network| !network.driven) else {
        return Ok(());
    };
    if let Some(leasing) = network.leasing() {
        leasing.start()?;
    }
    let attended = network.fabric.set_attendant(Box::new(RingPoller {
        machine: Arc::downgrade(machine),
        times: AtomicU32::new(0),
    }));
    // With a fabric's thread as attendant the poller need not spin.
    let looks = if attended { 0 } else { LOOKS };
    let weak = Arc::downgrade(machine);
    let name = format!("poller {}", network.me());
    let poller = std::thread::Builder::new().name(name);
    *network.poller.lock() = Some(poller.spawn(move || run(&weak, looks))?);
    Ok(())
}

fn run(weak: &Weak<Machine>, looks: u32) {
    let (mut quiet, mut finds, mut polls) = (0, 0, 0u32);
    loop {
        let Some(machine) = weak.upgrade() else {
            return;
        };
        let Some(network) = machine.network().filter(|network| !network.is_stopped()) else {
            return;
        };
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(TICK_POLLS) {
            network.tick(&machine);
        }
        match network.attend_once(&machine) {
            PollResult::Work => {
                quiet = 0;
                finds += 1;
                if finds < LOOKS_AT_ONCE {
                    continue;
                }
            }
            PollResult::Governing => quiet = 0,
            PollResult::Nothing => quiet += 1,
        }
        finds = 0;
        if quiet < looks {
            std::thread::yield_now();
            continue;
        }
        network.tick(&machine);
        let fabric = Arc::clone(network.fabric());
        let armed = fabric.bell().arm();
        if network.attend_once(&machine) != PollResult::Nothing {
            fabric.bell().disarm();
            continue;
        }
        let waits = |peer: &Peer| peer.sender.has_truncated() || peer.sender.is_awaited();
        let busy = network.member_peers().any(waits);
        let sleep = network.until_due(if busy { BUSY } else { IDLE });
        // A sleeping poller must not keep the machine alive.
        drop(machine);
        fabric.bell().wait(armed, sleep);
        quiet = 0;
    }
}
