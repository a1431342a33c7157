//! Building a tree from sorted entries: leaf by leaf, with the parents at the same time; no node is
//! written twice.
//!
//! ```text
//! level 1   [ .. | .. ]  gathering ◄── low fence and address of every finished leaf
//! level 0   [done]──►[done]──►[done]──► gathering ◄── push(key, value)
//! ```
//! An empty tree that other transactions can already see may be filled this way too. Its root is
//! overwritten at its exact version. The leaves get the commit timestamp and continue the old
//! versions of the empty root, which readers of older snapshots find there.
//!
//! The transaction allocates the nodes; they are unreachable until it commits. The right neighbour
//! is allocated when a node is finished, so siblings are linked in one pass. The level that never
//! finished a node becomes the root.

use fencepost_storage::{Addr, FatPtr, View};
use fencepost_txn::fault::{self, Fault};
use fencepost_txn::{Stop, Strength, Transaction};

use crate::entries::ScanBatch;
use crate::error::IndexError;
use crate::grow;
use crate::image::{self, Frame};
use crate::key;
use crate::kind::LEAF;
use crate::node::{FLAG_RIGHT_EDGE, HEADER_WORDS, Node, heap_words};
use crate::options::longest_key;
use crate::tree::BTree;

/// A node under construction, the last one of its level.
struct Level {
    entries: ScanBatch,
    low: Vec<u8>,
    /// Address of the node, if a left neighbour already points to it.
    node: FatPtr,
    /// Words that the entries take with their present common prefix.
    used: usize,
    prefix: usize,
}

impl Level {
    fn new(low: Vec<u8>, node: FatPtr) -> Self {
        let prefix = low.len();
        Level {
            entries: ScanBatch::new(),
            low,
            node,
            used: 0,
            prefix,
        }
    }

    /// Returns the prefix length and the words of the entries, if `key` were among them.
    fn used_with(&self, level: u8, key: &[u8]) -> (usize, usize) {
        let first = usize::from(level > 0);
        if self.entries.len() < first {
            return (self.prefix, 1 + heap_words(0));
        }
        let prefix = self.prefix.min(key::shared(&self.low, key));
        let mut used = self.used + 1 + heap_words(key.len() - prefix);
        if prefix < self.prefix {
            let longer = |i: usize| heap_words(self.entries.key(i).len() - prefix);
            used = first * (1 + heap_words(0)) + 1 + heap_words(key.len() - prefix);
            used += (first..self.entries.len())
                .map(|i| 1 + longer(i))
                .sum::<usize>();
        }
        (prefix, used)
    }

    fn push(&mut self, level: u8, key: &[u8], value: [u64; 2]) {
        (self.prefix, self.used) = self.used_with(level, key);
        self.entries.push(key, value);
    }

    /// Appends an entry if that does not fill the node. Returns whether it did. `words` are those
    /// of a node, `fill` those to fill.
    #[inline]
    fn push_within(
        &mut self,
        level: u8,
        (words, fill): (usize, usize),
        key: &[u8],
        value: [u64; 2],
    ) -> bool {
        let least = 2 + usize::from(level > 0);
        let fences = key::words_for(self.low.len()) + key::words_for(key.len());
        let (prefix, entries) = self.used_with(level, key);
        let used = HEADER_WORDS + fences + entries;
        let fits = self.entries.len() < least && used <= words || used <= fill;
        if fits {
            (self.prefix, self.used) = (prefix, entries);
            self.entries.push(key, value);
        }
        fits
    }
}

/// A tree under construction.
pub struct Bulk {
    root: Addr,
    /// Whether others can see the tree, which is empty for them.
    public: bool,
    words: usize,
    /// Flags of the root.
    flags: u64,
    /// Number of words of a node to fill.
    fill: usize,
    levels: Vec<Level>,
    last: Option<Vec<u8>>,
    /// The image of the node that is being written.
    image: Vec<u64>,
    /// An empty batch that is used again.
    spare: ScanBatch,
}

/// Share of a node that is filled, in percent, so that the first inserts do not split every leaf.
const FILL_PERCENT: usize = 95;

impl Bulk {
    fn at(root: Addr, (words, flags): (usize, u64), public: bool) -> Bulk {
        Bulk {
            root,
            public,
            words,
            flags,
            fill: words * FILL_PERCENT / 100,
            levels: vec![Level::new(Vec::new(), FatPtr::NULL)],
            last: None,
            image: Vec::new(),
            spare: ScanBatch::new(),
        }
    }

