//! Merges: a leaf that is nearly empty is joined with its neighbour, in a transaction of its own.
//! The next writer or read-write scan that meets the leaf starts the merge.
//!
//! The left leaf of a pair takes all entries. The right one is freed and stays readable for older
//! snapshots. Parents that become empty are merged in the same transaction. A root with a single
//! child takes the child's content, so the tree becomes lower again.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Outcome, Stop, Transaction, Work};

use crate::counters::{Event, count};
use crate::image::{self, Frame};
use crate::node::Node;
use crate::split;
use crate::structure;
use crate::tree::BTree;
use crate::walk::{self, Target};

/// A node with less than 1 / `SPARSE_SHARE` of its words in use is merged if possible.
const SPARSE_SHARE: usize = 5;

/// Returns the words of a node's entries, and of the node.
fn load(view: &View<'_>, tree: Addr) -> Option<(usize, usize)> {
    let node = Node::open_in(view, tree)?;
    Some((node.used() - node.slots(), node.words))
}

/// Returns whether two nodes with these loads should be joined: the result needs space to grow.
fn joinable(left: usize, right: usize, words: usize) -> bool {
    left + right <= words / 2
}

/// Returns whether the committed leaf is nearly empty and a neighbour under the same parent has
/// space for its entries. Returns `false` for nodes that this transaction has changed.
///
/// # Errors
/// As [`fencepost_txn::Machine::view_current`].
#[inline]
pub(crate) async fn wanted(tx: &Transaction, tree: Addr, leaf: Addr) -> Result<bool, Stop> {
    let sparse = |view: &View<'_>| {
        let node = Node::open_in(view, tree)?;
        let few = node.words / SPARSE_SHARE / (1 + crate::node::VALUE_WORDS);
        Some(node.level == 0 && node.count <= few && leaf != tree)
    };
    if leaf == tree || tx.machine().view_current(leaf, sparse).await? != Some(Some(true)) {
        return Ok(false);
    }
    neighbour_has_space(tx, tree, leaf).await
}

fn neighbour_has_space(tx: &Transaction, tree: Addr, leaf: Addr) -> Work<'_, Result<bool, Stop>> {
    Box::pin(async move {
        let machine = tx.machine();
        let mut low = Vec::new();
        let seen = machine
            .view_current(leaf, |view| {
                low.clear();
                let node = Node::open_in(view, tree)?;
                node.append_low(&mut low);
                load(view, tree)
            })
            .await?;
        let parent = match walk::descend(machine, tree, 1, Target::At(&low), false).await {
            Err(Stop::Damaged) => None,
            parent => parent?,
        };
        let (Some(Some((mine, words))), Some(parent)) = (seen, parent) else {
            return Ok(false);
        };
        let siblings = |view: &View<'_>| {
            let node = Node::open_in(view, tree)?;
            let at = node.child_at(&low);
            let child = |i: usize| {
                if i < node.count {
                    node.child(i).addr
                } else {
                    Addr::NULL
                }
            };
            Some((
                child(at),
                [
                    child(at + 1),
                    if at > 0 { child(at - 1) } else { Addr::NULL },
                ],
            ))
        };
        let Some(Some((found, neighbours))) = machine.view_current(parent, siblings).await? else {
            return Ok(false);
        };
        if found != leaf || tx.patches(leaf) {
            return Ok(false);
        }
        for neighbour in neighbours {
            if neighbour.is_null() || tx.patches(neighbour) {
                continue;
            }
            let theirs = machine.view_current(neighbour, |view| load(view, tree));
            if let Some(Some((theirs, _))) = theirs.await?
                && joinable(mine, theirs, words)
            {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// Merges the leaf that covers `key` with a neighbour, in a transaction of its own. Returns `false`
/// if there was nothing to do or a race was lost; the merge is optional.
///
/// # Errors
/// As [`Transaction::commit`], except conflicts.
pub(crate) fn merge<'a>(
    tx: &'a mut Transaction,
    tree: Addr,
    key: &'a [u8],
) -> Work<'a, Result<bool, Stop>> {
    Box::pin(async move {
        for doubts in 0.. {
            let mut system = tx.system();
            let merged = match merge_up(&mut system, tree, key).await {
                Ok(true) => {
                    structure::announce(tx);
                    system.commit().await
                }
                Ok(false) => return Ok(false),
                Err(stop) => Err(stop),
            };
            match merged {
                Ok(Outcome::Committed(_)) => {
                    count(Event::Merge);
                    return Ok(true);
                }
                // Without memory or disk space for the merge, the tree stays as it is.
                Ok(Outcome::Aborted(_))
                | Err(Stop::Retry(_) | Stop::OutOfMemory | Stop::DiskFull) => return Ok(false),
                Err(stop) => tx.doubt_system(stop, doubts).await?,
            }
        }
        Ok(false)
    })
}

/// Merges at the leaves and at every level above with sparse neighbours.
async fn merge_up(tx: &mut Transaction, tree: Addr, key: &[u8]) -> Result<bool, Stop> {
    let (mut level, mut merged) = (0, false);
    let mut image = Vec::new();
    while let Some(parent) = walk::read(tx, tree, level + 1, key, &mut image).await? {
        merged |= merge_level(tx, tree, parent, &mut image, key).await?;
        level += 1;
    }
    Ok(merged)
}

/// Merges the child of `parent` that covers `key` with one of its neighbours, if both fit one node
/// well. The image of `parent` was read before.
async fn merge_level(
    tx: &mut Transaction,
    tree: Addr,
    parent: Addr,
    image: &mut [u64],
    key: &[u8],
) -> Result<bool, Stop> {
    let (at, children) = {
        let view = View::Own(image);
        let node = Node::open(&view).ok_or(Stop::Damaged)?;
        let children: Vec<Addr> = (0..node.count).map(|i| node.child(i).addr).collect();
        (node.child_at(key), children)
    };
    let mut merged = false;
    for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        let (Some(left_at), Some(right_at)) = (children.get(left), children.get(left + 1)) else {
            continue;
        };
        if join(tx, tree, *left_at, *right_at).await? {
            image::remove(image, left + 1);
            tx.write(parent, image).await?;
            merged = true;
            break;
        }
    }
    let single = {
        let view = View::Own(image);
        Node::open(&view)
            .filter(|node| node.count == 1)
            .map(|node| node.child(0).addr)
    };
    if let Some(child) = single.filter(|_| parent == tree) {
        merged |= collapse(tx, tree, child).await?;
    }
    Ok(merged)
}

