//! The node kind of leaves: the interface to the commit protocol.

use fencepost_storage::{Addr, Timestamp, View};
use fencepost_txn::{NodeKind, Refusal, RerouteFuture, Revalidate, Transaction};

use crate::image;
use crate::node::{FLAG_OWN, Node, WORD_KEY_TIMESTAMP};
use crate::note;
use crate::op::{self, KeyChange, REMOVALS_MAX, Removals};
use crate::tree;

/// The only value of [`LeafKind`].
pub(crate) static LEAF: LeafKind = LeafKind;

/// The node kind of a leaf of any tree.
pub(crate) struct LeafKind;

/// Number of the kind in log records.
const LEAF_KIND: u8 = 1;

impl NodeKind for LeafKind {
    fn id(&self) -> u8 {
        LEAF_KIND
    }

    fn admits(&self, node: &View<'_>, r: Timestamp) -> bool {
        Node::open(node).is_some_and(|node| node.level == 0 && node.key_timestamp() <= r)
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        apply(op, image)?;
        image::set_flag(image, FLAG_OWN, true);
        Ok(())
    }

    fn timestamp_word(&self) -> Option<usize> {
        Some(WORD_KEY_TIMESTAMP)
    }

    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        if let Some(word) = image.get_mut(WORD_KEY_TIMESTAMP) {
            *word = w.raw();
            image::set_flag(image, FLAG_OWN, false);
        }
    }

    fn revalidate(&self, note: &[u64], now: &View<'_>) -> Revalidate {
        note::revalidate(note, now)
    }

    fn revalidate_removed(&self, note: &[u64]) -> Revalidate {
        // A descent from the root leads to the node that has its keys now.
        note.first().map_or(Revalidate::Invalid, |tree| {
            Revalidate::ContinueAt(Addr::from_raw(*tree))
        })
    }

    fn condition(&self, op: &[u64], _image: &[u64]) -> Option<Vec<u64>> {
        let op = op::decode(op)?;
        Some(note::condition(
            op.tree,
            op.key.as_slice(),
            op.what != KeyChange::Insert,
        ))
    }

    fn for_each_key(&self, op: &[u64], f: &mut dyn FnMut(&[u64])) {
        match Removals::decode(op) {
            Some(removals) => removals.for_each_key(f),
            None => f(op),
        }
    }

    fn same_key(&self, one: &[u64], other: &[u64]) -> bool {
        op::same_key(one, other)
    }

    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a> {
        tree::reroute(tx, addr)
    }
}

/// Applies a patch to the image of a leaf.
///
/// # Errors
/// The reason why it does not apply; the image is unchanged in that case.
pub(crate) fn apply(op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
    let Some(op) = op::decode(op) else {
        let removals = Removals::decode(op).ok_or(Refusal::WrongNode)?;
        return remove_all(removals, image);
    };
    let key = op.key.as_slice();
    let view = View::Own(image);
    let found = match Node::open_in(&view, op.tree) {
        Some(node) if node.level == 0 && node.covers(key) => node.search(key),
        _ => return Err(Refusal::WrongNode),
    };
    match (op.what, found) {
        (KeyChange::Insert, Ok(_)) => Err(Refusal::Exists),
        (KeyChange::Insert, Err(at)) => {
            image::insert(image, at, key, op.value).map_err(|_| Refusal::Full)
        }
        (KeyChange::Remove | KeyChange::Replace, Err(_)) => Err(Refusal::Missing),
        (KeyChange::Remove, Ok(at)) => {
            image::remove(image, at);
            Ok(())
        }
        (KeyChange::Replace, Ok(at)) => {
            image::replace(image, at, op.value);
            Ok(())
        }
    }
}

/// Removes several keys of a leaf.
///
/// # Errors
/// As [`apply`].
fn remove_all(removals: Removals<'_>, image: &mut [u64]) -> Result<(), Refusal> {
    let mut positions = [0; REMOVALS_MAX];
    let mut found = 0;
    let view = View::Own(image);
    let node = Node::open_in(&view, removals.tree).filter(|node| node.level == 0);
    let node = node.ok_or(Refusal::WrongNode)?;
    let mut from = 0;
    for key in removals.keys() {
        let key = key.as_slice();
        if !node.covers(key) {
            return Err(Refusal::WrongNode);
        }
        let at = node.search_from(key, from).map_err(|_| Refusal::Missing)?;
        positions[found] = at;
        found += 1;
        from = at + 1;
    }
    image::remove_all(image, &positions[..found]);
    Ok(())
}
