//! Intents on rows of other machines: the row-lock queue is at the row's primary, and remote
//! transactions wait in it.
//!
//! ```text
//! INTEND     ticket | holder | address | how it waits | strength     to the primary
//! WAIT-END   ticket | taken, without, others or deadlock             from it, when the wait ends
//! GIVE_BACK  holder | address | intent or place in the queue         to it, at the end or before
//! ```
//! The primary tells holders apart by their machine's number in the upper half of the holder's
//! number.
//!
//! # Failure
//! Intents are advice: if the primary cannot be asked, the transaction continues without the
//! intent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use fencepost_fabric::{Bell, Completer, Completion, MachineId};
use fencepost_storage::Addr;

use super::message::WordReader;
use super::{Network, PeerSender};
use crate::counters::Event;
use crate::intent::{Holder, IntentRequest, Intents, Strength, WaitEnd, WouldDeadlock};
use crate::record::BadRecord;
use crate::stop::Stop;
use crate::transaction::Transaction;
use crate::work::Work;

/// Tags of the messages.
pub(super) const INTEND: u8 = 2;
pub(super) const WAIT_END: u8 = 3;
pub(super) const GIVE_BACK: u8 = 4;

const TAKEN: u64 = 1;
const WITHOUT: u64 = 2;
const DEADLOCK: u64 = 3;
const OTHERS: u64 = 4;

/// The transaction waits for its turn.
const WAITS: u64 = 0;
/// The transaction waits for its turn, and is the preferred victim of a deadlock.
const YIELDS: u64 = 1;
/// The transaction does not wait.
const NEVER: u64 = 2;

/// The subject of GIVE_BACK: the intent, or only the place in the queue of a transaction that
/// wanted a stronger intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnSubject {
    All = 1,
    Place = 2,
}

/// The result of a wait at another machine.
pub(super) type WaitOutcome = Result<WaitEnd, WouldDeadlock>;

/// The wait of a local transaction in a row-lock queue of a peer.
pub(super) struct RemoteLockWait {
    /// The number of the transaction.
    number: u64,
    addr: Addr,
    pub completer: Completer<WaitOutcome>,
}

/// The place of a peer's transaction in a row-lock queue of this machine.
struct RemoteQueueEntry {
    ticket: u64,
    holder: Holder,
    addr: Addr,
}

/// The places of one peer's transactions in row-lock queues.
pub(super) struct RemoteWaiters {
    standing: Vec<RemoteQueueEntry>,
    changed: Arc<WaitEndWaker>,
}

/// A waker, called when the wait of one of these transactions ends.
struct WaitEndWaker {
    any: AtomicBool,
    bell: Bell,
}

