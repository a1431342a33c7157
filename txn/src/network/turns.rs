//! Intents on rows of other machines: a place in the line at the row's primary.
//!
//! ```text
//! INTEND     ticket | holder | address | how it waits | how strong   to the primary
//! TURN       ticket | taken, without, others or deadlock             from it, when the wait has ended
//! GIVE_BACK  holder | address | all of it or the place in line       to it, at the end or where nobody waits any more
//! ```
//! A holder is told apart at the primary by the number of its machine above its own.
//!
//! # Failure
//! Intents are advice: where the primary cannot be asked, the transaction goes on without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use fencepost_fabric::{Bell, Completer, Completion, MachineId};
use fencepost_storage::Addr;

use super::message::Reader;
use super::{Link, Network};
use crate::counters::Event;
use crate::intent::{Holder, Intents, Strength, Turn, Wish, WouldDeadlock};
use crate::record::BadRecord;
use crate::stop::Stop;
use crate::transaction::Transaction;
use crate::work::Work;

/// Tags of the messages.
pub(super) const INTEND: u8 = 2;
pub(super) const TURN: u8 = 3;
pub(super) const GIVE_BACK: u8 = 4;

const TAKEN: u64 = 1;
const WITHOUT: u64 = 2;
const DEADLOCK: u64 = 3;
const OTHERS: u64 = 4;

/// How somebody waits: until it is their turn.
const WAITS: u64 = 0;
/// The same, and ends a circle of waits rather than others.
const YIELDS: u64 = 1;
/// Not at all.
const NEVER: u64 = 2;

/// What is given back: the intent, or only the place in line of one who wanted more of a row than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    All = 1,
    Place = 2,
}

/// How a wait at another machine has ended.
pub(super) type Ended = Result<Turn, WouldDeadlock>;

/// A transaction of this machine in a line of a peer.
pub(super) struct Waits {
    /// Of its coordinator.
    number: u64,
    addr: Addr,
    pub completer: Completer<Ended>,
}

/// A place in a line of this machine that a peer's transaction has.
struct Standing {
    ticket: u64,
    holder: Holder,
    addr: Addr,
}

/// The places of one peer's transactions.
pub(super) struct Lines {
    standing: Vec<Standing>,
    changed: Arc<Changed>,
}

/// Told when one of them comes to its end.
struct Changed {
    any: AtomicBool,
    bell: Bell,
}

