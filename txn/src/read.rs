//! Reading: the newest version at or below R, in place where possible.
//!
//! ```text
//! R in force? ── no ──► wait until it is (CLOCK-2)
//! own image? ── yes ─► the own image
//!   │ no
//! header locked? ── yes ─► wait: the writer may yet get a timestamp at or below R
//! newest ≤ R ───────────► it, in place, header checked afterwards
//! newest > R, same keys ► the newest version (a node that was only split)
//! newest > R, writer ───► refresh, or stop (TXN-2)
//! newest > R, reader ───► chain of old versions
//! ```
//! On one machine nearly every read ends in the plain function `view_at_once`, at the first look.
//! `view_in_time` does everything that must be awaited.

use fencepost_storage::header::{Header, LinkWord};
use fencepost_storage::old_versions::ChainSearch;
use fencepost_storage::{Addr, View};

use crate::backoff::{SPINS, moment};
use crate::context::Context;
use crate::counters::Event;
use crate::fault::{self, Fault};
use crate::isolation::Isolation;
use crate::node::NodeKind;
use crate::read_set::ReadEntry;
use crate::statement_snapshot::EntryState;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Mode, Transaction};
use crate::work::Work;
use crate::write_set::{Payload, WriteKind};

/// A callback that receives a version.
pub(crate) type ReadCallback<'a> = &'a mut (dyn FnMut(&View<'_>) + Send);

/// The result of one look at an object's newest version.
pub(crate) enum ReadAttempt<T> {
    /// The version of the snapshot, or `None` if the object does not exist in it.
    At(Option<(T, ReadEntry)>),
    /// The object is locked: a commit is about to replace the version.
    Locked,
    /// The version was replaced during the look.
    Changed,
    /// The version is newer than the snapshot.
    Newer,
}

impl Transaction {
    /// Shows `f` the version of the object that this transaction sees, in place.
    ///
    /// `f` may run several times, on words that never existed together: it must bound every index
    /// and loop by itself. The result of the last run is returned, with the argument for
    /// [`Self::guard`] if the transaction depends on the result. Returns `None` if the object does
    /// not exist in the snapshot.
    ///
    /// Does not wait if the version is in memory that is mapped here, and no commit has the object
    /// locked. Otherwise waits for that commit, for messages, or for one-sided reads.
    ///
    /// # Errors
    /// [`Stop::Retry`] where the snapshot can neither be kept nor moved, or the object's machine
    /// cannot be reached; [`Stop::Damaged`] where no object is at the address; [`Stop::NotMember`]
    /// where this machine is no member any more. A transaction with patches may also get the errors
    /// of [`Self::patch`], because its snapshot moves.
    #[inline]
    pub async fn view<T: Send>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        mut f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<Option<(T, ReadEntry)>, Stop> {
        if let Some(answer) = self.view_at_once(addr, kind, &mut f) {
            return answer;
        }
        let mut value = None;
        let mut look = |view: &View<'_>| value = Some(f(view));
        let seen = self.view_in_time(addr, kind, &mut look).await?;
        Ok(value.zip(seen))
    }

    /// Reads as [`Self::view`] does, if nothing must be awaited: R is in force, and the object is
    /// the transaction's own, or it is in this machine's memory and one look suffices. Returns
    /// `None` otherwise.
    ///
    /// # Errors
    /// As [`Self::view`].
    #[inline]
    pub fn view_at_once<T>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        mut f: impl FnMut(&View<'_>) -> T,
    ) -> Option<Result<Option<(T, ReadEntry)>, Stop>> {
        let context = self.context();
        if !context.in_force || context.behind {
            return None;
        }
        if !context.writes.is_empty()
            && let Some(at) = context.writes.find(addr)
        {
            let mut value = None;
            let own = self.view_own(at, &mut |view| value = Some(f(view)))?;
            return Some(own.map(|seen| value.zip(seen)));
        }
        if context.machine.far(addr).is_some() {
            return None;
        }
        match self.view_newest(addr, kind, f) {
            Ok(ReadAttempt::At(answer)) => Some(Ok(answer)),
            Ok(_) => None,
            Err(stop) => Some(Err(stop)),
        }
    }

    /// Reads as [`Self::view`] does, and waits where necessary.
    fn view_in_time<'a>(
        &'a mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        f: ReadCallback<'a>,
    ) -> Work<'a, Result<Option<ReadEntry>, Stop>> {
        Box::pin(async move {
            self.come_into_force().await?;
            let mut round = 0;
            loop {
                if self.has_writes() {
                    self.catch_up().await?;
                    if let Some(at) = self.context().writes.find(addr)
                        && let Some(own) = self.view_own(at, f)
                    {
                        return own;
                    }
                }
                let far = self.machine().far(addr).is_some();
                let sight = match far {
                    false => self.view_newest(addr, kind, |view| f(view))?,
                    true => self.view_newest_far(addr, kind, f).await?,
                };
                match sight {
                    ReadAttempt::At(answer) => return Ok(answer.map(|((), seen)| seen)),
                    ReadAttempt::Locked => {
                        self.wait_for_lock(addr, round).await?;
                        round += 1;
                    }
                    ReadAttempt::Changed => {}
                    ReadAttempt::Newer => {
                        if self.context().is_plain_read() {
                            // At these levels a scan keeps its snapshot: read the old version
                            // below.
                        } else if self.mode() == Mode::ReadWrite && self.may_refresh() {
                            let was = self.incarnation_at(addr).await?;
                            match self.refresh().await {
                                // After the snapshot has moved, the slot of a freed object can be
                                // reused. The object then no longer exists.
                                Ok(()) if self.incarnation_at(addr).await? != was => {
                                    return Ok(None);
                                }
                                // Re-routed patches may have put the object into the write set.
                                Ok(()) => continue,
                                Err(stop) if self.has_writes() => return Err(stop),
                                // The old version of a node would take patches for which the newest
                                // version has no space.
                                Err(stop)
                                    if kind.is_some()
                                        && self.isolation() == Isolation::RepeatableRead =>
                                {
                                    return Err(stop);
                                }
                                Err(_) => {}
                            }
                        } else if self.has_writes() {
                            let context = self.context_mut();
                            return Err(context.conflict_at(addr, AbortReason::RefreshFailed));
                        }
                        let old = match far {
                            false => self.view_old(addr, f),
                            true => self.view_old_far(addr, f).await,
                        };
                        if let Some(answer) = old {
                            self.context_mut().old_reads += 1;
                            return answer;
                        }
                    }
                }
            }
        })
    }

    /// Returns the incarnation of the object in a slot; `None` if the block was released.
    async fn incarnation_at(&self, addr: Addr) -> Result<Option<u16>, Stop> {
        let machine = self.machine();
        let link = match machine.far(addr) {
            None => machine.regions().object(addr).map(|object| object.link()),
            Some(network) => {
                let copy = network.fetch(addr).await?;
                copy.map(|copy| copy.link())
            }
        };
        Ok(link.map(LinkWord::incarnation))
    }

    /// Reads the transaction's own image, if entry `at` of its write set is one.
    fn view_own(
        &self,
        at: usize,
        f: &mut dyn FnMut(&View<'_>),
    ) -> Option<Result<Option<ReadEntry>, Stop>> {
        let context = self.context();
        let (write, was) = match context.entry_seen(at) {
            Ok(EntryState::Same) => (context.writes.writes[at], None),
            Ok(EntryState::Absent) => return None,
            Ok(EntryState::Was(write, words)) => (write, Some(words)),
            Err(stop) => return Some(Err(stop)),
        };
        let seen = ReadEntry {
            addr: write.addr,
            header: write.base,
            own: true,
        };
        // Other transactions cannot see the slot, so there is nothing to validate.
        let unseen = ReadEntry {
            addr: Addr::NULL,
            header: Header(0),
            own: true,
        };
        if matches!(write.what, WriteKind::New { .. } | WriteKind::Unborn(_))
            && let Err(stop) = context.keeps_new(write.addr)
        {
            return Some(Err(stop));
        }
        let image = || View::Own(was.unwrap_or_else(|| context.writes.image(&write)));
        let (view, seen) = match (write.what, write.payload()) {
            (WriteKind::New { .. }, _) if was.is_some() => (image(), unseen),
            (WriteKind::Image { .. } | WriteKind::Patched(_), _) => (image(), seen),
            (WriteKind::New { .. }, Payload::Image(_)) => (image(), unseen),
            (WriteKind::New { .. }, Payload::Slot(addr)) => match context.slot_of_new(addr) {
                Ok(object) => (View::Live(object), unseen),
                Err(stop) => return Some(Err(stop)),
            },
            (WriteKind::Freed | WriteKind::Unborn(_), _) => return Some(Ok(None)),
            (WriteKind::Idle, _) => return None,
        };
        f(&view);
        Some(Ok(Some(seen)))
    }

    /// Looks once at the newest version.
    #[inline]
    fn view_newest<T>(
        &mut self,
        addr: Addr,
        kind: Option<&'static dyn NodeKind>,
        f: impl FnOnce(&View<'_>) -> T,
    ) -> Result<ReadAttempt<T>, Stop> {
        let context = self.context_mut();
        let Some(object) = context.machine.regions().object(addr) else {
            // The region may have been handed over since the caller looked up its primary.
            return match context.machine.far(addr) {
                None => Err(Stop::Damaged),
                Some(_) => Ok(ReadAttempt::Changed),
            };
        };
        let view = View::Live(object);
        let header = object.header();
        if header.is_locked() {
            return Ok(ReadAttempt::Locked);
        }
        let newer = header.timestamp() > context.r && !context.reads_newest;
        if newer
            && !(header.is_allocated() && kind.is_some_and(|kind| kind.admits(&view, context.r)))
        {
            return Ok(ReadAttempt::Newer);
        }
        let value = header.is_allocated().then(|| f(&view));
        if !object.unchanged(header) {
            return Ok(ReadAttempt::Changed);
        }
        context.newest = context.newest.max(header.timestamp());
        Ok(ReadAttempt::At(value.map(|value| {
            (
                value,
                ReadEntry {
                    addr,
                    header,
                    own: false,
                },
            )
        })))
    }

    /// Backs off once for the lock of an object; `round` counts the calls.
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
            // The word is not a header but some word of an object: the address is wrong.
            return Err(Stop::Damaged);
        }
        moment(round).await;
        Ok(())
    }

    /// Reads the newest old version at or below R; `None` if the object changed meanwhile.
    fn view_old(
        &mut self,
        addr: Addr,
        f: ReadCallback<'_>,
    ) -> Option<Result<Option<ReadEntry>, Stop>> {
        let context = self.context_mut();
        let machine = &context.machine;
        // The region's memory and its old versions are on one machine, also if the primary has
        // changed.
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

    /// Copies and guards the whole payload as [`Self::read`] does, if nothing must be awaited.
    ///
    /// # Errors
    /// As [`Self::view`].
    #[inline]
    pub fn read_at_once(&mut self, addr: Addr, out: &mut Vec<u64>) -> Option<Result<bool, Stop>> {
        let found = self.view_at_once(addr, None, |view| copy_all(view, out))?;
        Some(found.map(|found| match found {
            Some(((), seen)) => {
                self.guard(seen);
                true
            }
            None => false,
        }))
    }

    /// Prefetches the first `bytes` of an object that is about to be read, if it is mapped here.
    #[inline]
    pub fn prefetch(&self, addr: Addr, bytes: usize) {
        let machine = self.machine();
        if machine.far(addr).is_none() {
            machine.regions().prefetch(addr, bytes);
        }
    }

    /// Copies the whole payload and guards it. Returns `false` if the object does not exist in the
    /// snapshot.
    ///
    /// # Errors
    /// As [`Self::view`].
    pub async fn read(&mut self, addr: Addr, out: &mut Vec<u64>) -> Result<bool, Stop> {
        Ok(self.read_version(addr, out).await?.is_some())
    }

    /// Reads as [`Self::read`] does, and returns which version was read.
    ///
    /// # Errors
    /// As [`Self::view`].
    pub async fn read_version(
        &mut self,
        addr: Addr,
        out: &mut Vec<u64>,
    ) -> Result<Option<ReadEntry>, Stop> {
        let found = self.view(addr, None, |view| copy_all(view, out)).await?;
        Ok(found.map(|((), seen)| {
            self.guard(seen);
            seen
        }))
    }
}

/// Copies a whole payload.
#[inline]
fn copy_all(view: &View<'_>, out: &mut Vec<u64>) {
    let words = view.len();
    // The copy overwrites all words, so only those that are added are zeroed first.
    if out.len() < words {
        out.resize(words, 0);
    } else {
        out.truncate(words);
    }
    view.copy(0, out);
}

impl Context {
    /// Converts the result of a search in an object's chain of old versions.
    pub(crate) fn seen_before(
        &mut self,
        addr: Addr,
        found: ChainSearch<()>,
    ) -> Result<Option<ReadEntry>, Stop> {
        match found {
            ChainSearch::Version((), header) => {
                self.newest = self.newest.max(header.timestamp());
                let own = false;
                Ok(Some(ReadEntry { addr, header, own }))
            }
            // Only the previous primary may have known the versions before `first` (REGIONMAP-2).
            ChainSearch::Later(first)
                if first <= self.machine.floor(addr.region())
                    && !fault::injected(Fault::ForgetFloor) =>
            {
                Err(Stop::Retry(AbortReason::SnapshotTooOld))
            }
            ChainSearch::Absent | ChainSearch::Later(_) => {
                // The writer that freed the object is not known, but its timestamp is at or below
                // R.
                self.newest = self.newest.max(self.r);
                Ok(None)
            }
            ChainSearch::Reclaimed => Err(Stop::Retry(AbortReason::SnapshotTooOld)),
        }
    }
}