impl Wake for WaitEndWaker {
    fn wake(self: Arc<Self>) {
        self.any.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl RemoteWaiters {
    pub fn new(bell: &Bell) -> RemoteWaiters {
        RemoteWaiters {
            standing: Vec::new(),
            changed: Arc::new(WaitEndWaker {
                any: AtomicBool::new(false),
                bell: bell.clone(),
            }),
        }
    }

    /// Returns whether no transaction of the peer waits.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// Handles INTEND: takes the intent or enters the queue, if `is_local` finds the row's queue on
    /// this machine. If the region was handed over since the peer asked, the peer continues without
    /// the intent: its GIVE_BACK would not arrive here.
    pub fn intend(
        &mut self,
        intents: &Intents,
        peer: MachineId,
        sender: &PeerSender,
        is_local: impl Fn(Addr) -> bool,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let (ticket, number) = (reader.word()?, reader.word()?);
        let (addr, how) = (Addr::from_raw(reader.word()?), reader.word()?);
        let strength = Strength::of_code(reader.word()?);
        let strength = strength.ok_or(BadRecord("no intent is that strong"))?;
        if !is_local(addr) {
            answer(sender, ticket, Ok(WaitEnd::Without));
            return Ok(());
        }
        let holder = holder_at_peer(peer, number);
        if how == NEVER {
            let wait_end = match intents.try_take(addr, holder, strength) {
                true => WaitEnd::Taken,
                false => WaitEnd::Others,
            };
            answer(sender, ticket, Ok(wait_end));
            return Ok(());
        }
        let wish = IntentRequest {
            strength,
            yields: how == YIELDS,
            // GIVE_BACK tells whether the transaction has the intent already.
            has_it: false,
        };
        let waker = Waker::from(Arc::clone(&self.changed));
        match intents.enqueue(addr, holder, wish, &waker) {
            Ok(true) => answer(sender, ticket, Ok(WaitEnd::Taken)),
            Err(deadlock) => answer(sender, ticket, Err(deadlock)),
            Ok(false) => self.standing.push(RemoteQueueEntry {
                ticket,
                holder,
                addr,
            }),
        }
        Ok(())
    }

    /// Handles GIVE_BACK: passes the intent to the next transaction, or removes a place from the
    /// queue.
    pub fn give_back(
        &mut self,
        intents: &Intents,
        peer: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let holder = holder_at_peer(peer, reader.word()?);
        let addr = Addr::from_raw(reader.word()?);
        let what = match reader.word()? {
            what if what == ReturnSubject::All as u64 => ReturnSubject::All,
            what if what == ReturnSubject::Place as u64 => ReturnSubject::Place,
            _ => return Err(BadRecord("nothing to be given back")),
        };
        self.standing
            .retain(|standing| (standing.holder, standing.addr) != (holder, addr));
        match what {
            ReturnSubject::All => intents.leave(addr, holder),
            ReturnSubject::Place => intents.stop_waiting(addr, holder),
        }
        Ok(())
    }

    /// Removes a lost peer's transactions from all queues.
    pub fn leave(&mut self, intents: &Intents, peer: MachineId) {
        self.standing.clear();
        intents.leave_all(u64::from(peer.0));
    }

    /// Drops the waits for rows in regions that `are_handed_over`: their queues are at another
    /// machine.
    pub fn part_with(&mut self, are_handed_over: impl Fn(Addr) -> bool) {
        self.standing
            .retain(|standing| !are_handed_over(standing.addr));
    }

    /// Answers the transactions whose wait has ended. Returns whether any wait may have ended.
    pub fn tell(&mut self, intents: &Intents, sender: &PeerSender) -> bool {
        if !self.changed.any.swap(false, Ordering::AcqRel) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.changed));
        self.standing.retain(|standing| {
            let outcome = intents.outcome(standing.addr, standing.holder, &waker);
            if let Some(outcome) = outcome {
                answer(sender, standing.ticket, outcome);
            }
            outcome.is_none()
        });
        true
    }
}

/// Returns the holder number on this machine of a peer's transaction.
pub(super) fn holder_at_peer(peer: MachineId, number: u64) -> Holder {
    (u64::from(peer.0) << 32) | number & u64::from(u32::MAX)
}

fn answer(sender: &PeerSender, ticket: u64, ended: WaitOutcome) {
    let how = match ended {
        Ok(WaitEnd::Taken) => TAKEN,
        Ok(WaitEnd::Without) => WITHOUT,
        Ok(WaitEnd::Others) => OTHERS,
        Err(WouldDeadlock) => DEADLOCK,
    };
    sender.send_surely(WAIT_END, &[ticket, how]);
}

/// Decodes a WAIT-END.
pub(super) fn decode_wait_end(words: &[u64]) -> Result<(u64, WaitOutcome), BadRecord> {
    let mut reader = WordReader(words);
    let (ticket, how) = (reader.word()?, reader.word()?);
    let ended = match how {
        TAKEN => Ok(WaitEnd::Taken),
        WITHOUT => Ok(WaitEnd::Without),
        OTHERS => Ok(WaitEnd::Others),
        DEADLOCK => Err(WouldDeadlock),
        _ => return Err(BadRecord("unknown end of a wait")),
    };
    Ok((ticket, ended))
}

/// A wait at another machine; dropping it leaves the queue there.
struct PendingLockWait<'a> {
    network: &'a Network,
    addr: Addr,
    number: u64,
    ticket: u64,
    /// The subject of GIVE_BACK if this value is dropped before the wait ends.
    back: ReturnSubject,
    ended: bool,
}

impl Drop for PendingLockWait<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.network.remote_lock_waits.lock().remove(&self.ticket);
            self.network.give_back(self.addr, self.number, self.back);
        }
    }
}

