//! Patches on their way from a node that no longer takes them to where they belong now.
//!
//! An index takes the patches of a node out of the transaction, and makes them anew elsewhere
//! ([`crate::NodeKind::reroute`]). In between they are *adrift*: in nobody's hands but those of the
//! future that moves them. If that is dropped, or stops, they are lost; the transaction remembers that,
//! and does not commit without them. Going back to a savepoint from before brings them back.

use fencepost_storage::Addr;

use crate::node::NodeKind;
use crate::transaction::Transaction;
use crate::write_set::{What, Write};

/// Patches that were taken out of a transaction. It cannot commit before they have been made anew.
#[derive(Debug)]
#[must_use = "the transaction cannot commit until it is told what became of them"]
pub struct Taken(Vec<Vec<u64>>);

impl Taken {
    /// The patches, oldest first.
    pub fn ops(&self) -> impl Iterator<Item = &[u64]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl Transaction {
    /// Takes the patches of a node out of the transaction, as if they had not been made; the caller
    /// makes them anew where they belong now, and then says so ([`Self::made_anew`]). None where the
    /// node has none of its own.
    pub fn take_patches(&mut self, addr: Addr) -> Taken {
        let context = self.context_mut();
        let Some(at) = context.writes.find(addr) else {
            return Taken(Vec::new());
        };
        let write = context.writes.writes[at];
        let What::Patched(_) = write.what else {
            return Taken(Vec::new());
        };
        // What is refused here is charged, or refused again, by the next change.
        let _ = context.note_change(at);
        let ranges = context.writes.patches_of(&write);
        let ops: Vec<Vec<u64>> = ranges
            .into_iter()
            .map(|range| context.writes.op(range).to_vec())
            .collect();
        let write = &mut context.writes.writes[at];
        write.what = What::Idle;
        write.patch = 0;
        if !ops.is_empty() {
            context.adrift += 1;
        }
        Taken(ops)
    }

    /// All patches that were taken are part of the transaction again.
    pub fn made_anew(&mut self, taken: Taken) {
        if !taken.0.is_empty() {
            self.context_mut().adrift -= 1;
        }
    }

    /// Whether this transaction has patched any node.
    pub fn has_patches(&self) -> bool {
        self.context().writes.has_patches()
    }

    /// Whether a node that this transaction patched has moved since; `None` if it has no patches
    /// there.
    pub fn patch_is_stale(&self, addr: Addr) -> Option<bool> {
        let context = self.context();
        let write = &context.writes.writes[context.writes.find(addr)?];
        let What::Patched(_) = write.what else {
            return None;
        };
        let object = context.machine.regions().object(addr);
        Some(object.is_none_or(|object| object.header() != write.base))
    }

    /// Whether patches are on their way from one node to another.
    pub fn has_adrift(&self) -> bool {
        self.context().adrift > 0
    }

    /// Every node with patches of `kind` that has moved.
    pub fn stale_patches(&self, kind: &dyn NodeKind) -> Vec<Addr> {
        let context = self.context();
        let moved = |write: &&Write| {
            let object = context.machine.regions().object(write.addr);
            matches!(write.what, What::Patched(by) if by.id() == kind.id())
                && object.is_none_or(|object| object.header() != write.base)
        };
        let stale = context.writes.writes.iter().filter(moved);
        stale.map(|write| write.addr).collect()
    }

    /// What [`Self::set_settled`] was told last in this transaction; 0 at first.
    pub fn settled(&self) -> u64 {
        self.context().settled
    }

    /// Remembers up to which of its structural changes an index knows that all patches are where they
    /// belong.
    pub fn set_settled(&mut self, changes: u64) {
        self.context_mut().settled = changes;
    }
}
