//! The intents of a transaction: it takes them, and gives them back at its end.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use super::{Strength, Turn, Wish};
use crate::network::{Back, Network};
use crate::stop::Stop;
use crate::transaction::{Context, Transaction};
use crate::work::Work;

/// Intents that are searched before another is taken.
const FEW_INTENTS: usize = 16;

impl Context {
    /// Whether it has an intent at least that strong on the object.
    pub fn has_intent(&self, addr: Addr, strength: Strength) -> bool {
        let mut intents = self.intents.iter();
        intents.any(|(row, had)| *row == addr && *had >= strength)
    }

    /// Gives all of them back.
    pub fn release_intents(&mut self) {
        while let Some((row, _)) = self.intents.pop() {
            self.release_intent(row);
        }
    }

    /// Gives those back that came after the first `kept`. A row that was had before is had as it was then; at another
    /// machine it stays as it is.
    pub fn release_intents_after(&mut self, kept: usize) {
        if self.intents.len() <= kept {
            return;
        }
        let later = self.intents.split_off(kept);
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
            network.give_back(row, holder, Back::All);
        }
        // The line may have been here when the intent was taken.
        self.machine.intents().release(row, holder);
    }
}

impl Transaction {
    /// Whether the transaction gives way (not unless told so): its caller runs it again unseen. It
    /// aborts rather than overwrite an object that is somebody else's intent, and ends circles of
    /// waits rather than others that do not give way.
    pub fn set_yielding(&mut self, yields: bool) {
        self.context_mut().yields = yields;
    }

    /// Waits in line to be the one who writes the object, or one of those for whom nobody does, and keeps the place until
    /// the end. Take it before reading what is going to be changed.
    ///
    /// # Errors
    /// [`Stop::Deadlock`] where waiting would close a circle.
    pub async fn intend(&mut self, addr: Addr, strength: Strength) -> Result<(), Stop> {
        let context = self.context();
        let holder = u64::from(context.number);
        let elsewhere = |network: &Arc<Network>| network.is_elsewhere(addr);
        let elsewhere = context.machine.network().is_some_and(elsewhere);
        // Taking and giving back twice is harmless, so a long list is not searched.
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

    /// [`Self::intend`] where others are in the way.
    fn wait_in_line(&mut self, addr: Addr, strength: Strength) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let context = self.context();
            let holder = u64::from(context.number);
            context
                .machine
                .counters()
                .count(context.lane, crate::counters::Event::IntentWait);
            let wish = Wish {
                strength,
                yields: context.yields,
                has_it: context.has_intent(addr, Strength::KeyShare),
            };
            let taken = context.machine.intents().take(addr, holder, wish).await;
            match taken {
                Ok(Turn::Without) => {}
                Ok(_) => self.context_mut().intents.push((addr, strength)),
                Err(_) => return Err(self.context_mut().deadlock_at(addr)),
            }
            Ok(())
        })
    }

    /// As [`Self::intend`] where nobody else has an intent on the object that is in the way; else nothing happens, and the
    /// answer is no.
    ///
    /// # Errors
    /// As [`Self::intend`], but for a circle of waits: nothing is waited for.
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

    /// As [`Self::intend`] where somebody else has an intent on the object that is in the way; otherwise takes none. For a
    /// transaction that ends at once and does not want to pay for a place in line.
    ///
    /// # Errors
    /// As [`Self::intend`].
    #[inline]
    pub async fn await_turn(&mut self, addr: Addr, strength: Strength) -> Result<(), Stop> {
        let context = self.context();
        let holder = u64::from(context.number);
        if context.machine.intents().is_others(addr, holder, strength) {
            return self.intend(addr, strength).await;
        }
        Ok(())
    }
}
