//! Changes of single keys: inserts, removals and replacements.
//!
//! A change is a patch of the leaf that covers the key. A full leaf is split first, and a sparse
//! one is merged, in transactions of their own. A tree that only its creator can see is changed
//! directly.

use fencepost_storage::{Addr, View};
use fencepost_txn::{AbortReason, Refusal, Stop, Transaction, Work};

use crate::counters::{Event, count};
use crate::error::IndexError;
use crate::grow;
use crate::kind::{self, LEAF};
use crate::node::Node;
use crate::op::{self, KeyChange, OpBuffer};
use crate::options::{DEFAULT_NODE_WORDS, MIN_NODE_WORDS, longest_key};
use crate::shrink;
use crate::split;
use crate::structure;
use crate::tree::{self, BTree};
use crate::walk::{self, MAX_STEPS, Target};

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The key was absent and has been inserted.
    Done,
    /// The key exists, with this value; nothing has changed.
    Exists([u64; 2]),
}

impl BTree {
    /// Inserts a key that must be absent. Its absence is a condition that is checked again at
    /// commit. A full leaf is split in a transaction of its own, which stays even if `tx` aborts.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`] beyond [`longest_key`]; otherwise as [`Transaction::patch`].
    pub async fn insert(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: [u64; 2],
    ) -> Result<Insert, IndexError> {
        loop {
            match self.change(tx, KeyChange::Insert, key, value, true).await? {
                Ok(()) => return Ok(Insert::Done),
                Err(_) => {
                    if let Some(there) = self.get(tx, key).await? {
                        return Ok(Insert::Exists(there));
                    }
                }
            }
        }
    }

    /// Removes a key. Returns `false` if it is absent; its absence joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::patch`].
    pub async fn remove(&self, tx: &mut Transaction, key: &[u8]) -> Result<bool, Stop> {
        self.change_existing(tx, KeyChange::Remove, key, [0; 2])
            .await
    }

    /// Replaces the value of a key. Returns `false` if the key is absent; its absence joins the
    /// read set.
    ///
    /// # Errors
    /// As [`Transaction::patch`].
    pub async fn replace(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: [u64; 2],
    ) -> Result<bool, Stop> {
        self.change_existing(tx, KeyChange::Replace, key, value)
            .await
    }

