//! Checking a whole tree in one snapshot, while writers may run.

use fencepost_storage::{Addr, View};
use fencepost_txn::{Problem, Stop, Transaction, Work};

use crate::entries::ScanBatch;
use crate::image::{self, Frame};
use crate::node::Node;
use crate::tree::BTree;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The inconsistencies that were found; empty if there are none.
    pub problems: Vec<Problem>,
    /// Number of entries in all leaves.
    pub entries: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of nodes of all levels.
    pub nodes: u64,
    /// Number of levels; 1 for a single leaf.
    pub height: u8,
    /// Words in use in leaves, in percent of all their words.
    pub leaf_fill_percent: u64,
    /// Addresses of all objects of the tree.
    pub addresses: Vec<Addr>,
}

/// A node that an entry of its parent describes.
struct ExpectedNode {
    at: Addr,
    level: u8,
    low: Vec<u8>,
    /// `None` at the right edge.
    high: Option<Vec<u8>>,
    right: Addr,
}

/// Most problems that are reported one by one.
const MAX_PROBLEMS: usize = 1000;

impl BTree {
    /// Walks every node and checks the tree. The fences tile the key space. Keys are in order and
    /// inside the fences. Levels decrease by one, and parents know the low fences of their
    /// children. Siblings are linked. All nodes are on one machine if the tree is kept together.
    /// Inconsistencies are in the report; they are no errors.
    ///
    /// # Errors
    /// As [`Transaction::view`].
    pub fn check<'a>(&'a self, tx: &'a mut Transaction) -> Work<'a, Result<Report, Stop>> {
        Box::pin(async move {
            let mut report = Report::default();
            let (mut used, mut words) = (0u64, 0u64);
            let mut level = Vec::new();
            let mut together = false;
            let root_at = tx.machine().primary_of(self.root());
            match self.node(tx, self.root()).await? {
                Some((frame, _, _)) => {
                    report.height = frame.level + 1;
                    together = frame.is_together();
                    level.push(ExpectedNode {
                        at: self.root(),
                        level: frame.level,
                        low: Vec::new(),
                        high: None,
                        right: Addr::NULL,
                    });
                }
                None => report.note(self.root(), "the root is missing or no node of this tree"),
            }
            while !level.is_empty() && report.problems.len() < MAX_PROBLEMS {
                let mut below: Vec<ExpectedNode> = Vec::new();
                for expected in &level {
                    let Some((frame, entries, used_words)) = self.node(tx, expected.at).await?
                    else {
                        report.note(
                            expected.at,
                            "a parent points here, but there is no node of this tree",
                        );
                        continue;
                    };
                    report.nodes += 1;
                    report.addresses.push(expected.at);
                    report.compare(expected, &frame, &entries);
                    let away = together && tx.machine().primary_of(expected.at) != root_at;
                    if away || frame.is_together() != together {
                        report.note(
                            expected.at,
                            "the tree is not kept together as its root says",
                        );
                    }
                    if frame.level == 0 {
                        report.leaves += 1;
                        report.entries += entries.len() as u64;
                        used += used_words as u64;
                        words += frame.words as u64;
                    } else {
                        expect_children(&frame, &entries, &mut below);
                    }
                }
                for i in 1..below.len() {
                    below[i - 1].right = below[i].at;
                }
                level = below;
            }
            report.leaf_fill_percent = (used * 100).checked_div(words).unwrap_or(0);
            Ok(report)
        })
    }

    async fn node(
        &self,
        tx: &mut Transaction,
        at: Addr,
    ) -> Result<Option<(Frame, ScanBatch, usize)>, Stop> {
        let root = self.root();
        let read = |view: &View<'_>| {
            let node = Node::open_in(view, root)?;
            let mut entries = ScanBatch::new();
            image::decode(&node, &mut entries);
            Some((Frame::of(&node), entries, node.used()))
        };
        match tx.view(at, None, read).await {
            Ok(seen) => Ok(seen.and_then(|(node, _)| node)),
            Err(Stop::Damaged) => Ok(None),
            Err(stop) => Err(stop),
        }
    }
}

fn expect_children(frame: &Frame, entries: &ScanBatch, below: &mut Vec<ExpectedNode>) {
    for i in 0..entries.len() {
        let high = if i + 1 < entries.len() {
            Some(entries.key(i + 1).to_vec())
        } else {
            (!frame.is_right_edge()).then(|| frame.high.clone())
        };
        below.push(ExpectedNode {
            at: Addr::from_raw(entries.value(i)[0]),
            level: frame.level - 1,
            low: entries.key(i).to_vec(),
            high,
            right: Addr::NULL,
        });
    }
}

impl Report {
    fn note(&mut self, node: Addr, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                node,
                what: what.into(),
            });
        }
    }

    fn compare(&mut self, expected: &ExpectedNode, frame: &Frame, entries: &ScanBatch) {
        let at = expected.at;
        let high = (!frame.is_right_edge()).then_some(&frame.high);
        if frame.level != expected.level {
            self.note(
                at,
                format!("is of level {}, not {}", frame.level, expected.level),
            );
        }
        if frame.low != expected.low {
            self.note(
                at,
                format!(
                    "has low fence {:02x?}, its parent says {:02x?}",
                    frame.low, expected.low
                ),
            );
        }
        if high != expected.high.as_ref() {
            self.note(
                at,
                format!("has high fence {high:02x?}, not {:02x?}", expected.high),
            );
        }
        if frame.right != expected.right {
            self.note(
                at,
                format!("has right sibling {}, not {}", frame.right, expected.right),
            );
        }
        if frame.level > 0 && entries.is_empty() {
            self.note(at, "is an inner node without children");
        }
        for i in 0..entries.len() {
            let key = entries.key(i);
            if i > 0 && entries.key(i - 1) >= key {
                self.note(at, format!("entry {i} is not above the one before it"));
            }
            if key < frame.low.as_slice() || high.is_some_and(|high| key >= high.as_slice()) {
                self.note(
                    at,
                    format!("entry {i}, key {key:02x?}, lies outside the fences"),
                );
            }
        }
    }
}
