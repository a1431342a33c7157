//! Reading without a transaction: the newest committed version of one object.
//!
//! ```text
//! glimpse           one look at memory of this machine; awaits nothing
//!   │ far, locked, changed meanwhile
//! view_current ─────► waits for the lock, or fetches a copy       view_copy: may use a kept copy
//! ```
//! With a fat pointer (`glimpse_linked`, `read_lockfree`) the result says whether the object is
//! still the one that the pointer was made for. Without one the caller knows that an object is at
//! the address.
//!
//! *Concurrency.* Any thread or task may read. A version that was returned may not be durable yet,
//! and [`Machine::admitted`] tells when it was the latest.

use fencepost_storage::{Addr, FatPtr, View};

use crate::backoff::{SPINS, moment};
use crate::machine::Machine;
use crate::network::AccessOutcome;
use crate::stop::Stop;

/// The result of a lock-free read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFree {
    /// The payload was copied.
    Found,
    /// The object that the pointer named no longer exists.
    Freed,
}

impl Machine {
    /// Reads one object without a transaction: its newest committed version, whole (NSDI'14 §3.5).
    /// `out` gets the payload, at most [`FatPtr::size`] rounded up to words. Waits while a commit
    /// has the object locked, and for its machine.
    ///
    /// # Errors
    /// [`Stop::Retry`] where its machine cannot be reached; [`Stop::NotMember`] where this machine
    /// is no member any more.
    pub async fn read_lockfree(&self, ptr: FatPtr, out: &mut Vec<u64>) -> Result<LockFree, Stop> {
        for round in 0.. {
            // Check again each time: the region may have moved to another machine.
            if let Some(network) = self.far(ptr.addr)
                && let AccessOutcome::Far(found) = network.read_lockfree(ptr, out).await?
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
        Ok(LockFree::Freed)
    }

    /// Calls `f` with the newest committed version of an object, outside any transaction, if one
    /// look suffices: the object is in this machine's memory and not locked. `f` may see torn
    /// words; its result is valid only if this returns `Some`. Returns `Some(None)` where no object
    /// is allocated. The caller knows that an object is at the address, as for
    /// [`Self::view_current`].
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

    /// Looks as [`Self::glimpse`] does, at the object of a fat pointer. Returns `Some(None)` if it
    /// no longer exists.
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
        // No transaction prevents the block from being reused for objects of another size.
        let now = self.regions().slot_at(ptr.addr);
        let same = now.is_some_and(|(_, now)| now == block) && incarnation == ptr.incarnation;
        Some(value.filter(|_| same))
    }

    /// Calls `f` with the newest committed version, outside any transaction; used to walk inner
    /// nodes. `f` may see torn words and run again. Returns `None` where no object is allocated.
    /// The caller has a running transaction, or otherwise knows that an object is at the address.
    /// Waits as [`Self::read_lockfree`] does.
    ///
    /// # Errors
    /// As [`Self::read_lockfree`].
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
                if let AccessOutcome::Far(()) = network.view_far(addr, &mut look).await? {
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
    /// Reads as [`Self::view_current`] does. Unless `fresh`, the version may be an older committed
    /// one, if reading the newest would cost a remote read. This is for nodes on the way to an
    /// object that shows whether it is the right one. `f` also returns whether a copy is worth
    /// keeping.
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
            if let AccessOutcome::Far(()) = network.view_copy(addr, fresh, &mut look).await? {
                return Ok(seen);
            }
        }
        self.view_current(addr, |view| f(view).0).await
    }
}
