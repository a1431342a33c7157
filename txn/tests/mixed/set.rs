//! A sorted set of numbers as a chain of small nodes: the smallest index that uses the protocol.
//!
//! ```text
//! node  | key timestamp | low (inclusive) | high (exclusive) | right | count | keys ... |
//! op    | code | key | first node of the set |
//! note  | low | high | keys ... |
//! ```
//! A full node is split by a transaction of its own; nodes are never merged.

use std::sync::Arc;

use fencepost_txn::{
    AbortReason, Addr, Machine, NodeKind, ObjectLocation, Outcome, Refusal, RerouteFuture,
    Revalidate, Stop, Timestamp, Transaction, View,
};
use pollster::block_on;

const STAMP: usize = 0;
const LOW: usize = 1;
const HIGH: usize = 2;
const RIGHT: usize = 3;
const COUNT: usize = 4;
const KEYS: usize = 5;
/// Most keys of a node.
pub const KEYS_MAX: usize = 6;
/// Words of a node.
pub const WORDS: usize = KEYS + KEYS_MAX;

const INSERT: u64 = 1;
const REMOVE: u64 = 2;

/// The kind of all nodes.
pub static SET: SetKind = SetKind;

pub struct SetKind;

fn keys(view: &View<'_>) -> Vec<u64> {
    let count = (view.word(COUNT) as usize).min(KEYS_MAX);
    (0..count).map(|i| view.word(KEYS + i)).collect()
}

fn put(image: &mut [u64], keys: &[u64]) {
    image[COUNT] = keys.len() as u64;
    image[KEYS..].fill(0);
    image[KEYS..KEYS + keys.len()].copy_from_slice(keys);
}

impl NodeKind for SetKind {
    fn id(&self) -> u8 {
        77
    }

    fn admits(&self, node: &View<'_>, r: Timestamp) -> bool {
        node.word(STAMP) <= r.raw()
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        let &[code, key, _] = op else {
            return Err(Refusal::WrongNode);
        };
        if key < image[LOW] || key >= image[HIGH] {
            return Err(Refusal::WrongNode);
        }
        let mut keys = keys(&View::Own(image));
        match (code, keys.binary_search(&key)) {
            (INSERT, Ok(_)) => return Err(Refusal::Exists),
            (INSERT, Err(_)) if keys.len() == KEYS_MAX => return Err(Refusal::Full),
            (INSERT, Err(at)) => keys.insert(at, key),
            (_, Ok(at)) => {
                keys.remove(at);
            }
            (_, Err(_)) => return Err(Refusal::Missing),
        }
        put(image, &keys);
        Ok(())
    }

    fn timestamp_word(&self) -> Option<usize> {
        Some(STAMP)
    }

    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        image[STAMP] = w.raw();
    }

    fn revalidate(&self, note: &[u64], now: &View<'_>) -> Revalidate {
        let (low, high) = (note[0].max(now.word(LOW)), note[1].min(now.word(HIGH)));
        let inside = |key: &u64| (low..high).contains(key);
        let then = note[2..].iter().copied().filter(inside);
        if !then.eq(keys(now).into_iter().filter(inside)) {
            Revalidate::Invalid
        } else if now.word(HIGH) < note[1] {
            Revalidate::ContinueAt(Addr::from_raw(now.word(RIGHT)))
        } else {
            Revalidate::Valid
        }
    }

    fn condition(&self, op: &[u64], _image: &[u64]) -> Option<Vec<u64>> {
        let mut note = vec![op[1], op[1] + 1];
        note.extend((op[0] == REMOVE).then_some(op[1]));
        Some(note)
    }

    fn same_key(&self, one: &[u64], other: &[u64]) -> bool {
        one[1..] == other[1..]
    }

    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a> {
        Box::pin(async move {
            let taken = tx.take_patches(addr);
            for op in taken.ops() {
                let set = Set {
                    first: Addr::from_raw(op[2]),
                };
                if set.change(tx, op[0], op[1]).await?.is_err() {
                    return Err(Stop::Retry(AbortReason::NodeConflict));
                }
            }
            tx.made_anew(taken);
            Ok(())
        })
    }
}

/// One set, by the address of its first node.
#[derive(Clone, Copy)]
pub struct Set {
    first: Addr,
}

impl Set {
    pub fn at(first: Addr) -> Set {
        Set { first }
    }

    pub fn create(tx: &mut Transaction) -> Result<Set, Stop> {
        let ptr = block_on(tx.alloc(WORDS, ObjectLocation::Own))?;
        let mut image = [0; WORDS];
        image[HIGH] = u64::MAX;
        tx.write_new(ptr, &image)?;
        Ok(Set { first: ptr.addr })
    }

    pub fn first(&self) -> Addr {
        self.first
    }

    pub async fn insert(&self, tx: &mut Transaction, key: u64) -> Result<bool, Stop> {
        Ok(self.change(tx, INSERT, key).await?.is_ok())
    }

    pub async fn remove(&self, tx: &mut Transaction, key: u64) -> Result<bool, Stop> {
        Ok(self.change(tx, REMOVE, key).await?.is_ok())
    }