impl Network {
    /// Begins to wait for a row's intent at its primary; `None` if the primary cannot be asked.
    fn ask(
        &self,
        addr: Addr,
        number: u64,
        (how, strength): (u64, Strength),
    ) -> Option<(u64, Completion<WaitOutcome>)> {
        let sender = self.sender(self.primary(addr)?)?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (completer, wait_end) = Completion::pending();
        let waits = RemoteLockWait {
            number,
            addr,
            completer,
        };
        self.remote_lock_waits.lock().insert(ticket, waits);
        let strength = u64::from(strength.code());
        let asked = sender.send(INTEND, &[ticket, number, addr.raw(), how, strength]);
        if asked.is_err() {
            self.remote_lock_waits.lock().remove(&ticket);
            return None;
        }
        Some((ticket, wait_end))
    }

    /// Returns the remote row that a local transaction waits for, if any.
    pub fn waits_elsewhere(&self, number: u64) -> Option<Addr> {
        let remote_lock_waits = self.remote_lock_waits.lock();
        let mut waits = remote_lock_waits.values();
        let waits = waits.find(|waits| waits.number == number)?;
        Some(waits.addr)
    }

    /// Gives back an intent at another machine, or a place in a queue there.
    pub fn give_back(&self, addr: Addr, number: u64, what: ReturnSubject) {
        if let Some(sender) = self.primary(addr).and_then(|primary| self.sender(primary)) {
            sender.send_surely(GIVE_BACK, &[number, addr.raw(), what as u64]);
        }
    }

    /// Returns whether a row's queue is at another machine; unknown regions count as remote.
    #[inline]
    pub fn is_elsewhere(&self, addr: Addr) -> bool {
        self.primary(addr) != Some(self.me)
    }
}

impl Transaction {
    /// Does the same as [`Transaction::intend`] for a row of another machine.
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

    /// Does the same as [`Transaction::try_intend`] for a row of another machine. Returns `true` if
    /// the primary cannot be asked, because the transaction then continues without the intent.
    pub(crate) fn try_intend_elsewhere(
        &mut self,
        addr: Addr,
        strength: Strength,
    ) -> Work<'_, Result<bool, Stop>> {
        Box::pin(async move {
            if self.context().has_intent(addr, strength) {
                return Ok(true);
            }
            let wait_end = self.ask_elsewhere(addr, (NEVER, strength)).await?;
            Ok(wait_end != Some(WaitEnd::Others))
        })
    }

    /// Returns how a wait at the row's primary has ended; `None` if it cannot be asked.
    async fn ask_elsewhere(
        &mut self,
        addr: Addr,
        (how, strength): (u64, Strength),
    ) -> Result<Option<WaitEnd>, Stop> {
        let context = self.context();
        let Some(network) = context.machine.network().map(Arc::clone) else {
            return Ok(None);
        };
        let number = u64::from(context.number);
        if !network.find(addr.region()).await? {
            return Err(Stop::Damaged);
        }
        let Some((ticket, wait_end)) = network.ask(addr, number, (how, strength)) else {
            return Ok(None);
        };
        let counters = context.machine.counters();
        counters.count(context.lane, Event::IntentWait);
        let back = match context.has_intent(addr, Strength::KeyShare) {
            true => ReturnSubject::Place,
            false => ReturnSubject::All,
        };
        self.context_mut().far.messages += 1;
        let mut asked = PendingLockWait {
            network: &network,
            addr,
            number,
            ticket,
            back,
            ended: false,
        };
        let wait_end = network.answered(self.machine(), wait_end).await;
        // If no answer will arrive, the drop leaves the queue in case this transaction is still in
        // it.
        asked.ended = wait_end.is_ok();
        match wait_end {
            Ok(Ok(WaitEnd::Taken)) => {
                self.context_mut().intents.push((addr, strength));
                Ok(Some(WaitEnd::Taken))
            }
            Ok(Ok(wait_end)) => Ok(Some(wait_end)),
            Err(_) => Ok(None),
            Ok(Err(WouldDeadlock)) => Err(self.context_mut().deadlock_at(addr)),
        }
    }
}
