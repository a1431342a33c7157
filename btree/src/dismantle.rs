//! Dropping a tree: all of it in one transaction, or node by node in several.
//!
//! # Invariants
//! The caller frees a node only once, after the parent of the node, and after the last transaction
//! that uses the tree. Then the addresses that [`BTree::free_node`] returns are all nodes below.
//!
//! # Failure
//! An abort leaves all nodes of its transaction in place; the caller starts from the same addresses
//! again.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Stop, Transaction, Work};

use crate::node::Node;
use crate::tree::BTree;

/// The addresses and values that a node contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeContent {
    /// The nodes below an inner node, and their level; leaves have level 0.
    Children {
        /// The level of the nodes.
        level: u8,
        /// The addresses of the nodes.
        nodes: Vec<Addr>,
    },
    /// The values of the entries of a leaf.
    Values(Vec<[u64; 2]>),
}

impl NodeContent {
    fn of(node: &Node<'_, '_>) -> NodeContent {
        let count = node.count;
        match node.level {
            0 => NodeContent::Values((0..count).map(|i| node.value(i)).collect()),
            above => NodeContent::Children {
                level: above - 1,
                nodes: (0..count).map(|i| node.child(i).addr).collect(),
            },
        }
    }
}

impl BTree {
    /// Frees every node at the commit; objects of values stay. No later transaction may use it.
    ///
    /// # Errors
    /// As [`Transaction::view`] and [`Transaction::free`].
    pub fn drop_tree(self, tx: &mut Transaction) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let mut nodes = vec![self.root()];
            while let Some(at) = nodes.pop() {
                if let NodeContent::Children { nodes: below, .. } = self.free_node(tx, at).await? {
                    nodes.extend(below);
                }
            }
            Ok(())
        })
    }

    /// Frees one node at the commit, and returns the content of the version that is freed. The
    /// nodes and objects below stay.
    ///
    /// # Errors
    /// As [`Transaction::free`]; [`Stop::Damaged`] if the object is not a node of the tree.
    pub async fn free_node(self, tx: &mut Transaction, at: Addr) -> Result<NodeContent, Stop> {
        let root = self.root();
        let content =
            |view: &View<'_>| Node::open_in(view, root).map(|node| NodeContent::of(&node));
        tx.free_seen(at, content).await?.ok_or(Stop::Damaged)
    }

    /// Returns the content of one node, as the transaction sees it. The node does not join the read
    /// set.
    ///
    /// # Errors
    /// As [`Transaction::view`]; [`Stop::Damaged`] if the object is not a node of the tree.
    pub async fn node_content(self, tx: &mut Transaction, at: Addr) -> Result<NodeContent, Stop> {
        let root = self.root();
        let content =
            |view: &View<'_>| Node::open_in(view, root).map(|node| NodeContent::of(&node));
        let seen = tx.view(at, None, content).await?;
        seen.and_then(|(content, _)| content).ok_or(Stop::Damaged)
    }
}
