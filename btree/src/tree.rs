//! The tree: lookups of single keys, and re-routing.
//!
//! A lookup finds its leaf by a descent, and looks again if the leaf was split or merged since.
//! Then patches of the transaction may be in the wrong leaf. They are re-routed: made again in the
//! leaves that have their keys now.

use fencepost_storage::{Addr, View};
use fencepost_txn::{AbortReason, ReadEntry, RerouteFuture, Stop, Transaction, Work};

use crate::counters::{Event, count};
use crate::kind::LEAF;
use crate::node::Node;
use crate::note::{self, LeafProperties, RangeEnd};
use crate::op;
use crate::structure;
use crate::walk::{self, MAX_STEPS, Step, Target};

/// An ordered index. The handle is the address of its root and can be copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BTree {
    root: Addr,
}

enum Descent<T> {
    Reached(T),
    Go(Addr),
    Lost,
}

impl BTree {
    /// Returns the tree whose root is at `root`; reads nothing yet.
    pub const fn open(root: Addr) -> BTree {
        BTree { root }
    }

    /// Returns the address of the root, which never moves.
    pub const fn root(&self) -> Addr {
        self.root
    }

    /// Calls `f` with the leaf that covers `target`, as the transaction sees it. `f` may run on
    /// torn words.
    pub(crate) async fn visit<T: Send>(
        &self,
        tx: &mut Transaction,
        target: Target<'_>,
        mut f: impl FnMut(&Node<'_, '_>) -> T + Send,
    ) -> Result<(T, ReadEntry), Stop> {
        let mut steps = 0;
        let mut fresh = false;
        loop {
            let found = walk::descend(tx.machine(), self.root, 0, target, fresh).await?;
            let mut at = found.unwrap_or(self.root);
            // If copies of inner nodes lead to the wrong leaf, they are not used again.
            let by_copies = !std::mem::replace(&mut fresh, true);
            // Mostly one step; more if the tree has an older shape in the snapshot than in the
            // walk.
            loop {
                steps += 1;
                if steps > MAX_STEPS {
                    return Err(Stop::Retry(AbortReason::RefreshFailed));
                }
                if tx.has_patches() && tx.patch_is_stale(at).await? == Some(true) {
                    renew(tx, at).await?;
                    break;
                }
                count(Event::LeafRead);
                let (root, old_reads) = (self.root, tx.old_reads());
                let found = tx
                    .view(at, Some(&LEAF), |view| match Node::open_in(view, root) {
                        None => Descent::Lost,
                        Some(node) => match target.step(&node) {
                            Step::InNode if node.level == 0 => Descent::Reached(f(&node)),
                            Step::InNode => Descent::Go(target.child(&node)),
                            Step::Right(right) => Descent::Go(right),
                            Step::Lost => Descent::Lost,
                        },
                    })
                    .await;
                let found = match found {
                    // Copies may lead to a block that no longer exists.
                    Err(Stop::Damaged) if by_copies && tx.machine().is_far(at) => break,
                    found => found?,
                };
                match found {
                    Some((Descent::Reached(value), seen)) => {
                        if re_route_patches(tx, seen).await? {
                            break;
                        }
                        let old = tx.old_reads() != old_reads && tx.has_patches();
                        if old && structure::lacks_own(tx, root, at).await? {
                            tx.refresh().await?;
                            break;
                        }
                        return Ok((value, seen));
                    }
                    Some((Descent::Go(next), _)) if !next.is_null() => at = next,
                    None if at == self.root => return Err(Stop::Damaged),
                    _ => break,
                }
            }
        }
    }

    /// Returns the value of `key`, unguarded. If the key is absent, its absence joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] also if no tree is at the root.
    pub async fn get(&self, tx: &mut Transaction, key: &[u8]) -> Result<Option<[u64; 2]>, Stop> {
        let look = |node: &Node<'_, '_>| match node.search(key) {
            Ok(at) => Ok(node.value(at)),
            Err(_) => Err(LeafProperties::new(node, 0)),
        };
        match self.visit(tx, Target::At(key), look).await? {
            (Ok(value), _) => Ok(Some(value)),
            (Err(facts), seen) => {
                let snapshot = tx.read_timestamp();
                note::with_note(self.root, snapshot, facts, key, RangeEnd::Point, |note| {
                    tx.guard_keys(seen, &LEAF, note)
                });
                Ok(None)
            }
        }
    }

