//! Writing: all writes go to the write set; objects change at commit. New objects of a machine that
//! is alone are written into their slots at once (`new_objects.rs`).

use fencepost_storage::header::Header;
use fencepost_storage::{Addr, View};

use crate::changes::LEAST_WORDS;
use crate::context::Context;
use crate::fault::{self, Fault};
use crate::isolation::Isolation;
use crate::node::{NodeKind, Refusal};
use crate::read_set::ReadEntry;
use crate::savepoint::Undo;
use crate::stop::{AbortReason, Stop};
use crate::transaction::{Mode, Transaction};
use crate::write_set::{Write, WriteKind};

/// Write sets are charged to the account in steps of this many bytes.
const CHARGE_STEP: usize = 1 << 20;
/// Most entries of a write set.
const MAX_WRITES: usize = 1 << 28;

impl Context {
    pub fn push(&mut self, write: Write) -> Result<usize, Stop> {
        self.check_space(1)?;
        let at = self.writes.push(write);
        if self.undos.is_active() {
            self.writes.writes[at].saved = self.undos.push(Undo::Added);
        }
        self.charge()?;
        Ok(at)
    }

    pub fn check_space(&self, entries: usize) -> Result<(), Stop> {
        if self.writes.writes.len() + entries > MAX_WRITES {
            return Err(Stop::TooLarge(
                "a transaction may write at most 268435456 objects",
            ));
        }
        Ok(())
    }

    /// Charges the growth of the write set to the account; small write sets are free.
    fn charge(&mut self) -> Result<(), Stop> {
        let bytes = self.writes.bytes() + self.undos.bytes();
        if bytes > self.charged + CHARGE_STEP {
            self.machine
                .account()
                .charge((bytes - self.charged) as u64)?;
            self.charged = bytes;
        }
        Ok(())
    }

    /// Keeps the payload of a remote object that is about to be changed, with its version: the base
    /// image of its changed ranges.
    #[inline]
    pub fn keep_base(&mut self, addr: Addr, header: Header, payload: &[u64]) {
        if payload.len() > LEAST_WORDS && self.machine.is_far(addr) {
            self.writes.bases.keep(addr, header, payload);
        }
    }

    /// Saves entry `at` for open savepoints before it is changed, unless it has been saved since
    /// the newest savepoint.
    pub fn note_change(&mut self, at: usize) -> Result<(), Stop> {
        let write = self.writes.writes[at];
        self.prewritten_touched |= write.is_settled();
        if self.undos.needs(&write) {
            let mut words = Vec::new();
            match write.what {
                WriteKind::New { .. } => self.copy_new(&write, &mut words),
                _ => words.extend_from_slice(self.writes.image(&write)),
            }
            self.writes.writes[at].saved = self.undos.push(Undo::Changed(at, write, words));
        }
        self.charge()
    }
}

impl Transaction {
    pub(crate) fn writable(&self) -> Result<(), Stop> {
        if self.mode() == Mode::ReadWrite {
            Ok(())
        } else {
            Err(Stop::ReadOnly)
        }
    }

    /// Makes space in the write set for many objects that are written next.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] or [`Stop::OutOfMemory`] if the write set may not grow so far.
    pub fn reserve_writes(&mut self, entries: usize) -> Result<(), Stop> {
        let context = self.context_mut();
        context.check_space(entries)?;
        context.writes.reserve(entries);
        context.charge()
    }