    /// Returns the keys from `low` to below `high`, guarded against phantoms.
    pub async fn scan(&self, tx: &mut Transaction, low: u64, high: u64) -> Result<Vec<u64>, Stop> {
        let mut found = Vec::new();
        let mut from = low;
        while from < high {
            let at = self.node_of(tx, from).await?;
            let look = |view: &View<'_>| (view.word(HIGH), keys(view));
            let ((end, keys), seen) = tx.view(at, Some(&SET), look).await?.ok_or(Stop::Damaged)?;
            if end <= from {
                // The node was split since the walk.
                continue;
            }
            let end = end.min(high);
            let mut note = vec![from, end];
            note.extend(keys.into_iter().filter(|key| (from..end).contains(key)));
            tx.guard_keys(seen, &SET, &note);
            found.extend_from_slice(&note[2..]);
            from = end;
        }
        Ok(found)
    }

    /// Returns the node that has `key` in the snapshot.
    async fn node_of(&self, tx: &mut Transaction, key: u64) -> Result<Addr, Stop> {
        let mut at = self.first;
        loop {
            let look = |view: &View<'_>| (view.word(HIGH), Addr::from_raw(view.word(RIGHT)));
            let ((high, right), _) = tx.view(at, Some(&SET), look).await?.ok_or(Stop::Damaged)?;
            if key < high {
                return Ok(at);
            }
            at = right;
        }
    }

    async fn change(
        &self,
        tx: &mut Transaction,
        code: u64,
        key: u64,
    ) -> Result<Result<(), Refusal>, Stop> {
        loop {
            let at = self.node_of(tx, key).await?;
            match tx.patch(at, &SET, &[code, key, self.first.raw()]).await? {
                Err(Refusal::Full) => {
                    let split = split(tx, at).await?;
                    match tx.patch_is_stale(at).await? {
                        Some(true) => SET.reroute(tx, at).await?,
                        // Split already: an old snapshot would show it full for ever.
                        None if !split => tx.refresh().await?,
                        _ => {}
                    }
                }
                Err(Refusal::WrongNode) => {
                    if tx.patch_is_stale(at).await? == Some(true) {
                        SET.reroute(tx, at).await?;
                    }
                }
                Err(refusal) => {
                    // The result depends on the key's presence, which the commit must validate. The
                    // snapshot may have moved since, and the result may have changed.
                    let there = !self.scan(tx, key, key + 1).await?.is_empty();
                    if there == (refusal == Refusal::Exists) {
                        return Ok(Err(refusal));
                    }
                }
                Ok(()) => return Ok(Ok(())),
            }
        }
    }
}

/// Splits a node, in a transaction of its own, in the middle of the keys that `tx` sees. The
/// committed node may have few keys, if most of them are uncommitted ones of `tx`. Returns `false`
/// if another transaction has split it.
async fn split(tx: &mut Transaction, at: Addr) -> Result<bool, Stop> {
    let Some((all, _)) = tx.view(at, Some(&SET), keys).await? else {
        return Err(Stop::Damaged);
    };
    let Some(separator) = all.get(all.len() / 2).copied() else {
        return Ok(false);
    };
    loop {
        let mut system = tx.system();
        match split_in(&mut system, at, separator).await {
            Ok(false) => return Ok(false),
            Ok(true) => {
                if let Outcome::Committed(_) = system.commit().await? {
                    return Ok(true);
                }
            }
            Err(Stop::Retry(_)) => {}
            Err(stop) => return Err(stop),
        }
    }
}

async fn split_in(tx: &mut Transaction, at: Addr, separator: u64) -> Result<bool, Stop> {
    let mut left = Vec::new();
    if !tx.read(at, &mut left).await? {
        return Err(Stop::Damaged);
    }
    left.truncate(WORDS);
    let all = keys(&View::Own(&left));
    // Another transaction has split it meanwhile.
    if separator <= left[LOW] || separator >= left[HIGH] {
        return Ok(false);
    }
    let middle = all.partition_point(|key| *key < separator);
    let right_at = tx
        .alloc_split_of(WORDS, ObjectLocation::Object(at), at)
        .await?;
    let mut right = left.clone();
    right[LOW] = separator;
    put(&mut right, &all[middle..]);
    tx.write_new(right_at, &right)?;
    left[HIGH] = separator;
    left[RIGHT] = right_at.addr.raw();
    put(&mut left, &all[..middle]);
    tx.write(at, &left).await?;
    Ok(true)
}

/// Returns the keys of the set as it is now, outside any transaction; for a machine without running
/// transactions.
pub fn at_rest(machine: &Arc<Machine>, first: Addr) -> Vec<u64> {
    let (mut at, mut all) = (first, Vec::new());
    while !at.is_null() {
        let look = |view: &View<'_>| (Addr::from_raw(view.word(RIGHT)), keys(view));
        let now = block_on(machine.view_current(at, look)).expect("reached");
        let (right, keys) = now.expect("nodes are never freed");
        all.extend(keys);
        at = right;
    }
    all
}
