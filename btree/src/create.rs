//! Creating a tree.

use fencepost_storage::View;
use fencepost_txn::{ObjectLocation, Stop, Transaction, Work};

use crate::entries::ScanBatch;
use crate::image::{self, Frame};
use crate::node::{FLAG_TOGETHER, Node};
use crate::options::{MAX_NODE_WORDS, MIN_NODE_WORDS, TreeOptions};
use crate::tree::BTree;

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
            Ok(BTree::open(root.addr))
        })
    }

    /// Returns whether the transaction sees a tree without keys, for which [`crate::Bulk::into`] is
    /// worth a try. Nothing joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub async fn is_bare(&self, tx: &mut Transaction) -> Result<bool, Stop> {
        let root = self.root();
        let bare = |view: &View<'_>| {
            Node::open_in(view, root).is_some_and(|node| node.level == 0 && node.count == 0)
        };
        Ok(matches!(tx.view(root, None, bare).await?, Some((true, _))))
    }
}