    /// Begins to fill `tree`. Returns `None` unless the tree is empty in the transaction's snapshot
    /// and no other transaction has written to it since. Until [`Self::finish`] the tree stays
    /// empty. An insert by another transaction into a tree that existed before makes this
    /// transaction's commit fail. Waits for other transactions that are about to fill a tree that
    /// existed before.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::intend`].
    pub async fn into(tx: &mut Transaction, tree: BTree) -> Result<Option<Bulk>, Stop> {
        let root = tree.root();
        let public = !tx.owns(root);
        if public {
            // Wait for other transactions that are about to fill it.
            tx.intend(root, Strength::Update).await?;
        }
        let empty = |view: &View<'_>| {
            Node::open_in(view, root)
                .filter(|node| node.level == 0 && node.count == 0 && node.is_right_edge())
                .map(|node| (node.words, node.flags))
        };
        let Some((Some(shape), seen)) = tx.view(root, None, empty).await? else {
            return Ok(None);
        };
        let current = !public || (!seen.is_own() && seen.timestamp() <= tx.read_timestamp());
        if public && current {
            // Until the root is overwritten, only the read set keeps others from filling it.
            tx.guard(seen);
        }
        Ok(current.then(|| Self::at(root, shape, public)))
    }

    /// Appends an entry. Returns `false`, and appends nothing, if its key is not above the last
    /// one.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`]; nothing was appended then. Otherwise as [`Transaction::alloc`].
    pub async fn push(
        &mut self,
        tx: &mut Transaction,
        key: &[u8],
        value: [u64; 2],
    ) -> Result<bool, IndexError> {
        let limit = longest_key(self.words);
        if key.len() > limit {
            return Err(IndexError::KeyTooLong {
                length: key.len(),
                limit,
            });
        }
        if self.last.as_deref().is_some_and(|last| last >= key) {
            return Ok(false);
        }
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
        let limits = (self.words, self.fill);
        if !self.levels[0].push_within(0, limits, key, value) {
            self.add(tx, 0, key.to_vec(), value).await?;
        }
        Ok(true)
    }

    /// Allocates a new node of a level.
    async fn node(&self, tx: &mut Transaction, level: usize, near: Addr) -> Result<FatPtr, Stop> {
        let near = grow::place(near, self.flags);
        let has_past = !fault::injected(Fault::FillWithoutPast);
        if self.public && level == 0 && has_past {
            tx.alloc_split_of(self.words, near, self.root).await
        } else {
            tx.alloc(self.words, near).await
        }
    }

    /// Adds an entry to a level, and the links to finished nodes to the levels above.
    async fn add(
        &mut self,
        tx: &mut Transaction,
        mut level: usize,
        mut key: Vec<u8>,
        mut value: [u64; 2],
    ) -> Result<(), Stop> {
        loop {
            if self.levels.len() == level {
                self.levels.push(Level::new(Vec::new(), FatPtr::NULL));
            }
            let open_level = &mut self.levels[level];
            if open_level.push_within(level as u8, (self.words, self.fill), &key, value) {
                return Ok(());
            }
            // The high fence of the finished node is the low fence of the next one.
            let last = open_level.entries.key(open_level.entries.len() - 1);
            let cut = if level == 0 {
                key::separator(last, &key).to_vec()
            } else {
                key.clone()
            };
            let near = if open_level.node.is_null() {
                self.root
            } else {
                open_level.node.addr
            };
            let first = open_level.node.is_null();
            let next = self.node(tx, level, near).await?;
            let open_level = &mut self.levels[level];
            let mut fresh = Level::new(cut.clone(), next);
            fresh.entries = std::mem::take(&mut self.spare);
            let mut done = std::mem::replace(open_level, fresh);
            open_level.push(level as u8, &key, value);
            if first {
                done.node = self.node(tx, level, near).await?;
            }
            let low = done.low.clone();
            let child = done.node;
            self.write(tx, level, done, Some(cut), next.addr).await?;
            (key, value) = (low, child.to_words());
            level += 1;
        }
    }

    /// Writes a finished node.
    async fn write(
        &mut self,
        tx: &mut Transaction,
        level: usize,
        done: Level,
        high: Option<Vec<u8>>,
        right: Addr,
    ) -> Result<(), Stop> {
        let frame = Frame {
            flags: match high {
                None => FLAG_RIGHT_EDGE,
                Some(_) => 0,
            },
            right,
            low: done.low,
            high: high.unwrap_or_default(),
            ..Frame::root(level as u8, self.words, self.root)
        };
        let frame = frame.together_as(self.flags);
        self.image.resize(self.words, 0);
        let (image, entries) = (&mut self.image, done.entries);
        image::build(image, &frame, &entries, 0, entries.len()).map_err(|_| Stop::Damaged)?;
        self.spare = entries;
        self.spare.clear();
        let at = done.node.addr;
        if at == self.root && self.public {
            tx.write(at, &self.image).await?;
        } else {
            tx.write_new(done.node, &self.image)?;
        }
        if self.public && level == 0 && !fault::injected(Fault::FillWithoutStamp) {
            tx.stamp_with(at, &LEAF)?;
        }
        Ok(())
    }

    /// Finishes the tree: writes the nodes under construction, and the root. Without this call the
    /// tree stays empty.
    ///
    /// # Errors
    /// As [`Transaction::alloc`] and [`Transaction::write`].
    pub async fn finish(mut self, tx: &mut Transaction) -> Result<BTree, Stop> {
        let mut level = 0;
        loop {
            let mut done = std::mem::replace(
                &mut self.levels[level],
                Level::new(Vec::new(), FatPtr::NULL),
            );
            if done.node.is_null() {
                done.node.addr = self.root;
                self.write(tx, level, done, None, Addr::NULL).await?;
                return Ok(BTree::open(self.root));
            }
            let (low, child) = (done.low.clone(), done.node);
            self.write(tx, level, done, None, Addr::NULL).await?;
            self.add(tx, level + 1, low, child.to_words()).await?;
            level += 1;
        }
    }
}