/// Moves all entries of `right` into `left` and frees `right`, if one node has space for both.
async fn join(
    tx: &mut Transaction,
    tree: Addr,
    left_at: Addr,
    right_at: Addr,
) -> Result<bool, Stop> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    if !tx.read(left_at, &mut left).await? || !tx.read(right_at, &mut right).await? {
        return Ok(false);
    }
    let loads = (
        load(&View::Own(&left), tree),
        load(&View::Own(&right), tree),
    );
    let (Some((left_load, words)), Some((right_load, _))) = loads else {
        return Err(Stop::Damaged);
    };
    if !joinable(left_load, right_load, words) || split::merge(&mut left, &right).is_err() {
        return Ok(false);
    }
    tx.write(left_at, &left).await?;
    tx.free(right_at).await?;
    Ok(true)
}

/// Copies the content of the root's only child into the root, and frees the child.
async fn collapse(tx: &mut Transaction, tree: Addr, child: Addr) -> Result<bool, Stop> {
    let mut image = Vec::new();
    if !tx.read(child, &mut image).await? {
        return Ok(false);
    }
    let (frame, entries) = image::take_apart(&image).ok_or(Stop::Damaged)?;
    let frame = Frame {
        key_timestamp: frame.key_timestamp,
        ..Frame::root(frame.level, frame.words, tree).together_as(frame.flags)
    };
    let mut root = vec![0; image.len()];
    if image::build(&mut root, &frame, &entries, 0, entries.len()).is_err() {
        return Ok(false);
    }
    tx.write(tree, &root).await?;
    tx.free(child).await?;
    Ok(true)
}

impl BTree {
    /// Merges sparse neighbours in the whole tree; VACUUM calls it for an index.
    ///
    /// # Errors
    /// As [`Transaction::commit`], except conflicts.
    pub fn maintain<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<(), Stop>> {
        Box::pin(async move {
            let tree = self.root();
            let mut key = Vec::new();
            loop {
                let Some(leaf) =
                    walk::descend(tx.machine(), tree, 0, Target::At(&key), true).await?
                else {
                    return Ok(());
                };
                if leaf != tree && merge(tx, tree, &key).await? {
                    continue;
                }
                key.clear();
                let high = |view: &View<'_>| {
                    key.clear();
                    Node::open_in(view, tree).is_some_and(|node| node.append_high(&mut key))
                };
                let more = tx.machine().view_current(leaf, high).await?;
                if more != Some(true) {
                    return Ok(());
                }
            }
        })
    }
}
