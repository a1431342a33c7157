//! Building a tree from sorted entries: leaf by leaf, parents on the fly, nothing rewritten.
//!
//! ```text
//! level 1   [ .. | .. ]  gathering ◄── low fence and address of every finished leaf
//! level 0   [done]──►[done]──►[done]──► gathering ◄── push(key, value)
//! ```
//! Nodes are allocated by the transaction and unreachable until it commits. The right neighbour's
//! address is drawn when a node is finished, so siblings are linked in one pass. The level that never
//! finished a node becomes the root.

use fencepost_storage::{Addr, FatPtr};
use fencepost_txn::{Stop, Transaction};

use crate::entries::ScanBatch;
use crate::error::IndexError;
use crate::image::{self, Frame};
use crate::key;
use crate::node::{FLAG_RIGHT_EDGE, HEADER_WORDS, heap_words};
use crate::tree::{BTree, DEFAULT_NODE_WORDS, MAX_NODE_WORDS, MIN_NODE_WORDS, longest_key};

/// A node under construction, the last one of its level.
struct Level {
    entries: ScanBatch,
    low: Vec<u8>,
    /// Address of the node, if a left neighbour already points to it.
    node: FatPtr,
    /// Words that the entries take with the prefix they have now.
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

    /// Words of the entries, were `key` among them.
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
}

/// A tree under construction.
pub struct Bulk {
    root: FatPtr,
    words: usize,
    /// Words of a node that are filled.
    fill: usize,
    levels: Vec<Level>,
    last: Option<Vec<u8>>,
}

/// Share of a node that is filled, in percent, so that the first inserts do not split every leaf.
const DEFAULT_FILL_PERCENT: usize = 95;

impl Bulk {
    /// Begins a tree with nodes of [`DEFAULT_NODE_WORDS`].
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub fn new(tx: &mut Transaction) -> Result<Bulk, Stop> {
        Self::with(tx, DEFAULT_NODE_WORDS, DEFAULT_FILL_PERCENT)
    }

    /// Begins a tree with nodes of `node_words` words, filled up to `fill_percent`.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub fn with(
        tx: &mut Transaction,
        node_words: usize,
        fill_percent: usize,
    ) -> Result<Bulk, Stop> {
        let words = node_words.clamp(MIN_NODE_WORDS, MAX_NODE_WORDS);
        let root = tx.alloc(words, Addr::NULL)?;
        let fill = words * fill_percent.clamp(50, 100) / 100;
        Ok(Bulk {
            root,
            words,
            fill,
            levels: vec![Level::new(Vec::new(), FatPtr::NULL)],
            last: None,
        })
    }

    /// The handle that the tree will have.
    pub fn tree(&self) -> BTree {
        BTree::open(self.root.addr)
    }

    /// Appends an entry; false, and nothing appended, if its key is not above the last one.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`]; otherwise as [`Transaction::alloc`].
    pub fn push(
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
        self.add(tx, 0, key.to_vec(), value)?;
        Ok(true)
    }

    /// Adds an entry to a level, and what finished nodes give to the levels above.
    fn add(
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
            let here = &mut self.levels[level];
            let least = 2 + usize::from(level > 0);
            let fences = key::words_for(here.low.len()) + key::words_for(key.len());
            let used = HEADER_WORDS + fences + here.used_with(level as u8, &key).1;
            if here.entries.len() < least && used <= self.words || used <= self.fill {
                here.push(level as u8, &key, value);
                return Ok(());
            }
            // The finished node's high fence is the next one's low fence.
            let last = here.entries.key(here.entries.len() - 1);
            let cut = if level == 0 {
                key::separator(last, &key).to_vec()
            } else {
                key.clone()
            };
            let near = if here.node.is_null() {
                self.root.addr
            } else {
                here.node.addr
            };
            let next = tx.alloc(self.words, near)?;
            let mut done = std::mem::replace(here, Level::new(cut.clone(), next));
            here.push(level as u8, &key, value);
            if done.node.is_null() {
                done.node = tx.alloc(self.words, near)?;
            }
            let low = done.low.clone();
            let child = done.node;
            self.write(tx, level as u8, done, Some(cut), next.addr)?;
            (key, value) = (low, child.to_words());
            level += 1;
        }
    }

    /// Writes a finished node.
    fn write(
        &self,
        tx: &mut Transaction,
        level: u8,
        done: Level,
        high: Option<Vec<u8>>,
        right: Addr,
    ) -> Result<(), Stop> {
        let frame = Frame {
            flags: if high.is_none() { FLAG_RIGHT_EDGE } else { 0 },
            right,
            low: done.low,
            high: high.unwrap_or_default(),
            ..Frame::root(level, self.words, self.root.addr)
        };
        let mut image = vec![0; self.words];
        image::build(&mut image, &frame, &done.entries, 0, done.entries.len())
            .map_err(|_| Stop::Damaged)?;
        tx.write_new(done.node, &image)
    }

    /// Finishes the tree.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub fn finish(mut self, tx: &mut Transaction) -> Result<BTree, Stop> {
        let mut level = 0;
        loop {
            let mut done = std::mem::replace(
                &mut self.levels[level],
                Level::new(Vec::new(), FatPtr::NULL),
            );
            if done.node.is_null() {
                done.node = self.root;
                self.write(tx, level as u8, done, None, Addr::NULL)?;
                return Ok(BTree::open(self.root.addr));
            }
            let (low, child) = (done.low.clone(), done.node);
            self.write(tx, level as u8, done, None, Addr::NULL)?;
            self.add(tx, level + 1, low, child.to_words())?;
            level += 1;
        }
    }
}
