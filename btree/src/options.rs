//! The options of a new tree, and the limits that its node size sets.

use fencepost_txn::ObjectLocation;

use crate::node::{HEADER_WORDS, VALUE_WORDS};
use crate::op;

/// Default number of words of a node: with header and line versions a slot of 2 KiB.
pub const DEFAULT_NODE_WORDS: usize = 223;
/// Words of the smallest node.
pub const MIN_NODE_WORDS: usize = 40;
/// Words of the largest node.
pub const MAX_NODE_WORDS: usize = 32_000;

/// The options of a new tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Words of a node; changed to be between [`MIN_NODE_WORDS`] and [`MAX_NODE_WORDS`].
    pub node_words: usize,
    /// The place of the root.
    pub near: ObjectLocation,
    /// Whether the tree is kept together: all its nodes are created on the machine of the root.
    /// Otherwise each node is created on the machine of the transaction that needs it.
    pub together: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            node_words: DEFAULT_NODE_WORDS,
            near: ObjectLocation::Own,
            together: false,
        }
    }
}

/// Returns the length in bytes of the longest key that fits nodes of `node_words`. Four entries
/// with such keys, between fences of that length, fit a node.
pub const fn longest_key(node_words: usize) -> usize {
    let words = node_words.saturating_sub(HEADER_WORDS + 4 * (1 + VALUE_WORDS)) / 6;
    let most = if words < op::MAX_KEY_WORDS {
        words
    } else {
        op::MAX_KEY_WORDS
    };
    most * 8
}
