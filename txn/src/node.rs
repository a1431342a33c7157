//! What the commit protocol needs to know about index nodes, without knowing keys.
//!
//! An index changes a node by a *patch*: a condition and a change in words that only its
//! [`NodeKind`] understands. The patch is applied to a private image when the statement runs, and
//! once more under the lock if the node has moved by then; so two transactions that put different
//! keys into one node both commit.

use std::future::Future;
use std::pin::Pin;

use fencepost_storage::{Addr, Timestamp, View};

use crate::stop::Stop;
use crate::transaction::Transaction;

/// The future of [`NodeKind::reroute`].
pub type Rerouting<'a> = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;

/// Why a patch does not apply to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is there already.
    Exists,
    /// The key is not there.
    Missing,
    /// The node has no room.
    Full,
    /// The node does not cover the key.
    WrongNode,
}

/// What validation finds about a node that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidate {
    /// The set of keys that was seen is still there.
    Valid,
    /// It is not.
    Invalid,
    /// So far it is; the rest of it is in this node.
    ContinueAt(Addr),
}

/// A type of index node. Methods get words that may be torn and must neither panic nor loop on them.
pub trait NodeKind: Sync + Send {
    /// Number of the kind in log records and messages.
    fn id(&self) -> u8;

    /// Whether this version, newer than `r`, holds the very keys that the node held at `r` in the
    /// range it covers now: it has only been split since.
    fn admits(&self, node: &View<'_>, r: Timestamp) -> bool;

    /// Applies `op` to an image.
    ///
    /// # Errors
    /// Why it does not apply; the image is unchanged then.
    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal>;

    /// The word of an image that [`Self::stamp`] makes the commit timestamp; `None` where it does nothing.
    fn timestamp_word(&self) -> Option<usize> {
        None
    }

    /// Writes the commit timestamp into a patched image. What it changes besides does not depend on it.
    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        let _ = (image, w);
    }

    /// Compares what was seen (`note`) with the node as it is now.
    fn revalidate(&self, note: &[u64], now: &View<'_>) -> Revalidate;

    /// Where to look for what was seen in a node that is gone by now: it was merged into another.
    fn gone(&self, note: &[u64]) -> Revalidate {
        let _ = note;
        Revalidate::Invalid
    }

    /// The note of what `op` requires of the node where it was applied, of which `image` is some
    /// version: for a patch that a rollback takes back although its answer may have been acted on.
    /// `None` where the node must not move at all.
    fn condition(&self, op: &[u64], image: &[u64]) -> Option<Vec<u64>> {
        let _ = (op, image);
        None
    }

    /// Whether two patches are of the same key.
    fn same_key(&self, one: &[u64], other: &[u64]) -> bool {
        let _ = (one, other);
        false
    }

    /// Finds new places for the patches of a node that no longer takes them, because it was split or
    /// filled up by others: takes them ([`Transaction::take_patches`]), makes them where they belong
    /// now, and says so ([`Transaction::made_anew`]). No locks are held.
    fn reroute<'a>(&'static self, tx: &'a mut Transaction, addr: Addr) -> Rerouting<'a>;
}
