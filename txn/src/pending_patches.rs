//! Pending patches: patches that are being re-routed from a node that no longer accepts them to the
//! right node.
//!
//! An index takes the patches of a node out of the transaction, and makes them again elsewhere
//! ([`crate::NodeKind::reroute`]). In between the patches are *adrift*: only the future that moves
//! them has them. If that future is dropped or fails, the patches are lost. The transaction
//! remembers that, and cannot commit without them. Rolling back to an earlier savepoint restores
//! them.

use fencepost_storage::Addr;

use crate::node::NodeKind;
use crate::stop::Stop;
use crate::transaction::Transaction;
use crate::work::Work;
use crate::write_set::{Write, WriteKind};

/// Patches that were taken out of a transaction. It cannot commit before they have been made again.
#[derive(Debug)]
#[must_use = "the transaction cannot commit until it is told what became of them"]
pub struct WithdrawnPatches(Vec<Vec<u64>>);

impl WithdrawnPatches {
    /// Returns the patches of single keys, oldest first.
    pub fn ops(&self) -> impl Iterator<Item = &[u64]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl Transaction {
    /// Takes the patches of a node out of the transaction, as if they had not been made. The caller
    /// is [`crate::NodeKind::reroute`]: it makes them again in the right nodes, and then calls
    /// [`Self::made_anew`]. The result is empty where the transaction has no patches of the node.
    pub fn take_patches(&mut self, addr: Addr) -> WithdrawnPatches {
        let context = self.context_mut();
        let Some(at) = context.writes.find(addr) else {
            return WithdrawnPatches(Vec::new());
        };
        let write = context.writes.writes[at];
        let WriteKind::Patched(kind) = write.what else {
            return WithdrawnPatches(Vec::new());
        };
        // An error here needs no handling: the next change charges again, or fails again.
        let _ = context.note_change(at);
        let mut ops = Vec::new();
        for range in context.writes.patches_of(&write) {
            let op = context.writes.op(range);
            kind.for_each_key(op, &mut |op| ops.push(op.to_vec()));
        }
        context.writes.make_idle(at);
        context.writes.writes[at].patch = 0;
        if !ops.is_empty() {
            context.adrift += 1;
        }
        WithdrawnPatches(ops)
    }

    /// Records that all patches in `taken` are part of the transaction again.
    pub fn made_anew(&mut self, taken: WithdrawnPatches) {
        if !taken.0.is_empty() {
            self.context_mut().adrift -= 1;
        }
    }

    /// Returns whether this transaction has patched any node.
    #[inline]
    pub fn has_patches(&self) -> bool {
        self.context().writes.has_patches()
    }

    /// Returns whether this transaction has patches of the node at `addr`.
    pub fn patches(&self, addr: Addr) -> bool {
        self.patched(addr).is_some()
    }

    fn patched(&self, addr: Addr) -> Option<&Write> {
        let writes = &self.context().writes;
        let write = &writes.writes[writes.find(addr)?];
        matches!(write.what, WriteKind::Patched(_)).then_some(write)
    }

    /// Returns whether `f` holds for a patch of a single key of `kind` on another node than `addr`.
    pub fn has_patch_elsewhere(
        &self,
        addr: Addr,
        kind: &dyn NodeKind,
        mut f: impl FnMut(&[u64]) -> bool,
    ) -> bool {
        let writes = &self.context().writes;
        let of_kind = |write: &&Write| {
            write.addr != addr
                && matches!(write.what, WriteKind::Patched(by) if by.id() == kind.id())
        };
        let patched = writes.writes.iter().filter(of_kind);
        let mut patches = patched.flat_map(|write| writes.patches_of(write));
        patches.any(|patch| {
            let mut holds = false;
            kind.for_each_key(writes.op(patch), &mut |op| holds |= f(op));
            holds
        })
    }

    /// Returns whether a node that this transaction has patched has moved since; `None` if the
    /// transaction has no patches of it.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the node's machine cannot be reached; [`Stop::NotMember`] where this
    /// machine is no member any more.
    pub async fn patch_is_stale(&self, addr: Addr) -> Result<Option<bool>, Stop> {
        let Some(base) = self.patched(addr).map(|write| write.base) else {
            return Ok(None);
        };
        let header = self.machine().header_of(addr).await?;
        Ok(Some(header != Some(base)))
    }

    /// Returns whether patches are being moved from one node to another, or were lost on the way.
    pub fn has_pending_patches(&self) -> bool {
        self.context().adrift > 0
    }

    /// Returns every node with patches of `kind` that has moved.
    ///
    /// # Errors
    /// As [`Self::patch_is_stale`].
    pub fn stale_patches<'a>(
        &'a self,
        kind: &'a dyn NodeKind,
    ) -> Work<'a, Result<Vec<Addr>, Stop>> {
        Box::pin(async move {
            let mut stale = Vec::new();
            for write in &self.context().writes.writes {
                if matches!(write.what, WriteKind::Patched(by) if by.id() == kind.id())
                    && self.machine().header_of(write.addr).await? != Some(write.base)
                {
                    stale.push(write.addr);
                }
            }
            Ok(stale)
        })
    }

    /// Returns the last argument of [`Self::set_settled`] in this transaction; 0 at first.
    pub fn settled(&self) -> u64 {
        self.context().settled
    }

    /// Stores a number of structural changes of an index. Up to that number, all patches are known
    /// to be in the right nodes.
    pub fn set_settled(&mut self, changes: u64) {
        self.context_mut().settled = changes;
    }
}