    async fn change_existing(
        &self,
        tx: &mut Transaction,
        what: KeyChange,
        key: &[u8],
        value: [u64; 2],
    ) -> Result<bool, Stop> {
        loop {
            match self.change(tx, what, key, value, true).await {
                Ok(Ok(())) => return Ok(true),
                // A key that fits no node is absent, and no other transaction can insert it.
                Err(IndexError::KeyTooLong { .. }) => return Ok(false),
                Err(IndexError::Stop(stop)) => return Err(stop),
                Ok(Err(_)) => {
                    if self.get(tx, key).await?.is_none() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Changes one key; the inner error is [`Refusal::Exists`] or [`Refusal::Missing`]. If `tidy`,
    /// a removal merges a sparse leaf first.
    async fn change(
        &self,
        tx: &mut Transaction,
        what: KeyChange,
        key: &[u8],
        value: [u64; 2],
        mut tidy: bool,
    ) -> Result<Result<(), Refusal>, IndexError> {
        let mut op = OpBuffer::default();
        let op = op.fill(what, self.root(), key, value);
        let mut checked = false;
        let mut fresh = false;
        for _ in 0..MAX_STEPS {
            let found = walk::descend(tx.machine(), self.root(), 0, Target::At(key), fresh).await?;
            let leaf = match found {
                Some(leaf) => leaf,
                None if tx.owns(self.root()) => return self.change_private(tx, op, key).await,
                None => self.wait_for_root(tx).await?,
            };
            if what == KeyChange::Insert && !checked {
                self.check_length(tx, leaf, key).await?;
                checked = true;
            }
            if tx.has_patches() && tx.patch_is_stale(leaf).await? != Some(false) {
                // Pending patches of a node that this leaf was split from must be moved here first.
                self.visit(tx, Target::At(key), |_| ()).await?;
            }
            if tidy && what == KeyChange::Remove && shrink::wanted(tx, self.root(), leaf).await? {
                tidy = false;
                shrink::merge(tx, self.root(), key).await?;
                continue;
            }
            let patched = match tx.patch(leaf, &LEAF, op).await {
                // Copies may lead to a block that no longer exists.
                Err(Stop::Damaged) if !fresh && tx.machine().is_far(leaf) => {
                    fresh = true;
                    continue;
                }
                patched => patched?,
            };
            match patched {
                Err(Refusal::Full | Refusal::WrongNode) if tx.has_image(self.root()) => {
                    // This transaction has filled the tree; others still see it empty.
                    return self.change_private(tx, op, key).await;
                }
                Err(Refusal::Full) => self.make_space(tx, leaf, key).await?,
                Err(Refusal::WrongNode) => {
                    // The walk and the snapshot see different versions of the tree.
                    count(Event::PathRepair);
                    fresh = true;
                    tx.refresh().await?;
                }
                done => return Ok(done),
            }
        }
        Err(IndexError::Stop(Stop::Damaged))
    }

    async fn check_length(
        &self,
        tx: &Transaction,
        leaf: Addr,
        key: &[u8],
    ) -> Result<(), IndexError> {
        // Short keys fit any node; only for longer ones the node size of this tree is read.
        if key.len() <= longest_key(MIN_NODE_WORDS) {
            return Ok(());
        }
        let root = self.root();
        let words = |view: &View<'_>| Node::open_in(view, root).map_or(0, |node| node.words);
        let words = tx.machine().view_current(leaf, words).await?;
        let limit = longest_key(words.unwrap_or(DEFAULT_NODE_WORDS));
        if key.len() > limit {
            Err(IndexError::KeyTooLong {
                length: key.len(),
                limit,
            })
        } else {
            Ok(())
        }
    }

    /// Splits a leaf without space for `key`, in a transaction of its own, and re-routes this
    /// transaction's pending patches of it.
    fn make_space<'a>(
        &'a self,
        tx: &'a mut Transaction,
        leaf: Addr,
        key: &'a [u8],
    ) -> Work<'a, Result<(), Stop>> {
        Box::pin(async move {
            let root = self.root();
            let choose = |view: &View<'_>| {
                let node =
                    Node::open_in(view, root).filter(|node| node.level == 0 && node.covers(key))?;
                split::choose(&node, key)
            };
            if let Some((Some(separator), _)) = tx.view(leaf, Some(&LEAF), choose).await? {
                let before = structure::changes(tx);
                let split = grow::split_leaf(tx, root, leaf, &separator).await?;
                match tx.patch_is_stale(leaf).await? {
                    Some(true) => tree::reroute(tx, leaf).await?,
                    // The leaf is full in the snapshot only, and has been split since: on an old
                    // snapshot it would stay full.
                    None if split.is_none() => tx.refresh().await?,
                    _ => {}
                }
                if let Some(own) = split {
                    structure::made_by(tx, before, own);
                }
            }
            Ok(())
        })
    }

    /// Returns the root once the commit that creates the tree has installed it. The snapshot may
    /// already have the tree. Then the tree is patched like any other, so that it gets the commit
    /// timestamp.
    ///
    /// # Errors
    /// [`Stop::Damaged`] if the snapshot does not have the tree; otherwise as
    /// [`Transaction::view`].
    fn wait_for_root<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<Addr, Stop>> {
        Box::pin(async move {
            let there = tx.view(self.root(), Some(&LEAF), |_| ()).await?;
            there.map(|_| self.root()).ok_or(Stop::Damaged)
        })
    }

    /// Changes a tree that only this transaction can see, because it has created the tree.
    fn change_private<'a>(
        &'a self,
        tx: &'a mut Transaction,
        op: &'a [u64],
        key: &'a [u8],
    ) -> Work<'a, Result<Result<(), Refusal>, IndexError>> {
        Box::pin(async move {
            let root = self.root();
            for _ in 0..MAX_STEPS {
                let leaf = walk::find(tx, root, 0, Target::At(key))
                    .await?
                    .ok_or(Stop::Damaged)?;
                let (done, words) = tx
                    .update(leaf, |image| {
                        let words = Node::open(&View::Own(image)).map_or(0, |node| node.words);
                        (
                            if key.len() <= longest_key(words) {
                                kind::apply(op, image)
                            } else {
                                Err(Refusal::WrongNode)
                            },
                            words,
                        )
                    })
                    .await?;
                match done {
                    Err(Refusal::Full) => {
                        let choose =
                            |view: &View<'_>| split::choose(&Node::open_in(view, root)?, key);
                        let separator = tx
                            .view(leaf, None, choose)
                            .await?
                            .and_then(|(separator, _)| separator);
                        grow::split_in(tx, root, leaf, &separator.ok_or(Stop::Damaged)?).await?;
                    }
                    Err(Refusal::WrongNode) => {
                        return Err(IndexError::KeyTooLong {
                            length: key.len(),
                            limit: longest_key(words),
                        });
                    }
                    done => return Ok(done),
                }
            }
            Err(IndexError::Stop(Stop::Damaged))
        })
    }

    /// Makes a pending patch again in the right node.
    pub(crate) async fn redo(&self, tx: &mut Transaction, op: &op::Op) -> Result<(), Stop> {
        // Without merging, which could undo the split that required this.
        match self
            .change(tx, op.what, op.key.as_slice(), op.value, false)
            .await
        {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(IndexError::KeyTooLong { .. }) => {
                Err(Stop::Retry(AbortReason::NodeConflict))
            }
            Err(IndexError::Stop(stop)) => Err(stop),
        }
    }
}
