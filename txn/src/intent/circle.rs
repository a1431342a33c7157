//! Circles of waits on one machine.

use std::collections::HashSet;

use fencepost_storage::Addr;
use foldhash::fast::FixedState;

use super::{Holder, Intents, Strength, Waits};

/// Waits that wait for each other, were one more to begin.
pub(super) enum Circle {
    /// This waiter of it yields.
    EndsAt(Holder),
    /// Only whoever is about to wait can end it.
    NobodyYields,
}

impl Intents {
    /// A circle that `me` would close if it began to wait for `row`: walks from there to those who have it, to the rows
    /// that these wait for, and so on. Who is to leave its line already is in none.
    pub(super) fn circle(
        &self,
        waits: &Waits,
        row: Addr,
        me: Holder,
        strength: Strength,
    ) -> Option<Circle> {
        let mut seen = HashSet::with_hasher(FixedState::default());
        // Each with whoever yields on the way to it.
        let first = self.in_the_way(row, me, strength).into_iter();
        let mut ahead: Vec<(Holder, Option<Holder>)> = first.map(|holder| (holder, None)).collect();
        while let Some((holder, yielding)) = ahead.pop() {
            if holder == me {
                return Some(yielding.map_or(Circle::NobodyYields, Circle::EndsAt));
            }
            let wait = waits.get(&holder).filter(|wait| !wait.doomed);
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
