//! Ordered index with fence keys (SOSP'15 §6.2, after Lehman and Yao, and Graefe).
//!
//! # Picture
//! ```text
//!                  root (never moves)            walked outside the transaction, newest version
//!                 /        |        \
//!            inner ──────► inner ──► inner       every node: [low, high), level, right sibling
//!           /     \
//!        leaf ──► leaf ──► leaf ──► ...          read in the transaction, at its snapshot
//! ```
//! * `node` and `image`: the layout of a node, read in place and changed in private images.
//! * `kind`, `op`, `note`: the interface to the commit protocol. An insert is a patch with a
//!   condition (key absent, inside the fences, enough space) that is checked again at commit. So
//!   inserts of different keys into one leaf do not conflict. A note records the keys on which a
//!   scan or an unsuccessful lookup depends.
//! * `options`, `create`, `dismantle`: the options of a tree, its creation and its end.
//! * `walk`, `tree`, `change`, `remove`, `scan`: descents, single keys, their changes, removals of
//!   many keys, ranges.
//! * `divide`: the parts of a range, for scans by several threads.
//! * `grow`, `shrink`: splits and merges, in transactions of their own.
//! * `bulk`, `check`: building from sorted entries, and verifying.
//!
//! # Invariants
//! * BTREE-1: the fences of each level tile the key space, in every snapshot. A node's high fence
//!   is its right sibling's low fence, and its low fence is the key of its parent's entry.
//! * BTREE-2: a leaf's key timestamp is the write timestamp of the last transaction that inserted,
//!   removed or replaced a key there. Splits keep it; merges take the later one. So a leaf newer
//!   than a snapshot, but with an older key timestamp, has the snapshot's keys between its fences.
//! * BTREE-3: a new right node's previous version is the image before the split. A merged node
//!   stays readable for older snapshots.
//! * BTREE-4: the nodes of a tree that is kept together are on the machine of its root, as long as
//!   no machine fails. A node that was made in a taken-over region may move to another machine at
//!   the next failure. Each node says whether its tree is kept together
//!   ([`TreeOptions::together`]).
//!
//! Writers: the transaction that changes a key writes leaves, by patches. Only split and merge
//! transactions write fences, siblings and inner nodes. A transaction changes a tree that it has
//! created and not committed yet directly.
//!
//! # Reading order
//! `key`, `node`, `image`; then `walk`, `tree` and `change` (descents and single keys), `note` and
//! `scan` (ranges), `kind` and `op` (what the commit applies), `grow` and `shrink`; `bulk` and
//! `check` last.
//!
//! # Use
//! A tree is read and changed in a transaction, by the task that owns the transaction. A call waits
//! for messages only if a node is on another machine, or is locked by another commit. Keys are
//! compared as bytes; values are two words, mostly a fat pointer.
//!
//! Failure: a key that does not fit a node is [`IndexError::KeyTooLong`]; every other error is a
//! [`fencepost_txn::Stop`].

mod bulk;
mod change;
mod check;
mod counters;
mod create;
mod dismantle;
mod divide;
mod entries;
mod error;
mod grow;
mod image;
mod inspect;
mod key;
mod kind;
mod node;
mod note;
mod op;
mod options;
mod remove;
mod scan;
mod shrink;
mod size;
mod split;
mod structure;
mod tree;
mod walk;

pub use bulk::Bulk;
pub use change::Insert;
pub use check::Report;
pub use counters::{Counters, counters};
pub use dismantle::NodeContent;
pub use entries::ScanBatch;
pub use error::IndexError;
pub use fencepost_txn::Problem;
pub use inspect::leaf;
pub use options::{DEFAULT_NODE_WORDS, MAX_NODE_WORDS, MIN_NODE_WORDS, TreeOptions, longest_key};
pub use scan::{Cursor, Direction};
pub use size::TreeSize;
pub use tree::BTree;
