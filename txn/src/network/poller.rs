//! The poller: who looks at the receiving ends of all peers ([`super::ends`]), and does what is due now and then.
//!
//! ```text
//! poller's thread ─┐               ┌─► ends of all peers
//! fabric's thread ─┼─► attend_once ┼─► who governs ([`super::governor`])
//!                  │               └─► what the machine was given to do ([`Machine::attend_to`])
//! who waits ───────┴─► poll: the ends alone
//!                      tick: truncations, boards, stocks, the door, the time
//! ```
//! Whoever waits for an answer may poll; one at a time does. A fabric with a thread that everything arrives through has it
//! look there ([`Attendant`]). The poller's thread sleeps at the bell when there is nothing to do, and wakes now and then to
//! truncate and to say what is read no more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencepost_fabric::Attendant;

use super::{Network, Peer, Work};
use crate::machine::Machine;

/// Sleep of the poller with nothing to do.
const IDLE: Duration = Duration::from_millis(20);
/// The same while something is to be truncated.
const BUSY: Duration = Duration::from_millis(1);
/// Looks at all rings before the poller sleeps.
const LOOKS: u32 = 64;
/// Looks that find something before other threads have their turn. Those that wait for an answer give theirs away at each
/// look, and where they share a processor with one that never does they are let run once in its time slice.
const LOOKS_AT_ONCE: u32 = 256;
/// Polls between two times at which what is due now and then is done.
const TICK_POLLS: u32 = 1024;
/// The same where another thread than the poller's attends, for whom nobody does it before it sleeps.
const TICK_ATTENDED: u32 = 64;
/// Looks of an attendant before it lets others use its thread.
const ATTENDED_AT_ONCE: u32 = 8;

/// What a look has come upon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// What peers have written.
    Work,
    /// What is looked after until it is over, whether it comes further or not; perhaps work, too.
    Governing,
}

impl Network {
    /// Processes what peers have written; whether there was anything. Somebody else may be at it: then
    /// there is nothing to do here.
    pub fn poll(&self, machine: &Machine) -> bool {
        self.try_poll(machine).unwrap_or(false)
    }

    /// `None` where somebody else is at it.
    fn try_poll(&self, machine: &Machine) -> Option<bool> {
        let mut ends = self.ends.try_lock()?;
        let mut any = false;
        for end in ends.iter_mut() {
            any |= end.poll(machine, self);
        }
        drop(ends);
        if let Some(disk) = &self.disk {
            any |= disk.look();
        }
        Some(any)
    }

    /// Polls, and does what was given to do; whether there was anything.
    fn attend_once(&self, machine: &Machine) -> Found {
        let polled = self.try_poll(machine);
        if polled.is_none() {
            // Whoever is at it may have looked before it came; the poller will.
            self.fabric.bell().ring();
        }
        let governed = self.govern(machine);
        let worked = self.work.get().is_some_and(|work| work());
        match polled.unwrap_or(false) || worked {
            _ if governed => Found::Governing,
            true => Found::Work,
            false => Found::Nothing,
        }
    }

    /// What is due now and then.
    fn tick(&self, machine: &Machine) {
        self.finish(machine.regions());
        // A lease that has come back is no event.
        self.configured.tell_waiting();
        for peer in self.fellows().filter(|peer| peer.link.is_awaited()) {
            let _ = peer.link.probe();
        }
        self.look_at_door();
        self.look_after_lines();
        self.forget_lost_questions();
        self.look_after_regions(machine);
        self.forget_durable();
        self.look_at_late();
        self.look_for_space();
        self.give_up_without_disk();
        self.peers.iter().for_each(|peer| {
            peer.link.flush_truncated();
            peer.link.pay();
        });
        self.find_low_bound();
        if self.disk.is_some() {
            self.peers.iter().for_each(|peer| peer.link.tell_low());
        }
        let now = machine.clock().low();
        self.trim_stocks(now, false);
        self.look_for_circles(machine, now);
        self.keep_time(machine.clock());
        let mine = machine.readers().oldest(machine.clock());
        self.gather_boards(machine.clock(), mine);
        self.oldest(mine);
    }
}

impl Machine {
    /// Has whoever attends call `work` after each look at what peers have written: the poller's thread, or
    /// one of the fabric. It answers whether there was something to do, and waits for nothing. Nothing
    /// happens where a machine is alone.
    pub fn attend_to(&self, work: Work) {
        if let Some(network) = self.network() {
            // There is one who has work for it, once.
            let _ = network.work.set(work);
        }
    }

    /// Makes whoever attends look.
    pub fn call_attendant(&self) {
        if let Some(network) = self.network() {
            network.fabric.ring_bell(network.me());
        }
    }

    /// Does what peers wait for and what is due; whether anything had come. For whoever runs machines
    /// without threads of their own ([`super::NetworkOptions::driven`]); [`Self::due_ns`] says when again.
    pub fn drive(&self) -> bool {
        self.network().is_some_and(|network| {
            if let Some(leasing) = network.leasing() {
                leasing.poll();
            }
            let found = network.attend_once(self);
            network.tick(self);
            found != Found::Nothing
        })
    }
}

/// What looks at the rings on a thread of the fabric.
struct Looks {
    machine: Weak<Machine>,
    times: AtomicU32,
}

impl Attendant for Looks {
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
        (0..ATTENDED_AT_ONCE).all(|_| network.attend_once(&machine) != Found::Nothing)
    }
}

/// Starts the poller's thread, and that of the leases, unless the machine is driven; they end with the machine.
pub(crate) fn start_threads(machine: &Arc<Machine>) -> std::io::Result<()> {
    let Some(network) = machine.network().filter(|network| !network.driven) else {
        return Ok(());
    };
    if let Some(leasing) = network.leasing() {
        leasing.start()?;
    }
    let attended = network.fabric.set_attendant(Box::new(Looks {
        machine: Arc::downgrade(machine),
        times: AtomicU32::new(0),
    }));
    // Where somebody else attends there is nothing to look out for.
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
            Found::Work => {
                quiet = 0;
                finds += 1;
                if finds < LOOKS_AT_ONCE {
                    continue;
                }
            }
            Found::Governing => quiet = 0,
            Found::Nothing => quiet += 1,
        }
        finds = 0;
        if quiet < looks {
            std::thread::yield_now();
            continue;
        }
        network.tick(&machine);
        let fabric = Arc::clone(network.fabric());
        let armed = fabric.bell().arm();
        if network.attend_once(&machine) != Found::Nothing {
            fabric.bell().disarm();
            continue;
        }
        let waits = |peer: &Peer| peer.link.has_truncated() || peer.link.is_awaited();
        let busy = network.fellows().any(waits);
        let sleep = network.until_due(if busy { BUSY } else { IDLE });
        // Asleep it does not keep the machine.
        drop(machine);
        fabric.bell().wait(armed, sleep);
        quiet = 0;
    }
}
