//! The intents of a transaction: it takes them, and releases them at its end.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use super::{IntentRequest, Strength, WaitEnd};
use crate::context::Context;
use crate::network::{Network, ReturnSubject};
use crate::stop::Stop;
use crate::transaction::Transaction;
use crate::work::Work;

/// Longest list of intents that is searched before another is taken.
const FEW_INTENTS: usize = 16;

impl Context {
    /// Returns whether it has an intent at least that strong on the object.
    pub fn has_intent(&self, addr: Addr, strength: Strength) -> bool {
        let mut intents = self.intents.iter();
        intents.any(|(row, had)| *row == addr && *had >= strength)
    }

    /// Releases all intents.
    pub fn release_intents(&mut self) {
        while let Some((row, _)) = self.intents.pop() {
            self.release_intent(row);
        }
    }

    /// Releases the intents after the first `count`. An intent that was made stronger since is
    /// weakened to its earlier strength; at another machine it keeps the stronger one.
    pub fn release_intents_after(&mut self, count: usize) {
        if self.intents.len() <= count {
            return;
        }
        let later = self.intents.split_off(count);
        let mut before: HashMap<Addr, Strength, FixedState> = HashMap::default();
        for (row, strength) in &self.intents {
            let had = before.entry(*row).or_insert(*strength);
            *had = strength.max(had).to_owned();
        }
        for (row, strength) in later {
            match before.get(&row) {
                None => self.release_intent(row),
                Some(had) if *had >= strength => {}
                Some(had) => {
                    let holder = u64::from(self.number);
                    self.machine.intents().weaken(row, holder, *had);
                }
            }
        }
    }

    fn release_intent(&self, row: Addr) {
        let holder = u64::from(self.number);
        if let Some(network) = self.machine.network()
            && network.is_elsewhere(row)
        {
            network.give_back(row, holder, ReturnSubject::All);
        }
        // The row's queue may have been on this machine when the intent was taken.
        self.machine.intents().release(row, holder);
    }
}

impl Transaction {
    /// Sets whether the transaction yields (by default it does not): its caller runs it again
    /// without the client's notice. Such a transaction aborts instead of overwriting an object on
    /// which another has an intent. It is preferred as the victim of a deadlock.
    pub fn set_yielding(&mut self, yields: bool) {
        self.context_mut().yields = yields;
    }

    /// Waits for an intent on the object and keeps it until the end. Call this before reading the
    /// object that is to be changed. The queue is at the object's primary; if that machine cannot
    /// be asked, the transaction goes on without the intent. A dropped future leaves the queue.
    ///
    /// # Errors
    /// [`Stop::Deadlock`] where waiting would close a cycle: run the transaction again. Where the
    /// primary is not known here: [`Stop::Retry`] if the CM cannot be reached, [`Stop::NotMember`]
    /// if this machine is no member any more, [`Stop::Damaged`] for an address outside every
    /// region.
    pub async fn intend(&mut self, addr: Addr, strength: Strength) -> Result<(), Stop> {
        let context = self.context();
        let holder = u64::from(context.number);
        let elsewhere = |network: &Arc<Network>| network.is_elsewhere(addr);
        let elsewhere = context.machine.network().is_some_and(elsewhere);
        // Taking or releasing an intent twice is harmless, so a long list is not searched.
        if context.intents.len() <= FEW_INTENTS && context.has_intent(addr, strength) {
            return Ok(());
        }
        if elsewhere {
            return self.intend_elsewhere(addr, strength).await;
        }
        if !context.machine.intents().try_take(addr, holder, strength) {
            return self.wait_in_line(addr, strength).await;
        }
        self.context_mut().intents.push((addr, strength));
        Ok(())
    }

    /// Waits as [`Self::intend`] does, where other holders conflict.
    fn wait_in_line(&mut self, addr: Addr, strength: Strength) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let context = self.context();
            let holder = u64::from(context.number);
            context
                .machine
                .counters()
                .count(context.lane, crate::counters::Event::IntentWait);
            let wish = IntentRequest {
                strength,
                yields: context.yields,
                has_it: context.has_intent(addr, Strength::KeyShare),
            };
            let taken = context.machine.intents().take(addr, holder, wish).await;
            match taken {
                Ok(WaitEnd::Without) => {}
                Ok(_) => self.context_mut().intents.push((addr, strength)),
                Err(_) => return Err(self.context_mut().deadlock_at(addr)),
            }
            Ok(())
        })
    }

    /// Takes an intent as [`Self::intend`] does, if no other holder conflicts. Otherwise does
    /// nothing and returns `false`.
    ///
    /// # Errors
    /// As [`Self::intend`], except for a deadlock: this function does not wait.
    pub async fn try_intend(&mut self, addr: Addr, strength: Strength) -> Result<bool, Stop> {
        let context = self.context();
        let holder = u64::from(context.number);
        let elsewhere = |network: &Arc<Network>| network.is_elsewhere(addr);
        if context.machine.network().is_some_and(elsewhere) {
            return self.try_intend_elsewhere(addr, strength).await;
        }
        if !context.machine.intents().try_take(addr, holder, strength) {
            return Ok(false);
        }
        let context = self.context_mut();
        if context.intents.len() > FEW_INTENTS || !context.has_intent(addr, strength) {
            context.intents.push((addr, strength));
        }
        Ok(true)
    }

    /// Waits and takes an intent as [`Self::intend`] does, if another holder conflicts; otherwise
    /// takes none. For a transaction that ends at once and so needs no queue entry.
    ///
    /// # Errors
    /// As [`Self::intend`].
    #[inline]
    pub async fn await_row_queue(&mut self, addr: Addr, strength: Strength) -> Result<(), Stop> {
        let context = self.context();
        let holder = u64::from(context.number);
        if context.machine.intents().is_others(addr, holder, strength) {
            return self.intend(addr, strength).await;
        }
        Ok(())
    }
}