    /// Returns the value of `key`. The presence of the key, with any value, or its absence joins
    /// the read set.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub async fn get_present(
        &self,
        tx: &mut Transaction,
        key: &[u8],
    ) -> Result<Option<[u64; 2]>, Stop> {
        let look = |node: &Node<'_, '_>| node.search(key).ok().map(|at| node.value(at));
        let (found, seen) = self.visit(tx, Target::At(key), look).await?;
        let note = note::condition(self.root, key, found.is_some());
        tx.guard_keys(seen, &LEAF, &note);
        Ok(found)
    }
}

/// Handles a leaf newer than the snapshot, which may have been split or merged since. Patches of
/// this transaction that are still in the node that had their keys before are re-routed. Returns
/// `true` if the caller must look again. The search for them runs once for each split or merge of
/// other transactions.
async fn re_route_patches(tx: &mut Transaction, seen: ReadEntry) -> Result<bool, Stop> {
    // Also for a leaf in the write set, which may have been merged with another one since.
    if !tx.has_patches() || seen.timestamp() <= tx.read_timestamp() {
        return Ok(false);
    }
    if tx.has_pending_patches() {
        // Patches being re-routed are of other keys, or arrive in the order in which they were
        // made.
        return Ok(false);
    }
    let changes = structure::changes(tx);
    if changes.is_some_and(|changes| tx.settled() == changes) {
        return Ok(false);
    }
    settle_stale(tx, changes).await
}

/// Does the work of [`re_route_patches`] if there were splits or merges since it was last done.
fn settle_stale(tx: &mut Transaction, changes: Option<u64>) -> Work<'_, Result<bool, Stop>> {
    Box::pin(async move {
        for addr in tx.stale_patches(&LEAF).await? {
            if is_displaced(tx, addr).await? {
                renew(tx, addr).await?;
                return Ok(true);
            }
        }
        tx.set_settled(changes.unwrap_or(0));
        Ok(false)
    })
}

/// Returns whether a patched leaf no longer has the fences that the transaction has seen there.
fn is_displaced(tx: &mut Transaction, addr: Addr) -> Work<'_, Result<bool, Stop>> {
    Box::pin(async move {
        let fences = |view: &View<'_>| {
            let node = Node::open(view).filter(|node| node.level == 0)?;
            let (mut low, mut high) = (Vec::new(), Vec::new());
            node.append_low(&mut low);
            let bounded = node.append_high(&mut high);
            Some((low, high, bounded))
        };
        let now = tx.machine().view_current(addr, fences).await?.flatten();
        let mine = tx.view(addr, Some(&LEAF), fences).await?;
        Ok(now.is_none() || mine.and_then(|(mine, _)| mine) != now)
    })
}

/// Re-routes, as [`reroute`] does, the patches of a leaf that has moved. Fails if the leaf has
/// moved again: on an old snapshot that cannot be moved, that would repeat for ever.
async fn renew(tx: &mut Transaction, addr: Addr) -> Result<(), Stop> {
    reroute(tx, addr).await?;
    if tx.patch_is_stale(addr).await? == Some(true) {
        return Err(Stop::Retry(AbortReason::RefreshFailed));
    }
    Ok(())
}

/// Takes the transaction's pending patches of a leaf and makes them again in the right leaves.
pub(crate) fn reroute(tx: &mut Transaction, addr: Addr) -> RerouteFuture<'_> {
    Box::pin(async move {
        count(Event::Reroute);
        let mut tx = tx.current_scope();
        let taken = tx.take_patches(addr);
        for words in taken.ops() {
            let op = op::decode(words).ok_or(Stop::Damaged)?;
            BTree::open(op.tree).redo(&mut tx, &op).await?;
        }
        tx.made_anew(taken);
        Ok(())
    })
}
