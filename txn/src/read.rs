//! Reading: the newest version at or below R, in place where it can be.
//!
//! ```text
//! R in force? ── no ──► wait until it is (CLOCK-2)
//! own image? ── yes ─► it
//!   │ no
//! header locked? ── yes ─► wait: the writer may yet get a timestamp at or below R
//! newest ≤ R ───────────► it, in place, header checked afterwards
//! newest > R, same keys ► it (a node that was only split)
//! newest > R, writer ───► refresh, or stop (TXN-2)
//! newest > R, reader ───► chain of old versions
//! ```

use fencepost_storage::header::{Header, Link};
use fencepost_storage::old_versions::Found;
use fencepost_storage::{Addr, FatPtr, View};

use crate::counters::Event;
use crate::machine::Machine;
use crate::moment::{SPINS, moment};
use crate::network::Reach;
use crate::node::NodeKind;
use crate::read_set::Seen;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Context, Mode, Transaction};
use crate::write_set::{Payload, What};

/// What one look at an object's newest version shows.
pub(crate) enum Sight<T> {
    /// What the snapshot has.
    At(Option<(T, Seen)>),
    /// A commit is about to replace it.
    Locked,
    /// It was replaced while it was looked at.
    Changed,
    /// A version that is newer than the snapshot.
    Newer,
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
    ///
    /// # Errors
    /// [`Stop::Retry`] where its machine cannot be reached.
    pub async fn read_lockfree(&self, ptr: FatPtr, out: &mut Vec<u64>) -> Result<LockFree, Stop> {
        let mut round = 0;
        loop {
            // Each time anew: its block may serve another size by now, or the region be another machine's.
            if let Some(network) = self.far(ptr.addr)
                && let Reach::Far(found) = network.read_lockfree(ptr, out).await?
            {
                return Ok(found);
            }
            let Some((object, block)) = self.regions().slot_at(ptr.addr) else {
                return Ok(LockFree::Gone);
            };
            let words = (ptr.size as usize).div_ceil(8).min(object.len());
            let header = object.header();
            if header.is_locked() {
                moment(round).await;
                round += 1;
                continue;
            }
            let link = object.link();
            out.clear();
            out.resize(words, 0);
            if header.is_allocated() {
                object.copy(0, out);
            }
            // No transaction keeps the block from being given to objects of another size.
            if object.unchanged(header) && self.same_block(ptr.addr, block) {
                let same =
                    header.is_allocated() && u32::from(link.incarnation()) == ptr.incarnation;
                return Ok(if same {
                    LockFree::Found
                } else {
                    LockFree::Gone
                });
            }
        }
    }

    /// Whether the block of `addr` still is what [`Regions::slot_at`] said.
    ///
    /// [`Regions::slot_at`]: fencepost_storage::region::Regions::slot_at
    fn same_block(&self, addr: Addr, block: u64) -> bool {
        self.regions()
            .slot_at(addr)
            .is_some_and(|(_, now)| now == block)
    }

