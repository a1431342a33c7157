//! A node kind for these tests.

use fencepost_txn::{Addr, NodeKind, Refusal, RerouteFuture, Revalidate, Stop, Timestamp};
use fencepost_txn::{Transaction, View};

/// Nodes whose patches add to words, also if the node has moved. The first word may be the commit
/// timestamp.
pub struct Sums {
    stamped: bool,
}

pub static SUMS: Sums = Sums { stamped: true };
pub static PLAIN: Sums = Sums { stamped: false };

impl NodeKind for Sums {
    fn id(&self) -> u8 {
        80
    }

    fn admits(&self, _: &View<'_>, _: Timestamp) -> bool {
        true
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        image[op[0] as usize] += op[1];
        Ok(())
    }

    fn timestamp_word(&self) -> Option<usize> {
        self.stamped.then_some(0)
    }

    fn stamp(&self, image: &mut [u64], w: Timestamp) {
        if self.stamped {
            image[0] = w.raw();
        }
    }

    fn revalidate(&self, _: &[u64], _: &View<'_>) -> Revalidate {
        Revalidate::Invalid
    }

    fn reroute<'a>(&'static self, _: &'a mut Transaction, _: Addr) -> RerouteFuture<'a> {
        Box::pin(async { Err(Stop::Damaged) })
    }
}
