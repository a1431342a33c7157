//! The check of strict serializability for appends to lists, if clients know no timestamps, as over
//! the wire. The longest contents of each list give the order of its versions.
//!
//! *Invariant.* A transaction appends its number to a list at most once, and a list begins empty.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_txn::Timestamp;

use crate::checker::check;
use crate::history::{Object, ObservedTransaction, ReadVersion, Write};
use crate::lists::Contents;

/// A transaction over lists, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListTransaction {
    /// The transaction's number, which is not 0.
    pub id: u64,
    /// The logical time before it began.
    pub began: u64,
    /// The logical time after its client learned the outcome.
    pub ended: u64,
    /// The contents of lists that it read, without its own number.
    pub found: Vec<Contents>,
    /// The lists to which it appended its number; empty if it was aborted.
    pub appended: Vec<Object>,
}

/// Looks for a lost, reordered or phantom append, then for a cycle.
///
/// Some transaction must have read every committed append: read the lists at the end.
///
/// # Errors
/// A description of the anomaly.
pub fn check_appends(history: &[ListTransaction]) -> Result<(), String> {
    let orders = orders(history)?;
    let timestamps = timestamps(history, &orders)?;
    let seen = |visit: &ListTransaction| visit.seen(timestamps.get(&visit.id).copied());
    check(
        &history
            .iter()
            .map(seen)
            .collect::<Vec<ObservedTransaction>>(),
    )
}

/// Returns the longest contents of each list; all other contents must be a prefix of them.
fn orders(history: &[ListTransaction]) -> Result<BTreeMap<Object, &[u64]>, String> {
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

/// Assigns timestamps to writers, in an order that agrees with all lists.
fn timestamps(
    history: &[ListTransaction],
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
        let is_head = |id: &&u64| {
            appended[id]
                .iter()
                .all(|list| left[list].first() == Some(*id))
        };
        let Some(id) = first.copied().find(|id| is_head(&id)) else {
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

impl ListTransaction {
    fn seen(&self, at: Option<Timestamp>) -> ObservedTransaction {
        let read = |contents: &Contents| {
            let last = contents.numbers.last().copied().unwrap_or(0);
            (contents.list, ReadVersion::By(last))
        };
        let write = |object: &Object| Write {
            object: *object,
            stays: true,
            needs: None,
        };
        ObservedTransaction {
            id: self.id,
            began: self.began,
            ended: self.ended,
            reads: self.found.iter().map(read).collect(),
            writes: self.appended.iter().map(write).collect(),
            // A timestamp says nothing about a transaction that only read.
            at: at.unwrap_or(Timestamp::ZERO),
        }
    }
}