    /// Shows `f` the newest committed version, outside any transaction: for walking inner nodes. `f`
    /// may see torn words and run again. `None` where no object is allocated. The caller has a running
    /// transaction, or otherwise knows that the address is one of an object.
    ///
    /// # Errors
    /// [`Stop::Retry`] where its machine cannot be reached.
    #[inline]
    pub async fn view_current<T>(
        &self,
        addr: Addr,
        mut f: impl FnMut(&View<'_>) -> T,
    ) -> Result<Option<T>, Stop> {
        let mut round = 0;
        loop {
            // Each time anew: the region may be another machine's by now.
            if let Some(network) = self.far(addr)
                && let Reach::Far(seen) = Box::pin(network.view_far(addr, &mut f)).await?
            {
                return Ok(seen);
            }
            let Some(object) = self.regions().object(addr) else {
                return Ok(None);
            };
            let view = View::Live(object);
            let header = object.header();
            if header.is_locked() {
                if round == SPINS && self.regions().slot_at(addr).is_none() {
                    return Ok(None);
                }
                moment(round).await;
                round += 1;
                continue;
            }
            if !header.is_allocated() {
                return Ok(None);
            }
            let value = f(&view);
            if object.unchanged(header) {
                return Ok(Some(value));
            }
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
    pub async fn view_copy<T>(
        &self,
        addr: Addr,
        fresh: bool,
        mut f: impl FnMut(&View<'_>) -> (T, bool),
    ) -> Result<Option<T>, Stop> {
        if let Some(network) = self.far(addr)
            && let Reach::Far(seen) = Box::pin(network.view_copy(addr, fresh, &mut f)).await?
        {
            return Ok(seen);
        }
        self.view_current(addr, |view| f(view).0).await
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
        self.come_into_force().await?;
        let mut round = 0;
        loop {
            if self.has_writes() {
                self.catch_up().await?;
                if let Some(own) = self.view_own(addr, &mut f) {
                    return own;
                }
            }
            let far = self.machine().far(addr).is_some();
            let sight = match far {
                false => self.view_newest(addr, kind, &mut f)?,
                true => Box::pin(self.view_newest_far(addr, kind, &mut f)).await?,
            };
            match sight {
                Sight::At(answer) => return Ok(answer),
                Sight::Locked => {
                    self.wait_for_lock(addr, round).await?;
                    round += 1;
                }
                Sight::Changed => {}
                Sight::Newer => {
                    if self.mode() == Mode::ReadWrite && self.may_refresh() {
                        let was = self.incarnation_at(addr).await?;
                        match self.refresh().await {
                            // Once the snapshot has moved nothing keeps the slot of an object that
                            // was freed from being used again: then it is not there any more.
                            Ok(()) if self.incarnation_at(addr).await? != was => return Ok(None),
                            // Rerouted patches may have made the object the transaction's own.
                            Ok(()) => continue,
                            Err(stop) if self.has_writes() => return Err(stop),
                            Err(_) => {}
                        }
                    } else if self.has_writes() {
                        let context = self.context_mut();
                        return Err(context.conflict_at(addr, AbortReason::RefreshFailed));
                    }
                    let old = match far {
                        false => self.view_old(addr, &mut f),
                        true => Box::pin(self.view_old_far(addr, &mut f)).await,
                    };
                    if let Some(answer) = old {
                        return answer;
                    }
                }
            }
        }
    }

    /// Which of a slot's objects, one after the other, is there; `None` where the block is gone.
    async fn incarnation_at(&self, addr: Addr) -> Result<Option<u16>, Stop> {
        let machine = self.machine();
        let link = match machine.far(addr) {
            None => machine.regions().object(addr).map(|object| object.link()),
            Some(network) => {
                let copy = Box::pin(network.fetch(addr)).await?;
                copy.map(|copy| copy.link())
            }
        };
        Ok(link.map(Link::incarnation))
    }

    /// The transaction's own image, if it has one.
    fn view_own<T>(
        &self,
        addr: Addr,
        f: &mut impl FnMut(&View<'_>) -> T,
    ) -> Option<Result<Option<(T, Seen)>, Stop>> {
        let context = self.context();
        let write = &context.writes.writes[context.writes.find(addr)?];
        let seen = Seen {
            addr,
            header: write.base,
            own: true,
        };
        // Nobody else can see the slot, and there is nothing to validate.
        let unseen = Seen {
            addr: Addr::NULL,
            header: Header(0),
            own: true,
        };
        let image = || View::Own(context.writes.image(write));
        Some(match (write.what, write.payload()) {
            (What::Image { .. } | What::Patched(_), _) => Ok(Some((f(&image()), seen))),
            (What::New { .. }, Payload::Image(_)) => Ok(Some((f(&image()), unseen))),
            (What::New { .. }, Payload::Slot(_)) => match context.machine.regions().object(addr) {
                Some(object) => Ok(Some((f(&View::Live(object)), unseen))),
                None => Err(Stop::Damaged),
            },
            (What::Freed | What::Unborn(_), _) => Ok(None),
            (What::Idle, _) => return None,
        })
    }

    /// One look at the newest version.
    #[inline]
    fn view_newest<T>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        f: &mut impl FnMut(&View<'_>) -> T,
    ) -> Result<Sight<T>, Stop> {
        let context = self.context_mut();
        let Some(object) = context.machine.regions().object(addr) else {
            // Its region may have changed hands since somebody looked whose it is.
            return match context.machine.far(addr) {
                None => Err(Stop::Damaged),
                Some(_) => Ok(Sight::Changed),
            };
        };
        let view = View::Live(object);
        let header = object.header();
        if header.is_locked() {
            return Ok(Sight::Locked);
        }
        let newer = header.timestamp() > context.r;
        if newer
            && !(header.is_allocated() && kind.is_some_and(|kind| kind.admits(&view, context.r)))
        {
            return Ok(Sight::Newer);
        }
        let value = header.is_allocated().then(|| f(&view));
        if !object.unchanged(header) {
            return Ok(Sight::Changed);
        }
        context.newest = context.newest.max(header.timestamp());
        Ok(Sight::At(value.map(|value| {
            (
                value,
                Seen {
                    addr,
                    header,
                    own: false,
                },
            )
        })))
    }

    /// Waits a moment for the lock of an object; `round` counts the moments.
    async fn wait_for_lock(&self, addr: Addr, round: u32) -> Result<(), Stop> {
        let context = self.context();
        let machine = &context.machine;
        if round == 0 {
            machine.counters().count(context.lane, Event::LockWait);
        }
        if round == SPINS
            && machine.far(addr).is_none()
            && machine.regions().slot_at(addr).is_none()
        {
            // Not a lock but some word of an object: the address is wrong.
            return Err(Stop::Damaged);
        }
        moment(round).await;
        Ok(())
    }

    /// The newest old version at or below R; `None` where the object changed meanwhile.
    fn view_old<T>(
        &mut self,
        addr: Addr,
        f: &mut impl FnMut(&View<'_>) -> T,
    ) -> Option<Result<Option<(T, Seen)>, Stop>> {
        let context = self.context_mut();
        let machine = &context.machine;
        // Its memory and its old versions are of one machine, whoever the primary is by now.
        let region = machine.regions().region(addr.region())?;
        let object = region.object(addr.offset() as usize)?;
        let header = object.header();
        let place = object.link().place();
        if header.is_locked() || header.timestamp() <= context.r || !object.unchanged(header) {
            return None;
        }
        machine
            .counters()
            .count(context.lane, Event::OldVersionRead);
        let replaced = header.timestamp();
        let old_versions = machine.old_versions_of(region)?;
        let found = old_versions.find(place, replaced, context.r, |words| f(&View::Old(words)));
        Some(context.seen_before(addr, found))
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

impl Context {
    /// What the chain of old versions of an object has shown.
    pub(crate) fn seen_before<T>(
        &mut self,
        addr: Addr,
        found: Found<T>,
    ) -> Result<Option<(T, Seen)>, Stop> {
        match found {
            Found::Version(value, header) => {
                self.newest = self.newest.max(header.timestamp());
                let own = false;
                Ok(Some((value, Seen { addr, header, own })))
            }
            // What was before that the primary before may have known (WHERE-2).
            Found::Later(first) if first <= self.machine.floor(addr.region()) => {
                Err(Stop::Retry(AbortReason::SnapshotTooOld))
            }
            Found::Absent | Found::Later(_) => {
                // Whatever said so is not known, but it is at or below R.
                self.newest = self.newest.max(self.r);
                Ok(None)
            }
            Found::Gone => Err(Stop::Retry(AbortReason::SnapshotTooOld)),
        }
    }
}