impl Wake for Changed {
    fn wake(self: Arc<Self>) {
        self.any.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl Lines {
    pub fn new(bell: &Bell) -> Lines {
        Lines {
            standing: Vec::new(),
            changed: Arc::new(Changed {
                any: AtomicBool::new(false),
                bell: bell.clone(),
            }),
        }
    }

    /// Whether nobody stands in line.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// INTEND: takes the intent or stands in line, if the row's line `is_here`. Where it is not, as the region has gone
    /// to another machine since the peer asked, the peer goes on without: its GIVE_BACK would not come here.
    pub fn intend(
        &mut self,
        intents: &Intents,
        peer: MachineId,
        link: &Link,
        is_here: impl Fn(Addr) -> bool,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let (ticket, number) = (reader.word()?, reader.word()?);
        let (addr, how) = (Addr::from_raw(reader.word()?), reader.word()?);
        let strength = Strength::of_code(reader.word()?);
        let strength = strength.ok_or(BadRecord("no intent is that strong"))?;
        if !is_here(addr) {
            answer(link, ticket, Ok(Turn::Without));
            return Ok(());
        }
        let holder = holder_at_peer(peer, number);
        if how == NEVER {
            let turn = match intents.try_take(addr, holder, strength) {
                true => Turn::Taken,
                false => Turn::Others,
            };
            answer(link, ticket, Ok(turn));
            return Ok(());
        }
        let wish = Wish {
            strength,
            yields: how == YIELDS,
            // What it gives back says so.
            has_it: false,
        };
        let waker = Waker::from(Arc::clone(&self.changed));
        match intents.enqueue(addr, holder, wish, &waker) {
            Ok(true) => answer(link, ticket, Ok(Turn::Taken)),
            Err(deadlock) => answer(link, ticket, Err(deadlock)),
            Ok(false) => self.standing.push(Standing {
                ticket,
                holder,
                addr,
            }),
        }
        Ok(())
    }

    /// GIVE_BACK: the intent goes to the next, or the place in line to those behind.
    pub fn give_back(
        &mut self,
        intents: &Intents,
        peer: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let holder = holder_at_peer(peer, reader.word()?);
        let addr = Addr::from_raw(reader.word()?);
        let what = match reader.word()? {
            what if what == Back::All as u64 => Back::All,
            what if what == Back::Place as u64 => Back::Place,
            _ => return Err(BadRecord("nothing to be given back")),
        };
        self.standing
            .retain(|standing| (standing.holder, standing.addr) != (holder, addr));
        match what {
            Back::All => intents.leave(addr, holder),
            Back::Place => intents.stop_waiting(addr, holder),
        }
        Ok(())
    }

    /// The peer is lost: it stands in no line any more.
    pub fn leave(&mut self, intents: &Intents, peer: MachineId) {
        self.standing.clear();
        intents.leave_all(u64::from(peer.0));
    }

    /// Rows of regions that `are_gone` have their lines at another machine: nobody stands in line for them here.
    pub fn part_with(&mut self, are_gone: impl Fn(Addr) -> bool) {
        self.standing.retain(|standing| !are_gone(standing.addr));
    }

    /// Tells those whose wait has ended; whether there was one.
    pub fn tell(&mut self, intents: &Intents, link: &Link) -> bool {
        if !self.changed.any.swap(false, Ordering::AcqRel) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.changed));
        self.standing.retain(|standing| {
            let outcome = intents.outcome(standing.addr, standing.holder, &waker);
            if let Some(outcome) = outcome {
                answer(link, standing.ticket, outcome);
            }
            outcome.is_none()
        });
        true
    }
}

/// A peer's transaction, as this machine knows it.
pub(super) fn holder_at_peer(peer: MachineId, number: u64) -> Holder {
    (u64::from(peer.0) << 32) | number & u64::from(u32::MAX)
}

fn answer(link: &Link, ticket: u64, ended: Ended) {
    let how = match ended {
        Ok(Turn::Taken) => TAKEN,
        Ok(Turn::Without) => WITHOUT,
        Ok(Turn::Others) => OTHERS,
        Err(WouldDeadlock) => DEADLOCK,
    };
    link.send_surely(TURN, &[ticket, how]);
}

/// TURN: what it says.
pub(super) fn decode_turn(words: &[u64]) -> Result<(u64, Ended), BadRecord> {
    let mut reader = Reader(words);
    let (ticket, how) = (reader.word()?, reader.word()?);
    let ended = match how {
        TAKEN => Ok(Turn::Taken),
        WITHOUT => Ok(Turn::Without),
        OTHERS => Ok(Turn::Others),
        DEADLOCK => Err(WouldDeadlock),
        _ => return Err(BadRecord("unknown end of a wait")),
    };
    Ok((ticket, ended))
}

/// A wait at another machine; dropping it leaves the line there.
struct Asked<'a> {
    network: &'a Network,
    addr: Addr,
    number: u64,
    ticket: u64,
    /// What is given back where it is dropped before its end.
    back: Back,
    ended: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.network.turns.lock().remove(&self.ticket);
            self.network.give_back(self.addr, self.number, self.back);
        }
    }
}

