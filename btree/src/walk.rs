//! Descents from the root to a node.
//!
//! Inner nodes are read outside the transaction, at their newest version and without locks. A walk
//! may race with splits and merges, so each node shows by its fences whether it is the right one.
//! For a key beyond the high fence, the walk goes to the right sibling. If a node is gone or lies
//! to the right of the key, the walk goes back on its path. It continues at the lowest ancestor
//! that still covers the key.
//!
//! The nodes on a path were reachable after the transaction began. So no slot among them has been
//! reused for another object meanwhile.

use std::cmp::Ordering;

use fencepost_storage::{Addr, View};
use fencepost_txn::{Machine, Stop, Transaction};

use crate::counters::{Event, count};
use crate::node::Node;

/// Most levels of a tree.
const MAX_DEPTH: usize = 32;
/// Most steps of a walk before it fails.
pub(crate) const MAX_STEPS: usize = 100_000;

/// The target of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The node that covers this key.
    At(&'a [u8]),
    /// The node that covers the keys just below this one.
    Below(&'a [u8]),
    /// The node at the right edge.
    Last,
}

/// The position of a target relative to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The target is in this node.
    InNode,
    /// The target is to the right of this node.
    Right(Addr),
    /// The target cannot be reached from this node.
    Lost,
}

impl Target<'_> {
    #[inline]
    pub(crate) fn step(self, node: &Node<'_, '_>) -> Step {
        let (beyond, before) = match self {
            Target::At(key) => (
                node.cmp_high(key) != Ordering::Less,
                node.cmp_low(key) == Ordering::Less,
            ),
            Target::Below(key) => (
                node.cmp_high(key) == Ordering::Greater,
                node.cmp_low(key) != Ordering::Greater,
            ),
            Target::Last => (!node.is_right_edge(), false),
        };
        match (beyond, before) {
            (true, _) if node.right().is_null() => Step::Lost,
            (true, _) => Step::Right(node.right()),
            (_, true) => Step::Lost,
            _ => Step::InNode,
        }
    }

    /// Returns the child of an inner node that covers the target.
    #[inline]
    pub(crate) fn child(self, node: &Node<'_, '_>) -> Addr {
        let at = match self {
            Target::At(key) => node.child_at(key),
            Target::Below(key) => node.child_below(key),
            Target::Last => node.count.saturating_sub(1),
        };
        if node.count == 0 {
            Addr::NULL
        } else {
            node.child(at).addr
        }
    }
}

#[derive(Clone, Copy)]
enum WalkStep {
    Found,
    Down(Addr),
    Right(Addr),
    Lost,
}

#[inline]
fn look(node: Option<Node<'_, '_>>, level: u8, target: Target<'_>) -> WalkStep {
    let Some(node) = node else {
        return WalkStep::Lost;
    };
    match target.step(&node) {
        Step::InNode if node.level == level => WalkStep::Found,
        Step::InNode if node.level > level => WalkStep::Down(target.child(&node)),
        Step::InNode | Step::Lost => WalkStep::Lost,
        Step::Right(right) => WalkStep::Right(right),
    }
}

/// Walks as [`descend`] does, if all nodes on the way are in memory that is mapped here, and the
/// first look at each of them leads downwards. Returns `None` otherwise.
#[inline]
pub(crate) fn descend_at_once(
    machine: &Machine,
    tree: Addr,
    level: u8,
    target: Target<'_>,
) -> Option<Addr> {
    let mut at = tree;
    for _ in 0..MAX_DEPTH {
        let step = machine.glimpse(at, |view| look(Node::open_in(view, tree), level, target))??;
        match step {
            WalkStep::Found => return Some(at),
            WalkStep::Down(child) if !child.is_null() => at = child,
            WalkStep::Down(_) | WalkStep::Right(_) | WalkStep::Lost => return None,
        }
    }
    None
}

