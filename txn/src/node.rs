//! The interface between the commit protocol and index nodes; the protocol knows no keys.
//!
//! An index changes a node by a *patch*: a condition and a change, encoded in words that only its
//! [`NodeKind`] understands. The patch is applied to a private image when the statement runs. If
//! the node has moved by the commit, the patch is applied again under the lock. So two transactions
//! that put different keys into one node both commit.

use std::future::Future;
use std::pin::Pin;

use fencepost_storage::{Addr, Timestamp, View};

use crate::stop::Stop;
use crate::transaction::Transaction;

/// The future of [`NodeKind::reroute`].
pub type RerouteFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;

/// The reason why a patch does not apply to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key already exists.
    Exists,
    /// The key does not exist.
    Missing,
    /// The node has no space left.
    Full,
    /// The node does not cover the key.
    WrongNode,
}

/// The result of validating a node that has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidate {
    /// The node still has the set of keys that was seen.
    Valid,
    /// The set of keys has changed.
    Invalid,
    /// The keys of this node are unchanged; the rest of the range is in the node at this address.
    ContinueAt(Addr),
}

/// A type of index node. Methods receive words that may be torn. They must neither panic nor loop
/// on them.
pub trait NodeKind: Sync + Send {
    /// Returns the number of the kind in log records and messages.
    fn id(&self) -> u8;

    /// Returns whether this version, newer than `r`, has the same keys as the node had at `r`, in
    /// the range that it covers now: since `r` the node has only been split.
    fn admits(&self, node: &View<'_>, r: Timestamp) -> bool;

    /// Applies `op` to an image.
    ///
    /// # Errors
    /// The reason why it does not apply; the image is unchanged in that case.
    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal>;

    /// Returns the index of the image word that [`Self::stamp`] sets to the commit timestamp;
    /// `None` if it sets no word.
    fn timestamp_word(&self) -> Option<usize> {
        None
    }

    /// Writes the commit timestamp into a patched image. Other changes that it makes do not depend
    /// on the timestamp.
    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        let _ = (image, w);
    }

    /// Compares what was seen (`note`) with the node as it is now.
    fn revalidate(&self, note: &[u64], now: &View<'_>) -> Revalidate;

    /// Returns where to continue the comparison for a node that no longer exists: it was merged
    /// into another.
    fn revalidate_removed(&self, note: &[u64]) -> Revalidate {
        let _ = note;
        Revalidate::Invalid
    }

    /// Calls `f` with the patches of single keys of which `op` consists. Those are the arguments of
    /// [`Self::condition`] and [`Self::same_key`], and the patches that
    /// [`Transaction::take_patches`] returns.
    fn for_each_key(&self, op: &[u64], f: &mut dyn FnMut(&[u64])) {
        f(op);
    }

    /// Returns the note of what `op` requires of the node. `image` is some version of that node. It
    /// is used for a patch that a rollback takes back although the client may have acted on its
    /// result. `None` means that the node must not move at all.
    fn condition(&self, op: &[u64], image: &[u64]) -> Option<Vec<u64>> {
        let _ = (op, image);
        None
    }

    /// Returns whether two patches are for the same key.
    fn same_key(&self, one: &[u64], other: &[u64]) -> bool {
        let _ = (one, other);
        false
    }

    /// Finds new nodes for the patches of a node that no longer accepts them, because others have
    /// split or filled it. Takes the patches ([`Transaction::take_patches`]), makes them again in
    /// the right nodes, and reports that ([`Transaction::made_anew`]). No locks are held.
    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> RerouteFuture<'a>;
}
