//! The tree: lookups and changes of single keys.

use fencepost_storage::{Addr, View};
use fencepost_txn::{
    AbortReason, ObjectLocation, ReadEntry, Refusal, RerouteFuture, Stop, Transaction, Work,
};

use crate::counters::{Event, count};
use crate::entries::ScanBatch;
use crate::error::IndexError;
use crate::grow;
use crate::image::{self, Frame};
use crate::kind::{self, LEAF};
use crate::node::{FLAG_TOGETHER, HEADER_WORDS, Node, VALUE_WORDS};
use crate::note::{self, LeafProperties, RangeEnd};
use crate::op::{self, KeyChange};
use crate::shrink;
use crate::split;
use crate::structure;
use crate::walk::{self, MAX_STEPS, Step, Target};

/// Default number of words of a node: with header and line versions a slot of 2 KiB.
pub const DEFAULT_NODE_WORDS: usize = 223;
/// Words of the smallest node.
pub const MIN_NODE_WORDS: usize = 40;
/// Words of the largest node.
pub const MAX_NODE_WORDS: usize = 32_000;

/// An ordered index. The handle is the address of its root and can be copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BTree {
    root: Addr,
}

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

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The key was absent and has been inserted.
    Done,
    /// The key exists, with this value; nothing has changed.
    Exists([u64; 2]),
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

enum Descent<T> {
    Reached(T),
    Go(Addr),
    Lost,
}

impl BTree {
    /// Creates an empty tree on this machine. Each node is created on the machine of the
    /// transaction that needs it.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub async fn create(tx: &mut Transaction) -> Result<BTree, Stop> {
        Self::create_with(tx, TreeOptions::default()).await
    }

    /// Creates an empty tree that is kept together: all of it is on one machine, whichever machine
    /// changes it.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub async fn create_at(tx: &mut Transaction, near: ObjectLocation) -> Result<BTree, Stop> {
        let options = TreeOptions {
            near,
            together: true,
            ..TreeOptions::default()
        };
        Self::create_with(tx, options).await
    }

    /// Creates an empty tree.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub fn create_with(
        tx: &mut Transaction,
        options: TreeOptions,
    ) -> Work<'_, Result<BTree, Stop>> {
        Box::pin(async move {
            let words = options.node_words.clamp(MIN_NODE_WORDS, MAX_NODE_WORDS);
            let root = tx.alloc(words, options.near).await?;
            let mut image = vec![0; words];
            let together = if options.together { FLAG_TOGETHER } else { 0 };
            let frame = Frame::root(0, words, root.addr).together_as(together);
            image::build(&mut image, &frame, &ScanBatch::new(), 0, 0).map_err(|_| Stop::Damaged)?;
            tx.write_new(root, &image)?;
            Ok(BTree { root: root.addr })
        })
    }

    /// Returns the tree whose root is at `root`; reads nothing yet.
    pub const fn open(root: Addr) -> BTree {
        BTree { root }
    }

    /// Returns the address of the root, which never moves.
    pub const fn root(&self) -> Addr {
        self.root
    }

    /// Returns whether the transaction sees a tree without keys, for which [`crate::Bulk::into`] is
    /// worth a try. Nothing joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub async fn is_bare(&self, tx: &mut Transaction) -> Result<bool, Stop> {
        let root = self.root;
        let bare = |view: &View<'_>| {
            Node::open_in(view, root).is_some_and(|node| node.level == 0 && node.count == 0)
        };
        Ok(matches!(tx.view(root, None, bare).await?, Some((true, _))))
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
        let op = op.fill(what, self.root, key, value);
        let mut checked = false;
        let mut fresh = false;
        for _ in 0..MAX_STEPS {
            let found = walk::descend(tx.machine(), self.root, 0, Target::At(key), fresh).await?;
            let leaf = match found {
                Some(leaf) => leaf,
                None if tx.owns(self.root) => return self.change_private(tx, op, key).await,
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
            if tidy && what == KeyChange::Remove && shrink::wanted(tx, self.root, leaf).await? {
                tidy = false;
                shrink::merge(tx, self.root, key).await?;
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
                Err(Refusal::Full | Refusal::WrongNode) if tx.has_image(self.root) => {
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
        let root = self.root;
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
            let root = self.root;
            let choose = |view: &View<'_>| {
                let node =
                    Node::open_in(view, root).filter(|node| node.level == 0 && node.covers(key))?;
                split::choose(&node, key)
            };
            if let Some((Some(separator), _)) = tx.view(leaf, Some(&LEAF), choose).await? {
                let before = structure::changes(tx);
                let split = grow::split_leaf(tx, root, leaf, &separator).await?;
                match tx.patch_is_stale(leaf).await? {
                    Some(true) => reroute(tx, leaf).await?,
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
            let there = tx.view(self.root, Some(&LEAF), |_| ()).await?;
            there.map(|_| self.root).ok_or(Stop::Damaged)
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
            let root = self.root;
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
    async fn redo(&self, tx: &mut Transaction, op: &op::Op) -> Result<(), Stop> {
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

    /// Frees every node at the commit; objects of values stay. No later transaction may use it.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::free`].
    pub fn drop_tree(self, tx: &mut Transaction) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let root = self.root;
            let mut nodes = vec![root];
            while let Some(at) = nodes.pop() {
                // Take the children of the version that is freed: a transaction that adds a child
                // changes this node.
                let children = tx
                    .free_seen(at, |view| {
                        let node = Node::open_in(view, root).filter(|node| node.level > 0);
                        let child = |node: Node<'_, '_>| {
                            (0..node.count)
                                .map(|i| node.child(i).addr)
                                .collect::<Vec<_>>()
                        };
                        node.map(child)
                    })
                    .await?;
                nodes.extend(children.unwrap_or_default());
            }
            Ok(())
        })
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

/// A buffer for a patch, on the stack if the key is short.
#[derive(Default)]
struct OpBuffer {
    short: [u64; 16],
    long: Vec<u64>,
}

impl OpBuffer {
    fn fill(&mut self, what: KeyChange, tree: Addr, key: &[u8], value: [u64; 2]) -> &[u64] {
        let words = op::words(key.len());
        let buffer = if words <= self.short.len() {
            &mut self.short[..words]
        } else {
            self.long.resize(words, 0);
            &mut self.long[..]
        };
        op::encode(what, tree, key, value, buffer);
        buffer
    }
}