    /// Returns the entry of an object that is to be overwritten. Its image is the object's current
    /// version.
    async fn own(&mut self, addr: Addr) -> Result<usize, Stop> {
        self.writable()?;
        loop {
            self.catch_up().await?;
            if let Some(at) = self.context().writes.find(addr) {
                let context = self.context_mut();
                match context.writes.writes[at].what {
                    WriteKind::Freed | WriteKind::Unborn(_) => return Err(Stop::Damaged),
                    WriteKind::Idle => {}
                    WriteKind::Image { .. } | WriteKind::Patched(_) | WriteKind::New { .. } => {
                        context.note_change(at)?;
                        return Ok(at);
                    }
                }
            }
            let mut image = std::mem::take(&mut self.context_mut().scratch);
            let found = self
                .view_to_write(addr, |view| copy_whole(view, &mut image))
                .await;
            let done = match found {
                // A refresh meanwhile has re-routed patches to this object.
                Ok(Some(((), seen))) if seen.own => None,
                found => Some(self.own_found(
                    addr,
                    found.map(|f| f.map(|((), seen)| seen.header)),
                    WriteKind::Image { kind: None },
                    &image,
                )),
            };
            self.context_mut().scratch = image;
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Reads, as [`Self::view`] does, an object that is about to be overwritten. At read committed
    /// a version newer than the snapshot is a conflict: the caller has decided by another version
    /// (LEVEL-2).
    async fn view_to_write<T: Send>(
        &mut self,
        addr: Addr,
        f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<Option<(T, ReadEntry)>, Stop> {
        match self.isolation() {
            Isolation::RepeatableRead if fault::injected(Fault::OverwriteNewer) => {
                self.newest().view(addr, None, f).await
            }
            Isolation::ReadCommitted => self.seen_at(None).view(addr, None, f).await,
            Isolation::Serializable | Isolation::RepeatableRead => self.view(addr, None, f).await,
        }
    }

    /// Returns the error for an object that is to be changed and does not exist. At read committed
    /// another transaction may have freed it without regard to a lost lock, after a version of it
    /// was used for the decision (LEVEL-4).
    #[cold]
    fn missing(&mut self, addr: Addr) -> Stop {
        let context = self.context_mut();
        if context.isolation == Isolation::ReadCommitted && context.decided.0 == addr {
            return context.conflict_at(addr, AbortReason::WriteConflict);
        }
        Stop::Damaged
    }

    fn own_found(
        &mut self,
        addr: Addr,
        found: Result<Option<Header>, Stop>,
        what: WriteKind,
        image: &[u64],
    ) -> Result<usize, Stop> {
        let base = found?.ok_or_else(|| self.missing(addr))?;
        let context = self.context_mut();
        let object = context.machine.regions().object(addr);
        let newest = object.map_or(base.timestamp(), |object| object.header().timestamp());
        let overwrites_newer = fault::injected(Fault::OverwriteNewer)
            && context.isolation == Isolation::RepeatableRead;
        let (decided, latest) = context.decided;
        let is_passed = decided == addr && base.timestamp() > latest;
        // A change of an outdated version cannot commit (TXN-2).
        if (is_passed || base.timestamp().max(newest) > context.r) && !overwrites_newer {
            return Err(context.conflict_at(addr, AbortReason::WriteConflict));
        }
        context.keep_base(addr, base, image);
        self.push_image(addr, base, what, image)
    }

    fn push_image(
        &mut self,
        addr: Addr,
        base: Header,
        what: WriteKind,
        image: &[u64],
    ) -> Result<usize, Stop> {
        let context = self.context_mut();
        let range = context.writes.push_image(image);
        let write = Write {
            addr,
            base,
            what,
            image: range,
            patch: 0,
            saved: 0,
        };
        // Reuse an entry whose patches were taken: an object has at most one entry.
        if context.writes.has_idle()
            && let Some(at) = context.writes.find(addr)
        {
            debug_assert!(
                matches!(context.writes.writes[at].what, WriteKind::Idle),
                "an entry in use would lose its changes"
            );
            context.note_change(at)?;
            context.prewritten_touched |= write.is_settled();
            let saved = context.writes.writes[at].saved;
            context.writes.writes[at] = Write { saved, ..write };
            return Ok(at);
        }
        context.push(write)
    }

    /// Overwrites the payload from its beginning; words beyond the length of `payload` stay.
    ///
    /// # Errors
    /// As [`Self::update`]; [`Stop::Damaged`] also if the object is shorter.
    pub async fn write(&mut self, addr: Addr, payload: &[u64]) -> Result<(), Stop> {
        let done = self
            .update(addr, |image| match image.get_mut(..payload.len()) {
                Some(part) => {
                    part.copy_from_slice(payload);
                    true
                }
                None => false,
            })
            .await?;
        if done { Ok(()) } else { Err(Stop::Damaged) }
    }

    /// Changes a private copy of the version that the transaction sees; other transactions see the
    /// change after the commit (SOSP'15 §3). The change commits only if that version is still the
    /// newest. Waits as [`Self::view`] does.
    ///
    /// # Errors
    /// As [`Self::view`]; [`Stop::Damaged`] if the object does not exist. [`Stop::ReadOnly`] in a
    /// read-only transaction, [`Stop::Retry`] if a newer version exists already,
    /// [`Stop::OutOfMemory`] or [`Stop::TooLarge`] if the write set may not grow.
    pub async fn update<T>(
        &mut self,
        addr: Addr,
        f: impl FnOnce(&mut [u64]) -> T,
    ) -> Result<T, Stop> {
        let at = self.own(addr).await?;
        let context = self.context_mut();
        let write = context.writes.writes[at];
        match write.what {
            WriteKind::New { .. } => context.change_new(&write, f),
            _ => {
                // An exact write of a node includes its patches: the node must not move before the
                // commit. The patches have changed its keys, so the node still gets the commit
                // timestamp.
                let kind = match write.what {
                    WriteKind::Patched(kind) => Some(kind),
                    WriteKind::Image { kind } => kind,
                    _ => None,
                };
                context.writes.writes[at].what = WriteKind::Image { kind };
                Ok(f(context.writes.image_mut(write.image)))
            }
        }
    }

    /// Makes `kind` write the commit timestamp into the transaction's image of `addr`: a new
    /// object, or one that it overwrites.
    ///
    /// # Errors
    /// [`Stop::Damaged`] if the transaction neither overwrites the object nor has created it.
    pub fn stamp_with(&mut self, addr: Addr, kind: &'static dyn NodeKind) -> Result<(), Stop> {
        let context = self.context_mut();
        context.prewritten_touched = true;
        let at = context.writes.find(addr).ok_or(Stop::Damaged)?;
        match &mut context.writes.writes[at].what {
            WriteKind::Image { kind: by } | WriteKind::New { kind: by, .. } => *by = Some(kind),
            _ => return Err(Stop::Damaged),
        }
        Ok(())
    }

    /// Returns whether the transaction's image of the object will contain the commit timestamp.
    pub fn stamps(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes.find(addr).is_some_and(|at| {
            matches!(
                writes.writes[at].what,
                WriteKind::Image { kind: Some(_) } | WriteKind::New { kind: Some(_), .. }
            )
        })
    }

    /// Returns whether the transaction overwrites the object or has created it.
    pub fn has_image(&self, addr: Addr) -> bool {
        let writes = &self.context().writes;
        writes.find(addr).is_some_and(|at| {
            matches!(
                writes.writes[at].what,
                WriteKind::Image { .. } | WriteKind::New { .. }
            )
        })
    }

    /// Frees an object: its tombstone takes effect at commit, and readers of older snapshots still
    /// see the object.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub async fn free(&mut self, addr: Addr) -> Result<(), Stop> {
        self.free_seen(addr, |_| ()).await
    }

    /// Frees an object as [`Self::free`] does, and returns the result of `f` for the payload
    /// before.
    ///
    /// # Errors
    /// As [`Self::free`].
    pub async fn free_seen<T: Send>(
        &mut self,
        addr: Addr,
        mut f: impl FnMut(&View<'_>) -> T + Send,
    ) -> Result<T, Stop> {
        self.writable()?;
        self.catch_up().await?;
        let found = self.view_to_write(addr, &mut f).await?;
        let (answer, seen) = found.ok_or_else(|| self.missing(addr))?;
        let context = self.context_mut();
        context.prewritten_touched = true;
        let entry = context.writes.find(addr);
        match entry.map(|at| (at, context.writes.writes[at].what)) {
            Some((_, WriteKind::Freed | WriteKind::Unborn(_))) => return Err(Stop::Damaged),
            Some((at, WriteKind::New { slot, .. })) => {
                context.note_change(at)?;
                context.writes.writes[at].what = WriteKind::Unborn(slot);
            }
            Some((at, WriteKind::Image { .. } | WriteKind::Patched(_))) => {
                context.note_change(at)?;
                context.writes.writes[at].what = WriteKind::Freed;
            }
            // A tombstone needs no image.
            Some((_, WriteKind::Idle)) | None => {
                self.own_found(addr, Ok(Some(seen.header)), WriteKind::Freed, &[])?;
            }
        }
        Ok(answer)
    }

    /// Applies `op` to a node. The patch uses the node's current version, which must have the keys
    /// of the snapshot ([`NodeKind::admits`]). If the node moves before the commit, `op` is applied
    /// again.
    ///
    /// # Errors
    /// The outer error is as for [`Self::update`]. The inner error is the reason why `op` does not
    /// apply to the node as the transaction sees it; nothing has changed then.
    pub async fn patch(
        &mut self,
        addr: Addr,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        self.writable()?;
        loop {
            self.catch_up().await?;
            let found = self.context().writes.find(addr);
            match found.map(|at| (at, self.context().writes.writes[at])) {
                Some((
                    _,
                    Write {
                        what: WriteKind::Freed | WriteKind::Unborn(_),
                        ..
                    },
                )) => return Ok(Err(Refusal::WrongNode)),
                Some((
                    at,
                    write @ Write {
                        what: WriteKind::New { .. },
                        ..
                    },
                )) => {
                    self.context().keeps_new(addr)?;
                    return self.patch_new(at, write, kind, op);
                }
                Some((
                    at,
                    write @ Write {
                        what: WriteKind::Image { .. } | WriteKind::Patched(_),
                        ..
                    },
                )) => {
                    return self.patch_image(at, write, kind, op);
                }
                Some((
                    _,
                    Write {
                        what: WriteKind::Idle,
                        ..
                    },
                ))
                | None => {}
            }
            if let Some(done) = self.patch_committed(addr, kind, op).await? {
                return Ok(done);
            }
        }
    }

    fn patch_image(
        &mut self,
        at: usize,
        write: Write,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        let context = self.context_mut();
        context.note_change(at)?;
        if let Err(refusal) = kind.apply(op, context.writes.image_mut(write.image)) {
            return Ok(Err(refusal));
        }
        if let WriteKind::Patched(_) = write.what {
            context.writes.push_patch(at, op);
        } else {
            context.writes.writes[at].what = WriteKind::Image { kind: Some(kind) };
        }
        Ok(Ok(()))
    }

    fn patch_new(
        &mut self,
        at: usize,
        write: Write,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Result<(), Refusal>, Stop> {
        let context = self.context_mut();
        context.note_change(at)?;
        if let Err(refusal) = context.change_new(&write, |image| kind.apply(op, image))? {
            return Ok(Err(refusal));
        }
        if let WriteKind::New { kind: stamped, .. } = &mut context.writes.writes[at].what {
            *stamped = Some(kind);
        }
        Ok(Ok(()))
    }

    /// Patches the committed version of a node. Returns `None` where the node has entered the write
    /// set meanwhile: a refresh has re-routed patches to it.
    async fn patch_committed(
        &mut self,
        addr: Addr,
        kind: &'static dyn NodeKind,
        op: &[u64],
    ) -> Result<Option<Result<(), Refusal>>, Stop> {
        let mut image = std::mem::take(&mut self.context_mut().scratch);
        let found = self
            .view(addr, Some(kind), |view| copy_whole(view, &mut image))
            .await;
        let result = match found {
            Err(stop) => Err(stop),
            Ok(None) => Ok(Some(Err(Refusal::WrongNode))),
            Ok(Some(((), seen))) if seen.own => Ok(None),
            Ok(Some(((), seen))) => {
                self.context_mut().keep_base(addr, seen.header, &image);
                match kind.apply(op, &mut image) {
                    Err(refusal) => Ok(Some(Err(refusal))),
                    Ok(()) => self
                        .push_image(addr, seen.header, WriteKind::Patched(kind), &image)
                        .map(|at| {
                            self.context_mut().writes.push_patch(at, op);
                            Some(Ok(()))
                        }),
                }
            }
        };
        self.context_mut().scratch = image;
        result
    }
}

fn copy_whole(view: &View<'_>, out: &mut Vec<u64>) {
    out.resize(view.len(), 0);
    view.copy(0, out);
}
