//! Reading: the newest version at or below R, in place where it can be.
//!
//! ```text
//! own image? ── yes ─► it
//!   │ no
//! header locked? ── yes ─► wait: the writer may yet get a timestamp at or below R
//! newest ≤ R ───────────► it, in place, header checked afterwards
//! newest > R, same keys ► it (a node that was only split)
//! newest > R, writer ───► refresh, or stop (TXN-2)
//! newest > R, reader ───► chain of old versions
//! ```

use fencepost_storage::header::Header;
use fencepost_storage::old_versions::Found;
use fencepost_storage::{Addr, FatPtr, View};

use crate::counters::Event;
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::read_set::Seen;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Mode, Transaction};
use crate::write_set::What;

/// Spins before a waiter lets other threads run.
const SPINS: u32 = 64;

/// Waits a moment for a lock to be given up; `round` counts the moments.
pub(crate) fn lock_pause(round: u32) {
    if round < SPINS {
        std::hint::spin_loop();
    } else {
        // Whoever holds a lock is in the middle of a commit and does not wait for anything.
        std::thread::yield_now();
    }
}

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
    pub fn read_lockfree(&self, ptr: FatPtr, out: &mut Vec<u64>) -> LockFree {
        let Some((object, block)) = self.regions().slot_at(ptr.addr) else { return LockFree::Gone };
        let words = (ptr.size as usize).div_ceil(8).min(object.len());
        let mut round = 0;
        loop {
            let header = object.header();
            if header.is_locked() {
                lock_pause(round);
                round += 1;
                continue;
            }
            let link = object.link();
            out.clear();
            out.resize(words, 0);
            if header.is_allocated() {
                object.copy(0, out);
            }
            if object.unchanged(header) {
                // No transaction keeps the block from being given to objects of another size.
                let moved = self.regions().slot_at(ptr.addr).is_none_or(|(_, now)| now != block);
                let same = !moved && header.is_allocated() && u32::from(link.incarnation()) == ptr.incarnation;
                return if same { LockFree::Found } else { LockFree::Gone };
            }
        }
    }

    /// Shows `f` the newest committed version, outside any transaction: for walking inner nodes. `f`
    /// may see torn words and run again. `None` where no object is allocated.
    #[inline]
    pub fn view_current<T>(&self, addr: Addr, mut f: impl FnMut(&View<'_>) -> T) -> Option<T> {
        let object = self.regions().object(addr)?;
        let view = View::Live(object);
        let mut round = 0;
        loop {
            let header = object.header();
            if header.is_locked() {
                lock_pause(round);
                round += 1;
                continue;
            }
            if !header.is_allocated() {
                return None;
            }
            let value = f(&view);
            if object.unchanged(header) {
                return Some(value);
            }
        }
    }
}

impl Transaction {
    /// Shows `f` the version of the object that this transaction sees, in place.
    ///
    /// `f` may run several times, over words that were never together: it must bound every index and
    /// loop by itself. The answer of the run that counted is returned, with what to [`Self::guard`]
    /// if the transaction depends on it. `None` if the object does not exist in the snapshot.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the snapshot can neither be kept nor moved; [`Stop::Damaged`] where the
    /// address leads nowhere.
    #[inline]
    pub async fn view<T>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        mut f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<Option<(T, Seen)>, Stop> {
        if self.has_writes()
            && let Some(own) = self.view_own(addr, &mut f)
        {
            return own;
        }
        self.view_committed(addr, kind, f).await
    }

    /// The transaction's own image, if it has one.
    fn view_own<T>(&self, addr: Addr, f: &mut impl FnMut(&View<'_>) -> T) -> Option<Result<Option<(T, Seen)>, Stop>> {
        let context = self.context();
        let write = &context.writes.writes[context.writes.find(addr)?];
        let seen = Seen { addr, header: write.base, own: true };
        Some(match write.what {
            What::Image | What::Patched(_) => Ok(Some((f(&View::Own(context.writes.image(write))), seen))),
            What::New { .. } => match context.machine.regions().object(addr) {
                // Nobody else can see the slot, and there is nothing to validate.
                Some(object) => Ok(Some((f(&View::Live(object)), Seen { addr: Addr::NULL, header: Header(0), own: true }))),
                None => Err(Stop::Damaged),
            },
            What::Freed => Ok(None),
            What::Dead if write.base.is_allocated() => return None,
            What::Dead => Ok(None),
        })
    }

    #[inline]
    async fn view_committed<T>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        mut f: impl FnMut(&View<'_>) -> T,
    ) -> Result<Option<(T, Seen)>, Stop> {
        let mut round = 0;
        loop {
            let context = self.context_mut();
            let machine = &context.machine;
            let Some(object) = machine.regions().object(addr) else { return Err(Stop::Damaged) };
            let view = View::Live(object);
            let header = object.header();
            if header.is_locked() {
                if round == 0 {
                    machine.counters().count(context.lane, Event::LockWait);
                }
                lock_pause(round);
                round += 1;
                continue;
            }
            let newer = header.timestamp() > context.r;
            if !newer || header.is_allocated() && kind.is_some_and(|kind| kind.admits(&view, context.r)) {
                let value = header.is_allocated().then(|| f(&view));
                if object.unchanged(header) {
                    context.newest = context.newest.max(header.timestamp());
                    return Ok(value.map(|value| (value, Seen { addr, header, own: false })));
                }
                continue;
            }
            if self.mode() == Mode::ReadWrite && self.may_refresh() {
                match self.refresh().await {
                    Ok(()) => continue,
                    Err(stop) if self.has_writes() => return Err(stop),
                    Err(_) => {}
                }
            } else if self.has_writes() {
                return Err(Stop::Retry(AbortReason::RefreshFailed));
            }
            if let Some(answer) = self.view_old(addr, &mut f) {
                return answer;
            }
        }
    }

    /// The newest old version at or below R; `None` where the object changed meanwhile.
    fn view_old<T>(
        &mut self,
        addr: Addr,
        f: &mut impl FnMut(&View<'_>) -> T,
    ) -> Option<Result<Option<(T, Seen)>, Stop>> {
        let context = self.context_mut();
        let machine = &context.machine;
        let object = machine.regions().object(addr)?;
        let header = object.header();
        let place = object.link().place();
        if header.is_locked() || header.timestamp() <= context.r || !object.unchanged(header) {
            return None;
        }
        machine.counters().count(context.lane, Event::OldVersionRead);
        Some(match machine.old_versions().find(place, context.r, |words| f(&View::Old(words))) {
            Found::Version(value, header) => {
                context.newest = context.newest.max(header.timestamp());
                Ok(Some((value, Seen { addr, header, own: false })))
            }
            Found::Absent => Ok(None),
            Found::Gone => Err(Stop::Retry(AbortReason::SnapshotTooOld)),
        })
    }

    /// Copies the whole payload and guards it; `false` if the object does not exist in the snapshot.
    ///
    /// # Errors
    /// As [`Self::view`].
    pub async fn read(&mut self, addr: Addr, out: &mut Vec<u64>) -> Result<bool, Stop> {
        let found = self
            .view(addr, None, |view| {
                out.clear();
                out.resize(view.len(), 0);
                view.copy(0, out);
            })
            .await?;
        match found {
            Some(((), seen)) => {
                self.guard(seen);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
