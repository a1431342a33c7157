//! Splits: transactions of their own, so that a user's abort does not undo them and inner nodes
//! stay out of users' write sets.
//!
//! One transaction writes the reduced left half, the new right half and the parent's new entry. If
//! the parent is full, it is split in the same transaction, and so on up. A full root keeps its
//! address: its content moves into two new nodes below it. A leaf's new right half continues the
//! old versions of the leaf, so readers of older snapshots find the earlier leaf there.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::{AbortReason, ObjectLocation, Outcome, Stop, Transaction};

use crate::counters::{Event, count};
use crate::entries::ScanBatch;
use crate::image::{self, Frame};
use crate::kind::LEAF;
use crate::node::{FLAG_TOGETHER, Node};
use crate::split;
use crate::structure;
use crate::walk;

/// Most attempts of a split that loses races with other transactions.
const ATTEMPTS: usize = 1000;

/// Splits a leaf at `separator` in a transaction of its own. Returns how often the split was
/// announced. Returns `None`, and does nothing, if the leaf no longer contains the separator
/// between its fences.
///
/// # Errors
/// As [`Transaction::commit`].
pub(crate) async fn split_leaf(
    tx: &mut Transaction,
    tree: Addr,
    leaf: Addr,
    separator: &[u8],
) -> Result<Option<u64>, Stop> {
    let (mut announced, mut doubts) = (0, 0);
    for _ in 0..ATTEMPTS {
        let mut system = tx.system();
        let done = match split_in(&mut system, tree, leaf, separator).await {
            Ok(false) => return Ok(None),
            Ok(true) => {
                structure::announce(tx);
                announced += 1;
                system.commit().await
            }
            Err(stop) => Err(stop),
        };
        match done {
            Ok(Outcome::Committed(_)) => return Ok(Some(announced)),
            Ok(Outcome::Aborted(_)) | Err(Stop::Retry(_)) => {}
            Err(stop) => {
                tx.doubt_system(stop, doubts).await?;
                doubts += 1;
            }
        }
    }
    Err(Stop::Retry(AbortReason::NodeConflict))
}

/// An entry that a parent must get: a new node's low fence and address.
struct ParentEntry {
    level: u8,
    low: Vec<u8>,
    child: FatPtr,
}

/// Splits a leaf at `separator` within `tx`. Returns `false` if the separator is not between the
/// leaf's fences.
///
/// # Errors
/// As [`Transaction::read`] and [`Transaction::write`].
pub(crate) async fn split_in(
    tx: &mut Transaction,
    tree: Addr,
    leaf: Addr,
    separator: &[u8],
) -> Result<bool, Stop> {
    let mut left = Vec::new();
    if !tx.read(leaf, &mut left).await? {
        return Ok(false);
    }
    let spans = {
        let view = View::Own(&left);
        Node::open_in(&view, tree).is_some_and(|node| {
            node.level == 0
                && node.covers(separator)
                && node.cmp_low(separator) == std::cmp::Ordering::Greater
        })
    };
    if !spans {
        return Ok(false);
    }
    let mut links = Vec::new();
    split_node(tx, tree, leaf, left, Some(separator.to_vec()), &mut links).await?;
    while let Some(link) = links.last() {
        let (level, low) = (link.level, link.low.clone());
        let mut image = Vec::new();
        // The tree may have been dropped during a split in a transaction of its own.
        let parent = walk::read(tx, tree, level, &low, &mut image)
            .await?
            .ok_or(Stop::Retry(AbortReason::NodeConflict))?;
        let at = {
            let view = View::Own(&image);
            Node::open(&view).ok_or(Stop::Damaged)?.position(&low)
        };
        if image::insert(&mut image, at, &low, link.child.to_words()).is_ok() {
            tx.write(parent, &image).await?;
            links.pop();
        } else {
            let separator = {
                let view = View::Own(&image);
                Node::open(&view).and_then(|node| split::choose(&node, &low))
            };
            // A split at the key to be linked would require that the key exists already.
            let separator = separator.filter(|separator| *separator != low);
            split_node(tx, tree, parent, image, separator, &mut links).await?;
        }
    }
    Ok(true)
}

/// Splits a node with the image `left`, at `separator` or in its middle. Pushes the link that its
/// parent needs.
async fn split_node(
    tx: &mut Transaction,
    tree: Addr,
    at: Addr,
    mut left: Vec<u64>,
    separator: Option<Vec<u8>>,
    links: &mut Vec<ParentEntry>,
) -> Result<(), Stop> {
    let (level, words, flags) = {
        let view = View::Own(&left);
        let node = Node::open(&view).ok_or(Stop::Damaged)?;
        (node.level, node.words, node.flags)
    };
    let right = new_node(tx, words, (at, flags), level).await?;
    let left_at = if at == tree {
        new_node(tx, words, (at, flags), level).await?
    } else {
        FatPtr {
            addr: at,
            ..FatPtr::NULL
        }
    };
    let mut right_image = vec![0; words];
    let whole = left.clone();
    let mut cut =
        |separator: &[u8]| split::split(&mut left, &mut right_image, right.addr, separator);
    let chosen = separator.filter(|separator| cut(separator).is_ok());
    let separator = match chosen {
        Some(separator) => separator,
        None => {
            let middle = split::choose_middle(&whole).ok_or(Stop::Damaged)?;
            cut(&middle).map_err(|_| Stop::Damaged)?;
            middle
        }
    };
    count(Event::Split);
    tx.write_new(right, &right_image)?;
    // This transaction has written its keys, as all keys of the whole node.
    let stamped = level == 0 && tx.stamps(at);
    if stamped {
        tx.stamp_with(right.addr, &LEAF)?;
    }
    if at != tree {
        tx.write(at, &left).await?;
        links.push(ParentEntry {
            level: level + 1,
            low: separator,
            child: right,
        });
        return Ok(());
    }
    tx.write_new(left_at, &left[..words])?;
    if stamped {
        tx.stamp_with(left_at.addr, &LEAF)?;
    }
    let mut children = ScanBatch::new();
    children.push(&[], left_at.to_words());
    children.push(&separator, right.to_words());
    let mut root = vec![0; whole.len()];
    let frame = Frame::root(level + 1, words, tree).together_as(flags);
    image::build(&mut root, &frame, &children, 0, 2).map_err(|_| Stop::Damaged)?;
    tx.write(tree, &root).await
}

/// Allocates a new node near the one at `from`. A leaf continues the old versions of the node that
/// it is split from.
async fn new_node(
    tx: &mut Transaction,
    words: usize,
    (from, flags): (Addr, u64),
    level: u8,
) -> Result<FatPtr, Stop> {
    let near = place(from, flags);
    if level == 0 && (!tx.owns(from) || tx.stamps(from)) {
        tx.alloc_split_of(words, near, from).await
    } else {
        tx.alloc(words, near).await
    }
}

/// Returns the place for new nodes of a tree near the one at `from`. If its flags say so (BTREE-4),
/// that is the machine of `from`. Otherwise it is the machine that creates them, so that entries
/// that a machine appends stay on it.
pub(crate) fn place(from: Addr, flags: u64) -> ObjectLocation {
    match flags & FLAG_TOGETHER {
        0 => ObjectLocation::OwnBeside(from),
        _ => ObjectLocation::Object(from),
    }
}
