//! Distributed deadlock detection for advisory locks and table locks.
//!
//! The lock manager detects a cycle among these locks alone at once (`table.rs`). This module
//! detects cycles that also contain waits for rows.
//!
//! A session that has waited long for a lock asks all machines for their row waits, and the lock
//! manager for its waits. The replies form a wait-for graph of sessions. If the session is in a
//! cycle, it builds the graph a second time, because the replies are not from the same instant.
//! Among the sessions of the cycle that wait for advisory or table locks, the one with the greatest
//! number fails.
//!
//! # Failure
//! If a machine does not reply, its waits are missing from the graph. The session looks again
//! later.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use fencepost_sql::sessions::Sessions;
use fencepost_sql::{advisory, sessions};
use foldhash::HashMap;

use super::Advisory;
use super::table::Owner;
use crate::sessions::Handle;

/// Returns a cycle of the wait-for graph that contains `owner`: `owner`, then each session that the
/// previous one waits for, up to a session that waits for `owner`.
pub(super) fn cycle(owner: Owner, waited_for: impl Fn(Owner) -> Vec<Owner>) -> Option<Vec<Owner>> {
    let mut all = vec![owner];
    // The session from which the search reached each session.
    let mut found_by: HashMap<Owner, Owner> = HashMap::default();
    let mut at = 0;
    while let Some(&node) = all.get(at) {
        at += 1;
        for next in waited_for(node) {
            if next == owner {
                let mut path = vec![node];
                while let Some(&before) = path.last().and_then(|last| found_by.get(last)) {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            if let Entry::Vacant(new) = found_by.entry(next) {
                new.insert(node);
                all.push(next);
            }
        }
    }
    None
}

impl Advisory {
    /// Returns the session that `owner` waits for, if `owner` is in a deadlock and has to end it.
    ///
    /// The cycle may contain sessions of any machine, and waits for rows.
    pub(super) async fn circle_through_rows(self: &Arc<Self>, owner: Owner) -> Option<Owner> {
        let first = self.circle_now(owner).await?;
        let again = self.circle_now(owner).await?;
        (first == again).then_some(first)
    }

    async fn circle_now(self: &Arc<Self>, owner: Owner) -> Option<Owner> {
        let entries = Handle(Arc::clone(&self.register))
            .row_queue_entries()
            .await
            .ok()?;
        if entries.iter().all(|entry| entry.granted) {
            return None;
        }
        let locks = self.states().await.ok()?;
        let cycle = cycle(owner, |session| {
            let mut next = advisory::waited_for(&locks, session);
            next.extend(sessions::waited_for(&entries, session));
            next
        })?;
        let waits = |session: &&Owner| !advisory::waited_for(&locks, **session).is_empty();
        let ends = cycle.iter().filter(waits).max() == Some(&owner);
        cycle.get(1).copied().filter(|_| ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_is_found_only_by_its_members() {
        let waits = [(1, 2), (2, 3), (2, 5), (3, 4), (5, 1), (4, 3), (6, 1)];
        let next = |owner: Owner| {
            let of = waits.iter().filter(|(waiter, _)| *waiter == owner);
            of.map(|(_, next)| *next).collect()
        };
        assert_eq!(cycle(1, next), Some(vec![1, 2, 5]));
        assert_eq!(cycle(5, next), Some(vec![5, 1, 2]));
        assert_eq!(cycle(3, next), Some(vec![3, 4]));
        assert_eq!(cycle(6, next), None, "it leads into one, and is in none");
        assert_eq!(cycle(7, |_| vec![7]), Some(vec![7]));
    }
}