impl Network {
    /// Begins to wait for a row's intent at its primary; `None` where that cannot be asked.
    fn ask(
        &self,
        addr: Addr,
        number: u64,
        (how, strength): (u64, Strength),
    ) -> Option<(u64, Completion<Ended>)> {
        let link = self.link(self.primary(addr)?)?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (completer, turn) = Completion::pending();
        let waits = Waits {
            number,
            addr,
            completer,
        };
        self.turns.lock().insert(ticket, waits);
        let strength = u64::from(strength.code());
        let asked = link.send(INTEND, &[ticket, number, addr.raw(), how, strength]);
        if asked.is_err() {
            self.turns.lock().remove(&ticket);
            return None;
        }
        Some((ticket, turn))
    }

    /// The row of another machine that a transaction of this one waits for, if it does.
    pub fn waits_elsewhere(&self, number: u64) -> Option<Addr> {
        let turns = self.turns.lock();
        let mut waits = turns.values();
        let waits = waits.find(|waits| waits.number == number)?;
        Some(waits.addr)
    }

    /// Gives an intent at another machine back, or a place in line there.
    pub fn give_back(&self, addr: Addr, number: u64, what: Back) {
        if let Some(link) = self.primary(addr).and_then(|primary| self.link(primary)) {
            link.send_surely(GIVE_BACK, &[number, addr.raw(), what as u64]);
        }
    }

    /// Whether a row's line is at another machine; regions that are not known are others'.
    #[inline]
    pub fn is_elsewhere(&self, addr: Addr) -> bool {
        self.primary(addr) != Some(self.me)
    }
}

impl Transaction {
    /// [`Transaction::intend`] on a row of another machine.
    pub(crate) fn intend_elsewhere(
        &mut self,
        addr: Addr,
        strength: Strength,
    ) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let how = match self.context().yields {
                true => YIELDS,
                false => WAITS,
            };
            let asked = self.ask_elsewhere(addr, (how, strength)).await;
            asked.map(|_| ())
        })
    }

    /// [`Transaction::try_intend`] on a row of another machine. Where that cannot be asked the answer is yes, as whoever
    /// intends goes on without.
    pub(crate) fn try_intend_elsewhere(
        &mut self,
        addr: Addr,
        strength: Strength,
    ) -> Work<'_, Result<bool, Stop>> {
        Box::pin(async move {
            if self.context().has_intent(addr, strength) {
                return Ok(true);
            }
            let turn = self.ask_elsewhere(addr, (NEVER, strength)).await?;
            Ok(turn != Some(Turn::Others))
        })
    }

    /// How a wait at the row's primary has ended; `None` where it cannot be asked.
    async fn ask_elsewhere(
        &mut self,
        addr: Addr,
        (how, strength): (u64, Strength),
    ) -> Result<Option<Turn>, Stop> {
        let context = self.context();
        let Some(network) = context.machine.network().map(Arc::clone) else {
            return Ok(None);
        };
        let number = u64::from(context.number);
        if !network.find(addr.region()).await? {
            return Err(Stop::Damaged);
        }
        let Some((ticket, turn)) = network.ask(addr, number, (how, strength)) else {
            return Ok(None);
        };
        let counters = context.machine.counters();
        counters.count(context.lane, Event::IntentWait);
        let back = match context.has_intent(addr, Strength::KeyShare) {
            true => Back::Place,
            false => Back::All,
        };
        self.context_mut().far.messages += 1;
        let mut asked = Asked {
            network: &network,
            addr,
            number,
            ticket,
            back,
            ended: false,
        };
        let turn = network.answered(self.machine(), turn).await;
        // Where no answer will come the line is left, should it still be there.
        asked.ended = turn.is_ok();
        match turn {
            Ok(Ok(Turn::Taken)) => {
                self.context_mut().intents.push((addr, strength));
                Ok(Some(Turn::Taken))
            }
            Ok(Ok(turn)) => Ok(Some(turn)),
            Err(_) => Ok(None),
            Ok(Err(WouldDeadlock)) => Err(self.context_mut().deadlock_at(addr)),
        }
    }
}
