//! Merges: a leaf that has become nearly empty is joined with its neighbour, in a transaction of its
//! own, by the next writer or read-write scan that meets it.
//!
//! The left one of a pair takes everything; the right one is freed and stays readable for the past.
//! Parents that run empty are merged in the same transaction, and a root with a single child takes
//! the child's content, so the tree gets lower again.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Outcome, Stop, Transaction};

use crate::counters::{Event, count};
use crate::image::{self, Frame};
use crate::node::Node;
use crate::split;
use crate::tree::BTree;
use crate::walk::{self, Target};

/// A node with less than this share of its words in use asks for a merge.
const SPARSE_SHARE: usize = 5;

/// Words of entries, and of the node.
fn load(view: &View<'_>, tree: Addr) -> Option<(usize, usize, Addr)> {
    let node = Node::open_in(view, tree)?;
    Some((node.used() - node.slots(), node.words, node.right()))
}

/// Whether two nodes with these loads should be one: there must be room to grow afterwards.
fn joinable(left: usize, right: usize, words: usize) -> bool {
    left + right <= words / 2
}

/// Whether the committed leaf is nearly empty and its right sibling has room for the rest. Nodes
/// that this transaction has changes for are left alone.
#[inline]
pub(crate) fn wanted(tx: &Transaction, tree: Addr, leaf: Addr) -> bool {
    let sparse = |view: &View<'_>| {
        let node = Node::open_in(view, tree)?;
        let few = node.words / SPARSE_SHARE / (1 + crate::node::VALUE_WORDS);
        (node.level == 0 && node.count <= few && !node.right().is_null()).then_some(())?;
        load(view, tree)
    };
    let machine = tx.machine();
    let Some(Some((left, words, right))) = machine.view_current(leaf, sparse) else { return false };
    let Some(Some((right_load, _, _))) = machine.view_current(right, |view| load(view, tree)) else { return false };
    joinable(left, right_load, words)
        && tx.patch_is_stale(leaf).is_none()
        && tx.patch_is_stale(right).is_none()
        && machine.view_current(tree, |view| Node::open(view).is_some_and(|root| root.level > 0)) == Some(true)
        && same_parent(tx, tree, leaf, right)
}

/// Whether both are children of one inner node: only such neighbours are merged.
fn same_parent(tx: &Transaction, tree: Addr, left: Addr, right: Addr) -> bool {
    let mut low = Vec::new();
    let machine = tx.machine();
    let seen = machine.view_current(left, |view| {
        low.clear();
        if let Some(node) = Node::open_in(view, tree) {
            node.append_low(&mut low);
        }
    });
    let parent = walk::descend(machine, tree, 1, Target::At(&low));
    let (Some(()), Ok(Some(parent))) = (seen, parent) else { return false };
    let both = machine.view_current(parent, |view| {
        let node = Node::open_in(view, tree)?;
        let at = node.child_at(&low);
        Some(at + 1 < node.count && node.child(at).addr == left && node.child(at + 1).addr == right)
    });
    both == Some(Some(true))
}

/// Merges the leaf that covers `key` with its right neighbour, in a transaction of its own. False
/// if there was nothing to do or a race was lost: it is only tidying up.
///
/// # Errors
/// As [`Transaction::commit`], but for conflicts.
pub(crate) async fn merge(tx: &mut Transaction, tree: Addr, key: &[u8]) -> Result<bool, Stop> {
    let mut system = tx.system();
    let merged = match merge_up(&mut system, tree, key).await {
        Ok(true) => system.commit().await,
        Ok(false) => return Ok(false),
        Err(stop) => Err(stop),
    };
    match merged {
        Ok(Outcome::Committed(_)) => {
            count(Event::Merge);
            Ok(true)
        }
        // Without memory or disk for tidying up, things stay as they are.
        Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_) | Stop::OutOfMemory | Stop::DiskFull) => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Merges at the leaves, and as far up as parents have become sparse.
async fn merge_up(tx: &mut Transaction, tree: Addr, key: &[u8]) -> Result<bool, Stop> {
    let mut level = 0;
    while merge_level(tx, tree, level, key).await? {
        level += 1;
    }
    Ok(level > 0)
}

/// Merges the node of `level` that covers `key` with a neighbour under the same parent if they fit
/// one node well.
async fn merge_level(tx: &mut Transaction, tree: Addr, level: u8, key: &[u8]) -> Result<bool, Stop> {
    let Some(parent) = walk::find(tx, tree, level + 1, Target::At(key)).await? else { return Ok(false) };
    let mut parent_image = Vec::new();
    if !tx.read(parent, &mut parent_image).await? {
        return Ok(false);
    }
    let (at, left_at, right_at) = {
        let view = View::Own(&parent_image);
        let node = Node::open(&view).ok_or(Stop::Damaged)?;
        if node.count < 2 {
            let child = if node.count == 1 { node.child(0).addr } else { Addr::NULL };
            return collapse(tx, tree, parent, child).await;
        }
        let at = node.child_at(key).min(node.count - 2);
        (at, node.child(at).addr, node.child(at + 1).addr)
    };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    if !tx.read(left_at, &mut left).await? || !tx.read(right_at, &mut right).await? {
        return Ok(false);
    }
    let loads = (load(&View::Own(&left), tree), load(&View::Own(&right), tree));
    let (Some((left_load, words, _)), Some((right_load, _, _))) = loads else { return Err(Stop::Damaged) };
    if !joinable(left_load, right_load, words) || split::merge(&mut left, &right).is_err() {
        return Ok(false);
    }
    image::remove(&mut parent_image, at + 1);
    tx.write(left_at, &left).await?;
    tx.free(right_at).await?;
    tx.write(parent, &parent_image).await?;
    let single = {
        let view = View::Own(&parent_image);
        Node::open(&view).filter(|node| node.count == 1).map(|node| node.child(0).addr)
    };
    if let Some(child) = single {
        collapse(tx, tree, parent, child).await?;
    }
    Ok(true)
}

/// The root takes the content of its only child.
async fn collapse(tx: &mut Transaction, tree: Addr, parent: Addr, child: Addr) -> Result<bool, Stop> {
    if parent != tree || child.is_null() {
        return Ok(false);
    }
    let mut image = Vec::new();
    if !tx.read(child, &mut image).await? {
        return Ok(false);
    }
    let (frame, entries) = image::take_apart(&image).ok_or(Stop::Damaged)?;
    let frame = Frame { key_timestamp: frame.key_timestamp, ..Frame::root(frame.level, frame.words, tree) };
    let mut root = vec![0; image.len()];
    if image::build(&mut root, &frame, &entries, 0, entries.len()).is_err() {
        return Ok(false);
    }
    tx.write(tree, &root).await?;
    tx.free(child).await?;
    Ok(true)
}

impl BTree {
    /// Merges sparse neighbours all along the tree; what VACUUM does to an index.
    ///
    /// # Errors
    /// As [`Transaction::commit`], but for conflicts.
    pub async fn maintain(&self, tx: &mut Transaction) -> Result<(), Stop> {
        let tree = self.root();
        let mut key = Vec::new();
        loop {
            let Some(leaf) = walk::descend(tx.machine(), tree, 0, Target::At(&key))? else { return Ok(()) };
            if wanted(tx, tree, leaf) && merge(tx, tree, &key).await? {
                continue;
            }
            key.clear();
            let more = tx.machine().view_current(leaf, |view| {
                key.clear();
                Node::open_in(view, tree).is_some_and(|node| node.append_high(&mut key))
            });
            if more != Some(true) {
                return Ok(());
            }
        }
    }
}
