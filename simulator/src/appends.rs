//! Whether a history of appends to lists is strictly serializable where nobody knows timestamps, as over the
//! wire: the order of the versions is what the longest contents of each list say.
//!
//! *Invariant.* A transaction appends its number to a list at most once, and a list begins empty.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_txn::Timestamp;

use crate::checker::check;
use crate::history::{Object, Saw, Seen, Write};
use crate::lists::Contents;

/// A transaction over lists, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its number, which is not 0.
    pub id: u64,
    /// The moment before it began.
    pub began: u64,
    /// The moment after its client was told that it has ended.
    pub ended: u64,
    /// What it found in lists, but for its own number.
    pub found: Vec<Contents>,
    /// The lists that it appended its number to; none where it was aborted.
    pub appended: Vec<Object>,
}

/// Looks for a lost, reordered or phantom append, then for a circle.
///
/// All that was committed must have been found by somebody: read the lists at the end.
///
/// # Errors
/// What is wrong, for people.
pub fn check_appends(history: &[Visit]) -> Result<(), String> {
    let orders = orders(history)?;
    let timestamps = timestamps(history, &orders)?;
    let seen = |visit: &Visit| visit.seen(timestamps.get(&visit.id).copied());
    check(&history.iter().map(seen).collect::<Vec<Seen>>())
}

/// The longest contents of each list, of which all others must be a beginning.
fn orders(history: &[Visit]) -> Result<BTreeMap<Object, &[u64]>, String> {
    let mut orders: BTreeMap<Object, &[u64]> = BTreeMap::new();
    let found = || history.iter().flat_map(|visit| &visit.found);
    for contents in found() {
        let longest = orders.entry(contents.list).or_default();
        if contents.numbers.len() > longest.len() {
            *longest = &contents.numbers;
        }
    }
    let strange = found().find(|contents| !orders[&contents.list].starts_with(&contents.numbers));
    match strange {
        None => Ok(orders),
        Some(Contents { list, numbers }) => Err(format!(
            "{list} contained {numbers:?}, which is no beginning of {:?}",
            orders[list]
        )),
    }
}

/// Timestamps of those who wrote, in an order that all lists agree on.
fn timestamps(
    history: &[Visit],
    orders: &BTreeMap<Object, &[u64]>,
) -> Result<BTreeMap<u64, Timestamp>, String> {
    let appended = history.iter().map(|visit| (visit.id, &visit.appended));
    let appended: BTreeMap<u64, &Vec<Object>> = appended.collect();
    let both = |(id, lists): (&u64, &&Vec<Object>)| lists.iter().map(|list| (*list, *id)).collect();
    let mut missing: BTreeSet<(Object, u64)> =
        appended.iter().flat_map::<Vec<_>, _>(both).collect();
    for (list, order) in orders {
        if let Some(id) = order.iter().find(|id| !missing.remove(&(*list, **id))) {
            return Err(format!(
                "{list} has {id}, which did not commit it, or has it twice"
            ));
        }
    }
    if let Some((list, id)) = missing.first() {
        return Err(format!("{list} has lost {id}, which committed it"));
    }
    let mut left = orders.clone();
    let mut timestamps = BTreeMap::new();
    loop {
        let first = left.values().filter_map(|order| order.first());
        let leads = |id: &&u64| {
            appended[id]
                .iter()
                .all(|list| left[list].first() == Some(*id))
        };
        let Some(id) = first.copied().find(|id| leads(&id)) else {
            break;
        };
        for list in appended[&id] {
            left.entry(*list).and_modify(|order| *order = &order[1..]);
        }
        timestamps.insert(id, Timestamp::from_raw(timestamps.len() as u64 + 1));
    }
    left.retain(|_, order| !order.is_empty());
    match left.is_empty() {
        true => Ok(timestamps),
        false => Err(format!("no order of appends makes these ends: {left:?}")),
    }
}

impl Visit {
    fn seen(&self, at: Option<Timestamp>) -> Seen {
        let read = |contents: &Contents| {
            let last = contents.numbers.last().copied().unwrap_or(0);
            (contents.list, Saw::By(last))
        };
        let write = |object: &Object| Write {
            object: *object,
            stays: true,
            needs: None,
        };
        Seen {
            id: self.id,
            began: self.began,
            ended: self.ended,
            reads: self.found.iter().map(read).collect(),
            writes: self.appended.iter().map(write).collect(),
            // Of who only read it says nothing.
            at: at.unwrap_or(Timestamp::ZERO),
        }
    }
}