/// Walks committed versions, the newest ones that need no remote read, to the node at `level`.
/// Returns `None` if there is no root: the transaction that creates the tree has not committed, or
/// the tree was dropped.
///
/// Where inner nodes are on another machine, copies of them are used unless `fresh`. The target
/// node itself is not read: it shows later whether it is the right one.
///
/// # Errors
/// [`Stop::Damaged`] if the tree is malformed; [`Stop::Retry`] where a machine cannot be reached.
#[inline]
pub(crate) async fn descend(
    machine: &Machine,
    tree: Addr,
    level: u8,
    target: Target<'_>,
    mut fresh: bool,
) -> Result<Option<Addr>, Stop> {
    if let Some(at) = descend_at_once(machine, tree, level, target) {
        return Ok(Some(at));
    }
    let mut path = [Addr::NULL; MAX_DEPTH];
    let mut depth = 0;
    let mut at = tree;
    for _ in 0..MAX_STEPS {
        let look = |view: &View<'_>| {
            let node = Node::open_in(view, tree);
            let above = node.is_some_and(|node| node.level == level + 1);
            let inner = node.is_some_and(|node| node.level > 0);
            ((look(node, level, target), above), inner)
        };
        let seen = machine.view_copy(at, fresh, look).await?;
        match seen {
            Some((WalkStep::Found, _)) => return Ok(Some(at)),
            Some((WalkStep::Down(child), above)) if depth < MAX_DEPTH && !child.is_null() => {
                if above && machine.is_far(child) {
                    return Ok(Some(child));
                }
                path[depth] = at;
                depth += 1;
                at = child;
            }
            Some((WalkStep::Right(right), _)) => {
                count(Event::PathRepair);
                at = right;
            }
            None if at == tree => return Ok(None),
            // The copy may be of an earlier object in the root's slot: a node of a dropped tree.
            _ if at == tree && !fresh && machine.is_far(tree) => {
                count(Event::PathRepair);
                fresh = true;
            }
            _ if at == tree => return Err(Stop::Damaged),
            _ => {
                count(Event::PathRepair);
                fresh = true;
                depth = depth.saturating_sub(1);
                at = if path[depth].is_null() {
                    tree
                } else {
                    path[depth]
                };
            }
        }
    }
    Err(Stop::Damaged)
}

/// Walks the versions that a transaction sees, including its own changes, to the node at `level`.
/// Returns `None` if the tree has fewer levels, or no longer exists.
///
/// # Errors
/// As [`Transaction::view`]; [`Stop::Damaged`] if the tree is malformed.
pub(crate) async fn find(
    tx: &mut Transaction,
    tree: Addr,
    level: u8,
    target: Target<'_>,
) -> Result<Option<Addr>, Stop> {
    let mut at = tree;
    for _ in 0..MAX_STEPS {
        let seen = tx
            .view(at, None, |view| {
                let node = Node::open_in(view, tree);
                let too_low = node.is_some_and(|node| node.level < level);
                (look(node, level, target), too_low)
            })
            .await?;
        match seen {
            Some(((WalkStep::Found, _), _)) => return Ok(Some(at)),
            Some(((_, true), _)) if at == tree => return Ok(None),
            Some(((WalkStep::Down(next) | WalkStep::Right(next), _), _)) if !next.is_null() => {
                at = next
            }
            _ if at == tree => return Ok(None),
            // The snapshot has moved during the walk.
            _ => at = tree,
        }
    }
    Err(Stop::Damaged)
}

/// Finds the node that covers `key` as [`find`] does, copies it to `image`, and adds it to the read
/// set. Reading may move the snapshot, and with it the level of a node: a root grows and shrinks at
/// the same address.
///
/// # Errors
/// As [`find`].
pub(crate) async fn read(
    tx: &mut Transaction,
    tree: Addr,
    level: u8,
    key: &[u8],
    image: &mut Vec<u64>,
) -> Result<Option<Addr>, Stop> {
    for _ in 0..MAX_STEPS {
        let Some(at) = find(tx, tree, level, Target::At(key)).await? else {
            return Ok(None);
        };
        let there = tx.read(at, image).await?;
        let view = View::Own(image);
        let node = Node::open_in(&view, tree).filter(|_| there);
        if node.is_some_and(|node| node.level == level && node.covers(key)) {
            return Ok(Some(at));
        }
    }
    Err(Stop::Damaged)
}
