//! Detection of deadlocks on one machine: cycles of waits.

use std::collections::HashSet;

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use super::{Holder, Intents, Strength, Waits};

/// A cycle of waits that one more wait would close.
pub(super) enum Cycle {
    /// This waiter in the cycle yields.
    EndsAt(Holder),
    /// No waiter in the cycle yields: only the new waiter can end it.
    NoneYields,
}

impl Intents {
    /// Returns the cycle that `me` would close if it began to wait for `row`. The walk goes from
    /// the row to its holders, to the rows that they wait for, and so on. A waiter that has been
    /// told to leave its queue is in no cycle.
    pub(super) fn cycle(
        &self,
        waits: &Waits,
        row: Addr,
        me: Holder,
        strength: Strength,
    ) -> Option<Cycle> {
        let mut seen = HashSet::with_hasher(FixedState::default());
        // Each holder, with the last waiter that yields on the way to it.
        let first = self.in_the_way(row, me, strength).into_iter();
        let mut ahead: Vec<(Holder, Option<Holder>)> = first.map(|holder| (holder, None)).collect();
        while let Some((holder, yielding)) = ahead.pop() {
            if holder == me {
                return Some(yielding.map_or(Cycle::NoneYields, Cycle::EndsAt));
            }
            let wait = waits.get(&holder).filter(|wait| !wait.is_victim);
            let Some(wait) = wait.filter(|_| seen.insert(holder)) else {
                continue;
            };
            let yielding = match wait.yields {
                true => Some(holder),
                false => yielding,
            };
            let next = self.in_the_way(wait.row, holder, wait.strength);
            ahead.extend(next.into_iter().map(|holder| (holder, yielding)));
        }
        None
    }
}
