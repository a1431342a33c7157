//! Reading without a transaction: the newest committed version of one object.
//!
//! ```text
//! glimpse           one look, at memory that is here; whoever needs no more awaits nothing
//!   │ far, locked, changed meanwhile
//! view_current ─────► waits for the lock, or has a copy brought       view_copy: or one that was kept
//! ```
//! With a fat pointer (`glimpse_linked`, `read_lockfree`) it is told whether the object is still the one that the
//! pointer was made for; without one the caller knows that the address is one of an object.

use fencepost_storage::{Addr, FatPtr, View};

use crate::machine::Machine;
use crate::moment::{SPINS, moment};
use crate::network::Reach;
use crate::stop::Stop;

/// What a lock-free read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFree {
    /// The payload was copied.
    Found,
    /// The object that the pointer named is gone.
    Gone,
}

impl Machine {
    /// Reads one object without a transaction: its newest committed version, whole (NSDI'14 §3.5).
    ///
    /// # Errors
    /// [`Stop::Retry`] where its machine cannot be reached.
    pub async fn read_lockfree(&self, ptr: FatPtr, out: &mut Vec<u64>) -> Result<LockFree, Stop> {
        for round in 0.. {
            // Each time anew: the region may be another machine's by now.
            if let Some(network) = self.far(ptr.addr)
                && let Reach::Far(found) = network.read_lockfree(ptr, out).await?
            {
                return Ok(found);
            }
            let mut copy = |view: &View<'_>| {
                let words = (ptr.size as usize).div_ceil(8).min(view.len());
                out.clear();
                out.resize(words, 0);
                view.copy(0, out);
            };
            match self.glimpse_linked(ptr, &mut copy) {
                Some(Some(())) => return Ok(LockFree::Found),
                Some(None) => break,
                None => moment(round).await,
            }
        }
        Ok(LockFree::Gone)
    }

    /// Shows `f` the newest committed version of an object, outside any transaction, if one look does it: the
    /// object is in memory here, and nobody is about to replace it. `f` may see torn words; what it answers counts
    /// only if this is `Some`. `Some(None)` where no object is allocated. The caller knows that the address is one of
    /// an object, as for [`Self::view_current`].
    #[inline]
    pub fn glimpse<T>(&self, addr: Addr, f: impl FnOnce(&View<'_>) -> T) -> Option<Option<T>> {
        if self.far(addr).is_some() {
            return None;
        }
        let Some(object) = self.regions().object(addr) else {
            return Some(None);
        };
        let header = object.header();
        if header.is_locked() {
            return None;
        }
        if !header.is_allocated() {
            return Some(None);
        }
        let value = f(&View::Live(object));
        object.unchanged(header).then_some(Some(value))
    }

    /// As [`Self::glimpse`], of the very object that a fat pointer leads to; `Some(None)` if that is gone by now.
    pub fn glimpse_linked<T>(
        &self,
        ptr: FatPtr,
        f: impl FnOnce(&View<'_>) -> T,
    ) -> Option<Option<T>> {
        if self.far(ptr.addr).is_some() {
            return None;
        }
        let Some((object, block)) = self.regions().slot_at(ptr.addr) else {
            return Some(None);
        };
        let header = object.header();
        if header.is_locked() {
            return None;
        }
        let incarnation = u32::from(object.link().incarnation());
        let value = header.is_allocated().then(|| f(&View::Live(object)));
        if !object.unchanged(header) {
            return None;
        }
        // No transaction keeps the block from being given to objects of another size.
        let now = self.regions().slot_at(ptr.addr);
        let same = now.is_some_and(|(_, now)| now == block) && incarnation == ptr.incarnation;
        Some(value.filter(|_| same))
    }

    /// Shows `f` the newest committed version, outside any transaction: for walking inner nodes. `f`
    /// may see torn words and run again. `None` where no object is allocated. The caller has a running
    /// transaction, or otherwise knows that the address is one of an object.
    ///
    /// # Errors
    /// [`Stop::Retry`] where its machine cannot be reached.
    #[inline]
    pub async fn view_current<T: Send>(
        &self,
        addr: Addr,
        mut f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<Option<T>, Stop> {
        let mut round = 0;
        loop {
            if let Some(seen) = self.glimpse(addr, &mut f) {
                return Ok(seen);
            }
            if let Some(network) = self.far(addr) {
                let mut seen = None;
                let mut look = |view: &View<'_>| seen = Some(f(view));
                if let Reach::Far(()) = network.view_far(addr, &mut look).await? {
                    return Ok(seen);
                }
            }
            if round == SPINS && self.regions().slot_at(addr).is_none() {
                return Ok(None);
            }
            moment(round).await;
            round += 1;
        }
    }
}

impl Machine {
    /// As [`Self::view_current`], but unless it is to be `fresh` it may be an older committed version, where
    /// looking at the newest would cost a read: for what leads to an object that tells whether it is the
    /// right one. `f` also says whether a copy is worth keeping.
    ///
    /// # Errors
    /// As [`Self::view_current`].
    #[inline]
    pub async fn view_copy<T: Send>(
        &self,
        addr: Addr,
        fresh: bool,
        mut f: impl FnMut(&View<'_>) -> (T, bool) + Send,
    ) -> Result<Option<T>, Stop> {
        if let Some(network) = self.far(addr) {
            let mut seen = None;
            let mut look = |view: &View<'_>| {
                let (value, keep) = f(view);
                seen = Some(value);
                keep
            };
            if let Reach::Far(()) = network.view_copy(addr, fresh, &mut look).await? {
                return Ok(seen);
            }
        }
        self.view_current(addr, |view| f(view).0).await
    }
}
